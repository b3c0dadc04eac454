"""The result of `slow` as a table: a row for each disk, judged or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from .slow import Unjudged, Verdict

_FIGURES = [
    ("risk", pa.float64()),
    ("risk_now", pa.float64()),
    ("factor", pa.float64()),
    ("factor_low", pa.float64()),
    ("factor_high", pa.float64()),
    ("slow_percent", pa.float64()),
    ("steady_factor", pa.float64()),
    ("trend_percent_per_day", pa.float64()),
    ("tail_percent", pa.float64()),
    ("found_by", pa.string()),
    ("days", pa.int64()),
    ("entries", pa.int64()),
]
SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("host", "device", "stable_id", "model", "class")]
    + [("slow", pa.bool_()), *_FIGURES, ("not_judged", pa.string())]
)


@dataclass(frozen=True)
class Disk:
    """The name of a disk in the other tables of a lake."""

    device: str
    stable_id: str | None = None
    model: str | None = None


def table(
    verdicts: Iterable[Verdict], unjudged: Iterable[Unjudged], disks: Mapping[tuple[str, str], Disk] | None = None
) -> pa.Table:
    """A row for each disk: slow disks first, then by risk, and those not judged last.

    A disk whose reads and writes were judged has the values of the worse class. `disks` are those of a lake, by host and the
    name in the entries; disks without entries are listed as not judged.
    """
    disks = disks or {}
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    # Verdicts are sorted, the worst first, so the first verdict of a disk is the one to keep.
    for v in verdicts:
        key = (v.host, v.device)
        figures = {name: getattr(v, name) for name, _ in _FIGURES}
        rows.setdefault(key, {**_named(key, disks), "class": v.group.io_class, "slow": v.slow, **figures})
    # Of several reasons, that of the class with most entries.
    for u in sorted(unjudged, key=lambda u: (-u.entries, u.host, u.device)):
        key = (u.host, u.device)
        rows.setdefault(key, {**_named(key, disks), "class": u.group.io_class, "not_judged": u.reason})
    for key in sorted(disks):
        rows.setdefault(key, {**_named(key, disks), "not_judged": "no reads or writes of it are recorded by the second"})
    return pa.Table.from_pylist(list(rows.values()), schema=SCHEMA)


def _named(key: tuple[str, str], disks: Mapping[tuple[str, str], Disk]) -> dict[str, Any]:
    host, name = key
    disk = disks.get(key, Disk(name))
    return {"host": host, "device": disk.device, "stable_id": disk.stable_id, "model": disk.model}
