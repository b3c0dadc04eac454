"""The second score of `slow`: I/Os that take longer than almost all of the peers' at the same load.

If a device is slow for one I/O in fifty, or only now and then while the load changes as well, its mean hardly changes.
Histograms show it: one in a hundred of a healthy device's I/Os takes longer than the peers' 99th percentile at the load of the
same 15 s. A device that is slower as a whole is found by the means, so each device's own median distance is subtracted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

WINDOW_S = 300
DAY_S = 86_400
WINDOWS = DAY_S // WINDOW_S
# With fewer I/Os a window has no usable 99th percentile. A device needs an hour of windows, and three peers.
MIN_IOS = 200
MIN_WINDOWS = 12
MIN_PEERS = 4
QUANTILE = 0.99
# Bins of load: finer at both ends, where a curve bends; and I/Os that a device needs in one.
LOAD_QUANTILES = np.array([0, 0.005, 0.02, *np.linspace(0.04, 0.96, 24), 0.98, 0.99, 0.995, 1])
MIN_IN_BIN = 500
# A window is slow with three times the device's usual share of slow I/Os, and beyond 99.9 % of healthy windows.
MIN_RATIO = math.log(3)
BOUND_SPREADS = 3.09
# A device is slow all day with 3.5 times the peers' odds, and beyond healthy ones as in `slow`. Otherwise it is slow with 0.75
# % of its I/Os in slow windows.
MIN_STEADY = math.log(3.5)
MAX_SPREADS = 4.0
MIN_RISK = 0.0075
MARGIN = 1.5
# The format's constants: the histogram's durations.
BUCKETS = 496


@dataclass(frozen=True)
class Buckets:
    """Histograms of entries: the number `ios` of I/Os in `bucket`, for the entry with this index."""

    entry: npt.NDArray[np.integer[Any]]
    bucket: npt.NDArray[np.integer[Any]]
    ios: npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class TailDay:
    """A device's day: log odds of its slow I/Os over the peers', their share beyond the peers', and that of slow windows."""

    day: int
    windows: int
    steady: float
    steady_share: float
    risk: float


@dataclass(frozen=True)
class Tail:
    """All days of a device."""

    host: str
    days: list[TailDay]

    @property
    def risk(self) -> float:
        """The share of its I/Os that were slow in slow windows, in excess of its usual share."""
        return float(np.average([d.risk for d in self.days], weights=[d.windows for d in self.days]))

    @property
    def steady(self) -> float:
        """The distance of its usual share of slow I/Os from the peers', as a logarithm."""
        return float(np.median([d.steady for d in self.days]))

    @property
    def percent(self) -> float:
        """The share of its I/Os that are slow in excess of the peers' share: usual ones and those of slow windows."""
        return 100 * (self.risk + float(np.median([d.steady_share for d in self.days])))


def found(tails: list[Tail], limit: Callable[[Floats, float], float]) -> list[bool]:
    """Decides which devices of a fleet are slow. `limit` is a risk that healthy devices rarely reach; it has a minimum."""
    if not tails:
        return []
    steady = np.array([t.steady for t in tails])
    by_host: dict[str, list[float]] = {}
    for tail, value in zip(tails, steady, strict=True):
        by_host.setdefault(tail.host, []).append(float(value))
    spread = float(np.median([_spread(np.array(values)) for values in by_host.values()]))
    mirrored = -1.2 * float(np.quantile(steady, 0.002)) if len(steady) >= 200 else 0.0
    all_day = steady > max(MIN_STEADY, MAX_SPREADS * spread, mirrored)
    risks = np.array([t.risk for t in tails])
    # If load hardly determines latency, the tail of healthy devices' risks is heavier than an exponential.
    return [bool(flag) for flag in all_day | (risks > max(MIN_RISK, MARGIN * limit(risks, 0.0)))]


def edges() -> Floats:
    """Logarithms of the lower bounds of the buckets, and of the upper bound of the last."""
    lows = [8 * n if n < 32 else (n % 16 + 16) * 2 ** (n // 16 - 1) * 8 for n in range(BUCKETS + 1)]
    return np.log(np.maximum(lows, 4.0))


def judge_day(day: int, of: Buckets, time_s: Ints, device: Ints, load: Floats, devices: int) -> Iterator[tuple[int, TailDay]]:
    """The devices of a host on one day. `time_s`, `device` and `load` are those of the entries."""
    marks = edges()
    n = np.bincount(of.entry, of.ios, len(load))
    known = n > 0
    bounds = np.unique(np.quantile(load[known], LOAD_QUANTILES)) if known.any() else np.zeros(0)
    if len(bounds) < 3:
        return
    bins = len(bounds) - 1
    bin_of = np.clip(np.searchsorted(bounds, load, side="right") - 1, 0, bins - 1)
    pooled = np.bincount(((device * bins + bin_of)[of.entry]) * BUCKETS + of.bucket, of.ios, devices * bins * BUCKETS)
    counts = np.asarray(pooled, dtype=np.float64).reshape(devices, bins, BUCKETS)
    body = _quantile(counts, 0.5, marks)
    own = _median(body - _peers(body)[None, :])
    top = _peers(_quantile(counts, QUANTILE, marks) - own[:, None])
    # Beyond the loads that three devices have reached there are no peers to compare with.
    judged = np.flatnonzero(np.isfinite(top))
    if not len(judged):
        return
    middles = np.array([np.median(load[known & (bin_of == b)]) for b in judged])
    limit = np.interp(load, middles, top[judged], left=np.nan, right=np.nan) + own[device]
    window = device * WINDOWS + (time_s % DAY_S) // WINDOW_S
    slow, whole = _windows(of, window, limit, marks, devices)
    yield from _days(day, slow, whole)


def _windows(of: Buckets, window: Ints, limit: Floats, marks: Floats, devices: int) -> tuple[Floats, Floats]:
    """I/Os of each device and window that took longer than the limit of their entry, and the number of all I/Os."""
    kept = np.isfinite(limit)[of.entry]
    entry, bucket, ios = of.entry[kept], of.bucket[kept], of.ios[kept]
    part = np.clip((marks[bucket + 1] - limit[entry]) / (marks[bucket + 1] - marks[bucket]), 0, 1)
    size = devices * WINDOWS
    slow, whole = (np.bincount(window[entry], weights, size).astype(np.float64) for weights in (ios * part, ios))
    return slow.reshape(devices, WINDOWS), whole.reshape(devices, WINDOWS)


def _days(day: int, slow: Floats, whole: Floats) -> Iterator[tuple[int, TailDay]]:
    known = whole >= MIN_IOS
    known &= (known.sum(axis=1) >= MIN_WINDOWS)[:, None]
    if known.any(axis=1).sum() < MIN_PEERS:
        return
    odds = np.where(known, np.log((slow + 0.5) / (whole - slow + 0.5)), np.nan)
    usual = _median(odds)
    rest = odds - usual[:, None]
    # A slowdown of all devices of the host at the same time is not caused by one of them.
    rest = rest - np.nan_to_num(_median(rest.T))[None, :]
    spreads = [_spread(row[np.isfinite(row)]) for row in rest if np.isfinite(row).any()]
    bound = max(MIN_RATIO, BOUND_SPREADS * float(np.median(spreads)))
    peers = float(np.nanmedian(usual))
    for i in np.flatnonzero(known.any(axis=1)):
        over = known[i] & (rest[i] > bound)
        share = slow[i][over] / whole[i][over]
        ordinary = 1 / (1 + math.exp(-usual[i]))
        windows = int(known[i].sum())
        beyond = max(ordinary - 1 / (1 + math.exp(-peers)), 0.0)
        yield int(i), TailDay(day, windows, float(usual[i]) - peers, beyond, float(np.sum(share - ordinary)) / windows)


def _quantile(pooled: Floats, q: float, marks: Floats) -> Floats:
    """Logarithm of a quantile of each histogram; NaN if there are too few I/Os."""
    cumulated = np.cumsum(pooled, axis=2)
    n = cumulated[:, :, -1]
    want = q * n
    index = np.minimum((cumulated < want[:, :, None]).sum(axis=2), BUCKETS - 1)
    upto = np.take_along_axis(cumulated, index[:, :, None], axis=2)[:, :, 0]
    inside = np.maximum(np.take_along_axis(pooled, index[:, :, None], axis=2)[:, :, 0], 1e-9)
    part = 1 - (upto - want) / inside
    return np.where(n >= MIN_IN_BIN, marks[index] + part * (marks[index + 1] - marks[index]), np.nan)


def _peers(values: Floats) -> Floats:
    """The median over devices in each bin; NaN if fewer than three have a value."""
    enough = np.isfinite(values).sum(axis=0) >= 3
    return np.where(enough, _median(values.T), np.nan)


def _median(rows: Floats) -> Floats:
    """The median of the known values of each row; NaN if none is known."""
    return np.array([np.median(row[np.isfinite(row)]) if np.isfinite(row).any() else np.nan for row in rows])


def _spread(values: Floats) -> float:
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))
