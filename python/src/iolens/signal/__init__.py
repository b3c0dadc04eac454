"""What the disks of a machine do, from inside a program: rates, latency and busy time of disks and of mount paths.

Pure Python without dependencies, the same figures as iolens' Rust library and the Go module:

    from iolens import signal

    disks = signal.Set()
    disks.add_path("/data")
    if disks.percent("/data") > 80: ...          # the busiest disk; raises SignalError where it is not known

    view = disks.now()                           # all disks and paths of one refresh
    for reading in view.disks.values(): print(reading.info.name, reading.rate.read.bytes_per_s)

What is not known is None, never 0, and a disk that cannot be read is an error.
"""

from .counters import ClassCounters, ClassRate, FlushCounters, Sample
from .disk import Disk, DiskLostError, Info, SignalError
from .own import Own
from .rates import Busy, Estimator, Rate, between, combine
from .watch import Group, Reading, Set, View

__all__ = [
    "Busy",
    "ClassCounters",
    "ClassRate",
    "Disk",
    "DiskLostError",
    "Estimator",
    "FlushCounters",
    "Group",
    "Info",
    "Own",
    "Rate",
    "Reading",
    "Sample",
    "Set",
    "SignalError",
    "View",
    "between",
    "combine",
]
