"""Readings of a disk's counters, and their differences."""

from __future__ import annotations

from dataclasses import dataclass, field

U32 = 0xFFFFFFFF
U64 = 0xFFFFFFFFFFFFFFFF

BACKWARD_MS = 1 << 20
"""A step back of a millisecond counter by less than this (17 minutes) is a race in the kernel, not a wrap."""


@dataclass(slots=True)
class ClassCounters:
    """Reads, writes or discards since the disk appeared."""

    ios: int = 0
    merges: int = 0
    sectors: int = 0
    ticks_ms: int = 0


@dataclass(slots=True)
class FlushCounters:
    """Flushes since the disk appeared."""

    ios: int = 0
    ticks_ms: int = 0


@dataclass(slots=True)
class Sample:
    """One reading. Fields that the kernel does not print are 0."""

    at_ns: int = 0
    read: ClassCounters = field(default_factory=ClassCounters)
    write: ClassCounters = field(default_factory=ClassCounters)
    discard: ClassCounters = field(default_factory=ClassCounters)
    flush: FlushCounters = field(default_factory=FlushCounters)
    in_flight: int = 0
    io_ticks_ms: int = 0
    time_in_queue_ms: int = 0
    fields: int = 0
    """How many numbers the kernel printed: 11, 15 with discards (4.18), 17 with flushes (5.5)."""
    not_accounted: bool = False
    """The kernel does not count this disk's I/O (queue/iostats is 0). It is not idle."""
    generation: int = 0
    """Changes when the disk was opened again, which happens when it was removed and came back."""

    @property
    def has_discard(self) -> bool:
        """Whether the kernel counts discards."""
        return self.fields >= 15

    @property
    def has_flush(self) -> bool:
        """Whether the kernel counts flushes."""
        return self.fields >= 17

    def operations(self) -> int:
        """Reads, writes, discards and flushes since the disk appeared."""
        return self.read.ios + self.write.ios + self.discard.ios + self.flush.ios

    def add(self, other: Sample) -> None:
        """Adds the counters of another path to the same disk."""
        for mine, its in ((self.read, other.read), (self.write, other.write), (self.discard, other.discard)):
            mine.ios += its.ios
            mine.merges += its.merges
            mine.sectors += its.sectors
            mine.ticks_ms += its.ticks_ms
        self.flush.ios += other.flush.ios
        self.flush.ticks_ms += other.flush.ticks_ms
        self.in_flight += other.in_flight
        self.io_ticks_ms += other.io_ticks_ms
        self.time_in_queue_ms += other.time_in_queue_ms
        # A sum has all classes; those that no path counts are 0.
        self.fields = 17


def parse(text: bytes, at_ns: int = 0) -> Sample:
    """Parses the text of a stat file of sysfs. A number of fields that no kernel prints yields zeros."""
    f = [int(word) for word in text.split()[:17]]
    n = len(f)
    s = Sample(at_ns=at_ns, fields=n)
    if n >= 11:
        s.read, s.write = ClassCounters(*f[0:4]), ClassCounters(*f[4:8])
        s.in_flight, s.io_ticks_ms, s.time_in_queue_ms = f[8:11]
        if n >= 15:
            s.discard = ClassCounters(*f[11:15])
        if n >= 17:
            s.flush = FlushCounters(*f[15:17])
    elif n == 4:
        s.read, s.write = ClassCounters(ios=f[0], sectors=f[1]), ClassCounters(ios=f[2], sectors=f[3])
    return s


@dataclass(slots=True)
class ClassRate:
    """Reads, writes, discards or flushes over an interval. None: unknown, or a mean over no I/O."""

    ios: int | None = None
    per_s: float | None = None
    bytes_per_s: float | None = None
    merges_per_s: float | None = None
    merged_percent: float | None = None
    await_ms: float | None = None
    request_bytes: float | None = None


def grown(before: int, after: int) -> int | None:
    """Difference of a counter that only increases."""
    return after - before if after >= before else None


def grown_ms(before: int, after: int) -> int | None:
    """Difference of two millisecond counters, which the kernel prints modulo 2^32."""
    if before > U32 or after > U32:
        return grown(before, after)
    d = (after - before) & U32
    return d if d <= U32 - BACKWARD_MS else None


def total(*counts: int | None) -> int | None:
    """Sum of counts; unknown if one of them is."""
    out = 0
    for c in counts:
        if c is None:
            return None
        out += c
    return min(out, U64)


def mean(amount: int | None, n: int | None) -> float | None:
    """Mean over I/Os; None if there are none."""
    return None if amount is None or not n else amount / n


def per_second(count: int | None, span_ns: int) -> float | None:
    """Rate over an interval; None if its length is zero."""
    return None if count is None or span_ns <= 0 else count / (span_ns / 1e9)


def times(value: float | None, factor: float) -> float | None:
    """Product of two values that may be unknown."""
    return None if value is None else value * factor


@dataclass(slots=True)
class ClassDelta:
    """Differences of one class."""

    ios: int | None = None
    merges: int | None = None
    sectors: int | None = None
    ticks_ms: int | None = None

    def is_known(self) -> bool:
        """Whether any of its values is known."""
        return not (self.ios is None and self.merges is None and self.sectors is None and self.ticks_ms is None)

    def rate(self, span_ns: int) -> ClassRate:
        """Rates and means over an interval."""
        return ClassRate(
            ios=self.ios,
            per_s=per_second(self.ios, span_ns),
            bytes_per_s=times(per_second(self.sectors, span_ns), 512),
            merges_per_s=per_second(self.merges, span_ns),
            merged_percent=times(mean(self.merges, total(self.merges, self.ios)), 100),
            await_ms=mean(self.ticks_ms, self.ios),
            request_bytes=times(mean(self.sectors, self.ios), 512),
        )


def class_delta(before: ClassCounters, after: ClassCounters) -> ClassDelta:
    """The activity of a class between two readings."""
    return ClassDelta(
        grown(before.ios, after.ios),
        grown(before.merges, after.merges),
        grown(before.sectors, after.sectors),
        grown_ms(before.ticks_ms, after.ticks_ms),
    )
