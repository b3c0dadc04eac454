"""Headroom, and when it is used up: Theil-Sen slope of the daily 99th percentiles, with Sen's confidence interval."""

from __future__ import annotations

import math
from itertools import combinations, groupby
from statistics import median
from typing import Any

import pyarrow as pa

_DAY_NS = 86_400 * 10**9
# Load depends on the day of the week, so less than two weeks show no trend.
MIN_DAYS = 14
# A day with less than an hour of data has no meaningful percentiles.
MIN_MINUTES = 60

_SCHEMA = pa.schema(
    [("host", pa.string()), ("device", pa.string()), ("stable_id", pa.string()), ("days", pa.int64())]
    + [
        (name, pa.float64())
        for name in (
            "busy_p99_percent",
            "headroom_percent",
            "ios_per_s_p99",
            "bytes_per_s_p99",
            "growth_percent_per_week",
            "growth_low_percent_per_week",
            "growth_high_percent_per_week",
            "weeks_left",
            "weeks_left_low",
            "weeks_left_high",
        )
    ]
)


def forecast(days: pa.Table) -> pa.Table:
    """A row for each device, the highest utilisation first. There is no end date unless growth is significantly above zero."""
    ordered = sorted(days.to_pylist(), key=lambda r: (r["host"], r["device"], r["day_unix_ns"]))
    rows = []
    for (host, device), group in groupby(ordered, key=lambda r: (r["host"], r["device"])):
        known = [r for r in group if r["minutes"] >= MIN_MINUTES]
        if known:
            rows.append({"host": host, "device": device, "stable_id": known[-1]["stable_id"], **_device(known)})
    rows.sort(key=lambda r: r["headroom_percent"])
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def _device(days: list[dict[str, Any]]) -> dict[str, Any]:
    recent = days[-7:]
    busy = median(r["busy_p99_percent"] for r in recent)
    result: dict[str, Any] = {
        "days": len(days),
        "busy_p99_percent": busy,
        "headroom_percent": max(100 - busy, 0.0),
        "ios_per_s_p99": median(r["ios_per_s_p99"] for r in recent),
        "bytes_per_s_p99": median(r["bytes_per_s_p99"] for r in recent),
    }
    if len(days) >= MIN_DAYS:
        points = [(r["day_unix_ns"] / _DAY_NS, r["busy_p99_percent"]) for r in days]
        low, slope, high = (7 * s for s in theil_sen(points))
        result |= {
            "growth_percent_per_week": slope,
            "growth_low_percent_per_week": low,
            "growth_high_percent_per_week": high,
        }
        left = result["headroom_percent"]
        if low > 0:
            result |= {"weeks_left": left / slope, "weeks_left_low": left / high, "weeks_left_high": left / low}
    return result


def theil_sen(points: list[tuple[float, float]]) -> tuple[float, float, float]:
    """The median of the slopes between all pairs, and the bounds of Sen's 95 % interval (1968)."""
    slopes = sorted((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x2 > x1)
    n = len(points)
    half = 1.96 * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low = max(math.floor((len(slopes) - half) / 2), 0)
    high = min(math.ceil((len(slopes) + half) / 2), len(slopes) - 1)
    return slopes[low], median(slopes), slopes[high]
