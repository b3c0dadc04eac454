"""Disks and paths that a program watches, and their recent activity."""

from __future__ import annotations

import select
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from .counters import ClassRate, Sample
from .disk import Disk, DiskLostError, Info, SignalError, find
from .events import Events
from .own import Counters, Own
from .own import Group as OwnGroup
from .rates import Busy, Estimator, Rate, between, combine
from .topology import Bottom, Machine, Place

WATCH_NS = 1_000_000_000
RESOLVE_NS = 30_000_000_000
MAX_EVENT_NS = 3_000_000_000
"""How long the last slots of a disk are used when no new ones come."""

Source = Literal["counters", "events"]
GroupBy = Literal["max", "mean"]


@dataclass(slots=True)
class Reading:
    """One disk over one interval."""

    info: Info
    rate: Rate
    source: Source = "counters"
    """`events`: every I/O, from a running `iolens serve`: exact, about a second late."""
    own: Own = field(default_factory=Own)
    error: SignalError | None = None
    """Nothing is known, and all figures are None."""
    end_ns: int = 0
    """End of the interval on the monotonic clock."""

    @property
    def age_s(self) -> float:
        """Seconds since the end of the interval."""
        return (time.monotonic_ns() - self.end_ns) / 1e9


@dataclass(slots=True)
class Group:
    """The disks under one path over one interval."""

    path: str
    by: GroupBy
    """Which of the two `percent` is."""
    disks: tuple[str, ...] = ()
    percent: float | None = None
    max_percent: float | None = None
    mean_percent: float | None = None
    any_percent: float | None = None
    """Share of time with an I/O on any of them, if the disks are independent."""
    read: ClassRate = field(default_factory=ClassRate)
    write: ClassRate = field(default_factory=ClassRate)
    in_flight: int = 0
    error: SignalError | None = None
    """A disk is not known, or the path has none."""


@dataclass(slots=True)
class View:
    """All readings of one refresh; immutable."""

    at_ns: int
    disks: dict[str, Reading] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    errors: list[SignalError] = field(default_factory=list)

    @property
    def age_s(self) -> float:
        """Seconds since the refresh."""
        return (time.monotonic_ns() - self.at_ns) / 1e9

    def disk(self, name: str) -> Reading:
        """The reading of a disk; raises the error if that disk has none."""
        reading = self.disks.get(name)
        if reading is None:
            raise SignalError(f"{name}: not in the set")
        if reading.error:
            raise reading.error
        return reading

    def group(self, path: str) -> Group:
        """The combined reading of a path's disks; raises the error if a disk is unknown."""
        group = self.groups.get(path)
        if group is None:
            raise SignalError(f"{path}: not in the set")
        if group.error:
            raise group.error
        return group


@dataclass(slots=True)
class _Path:
    place: Place
    bottoms: list[Bottom]
    error: SignalError | None = None


class _Member:
    """A disk of the set."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.before: Sample | None = None
        self.now: Sample | None = None
        self.busy_from: Sample | None = None
        self.busy = Busy()
        self.error: SignalError | None = None
        self.own_before: Counters | None = None
        self.own_now: Counters | None = None
        self.exact: tuple[Rate, int] | None = None

    def read(self, at_ns: int) -> None:
        self.before = self.now
        try:
            self.now = self.disk.read(at_ns)
        except SignalError as e:
            self.now, self.error = None, e
            return
        self.error = None
        if self.before is None:
            self.error = SignalError(f"{self.disk.info.name}: no interval has passed yet")
            self.busy_from, self.busy = self.now, Busy()

    def busy_now(self, estimator: Estimator, rate: Rate) -> Busy:
        """Measures at least two jiffies, the resolution of the kernel's counter. In shorter intervals the last value stays."""
        assert self.now is not None
        if not rate.is_known or self.busy_from is None:
            self.busy_from, self.busy = self.now, rate.busy
        elif self.now.at_ns - self.busy_from.at_ns >= 2 * estimator.jiffy_ns:
            self.busy, self.busy_from = between(self.busy_from, self.now, estimator).busy, self.now
        return self.busy


class Set:
    """A set of disks and paths, usable from any number of threads. Readers never block, and no thread is started.

    A reader that finds the readings too old refreshes them (one pread for each disk); meanwhile all other readers get the last
    ones. The period is `idle` seconds while the disks are idle, `busy` seconds at 100 % busy time, and a geometric
    interpolation in between. `by` selects how the disks of a path are combined: `max` is the busiest, `mean` can hide one busy
    disk. `serve` is the socket of a running `iolens serve` (/run/iolens/iolens.sock); if it answers, values are exact. `own`
    also reads the I/O of this process' control group.
    """

    def __init__(
        self,
        *,
        root: str = "/",
        idle: float = 2.0,
        busy: float = 0.1,
        by: GroupBy = "max",
        serve: str | None = None,
        own: bool = False,
    ) -> None:
        self._machine = Machine(root)
        self._machine.literal = True
        self._estimator = Estimator.of_machine(root)
        self._idle_ns = max(idle, 0.001) * 1e9
        self._busy_ns = min(max(busy, 0.001) * 1e9, self._idle_ns)
        self._by: GroupBy = by
        self._lock = threading.Lock()
        self._members: dict[str, _Member] = {}
        self._pinned: list[str] = []
        self._paths: dict[str, _Path] = {}
        self._all = False
        self._events = Events(serve) if serve else None
        self._own: OwnGroup | None = None
        self._own_error: SignalError | None = None
        if own:
            try:
                self._own = OwnGroup(self._machine)
            except SignalError as e:
                self._own_error = e
        self._mounts = _MountWatch(self._machine)
        self._partitions = b""
        self._watched_ns = self._resolved_ns = self._due_ns = time.monotonic_ns()
        self._view = View(time.monotonic_ns())

    def add(self, dev: str) -> None:
        """Adds a disk or partition by its kernel name, device node or device number."""
        with Disk(dev, str(self._machine.root)) as disk, self._lock:
            if disk.info.name not in self._pinned:
                self._pinned.append(disk.info.name)
            self._rebuild()

    def add_all(self) -> None:
        """Adds all disks, now and later: whole disks with a size, not made of other devices, not in memory."""
        with self._lock:
            self._all = True
            self._rebuild()

    def add_path(self, path: str) -> None:
        """Adds the disks under a file, directory or device. Raises with the reason if it has none (tmpfs, network).

        The lookup may block on the disk; readers are not affected.
        """
        if sys.platform != "linux":
            raise SignalError("disks can be read on Linux only")
        machine = Machine(str(self._machine.root))
        try:
            machine.read_mounts()
            place = machine.place(path)
        except OSError as e:
            raise SignalError(f"{path}: {e.strerror or e}") from e
        bottoms, why = machine.disks_of(place)
        if not bottoms:
            raise SignalError(f"{path}: {why}")
        with self._lock:
            self._paths[path] = _Path(place, bottoms)
            self._rebuild()

    def remove(self, name: str) -> bool:
        """Removes a path, or a disk that was added by name. Returns False if there is none."""
        with self._lock:
            if self._paths.pop(name, None) is None:
                name = name.removeprefix("/dev/")
                if name not in self._pinned:
                    return False
                self._pinned.remove(name)
            self._rebuild()
            return True

    def now(self) -> View:
        """The newest view, refreshed if it is too old."""
        if time.monotonic_ns() >= self._due_ns:
            self._refresh(always=False)
        return self._view

    def refresh(self) -> View:
        """A new reading regardless of the age of the last one, unless another thread is reading."""
        self._refresh(always=True)
        return self._view

    def percent(self, path: str) -> float:
        """Busy time of an added path or disk, in percent. Raises SignalError if it is unknown."""
        view = self.now()
        busy = view.group(path).percent if path in view.groups else view.disk(path).rate.busy.percent
        if busy is None:
            raise SignalError(f"{path}: no interval has passed yet")
        return busy

    def close(self) -> None:
        """Closes all files. Views remain readable."""
        with self._lock:
            for member in self._members.values():
                member.disk.close()
            self._members = {}
            self._mounts.close()
            if self._events:
                self._events.close()

    def __enter__(self) -> Set:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refresh(self, *, always: bool) -> None:
        if not self._lock.acquire(blocking=False):
            return
        try:
            now_ns = time.monotonic_ns()
            if not always and now_ns < self._due_ns:
                return
            if self._look_due(now_ns):
                self._look()
                now_ns = time.monotonic_ns()
            if self._events:
                self._events.poll(now_ns)
            for member in self._members.values():
                member.read(now_ns)
            if self._own:
                counters = self._own.read()
                for member in self._members.values():
                    member.own_before, member.own_now = member.own_now, counters.get(member.disk.info.dev)
            self._publish(now_ns)
        finally:
            self._lock.release()

    def _publish(self, now_ns: int) -> None:
        """Builds the view from the readings. The caller holds the lock."""
        view = View(now_ns)
        for name in sorted(self._members):
            view.disks[name] = self._measure(self._members[name], now_ns)
        for path, of in self._paths.items():
            view.groups[path] = _group(path, self._by, of, view.disks)
        view.errors = [r.error for r in view.disks.values() if r.error]
        view.errors += [p.error for p in self._paths.values() if p.error]
        view.errors += [self._own_error] if self._own_error else []
        if self._events and self._events.error:
            view.errors.append(SignalError(self._events.error))
        self._view = view
        self._due_ns = now_ns + self._interval_ns([r.rate.busy.percent for r in view.disks.values()])

    def _interval_ns(self, busy_percent: list[float | None]) -> int:
        idle, busy = self._idle_ns, self._busy_ns
        if self._events:
            # The service's data must be read before its buffers are full.
            idle = min(idle, 500e6)
            busy = min(busy, idle)
        known = [p for p in busy_percent if p is not None]
        if len(known) < len(busy_percent):
            return int(busy)
        return int(idle * (busy / idle) ** (min(max(known, default=0.0), 100.0) / 100.0))

    def _measure(self, member: _Member, now_ns: int) -> Reading:
        info = member.disk.info
        if member.error or member.before is None or member.now is None:
            member.exact = None
            return Reading(info, Rate(0), error=member.error, end_ns=now_ns)
        rate = between(member.before, member.now, self._estimator)
        rate.busy = member.busy_now(self._estimator, rate)
        reading = Reading(info, rate, end_ns=member.now.at_ns)
        if rate.reset:
            reading.error = SignalError(f"{info.name}: the disk was removed and came back")
        elif rate.not_accounted:
            reading.error = SignalError(f"{info.name}: the kernel does not count this disk's I/O (queue/iostats is 0)")
        if self._own and member.own_now and rate.is_known:
            reading.own = _own(member.own_before or (0, 0, 0, 0), member.own_now, rate)
        if self._events is None or info.paths:
            return reading
        if taken := self._events.take(info.name, rate):
            member.exact = taken[0], member.now.at_ns - taken[1]
        if member.exact and self._events.is_connected and member.now.at_ns - member.exact[1] < MAX_EVENT_NS:
            exact, end_ns = member.exact
            exact.in_flight = rate.in_flight
            return Reading(info, exact, "events", reading.own, None, end_ns)
        return reading

    def _look_due(self, now_ns: int) -> bool:
        """Whether disks or mounts may have changed. The caller holds the lock."""
        if now_ns - self._watched_ns < WATCH_NS:
            return False
        self._watched_ns = now_ns
        due = now_ns - self._resolved_ns >= RESOLVE_NS
        due = due or any(m.now is None for m in self._members.values()) or any(p.error for p in self._paths.values())
        due = (bool(self._paths) and self._mounts.changed()) or due
        if self._all:
            try:
                partitions = self._machine.at("/proc/partitions").read_bytes()
            except OSError:
                partitions = b""
            due = due or partitions != self._partitions
            self._partitions = partitions
        return due

    def _look(self) -> None:
        """Resolves all paths again, from sysfs and procfs only: a file system call may block on the disk that is measured."""
        self._resolved_ns = time.monotonic_ns()
        try:
            self._machine.read_mounts()
        except OSError:
            return
        for path, of in self._paths.items():
            bottoms, why = self._machine.disks_of(of.place)
            # If there are none, the last disks stay, with their own errors.
            of.error = None if bottoms else SignalError(f"{path}: {why}")
            of.bottoms = bottoms or of.bottoms
        self._rebuild()

    def _rebuild(self) -> None:
        """Opens added disks. Disks that stay keep their readings. The caller holds the lock."""
        wanted = {b.name: b for of in self._paths.values() for b in of.bottoms}
        for name in self._pinned + (self._machine.whole_disks() if self._all else []):
            bottom = find(self._machine, name)
            if bottom is None and name in self._members:
                bottom = self._members[name].disk.bottom
            if bottom:
                wanted[name] = bottom
        old, self._members = self._members, {}
        for name, bottom in wanted.items():
            member = old.get(name)
            if member is None or member.disk.bottom != bottom:
                member = _Member(Disk.of(self._machine, bottom))
                member.read(time.monotonic_ns())
                if self._own:
                    member.own_now = self._own.read().get(bottom.dev)
            else:
                member.disk.describe()
            self._members[name] = member
        for name, member in old.items():
            if self._members.get(name) is not member:
                member.disk.close()
        self._publish(self._view.at_ns)
        # The first interval is short.
        self._due_ns = time.monotonic_ns() + int(self._busy_ns)


def _own(before: Counters, now: Counters, rate: Rate) -> Own:
    span_s = rate.span_ns / 1e9
    reads, writes, read_bytes, write_bytes = (max(b - a, 0) / span_s for a, b in zip(before, now, strict=True))
    out = Own(reads, writes, read_bytes, write_bytes)
    # I/O that a group started and the disk has not completed makes the difference negative.
    if rate.read.bytes_per_s is not None:
        out.others_read_bytes_per_s = max(rate.read.bytes_per_s - read_bytes, 0.0)
    if rate.write.bytes_per_s is not None:
        out.others_write_bytes_per_s = max(rate.write.bytes_per_s - write_bytes, 0.0)
    return out


def _group(path: str, by: GroupBy, of: _Path, disks: dict[str, Reading]) -> Group:
    readings = [disks[b.name] for b in of.bottoms if b.name in disks]
    out = Group(path, by, tuple(b.name for b in of.bottoms), error=of.error)
    out.error = out.error or next((r.error for r in readings if r.error), None)
    if not out.error and len(readings) < len(of.bottoms):
        out.error = DiskLostError(f"{path}: a disk is not there")
    if out.error:
        return out
    if combined := combine([r.rate.busy.percent for r in readings]):
        out.mean_percent, out.max_percent, out.any_percent = combined
        out.percent = out.mean_percent if by == "mean" else out.max_percent
    out.read = _sum(readings, lambda r: r.read)
    out.write = _sum(readings, lambda r: r.write)
    out.in_flight = sum(r.rate.in_flight for r in readings)
    return out


def _sum(readings: list[Reading], which: Callable[[Rate], ClassRate]) -> ClassRate:
    """Sums a class over disks, with means weighted by I/Os. Unknown if it is unknown for one disk."""
    classes = [which(r.rate) for r in readings]

    def total(values: list[float | None]) -> float | None:
        return None if any(v is None for v in values) else sum(v for v in values if v is not None)

    ios = [c.ios for c in classes]
    out = ClassRate(
        ios=None if None in ios else sum(n for n in ios if n is not None),
        per_s=total([c.per_s for c in classes]),
        bytes_per_s=total([c.bytes_per_s for c in classes]),
        merges_per_s=total([c.merges_per_s for c in classes]),
    )
    if out.ios:
        weighted = [(c.ios, c.await_ms, c.request_bytes) for c in classes if c.ios]
        out.await_ms = sum(n * (ms or 0.0) for n, ms, _ in weighted) / out.ios
        out.request_bytes = sum(n * (size or 0.0) for n, _, size in weighted) / out.ios
    if out.merges_per_s is not None and out.per_s:
        out.merged_percent = 100 * out.merges_per_s / (out.merges_per_s + out.per_s)
    return out


class _MountWatch:
    """Detects that mounts were added or removed: by poll() on the live table, by its text under another root."""

    def __init__(self, machine: Machine) -> None:
        self._path = machine.at("/proc/1/mountinfo")
        self._text = b""
        self._poll: select.poll | None = None
        self._file = None
        if str(machine.root) == "/" and sys.platform == "linux":
            try:
                self._file = Path("/proc/self/mountinfo").open("rb")  # noqa: SIM115
            except OSError:
                return
            self._poll = select.poll()
            self._poll.register(self._file, select.POLLPRI)

    def changed(self) -> bool:
        if self._poll:
            return any(event & select.POLLPRI for _, event in self._poll.poll(0))
        try:
            text = self._path.read_bytes()
        except OSError:
            return True
        changed = text != self._text
        self._text = text
        return changed

    def close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None
            self._poll = None
