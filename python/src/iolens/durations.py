"""Durations as text: `10ms`, `1.5s`, `2m`."""

from __future__ import annotations

import re
from fractions import Fraction

from .errors import IolensError

_UNITS_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86_400 * 10**9}


def parse_ns(duration: str | float) -> int:
    """Nanoseconds of a duration; a number without a unit is seconds."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-z]*)\s*", str(duration))
    unit = (found.group(2) or "s") if found else ""
    if not found or unit not in _UNITS_NS:
        raise IolensError(f"{duration!r} is no duration: write 10ms, 1s, 5m or 2h")
    return int(Fraction(found.group(1)) * _UNITS_NS[unit])
