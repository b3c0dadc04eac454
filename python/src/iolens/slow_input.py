"""Entries for `slow`, from CSV files or from the rollups of a lake."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from .errors import IolensError
from .questions import DISKS
from .slow import DAY_S, ENTRY_S, Entries, Group
from .slow_table import Disk
from .slow_tails import Buckets

if TYPE_CHECKING:
    from .lake import Lake

_COLUMNS = ("ts", "disk_id", "throughput", "latency")


def from_csv(paths: list[Path]) -> Iterator[Entries]:
    """Hosts of CSV files with columns `ts,disk_id,throughput,latency`, one by one.

    A file is a host unless it has a column `host`. If it has only one disk, its directory is the host. The same holds if the
    files of a directory are parts of one log, such as a file for each day: the same disks, one file after the other. A
    directory stands for the CSV files in it, at any depth. `ts` is in seconds, in milliseconds, or a date with time. Throughput
    and latency may have any unit.
    """
    files = [f for p in paths for f in (sorted(p.rglob("*.csv")) if p.is_dir() else [p])]
    if not files:
        raise IolensError(f"no CSV file in {', '.join(map(str, paths))}")
    base = paths[0] if len(paths) == 1 and paths[0].is_dir() else None
    found = False
    for directory, group in groupby(files, key=lambda f: f.parent):
        logs = _logs(list(group))
        disks: list[pa.Table] = []
        for log in logs:
            parts = [part for part in map(_read, log) if part is not None]
            # Such data sets also contain lists of labels: files without the columns are skipped.
            if not parts:
                continue
            found = True
            table = pa.concat_tables(parts, promote_options="default")
            if "host" not in table.column_names and len(pc.unique(table["disk_id"])) == 1:
                disks.append(table)
                continue
            is_directory = len(log) > 1 and len(logs) == 1
            yield from _hosts(table, _name(directory if is_directory else log[0].with_suffix(""), base))
        # If a file has only one disk, its directory is the host.
        if disks:
            yield entries_of(_name(directory, base), pa.concat_tables(disks))
    if not found:
        raise IolensError(f"{files[0]} has no columns {','.join(_COLUMNS)}")


def _logs(files: list[Path]) -> list[list[Path]]:
    """The files of a directory, grouped by log: parts of one log have the same disks, one file after the other.

    If two files have values of the same disk at the same time, the name is used by two disks, and each file is a log.
    """
    if len(files) < 2:
        return [files]
    spans: dict[str, list[tuple[int, int, Path]]] = {}
    for file in files:
        table = _read(file, ("ts", "disk_id"))
        if table is None:
            continue
        for row in table.group_by("disk_id").aggregate([("ts", "min"), ("ts", "max")]).to_pylist():
            if row["disk_id"] is not None and row["ts_min"] is not None:
                spans.setdefault(row["disk_id"], []).append((row["ts_min"], row["ts_max"], file))
    log_of = {file: [file] for _, _, file in chain(*spans.values())}
    for of in spans.values():
        of.sort()
        for (_, end, before), (begin, _, after) in pairwise(of):
            # A part may begin within the last entry of the previous one.
            if begin <= end - ENTRY_S:
                return [[file] for file in files]
            if log_of[before] is not log_of[after]:
                joined = log_of[before] + log_of[after]
                log_of.update((file, joined) for file in joined)
    return [list(log) for log in dict.fromkeys(tuple(sorted(log)) for log in log_of.values())]


def _name(path: Path, base: Path | None) -> str:
    return str(path.relative_to(base)) if base and path != base else path.name


def _read(file: Path, wanted: tuple[str, ...] = _COLUMNS) -> pa.Table | None:
    """The needed columns of a file, and `host`; nothing if the file is not such a log."""
    try:
        table = pa_csv.read_csv(file)
    except (OSError, pa.ArrowInvalid) as e:
        raise IolensError(f"{file}: {e}") from e
    if not set(_COLUMNS) <= set(table.column_names):
        return None
    types = {"disk_id": pa.string(), "throughput": pa.float64(), "latency": pa.float64()}
    try:
        columns = {name: _seconds(table[name]) if name == "ts" else table[name].cast(types[name]) for name in wanted}
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
    """Hosts of a lake: device time by load, from the rollups of a second, reads and writes separately; and their histograms.

    Queue time is excluded, because the device does not cause it. A shift from reads to writes does not change the time of
    either class. Devices are compared with those of the same model on the same host. Layers above disks are excluded.
    """
    for (host,) in lake.rows("select distinct host from rollup order by host"):
        chosen = f"host = {_literal(host)} and step_s = 1 and class in ('read', 'write') and {DISKS}"
        table = lake.query(f"""
            select {_KEYS}, cast(sum(bytes) as double) / {ENTRY_S} as throughput,
                   cast(sum(device_sum_ns) as double) / sum(ios) / 1e3 as latency
            from rollup where {chosen} and ios > 0 group by 1, 2, 3, 4""")
        if not table.num_rows:
            continue
        first, last = pc.min(table["ts"]).as_py() // DAY_S, pc.max(table["ts"]).as_py() // DAY_S
        groups = [
            Group(row["model"] or None, row["class"]) for row in table.group_by(["model", "class"]).aggregate([]).to_pylist()
        ]
        entries = {group: replace(entries_of(host, _of_group(table, group)), group=group) for group in groups}
        parts: dict[Group, list[Buckets]] = {group: [] for group in groups}
        # Day by day, because there are far more rows of histograms than entries.
        for day in range(first, last + 1):
            found = lake.query(f"""
                select {_KEYS}, bucket, cast(sum(ios) as bigint) as ios from buckets where {chosen} and part = 'device'
                and at_unix_ns >= {day * DAY_S * 10**9} and at_unix_ns < {(day + 1) * DAY_S * 10**9}
                group by 1, 2, 3, 4, bucket""")
            for group, of in entries.items():
                parts[group].append(_buckets(of, _of_group(found, group)))
        for group, of in entries.items():
            yield replace(of, histograms=_joined(parts[group]))


def disks_of_lake(lake: Lake) -> dict[tuple[str, str], Disk]:
    """The disks of a lake, by host and their names in its entries."""
    rows = lake.rows(f"""
        select host, {_DISK_ID} as disk_id, max_by(device, start_ns) as device, max(nullif(stable_id, '')) as stable_id,
               max_by(nullif(trim(model), ''), start_ns) as model
        from devices where {DISKS} and coalesce(size_bytes, 1) > 0 group by 1, 2""")
    return {(host, disk_id): Disk(device, stable_id, model) for host, disk_id, device, stable_id, model in rows}


_DISK_ID = "coalesce(nullif(stable_id, ''), device)"
_KEYS = f"""coalesce(trim(model), '') as model, class, {_DISK_ID} as disk_id,
    cast((at_unix_ns - at_unix_ns % {ENTRY_S * 10**9}) / 1e9 as bigint) as ts"""


def _of_group(table: pa.Table, group: Group) -> pa.Table:
    same_model = pc.equal(table["model"], group.model or "")
    return table.filter(pc.and_(same_model, pc.equal(table["class"], group.io_class)))


def _buckets(entries: Entries, table: pa.Table) -> Buckets:
    """Histograms with the indexes of their entries."""
    known = table.filter(pc.and_(pc.is_valid(table["ts"]), pc.is_in(table["disk_id"], pa.array(entries.names, pa.string()))))
    device = np.asarray(pc.index_in(known["disk_id"], pa.array(entries.names, pa.string())).to_numpy(), dtype=np.int64)
    # A key of device and time. Times are seconds since the epoch, below 2^40.
    key = (entries.device << 40) + entries.time_s
    order = np.argsort(key)
    wanted = (device << 40) + np.asarray(known["ts"].to_numpy(), dtype=np.int64)
    place = np.minimum(np.searchsorted(key, wanted, sorter=order), len(key) - 1)
    entry = order[place]
    same = key[entry] == wanted
    bucket, ios = (np.asarray(known[name].to_numpy(), dtype=np.int64) for name in ("bucket", "ios"))
    return Buckets(entry[same].astype(np.int32), bucket[same].astype(np.int16), ios[same].astype(np.int32))


def _joined(parts: list[Buckets]) -> Buckets | None:
    """The histograms of all days; nothing if the rollups have none."""
    joined = Buckets(*(np.concatenate([getattr(p, name) for p in parts]) for name in ("entry", "bucket", "ios")))
    return joined if len(joined.entry) else None


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
