"""Rates, latency and busy time of a machine's disks and mount paths, from inside a program.

Pure Python without dependencies. The values are the same as those of iolens' Rust library and of the Go module:

    from iolens import signal

    disks = signal.Set()
    disks.add_path("/data")
    if disks.percent("/data") > 80: ...          # the busiest disk; raises SignalError where it is not known

    view = disks.now()                           # all disks and paths of one refresh
    for reading in view.disks.values(): print(reading.info.name, reading.rate.read.bytes_per_s)

A value that is unknown is None, never 0. A disk that cannot be read is an error.
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
