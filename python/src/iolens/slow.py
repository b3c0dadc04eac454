"""Fail-slow devices: latency against load, beside the peers of the same host.

The method is that of Perseus (Lu et al., FAST '23): entries of 15 s, outliers left out by PCA and DBSCAN, a polynomial of
latency over throughput with an upper bound at 99.9 %, slowdown ratios in sliding windows, a risk score per day. Three things
differ. Every step takes medians over devices, so that a slow device does not shift its own baseline. A slowdown of all devices
of a host at the same time is removed. The differences between healthy devices determine how large a slowdown must be to count.
Entries with histograms have a second score (`slow_tails`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from . import slow_tails

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

ENTRY_S = 15
DAY_S = 86_400
# A window of 20 entries is 5 minutes, the shortest slow event of Perseus; windows overlap by half.
WINDOW = 20
# A device or day with less than an hour of entries is not judged.
MIN_ENTRIES = 240
# With fewer devices there are no peers to compare with.
MIN_PEERS = 4
ENTRY_QUANTILE = 0.99
# A smaller slowdown is within the differences between healthy devices of one model, and the residual of the load curve.
MIN_SLOWDOWN = math.log(1.4)
# Healthy devices are within this many robust standard deviations of their peers: 1 in 30 000 is beyond if they are normal.
MAX_SPREADS = 4.0
# A window above this many robust standard deviations is beyond the upper bound at 99.9 %.
BOUND_SPREADS = 3.09
FALSE_FLEETS = 0.25
# Latencies with fewer distinct values are treated as rounded.
MAX_STEPS = 1000
# Risk: share of the time that was slow, times doublings of latency. Two per cent of the time at twice the latency.
MIN_RISK = 0.02
# A severity is capped at eight times the latency.
MAX_DOUBLINGS = 3.0
# The polynomial's bins: equal counts, finer at both ends, where a curve bends; and entries that a device needs in one.
LOAD_QUANTILES = np.array([0, 0.005, 0.02, *np.linspace(0.04, 0.96, 24), 0.98, 0.99, 0.995, 1])
MIN_IN_BIN = 8


@dataclass(frozen=True)
class Group:
    """Which devices of a host are compared: those of the same model, by I/O class. A log has neither."""

    model: str | None = None
    io_class: str | None = None


@dataclass(frozen=True)
class Entries:
    """Entries of the devices of one host: `time_s` since the epoch, index into `names`, throughput, latency (any units)."""

    host: str
    names: list[str]
    time_s: Ints
    device: Ints
    throughput: Floats
    latency: Floats
    # By index of the entry; absent for logs without histograms.
    histograms: slow_tails.Buckets | None = None
    group: Group = Group()


@dataclass
class Day:
    """A device's day: risk with and without its steady offset, its median shift (log), its slow windows and entries."""

    day: int
    entries: int
    shift: float
    risk_raw: float
    risk_centred: float
    slow_share: float
    # Of the windows that do not overlap; single precision, because months of a fleet have 100 million of them.
    shifts: npt.NDArray[np.float32] = field(repr=False)


@dataclass
class DeviceDays:
    """All days of a device."""

    host: str
    name: str
    shift: float
    spread: float
    days: list[Day]
    tails: list[slow_tails.TailDay] = field(default_factory=list)
    group: Group = Group()


@dataclass(frozen=True)
class Verdict:
    """The verdict on a device. Factors are latency over that of the peers at the same load; `factor` is that of its slow time.

    With histograms, `tail_percent` of its I/Os are slow in excess of the peers' share. `found_by` is the score that found it:
    `mean`, `tail` or both.
    """

    host: str
    device: str
    slow: bool
    risk: float
    risk_now: float
    factor: float | None
    factor_low: float | None
    factor_high: float | None
    slow_percent: float
    steady_factor: float
    trend_percent_per_day: float | None
    days: int
    entries: int
    tail_percent: float | None = None
    found_by: str | None = None
    group: Group = Group()


@dataclass(frozen=True)
class Unjudged:
    """A device that was not judged, and why."""

    host: str
    device: str
    reason: str
    entries: int = 0
    group: Group = Group()


def judge(hosts: Iterable[Entries]) -> list[Verdict]:
    """The devices that can be judged, by risk, the highest first. Hosts are read one at a time."""
    return judge_all(hosts)[0]


def judge_all(hosts: Iterable[Entries]) -> tuple[list[Verdict], list[Unjudged]]:
    """The same, and the devices that cannot be judged."""
    devices: list[DeviceDays] = []
    rest: list[Unjudged] = []
    for entries in hosts:
        judged = judge_host(entries)
        devices += judged
        rest += _unjudged(entries, {device.name for device in judged})
    return verdicts(devices), rest


def _unjudged(entries: Entries, judged: set[str]) -> Iterator[Unjudged]:
    """The devices of a host that were not judged."""
    usable = _usable(entries)
    days, day_of = np.unique(entries.time_s[usable] // DAY_S, return_inverse=True)
    counts = np.zeros((len(entries.names), max(len(days), 1)), dtype=np.int64)
    np.add.at(counts, (entries.device[usable], day_of), 1)
    for of, name in zip(counts, entries.names, strict=True):
        if name in judged:
            continue
        fullest = int(of.argmax())
        peers = int((counts[:, fullest] >= MIN_ENTRIES).sum())
        if len(entries.names) < MIN_PEERS:
            reason = f"{len(entries.names)} such devices on the host, at least {MIN_PEERS} are compared"
        elif of[fullest] < MIN_ENTRIES:
            reason = (
                f"{of[fullest] * ENTRY_S // 60} minutes with I/O on its busiest day, {MIN_ENTRIES * ENTRY_S // 60} are needed"
            )
        elif peers < MIN_PEERS:
            reason = f"{peers} such devices with an hour of I/O on that day, at least {MIN_PEERS} are compared"
        else:
            reason = "fewer than three other devices had its load"
        yield Unjudged(entries.host, name, reason, int(of.sum()), entries.group)


def verdicts(devices: list[DeviceDays]) -> list[Verdict]:
    """Decides which devices of a fleet are slow."""
    by_host = {d.host: d.spread for d in devices}
    fleet_spread = float(np.median(list(by_host.values()))) if by_host else 0.0
    mirrored = _mirrored(np.array([d.shift for d in devices]))
    found = []
    for device in devices:
        spread = max(fleet_spread, 0.7 * device.spread)
        steady = device.shift > max(MIN_SLOWDOWN, MAX_SPREADS * spread, mirrored)
        found.append((device, steady, _risk(device, steady)))
    limit = _limit(np.array([risk for _, _, risk in found]))
    result = [_verdict(device, steady, risk, limit) for device, steady, risk in found]
    _add_tails(devices, result)
    return sorted(result, key=lambda v: (not v.slow, -v.risk, v.host, v.device))


def _add_tails(devices: list[DeviceDays], result: list[Verdict]) -> None:
    """The second score, of the devices with histograms."""
    having = [i for i, device in enumerate(devices) if device.tails]
    tails = [slow_tails.Tail(devices[i].host, devices[i].tails) for i in having]
    for i, tail, slow in zip(having, tails, slow_tails.found(tails, _limit), strict=True):
        by = [name for name, finds in (("mean", result[i].slow), ("tail", slow)) if finds]
        result[i] = replace(result[i], slow=bool(by), tail_percent=tail.percent, found_by=", ".join(by) or None)


def _mirrored(shifts: Floats) -> float:
    """1.2 times the distance of the fastest devices of a large fleet from their peers: healthy slow ones reach that too."""
    return -1.2 * float(np.quantile(shifts, 0.002)) if len(shifts) >= 200 else 0.0


def _risk(device: DeviceDays, steady: bool) -> float:
    weights = [d.entries for d in device.days]
    risks = [d.risk_raw if steady else d.risk_centred for d in device.days]
    return float(np.average(risks, weights=weights))


def _limit(risks: Floats, least: float = MIN_RISK) -> float:
    """A risk that healthy devices of a fleet of this size and noise rarely reach.

    Every drive has some slow minutes, so the fleet's own risks above the median give the scale of an exponential tail. One in
    four healthy fleets has a device above the limit.
    """
    if len(risks) < 20:
        return least
    middle, high = (float(q) for q in np.quantile(risks, [0.5, 0.9]))
    scale = (high - middle) / math.log(5)
    return max(least, middle + scale * math.log(0.5 * len(risks) / FALSE_FLEETS))


def _verdict(device: DeviceDays, steady: bool, risk: float, limit: float) -> Verdict:
    shifts = np.concatenate([d.shifts for d in device.days])
    centre = 0.0 if steady else device.shift
    slow = np.sort(shifts[shifts - centre > MIN_SLOWDOWN])
    factor = low = high = None
    if len(slow):
        factor = math.exp(float(np.median(slow)))
        # 95 % interval of a median by order statistics.
        half = 1.96 * math.sqrt(len(slow)) / 2
        first, last = math.floor(len(slow) / 2 - half), math.ceil(len(slow) / 2 + half)
        if first >= 0 and last < len(slow):
            low, high = math.exp(float(slow[first])), math.exp(float(slow[last]))
    entries = sum(d.entries for d in device.days)
    last_day = device.days[-1]
    return Verdict(
        host=device.host,
        device=device.name,
        slow=risk > limit,
        risk=risk,
        risk_now=last_day.risk_raw if steady else last_day.risk_centred,
        factor=factor,
        factor_low=low,
        factor_high=high,
        slow_percent=100 * sum(d.slow_share * d.entries for d in device.days) / entries,
        steady_factor=math.exp(device.shift),
        trend_percent_per_day=_trend(device.days),
        days=len(device.days),
        entries=entries,
        group=device.group,
    )


def _trend(days: list[Day]) -> float | None:
    """Theil-Sen slope of the daily shift, in percent per day; `None` for fewer than three days."""
    if len(days) < 3:
        return None
    at = np.array([d.day for d in days], dtype=np.float64)
    shift = np.array([d.shift for d in days])
    first, second = np.triu_indices(len(days), 1)
    return 100 * math.expm1(float(np.median((shift[second] - shift[first]) / (at[second] - at[first]))))


def judge_host(entries: Entries) -> list[DeviceDays]:
    """Compares the devices of a host with each other, for every day."""
    usable = _usable(entries)
    if not usable.any():
        return []
    entries = replace(entries, latency=dithered(entries.latency))
    day_of = entries.time_s // DAY_S
    days: dict[int, list[Day]] = {}
    tails: dict[int, list[slow_tails.TailDay]] = {}
    for day in np.unique(day_of[usable]):
        chosen = usable & (day_of == day)
        for index, result in _judge_day(entries, chosen, int(day)):
            days.setdefault(index, []).append(result)
        for index, tail in _tails(entries, chosen, int(day)):
            tails.setdefault(index, []).append(tail)
    shifts = {index: float(np.median([d.shift for d in of])) for index, of in days.items()}
    spread = _spread(np.array(list(shifts.values()))) if shifts else 0.0
    return [
        DeviceDays(entries.host, entries.names[i], shifts[i], spread, of, tails.get(i, []), entries.group)
        for i, of in sorted(days.items())
    ]


def _usable(entries: Entries) -> npt.NDArray[np.bool_]:
    usable: npt.NDArray[np.bool_] = np.isfinite(entries.latency) & np.isfinite(entries.throughput)
    return usable & (entries.latency > 0) & (entries.throughput >= 0)


def _tails(entries: Entries, chosen: npt.NDArray[np.bool_], day: int) -> Iterator[tuple[int, slow_tails.TailDay]]:
    if entries.histograms is None:
        return
    of = entries.histograms
    kept = chosen[of.entry]
    index = np.cumsum(chosen) - 1
    buckets = slow_tails.Buckets(index[of.entry[kept]], of.bucket[kept], of.ios[kept])
    load = entries.throughput[chosen]
    load = np.log(load + _floor(load))
    yield from slow_tails.judge_day(day, buckets, entries.time_s[chosen], entries.device[chosen], load, len(entries.names))


def dithered(latency: Floats) -> Floats:
    """Spreads coarse latencies over the width of their steps.

    A log with whole milliseconds has medians that jump from 1 to 2, which does not mean that a device has twice the latency.
    Equal entries get the same values each time.
    """
    values = np.unique(latency[np.isfinite(latency) & (latency > 0)])
    if not 1 < len(values) < MAX_STEPS:
        return latency
    step = float(np.min(np.diff(values)))
    spread: Floats = latency + step * (np.random.default_rng(0).random(len(latency)) - 0.5)
    return np.where(latency > 0, np.maximum(spread, step / 10), latency)


def _judge_day(entries: Entries, chosen: npt.NDArray[np.bool_], day: int) -> Iterator[tuple[int, Day]]:
    device = entries.device[chosen]
    indexes, counts = np.unique(device, return_counts=True)
    indexes = indexes[counts >= MIN_ENTRIES]
    if len(indexes) < MIN_PEERS:
        return
    kept = np.isin(device, indexes)
    row = np.searchsorted(indexes, device[kept])
    load = np.log(entries.throughput[chosen][kept] + _floor(entries.throughput[chosen][kept]))
    latency = np.log(entries.latency[chosen][kept])
    residual = latency - expected(load, latency, row, len(indexes))
    slot = (entries.time_s[chosen][kept] % DAY_S) // ENTRY_S
    residual[~_is_shared(load, row, len(indexes))] = np.nan
    grid = np.full((len(indexes), DAY_S // ENTRY_S), np.nan)
    grid[row, slot] = residual
    grid = _without_common(grid)
    windows = _windows(grid)
    of_window, of_entry = _window_bound(windows), _entry_bound(grid)
    for i, index in enumerate(indexes):
        if np.isfinite(grid[i]).sum() < MIN_ENTRIES:
            continue
        yield int(index), _day(day, grid[i], windows[i], of_window, of_entry, grid)


def _is_shared(load: Floats, row: Ints, devices: int) -> npt.NDArray[np.bool_]:
    """The loads that at least three devices have reached. Beyond them there are no peers to compare with."""
    lowest, highest = np.full(devices, np.inf), np.full(devices, -np.inf)
    np.minimum.at(lowest, row, load)
    np.maximum.at(highest, row, load)
    shared: npt.NDArray[np.bool_] = (load >= np.sort(lowest)[2]) & (load <= np.sort(highest)[-3])
    return shared


def _day(day: int, residual: Floats, windows: Floats, window_limit: float, entry_limit: float, grid: Floats) -> Day:
    shift = _shift(residual)
    apart = windows[: len(residual) // WINDOW]
    residual = residual[np.isfinite(residual)]
    windows = windows[np.isfinite(windows)]

    def risk(centre: float) -> tuple[float, float]:
        over = windows - centre > max(MIN_SLOWDOWN, window_limit)
        by_windows = float(np.mean(_doublings(windows[over] - centre, len(windows)))) if len(windows) else 0.0
        # Slow periods shorter than a window: entries above a limit that the peers rarely exceed, minus the peers' own share.
        by_entries = _tail(residual - centre, entry_limit) - _peer_tail(grid, entry_limit)
        return max(by_windows, by_entries, 0.0), float(np.mean(over)) if len(windows) else 0.0

    raw, share = risk(0.0)
    centred, centred_share = risk(shift)
    kept = apart[np.isfinite(apart)].astype(np.float32)
    return Day(day, len(residual), shift, raw, centred, share if shift > MIN_SLOWDOWN else centred_share, kept)


def _shift(residual: Floats) -> float:
    known = residual[np.isfinite(residual)]
    return float(np.median(known)) if len(known) else 0.0


def _doublings(over: Floats, n: int) -> Floats:
    """Severities of slow windows, padded with zeros for the other windows."""
    filled = np.zeros(max(n, 1))
    filled[: len(over)] = np.minimum(over / math.log(2), MAX_DOUBLINGS)
    return filled


def _tail(residual: Floats, limit: float) -> float:
    over = residual[residual > max(limit, MIN_SLOWDOWN)]
    return float(np.sum(np.minimum(over / math.log(2), MAX_DOUBLINGS))) / max(len(residual), 1)


def _peer_tail(grid: Floats, limit: float) -> float:
    tails = []
    for row in grid:
        known = row[np.isfinite(row)]
        if len(known):
            tails.append(_tail(known - np.median(known), limit))
    # Peers' tails differ; the upper quartile of their shares counts as normal.
    return float(np.quantile(tails, 0.75)) if tails else 0.0


def _spread(values: Floats) -> float:
    """Robust standard deviation: 1.4826 times the median absolute deviation."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))


def _floor(throughput: Floats) -> float:
    """An offset before the logarithm, so that idle entries have one: a hundredth of the median load."""
    busy = throughput[throughput > 0]
    return 0.01 * float(np.median(busy)) if len(busy) else 1.0


def _median_rows(values: Floats) -> Floats:
    """Median over the last axis of the known values; NaN if fewer than half are known."""
    ordered = np.sort(values, axis=-1)
    known = np.isfinite(ordered).sum(axis=-1)
    last = np.maximum(known - 1, 0)
    low = np.take_along_axis(ordered, (last // 2)[..., None], axis=-1)[..., 0]
    high = np.take_along_axis(ordered, ((last + 1) // 2)[..., None], axis=-1)[..., 0]
    return np.where(known * 2 >= values.shape[-1], (low + high) / 2, np.nan)


def _windows(grid: Floats) -> Floats:
    """Medians of windows that overlap by half."""
    parts = [grid, grid[:, WINDOW // 2 : -(WINDOW // 2)]]
    return np.concatenate([_median_rows(p.reshape(len(grid), -1, WINDOW)) for p in parts], axis=1)


def _without_common(grid: Floats) -> Floats:
    """Removes a slowdown that all devices of the host have in the same five minutes."""
    shifts = np.array([_shift(row) for row in grid])
    blocks = (grid - shifts[:, None]).reshape(len(grid), -1, WINDOW).transpose(1, 0, 2)
    of_device = _median_rows(blocks)
    common = _median_rows(of_device)
    result: Floats = grid - np.repeat(np.nan_to_num(common), WINDOW)[None, :]
    return result


def _window_bound(windows: Floats) -> float:
    """The upper bound of healthy windows: the median over devices of their own spread. Slow devices do not widen it."""
    spreads = [_spread(known) for known in (row[np.isfinite(row)] for row in windows) if len(known)]
    return BOUND_SPREADS * float(np.median(spreads)) if spreads else 0.0


def _entry_bound(grid: Floats) -> float:
    """The 99th percentile of the entries of each device around its own median; the median of these over devices."""
    known_rows = (row[np.isfinite(row)] for row in grid)
    bounds = [float(np.quantile(known - np.median(known), ENTRY_QUANTILE)) for known in known_rows if len(known)]
    return float(np.median(bounds)) if bounds else 0.0


def expected(load: Floats, latency: Floats, row: Ints, devices: int) -> Floats:
    """The logarithm of the peers' latency at each load: a cubic through the medians over devices."""
    inlier = main_cluster(load, latency)
    edges = np.unique(np.quantile(load[inlier], LOAD_QUANTILES))
    if len(edges) < 3:
        return np.full(len(load), np.median(latency[inlier]))
    bin_of = np.clip(np.searchsorted(edges, load, side="right") - 1, 0, len(edges) - 2)
    cell = row * (len(edges) - 1) + bin_of
    order = np.argsort(cell[inlier], kind="stable")
    cells, starts, counts = np.unique(cell[inlier][order], return_index=True, return_counts=True)
    table = np.full((devices, len(edges) - 1), np.nan)
    sorted_latency = latency[inlier][order]
    for c, start, count in zip(cells, starts, counts, strict=True):
        if count >= MIN_IN_BIN:
            table.flat[c] = np.median(sorted_latency[start : start + count])
    asked = np.isfinite(table).sum(axis=0)
    bins = np.flatnonzero(asked >= min(3, devices))
    if len(bins) == 0:
        return np.full(len(load), np.median(latency[inlier]))
    middles = np.array([np.median(load[inlier & (bin_of == b)]) for b in bins])
    levels = np.array([np.median(table[np.isfinite(table[:, b]), b]) for b in bins])
    degree = min(3, len(bins) - 1)
    line = np.polynomial.Polynomial.fit(middles, levels, degree, w=np.sqrt(asked[bins])) if degree else None
    # A polynomial does not extrapolate beyond the loads that peers have reached: the value at the nearest such load is used.
    within = np.clip(load, middles[0], middles[-1])
    return np.asarray(line(within) if line is not None else np.full(len(load), levels[0]), dtype=np.float64)


def main_cluster(load: Floats, latency: Floats) -> npt.NDArray[np.bool_]:
    """Which entries belong to the largest cluster: DBSCAN along the principal components, on a grid of cells.

    A cell is as wide as DBSCAN's radius. It is a core if it and its eight neighbours contain enough entries. So the cost is
    that of counting the entries.
    """
    points = np.stack([_standardised(load), _standardised(latency)], axis=1)
    _, axes = np.linalg.eigh(np.cov(points, rowvar=False) + 1e-12 * np.eye(2))
    components = points @ axes
    scale = np.maximum(components.std(axis=0), 1e-9)
    cells = np.clip(np.floor(components / (0.25 * scale)), -200, 199).astype(np.int64) + 200
    counts = np.zeros((402, 402), dtype=np.int64)
    np.add.at(counts, (cells[:, 0] + 1, cells[:, 1] + 1), 1)
    around = sum(
        (np.roll(np.roll(counts, dx, axis=0), dy, axis=1) for dx in (-1, 0, 1) for dy in (-1, 0, 1)), np.zeros_like(counts)
    )
    core = (around >= max(5, len(load) // 2000)) & (counts > 0)
    member = _largest(core, counts)
    near = np.zeros_like(member)
    for dx in (-1, 0, 1):
        for dy in (-1, 0, 1):
            near |= np.roll(np.roll(member, dx, axis=0), dy, axis=1)
    inlier: npt.NDArray[np.bool_] = near[cells[:, 0] + 1, cells[:, 1] + 1]
    return inlier if inlier.sum() * 2 >= len(load) else np.ones(len(load), dtype=bool)


def _standardised(values: Floats) -> Floats:
    centred: Floats = values - np.median(values)
    return centred / max(_spread(values), 1e-9)


def _largest(core: npt.NDArray[np.bool_], counts: Ints) -> npt.NDArray[np.bool_]:
    """The connected region of core cells with most entries."""
    left = {(int(x), int(y)) for x, y in np.argwhere(core)}
    best: set[tuple[int, int]] = set()
    most = -1
    while left:
        region, border = set[tuple[int, int]](), [left.pop()]
        while border:
            x, y = border.pop()
            region.add((x, y))
            for cell in ((x + dx, y + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)):
                if cell in left:
                    left.remove(cell)
                    border.append(cell)
        entries = sum(int(counts[cell]) for cell in region)
        if entries > most:
            most, best = entries, region
    member = np.zeros_like(core)
    for cell in best:
        member[cell] = True
    return member
