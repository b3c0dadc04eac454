"""Entries for `slow`: from CSV files, and from the rollups of a lake."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from .errors import IolensError
from .slow import DAY_S, ENTRY_S, Entries
from .slow_tails import Buckets

if TYPE_CHECKING:
    from .lake import Lake

_COLUMNS = ("ts", "disk_id", "throughput", "latency")


def from_csv(paths: list[Path]) -> Iterator[Entries]:
    """Hosts of CSV files with columns `ts,disk_id,throughput,latency`, one by one.

    A file is a host unless it has a column `host`, or one disk only: then its directory is the host. A directory stands for
    the CSV files in it, at any depth. `ts` is in seconds, milliseconds or as a date with time. Units of throughput and
    latency are free.
    """
    files = [f for p in paths for f in (sorted(p.rglob("*.csv")) if p.is_dir() else [p])]
    if not files:
        raise IolensError(f"no CSV file in {', '.join(map(str, paths))}")
    base = paths[0] if len(paths) == 1 and paths[0].is_dir() else None
    found = False
    for directory, group in groupby(files, key=lambda f: f.parent):
        disks: list[pa.Table] = []
        for file in group:
            table = _read(file)
            # Beside the data such sets have lists of labels: files without the columns are passed over.
            if table is None:
                continue
            found = True
            if "host" not in table.column_names and len(pc.unique(table["disk_id"])) == 1:
                disks.append(table)
            else:
                yield from _hosts(table, _name(file.with_suffix(""), base))
        # Where a file holds one disk, the directory is the host.
        if disks:
            yield entries_of(_name(directory, base), pa.concat_tables(disks))
    if not found:
        raise IolensError(f"{files[0]} has no columns {','.join(_COLUMNS)}")


def _name(path: Path, base: Path | None) -> str:
    return str(path.relative_to(base)) if base and path != base else path.name


def _read(file: Path) -> pa.Table | None:
    try:
        table = pa_csv.read_csv(file)
    except (OSError, pa.ArrowInvalid) as e:
        raise IolensError(f"{file}: {e}") from e
    if not set(_COLUMNS) <= set(table.column_names):
        return None
    try:
        columns = {
            "ts": _seconds(table["ts"]),
            "disk_id": table["disk_id"].cast(pa.string()),
            "throughput": table["throughput"].cast(pa.float64()),
            "latency": table["latency"].cast(pa.float64()),
        }
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise IolensError(f"{file}: {e}") from e
    if "host" in table.column_names:
        columns["host"] = table["host"].cast(pa.string())
    return pa.table(columns)


def _seconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_string(column.type):
        column = pc.strptime(column, format="%Y-%m-%d %H:%M:%S", unit="s")
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return column.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    seconds = column.cast(pa.float64())
    # Seconds since the epoch have ten digits until the year 2286, milliseconds thirteen.
    largest = pc.max(seconds).as_py() or 0.0
    return pc.floor(pc.divide(seconds, 1000.0 if largest > 1e11 else 1.0)).cast(pa.int64())


def _hosts(table: pa.Table, name: str) -> Iterator[Entries]:
    if "host" not in table.column_names:
        yield entries_of(name, table)
        return
    for host in pc.unique(table["host"]).to_pylist():
        yield entries_of(str(host), table.filter(pc.equal(table["host"], host)))


def entries_of(host: str, table: pa.Table) -> Entries:
    """The entries of one host from columns named as in the CSV."""
    known = table.filter(pc.and_(pc.is_valid(table["ts"]), pc.is_valid(table["disk_id"])))
    encoded = pc.dictionary_encode(known["disk_id"].combine_chunks())
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()

    def floats(column: str) -> Any:
        return np.asarray(pc.fill_null(known[column], float("nan")).to_numpy(), dtype=np.float64)

    return Entries(
        host=host,
        names=[str(n) for n in encoded.dictionary.to_pylist()],
        time_s=np.asarray(known["ts"].to_numpy(), dtype=np.int64),
        device=np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64),
        throughput=floats("throughput"),
        latency=floats("latency"),
    )


def from_lake(lake: Lake) -> Iterator[Entries]:
    """Hosts of a lake: time in the device by load, from the rollups of a second; reads and writes apart; and its histograms.

    Queue time is no fault of the device, so it is left out; a mix that shifts from reads to writes changes no class's time.
    Devices are compared with those of the same model on the same host.
    """
    for (host,) in lake.rows("select distinct host from rollup order by host"):
        table = lake.query(f"""
            select {_PEERS}, cast(sum(bytes) as double) / {ENTRY_S} as throughput,
                   cast(sum(device_sum_ns) as double) / sum(ios) / 1e3 as latency
            from rollup where host = {_literal(host)} and step_s = 1 and class in ('read', 'write') and ios > 0
            group by 1, 2, 3""")
        if not table.num_rows:
            continue
        first, last = pc.min(table["ts"]).as_py() // DAY_S, pc.max(table["ts"]).as_py() // DAY_S
        parts: dict[str, list[Buckets]] = {}
        groups = {name: table.filter(pc.equal(table["peers"], name)) for name in pc.unique(table["peers"]).to_pylist()}
        entries = {name: entries_of(f"{host} {name}".replace("  ", " "), rows) for name, rows in groups.items()}
        # Day by day: histograms are far more rows than entries.
        for day in range(first, last + 1):
            found = lake.query(f"""
                select {_PEERS}, bucket, cast(sum(ios) as bigint) as ios from buckets
                where host = {_literal(host)} and step_s = 1 and part = 'device' and class in ('read', 'write')
                and at_unix_ns >= {day * DAY_S * 10**9} and at_unix_ns < {(day + 1) * DAY_S * 10**9} group by 1, 2, 3, 4""")
            for name, of in entries.items():
                parts.setdefault(name, []).append(_buckets(of, found.filter(pc.equal(found["peers"], name))))
        for name, of in entries.items():
            yield replace(of, histograms=_joined(parts[name]))


_PEERS = f"""coalesce(model, '') || ' ' || class as peers, coalesce(stable_id, device) as disk_id,
    cast((at_unix_ns - at_unix_ns % {ENTRY_S * 10**9}) / 1e9 as bigint) as ts"""


def _buckets(entries: Entries, table: pa.Table) -> Buckets:
    """Histograms with the indexes of their entries."""
    known = table.filter(pc.and_(pc.is_valid(table["ts"]), pc.is_in(table["disk_id"], pa.array(entries.names, pa.string()))))
    device = np.asarray(pc.index_in(known["disk_id"], pa.array(entries.names, pa.string())).to_numpy(), dtype=np.int64)
    # A key of device and time; times are seconds since the epoch, below 2^40.
    key = (entries.device << 40) + entries.time_s
    order = np.argsort(key)
    wanted = (device << 40) + np.asarray(known["ts"].to_numpy(), dtype=np.int64)
    place = np.minimum(np.searchsorted(key, wanted, sorter=order), len(key) - 1)
    entry = order[place]
    same = key[entry] == wanted
    bucket, ios = (np.asarray(known[name].to_numpy(), dtype=np.int64) for name in ("bucket", "ios"))
    return Buckets(entry[same].astype(np.int32), bucket[same].astype(np.int16), ios[same].astype(np.int32))


def _joined(parts: list[Buckets]) -> Buckets | None:
    """All days; nothing where the rollups have no histograms."""
    joined = Buckets(*(np.concatenate([getattr(p, name) for p in parts]) for name in ("entry", "bucket", "ios")))
    return joined if len(joined.entry) else None


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
