"""Rates between two readings, and busy time from the counters of different kernels."""

from __future__ import annotations

import contextlib
import gzip
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from .counters import (
    ClassCounters,
    ClassDelta,
    ClassRate,
    Sample,
    class_delta,
    grown,
    grown_ms,
    mean,
    per_second,
    times,
    total,
)

Method = Literal["events", "io-ticks", "io-ticks-corrected", "io-ticks-raised", "io-ticks-biased"]
"""How busy time was found; docs/util.md describes each."""


@dataclass(slots=True)
class Busy:
    """The share of time with at least one I/O in flight."""

    percent: float | None = None
    """Best estimate, 0 to 100; None: not known, for instance in less than a jiffy."""
    ticks_percent: float | None = None
    """What the kernel counted; may exceed 100."""
    sigma_percent: float | None = None
    """One standard deviation of sampling, in percentage points, where it is known."""
    method: Method = "io-ticks"
    span_ns: int = 0
    """The time that it is of."""


@dataclass(slots=True)
class Rate:
    """The activity of a disk between two readings."""

    span_ns: int
    reset: bool = False
    """The disk was removed and came back in between: nothing else is known."""
    not_accounted: bool = False
    """The kernel does not count the disk's I/O: nothing is known."""
    lossy: bool = False
    """Events were lost, so figures are lower bounds. Only where they come from events."""
    read: ClassRate = field(default_factory=ClassRate)
    write: ClassRate = field(default_factory=ClassRate)
    discard: ClassRate = field(default_factory=ClassRate)
    flush: ClassRate = field(default_factory=ClassRate)
    await_ms: float | None = None
    request_bytes: float | None = None
    in_flight_mean: float | None = None
    in_flight: int = 0
    busy: Busy = field(default_factory=Busy)

    @property
    def is_known(self) -> bool:
        """Whether the interval has any known value."""
        return not self.reset and not self.not_accounted and self.span_ns > 0


Regime = Literal["round-stats", "allocated-too", "touched-jiffy", "start-touches", "sampled"]


def regime_of(release: str) -> Regime | None:
    """How a kernel counts io_ticks, by `uname -r`."""
    found = re.match(r"([0-9]+)[^0-9]([0-9]+)", release)
    if not found:
        return None
    version = int(found[1]), int(found[2])
    if version <= (4, 16):
        return "round-stats"
    if version < (5, 0):
        return "allocated-too"
    if version <= (5, 6):
        return "touched-jiffy"
    return "start-touches" if version <= (6, 9) else "sampled"


@dataclass(frozen=True, slots=True)
class Estimator:
    """Calculates busy time from the counters of a kernel."""

    release: str = ""
    hz: int | None = None
    """CONFIG_HZ, jiffies per second."""

    @staticmethod
    def of_machine(root: str = "/") -> Estimator:
        """The calculation for the kernel under `root`."""
        at = Path(root)
        try:
            release = (at / "proc/sys/kernel/osrelease").read_text().strip()
        except OSError:
            release = ""
        config = b""
        try:
            config = (at / f"boot/config-{release}").read_bytes()
        except OSError:
            with contextlib.suppress(OSError, EOFError):
                config = gzip.decompress((at / "proc/config.gz").read_bytes())
        hz = re.search(rb"^CONFIG_HZ=([0-9]+)", config, re.MULTILINE)
        return Estimator(release, int(hz[1]) if hz else None)

    @property
    def jiffy_ns(self) -> int:
        """The kernel's tick; 10 ms if it is unknown."""
        return 1_000_000_000 // (self.hz or 100)

    def busy(self, span_ns: int, ticks_ms: int | None, queue_ms: int | None, ios: int | None) -> Busy:
        """Busy share of an interval. It is unknown for less than a jiffy."""
        out = Busy(span_ns=span_ns)
        jiffy_s, span_s = 1.0 / (self.hz or 100), span_ns / 1e9
        if ticks_ms is None or span_s < jiffy_s:
            return out
        ticks = ticks_ms / span_s / 10.0
        out.ticks_percent = ticks
        regime = regime_of(self.release)
        load = None if queue_ms is None or ios is None else (ios / span_s, queue_ms / 1e3 / span_s)
        percent = ticks
        if regime in ("touched-jiffy", "start-touches") and load and self.hz:
            percent, out.method = corrected(load[0], load[1], ticks, jiffy_s)
        elif regime not in ("sampled", "round-stats"):
            out.method = "io-ticks-biased"
        if regime == "sampled" and load and self.hz:
            out.sigma_percent = sigma(ios or 0, mean_s(*load) * 1e9, jiffy_s * 1e9, float(span_ns))
        out.percent = min(max(percent, 0.0), 100.0)
        return out


def mean_s(per_s: float, in_flight: float) -> float:
    """Mean duration of an I/O in seconds."""
    return in_flight / per_s if per_s > 0 else 0.0


def sigma(n: int, mean_ns: float, jiffy_ns: float, span_ns: float) -> float:
    """Standard deviation of busy time from sampling n I/Os of a mean length once per jiffy, in percentage points."""
    p = min(mean_ns / jiffy_ns, 1.0)
    return 100.0 * jiffy_ns * math.sqrt(n * p * (1.0 - p)) / span_ns


def corrected(per_s: float, in_flight: float, ticks_percent: float, jiffy_s: float) -> tuple[float, Method]:
    """Removes the bias of touched jiffies: solves U' = 1-(1-U)exp(-rate J) for U, limited to what the time in flight allows.

    These kernels miss I/Os longer than a jiffy; then L/(1+L) is a better lower bound.
    """
    least = 100.0 * in_flight / (1.0 + in_flight)
    if mean_s(per_s, in_flight) > jiffy_s:
        return max(min(ticks_percent, 100.0), least), "io-ticks-raised"
    touched = min(ticks_percent / 100.0, 1.0)
    try:
        solved = 100.0 * (1.0 - (1.0 - touched) * math.exp(per_s * jiffy_s))
    except OverflowError:
        solved = -math.inf
    return min(max(solved, least), 100.0 * min(in_flight, 1.0)), "io-ticks-corrected"


@cache
def host_estimator() -> Estimator:
    """The calculation for this machine's kernel."""
    return Estimator.of_machine()


def restarted(before: Sample, after: Sample) -> bool:
    """Whether the disk was removed and came back: fewer I/Os, and fewer sectors in each class that had any."""

    def fell(b: ClassCounters, a: ClassCounters) -> bool:
        return b.sectors == 0 or a.sectors < b.sectors

    return (
        after.operations() < before.operations()
        and fell(before.read, after.read)
        and fell(before.write, after.write)
        and fell(before.discard, after.discard)
    )


def between(before: Sample, after: Sample, estimator: Estimator | None = None) -> Rate:
    """The rate between two readings of one disk, with busy time as the kernel (by default this machine's) counts it."""
    span_ns = after.at_ns - before.at_ns
    out = Rate(span_ns, in_flight=after.in_flight, busy=Busy(span_ns=span_ns))
    if before.not_accounted or after.not_accounted:
        out.not_accounted = True
        return out
    if before.generation != after.generation or restarted(before, after):
        out.reset = True
        return out
    read, write = class_delta(before.read, after.read), class_delta(before.write, after.write)
    out.read, out.write = read.rate(span_ns), write.rate(span_ns)
    classes = [read, write]
    if before.has_discard and after.has_discard:
        discard = class_delta(before.discard, after.discard)
        out.discard = discard.rate(span_ns)
        if discard.is_known():
            classes.append(discard)
    if before.has_flush and after.has_flush:
        b, a = before.flush, after.flush
        out.flush = ClassDelta(ios=grown(b.ios, a.ios), ticks_ms=grown_ms(b.ticks_ms, a.ticks_ms)).rate(span_ns)
    ios = total(*(c.ios for c in classes))
    out.await_ms = mean(total(*(c.ticks_ms for c in classes)), ios)
    out.request_bytes = times(mean(total(*(c.sectors for c in classes)), ios), 512)
    queue_ms = grown_ms(before.time_in_queue_ms, after.time_in_queue_ms)
    in_flight = per_second(queue_ms, span_ns)
    out.in_flight_mean = None if in_flight is None else in_flight / 1000.0
    completed = [c.ios for c in classes if c.ios is not None]
    out.busy = (estimator or host_estimator()).busy(
        span_ns, grown_ms(before.io_ticks_ms, after.io_ticks_ms), queue_ms, total(*completed) if completed else None
    )
    return out


def combine(busy_percent: Sequence[float | None]) -> tuple[float, float, float] | None:
    """Mean, maximum, and the share of time with an I/O on any of several disks, in percent.

    None unless the values of all disks are known: an unknown disk may be the busiest.
    """
    known = [u for u in busy_percent if u is not None]
    if not known or len(known) < len(busy_percent):
        return None
    most, idle, amount = max(0.0, *known), 1.0, 0.0
    for u in known:
        idle *= 1.0 - u / 100.0
        amount += u
    any_percent = most if len(known) == 1 else max(100.0 * (1.0 - idle), most)
    return amount / len(known), most, any_percent
