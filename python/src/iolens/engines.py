"""The engines that run SQL over a lake. Each provides the same raw relations; the views and queries are shared SQL.

Raw relations are `raw_TABLE` with `host` and `start_ns` before the table's columns, `raw_devices`, and `raw_buckets`, the
histograms of the rollups, one bucket per row. `nth_largest` is a function. Only lists have different syntax in the engines.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa
import pyarrow.dataset as pa_dataset
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from .compacted import DIRECTORY, MANIFEST, PEAKS, SUMS, Compacted, File, Manifest, day_of, device_row, host_of, parse
from .duck import ask, compacted_sql, connect, duck_type, empty_sql, quoted, select_sql
from .errors import IolensError
from .meta import parse_meta
from .questions import MINUTE_NS, P99_RANK_MAX
from .tables import DEVICES, LAKE_TABLES, Table

ARROW = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "array<int>": pa.list_(pa.int32()),
}

SUMS_ARROW = {**ARROW, "array<bigint>": pa.list_(pa.int64())}

# Footers that are read concurrently; an object store serves many requests at once.
READERS = 16

# Tasks that list the directories of a lake on Spark.
LISTING_TASKS = 16

_BUCKET_KEYS = "host, start_ns, step_s, at_ns, dev, class"


# What an engine can create, by name.
RAW = {f"raw_{t.directory}": t for t in (*LAKE_TABLES, DEVICES)}
ROLLUP = RAW["raw_rollup"]
RAW_BUCKETS = "raw_buckets"
# The rollups for sums over whole recordings, and their histograms, one bucket per row. Those of an hour are used if the result
# is the same.
RAW_LONG = "raw_rollup_long"
RAW_LONG_BUCKETS = "raw_buckets_long"
# The minutes of class `all` that can determine a day's percentiles; of compacted recordings only some of them.
RAW_PEAKS = "raw_rollup_peaks"


@dataclass(frozen=True)
class Long:
    """The files of the rollups for sums over whole recordings.

    Of the compacted recordings (host and start), the rows of a minute are read for those in `by_minutes`, the rows of an hour
    for `by_hours`, and their sums for `by_sums`.
    """

    hours: list[str]
    minutes: list[str]
    sums: list[str]
    compacted_hours: list[File]
    compacted_minutes: list[File]
    by_minutes: set[tuple[str, int]]
    by_hours: set[tuple[str, int]]
    by_sums: set[tuple[str, int]]


@dataclass(frozen=True)
class MinuteFiles:
    """The files of a day's percentiles: of the compacted recordings all minutes (`by_minutes`), or `by_peaks`."""

    own: list[str]
    compacted: list[File]
    peaks: list[str]
    by_minutes: set[tuple[str, int]]
    by_peaks: set[tuple[str, int]]


class Engine(Protocol):
    """The operations that a lake needs from an engine.

    `largest`: SQL for a list of the largest values of {}, at least as many as a day's 99th percentile needs.
    """

    largest: str

    def make_raw(self, table: Table) -> None:
        """Creates the raw relation of a table."""

    def make_long(self) -> None:
        """Creates `raw_rollup_long` of the files that the root has now."""

    def make_peaks(self) -> None:
        """Creates `raw_rollup_peaks` of the files that the root has now."""

    def make_buckets(self, name: str, source: str) -> None:
        """Creates the relation `name`, the histograms of `source` with one bucket per row."""

    def define(self, name: str, sql: str) -> None:
        """Creates the view `name`."""

    def query(self, sql: str) -> pa.Table:
        """The rows of `sql`."""

    def relation(self, sql: str) -> Any:
        """The engine's own type of result: a DuckDB relation, a Spark data frame."""

    def may_be_damage(self, error: Exception) -> bool:
        """Whether an unreadable file may have caused the error."""

    def close(self) -> None:
        """Releases the engine's resources."""


class Files:
    """The files of a recording root, in a directory or in an object store."""

    def __init__(self, root: str) -> None:
        self.is_local = "://" not in root
        if self.is_local:
            self.root = str(Path(root))
            self.fs: pa_fs.FileSystem = pa_fs.LocalFileSystem()
            if not Path(root).is_dir():
                raise IolensError(f"{root} is no directory: a recording root holds host=NAME/start_ns=UNIXNS/")
        else:
            try:
                self.fs, self.root = pa_fs.FileSystem.from_uri(root)
            except (pa.ArrowInvalid, OSError) as e:
                raise IolensError(f"{root}: {e}") from e
        # Files that are excluded.
        self.damaged: set[str] = set()
        self.look()
        if not self.recordings and not self.compacted:
            raise IolensError(f"{root} holds no recordings host=NAME/start_ns=UNIXNS/")

    def look(self) -> None:
        """Lists the recordings again, and which of them are compacted."""
        # The compacted files are listed first, so that a recording that is compacted meanwhile is still read from its own
        # files.
        self.compacted = Compacted(self._manifests(), self.damaged)
        # The directories of each recording.
        self.tables: dict[str, frozenset[str]] = {}
        self.recordings = self._recordings()

    def _manifests(self) -> list[tuple[str, str, Manifest]]:
        """Host, path and manifest of each host with compacted days."""
        place = f"{self.root}/{DIRECTORY}"
        if not self._is_directory(place):
            return []
        paths = [f"{place}/{name}" for name in self._directories(place, "host=")]
        if self.is_local:
            texts = [_text(f"{path}/{MANIFEST}") for path in paths]
        else:
            with ThreadPoolExecutor(READERS) as pool:
                texts = list(pool.map(self._stored_text, (f"{path}/{MANIFEST}" for path in paths)))
        found = []
        for path, text in zip(paths, texts, strict=True):
            if text is None:
                continue
            try:
                found.append((host_of(path.rpartition("/")[2]), path, parse(text)))
            except ValueError as e:
                warnings.warn(f"{path}/{MANIFEST}: {e}; its recordings are read as they are", stacklevel=5)
        return found

    def _is_directory(self, path: str) -> bool:
        if self.is_local:
            return Path(path).is_dir() and not Path(path).is_symlink()
        return bool(self.fs.get_file_info(path).type == pa_fs.FileType.Directory)

    def _stored_text(self, path: str) -> str | None:
        try:
            with self.fs.open_input_stream(path) as stream:
                return str(stream.read().decode())
        except FileNotFoundError:
            return None

    def _directories(self, path: str, prefix: str) -> list[str]:
        if self.is_local:
            names = (e.name for e in os.scandir(path) if e.is_dir(follow_symlinks=False))
        else:
            infos = self.fs.get_file_info(pa_fs.FileSelector(path))
            names = (i.base_name for i in infos if i.type == pa_fs.FileType.Directory)
        return sorted(name for name in names if name.startswith(prefix))

    def _recordings(self) -> list[tuple[str, int, str]]:
        """Host, start and path of each."""
        found = []
        compacted = self.compacted.starts()
        known = {t.directory for t in RAW.values()}
        try:
            for directory in self._directories(self.root, "host="):
                host = host_of(directory)
                for start in self._directories(f"{self.root}/{directory}", "start_ns="):
                    text = start.removeprefix("start_ns=")
                    if text.isdigit():
                        path = f"{self.root}/{directory}/{start}"
                        found.append((host, int(text), path))
                        tables = compacted.pop((host, int(text)), None)
                        if tables is None or not self.compacted.knows(host, int(text), known):
                            # Tables that the compaction did not know are read from the recording's own files.
                            self.tables[path] = frozenset(self._directories(path, "")).union(directories(tables or ()))
                        else:
                            self.tables[path] = directories(tables)
        except OSError as e:
            raise IolensError(f"{self.root}: {e}") from e
        # Recordings of which only the compacted rows exist.
        self.gone = compacted
        return found

    @property
    def starts(self) -> dict[tuple[str, int], frozenset[str]]:
        """The tables of each recording, including those of which only the compacted rows exist."""
        found = {(host, start): self.tables[path] for host, start, path in self.recordings}
        return {**found, **{key: directories(keys) for key, keys in self.gone.items()}}

    def of(self, table: Table) -> list[str]:
        """The files of a table, of all uncompacted recordings; for a local root the glob pattern that matches them."""
        if self.is_local and not self.compacted and not self.has_damaged(table):
            # A pattern would match nothing in an empty directory, which is an error.
            some = any(next(Path(path, table.directory).glob("*.parquet"), None) for path in self.having(table))
            return [f"{self.root}/host=*/start_ns=*/{table.directory}/*.parquet"] if some else []
        return self._each(table)

    def having(self, table: Table) -> list[str]:
        """The recordings whose own files of a table are read."""
        covered = self.compacted.covered(table.directory)
        return [
            path
            for host, start, path in self.recordings
            if table.directory in self.tables[path] and (host, start) not in covered
        ]

    def _each(self, table: Table) -> list[str]:
        """The files of a table, listed individually."""
        directories = (f"{path}/{table.directory}" for path in self.having(table))
        return [f"{directory}/{name}" for directory in directories for name in self._parquet(directory)]

    def of_compacted(self, table: Table) -> list[File]:
        """The compacted files of a table."""
        return self.compacted.files(table.directory)

    def of_peaks(self) -> MinuteFiles:
        """The files of rollups of a minute, and the compacted files of peaks."""
        own = [file for file in self._each(ROLLUP) if _step(file) in (_MINUTE, "")]
        covered = self.compacted.covered(ROLLUP.directory)
        files, spans = self.compacted.peaks()
        by_peaks = self._by_peaks({key: span for key, span in spans.items() if key in covered})
        by_minutes = covered - by_peaks
        days = {(host, day_of(start)) for host, start in by_minutes}
        compacted = [f for f in self.compacted.files(ROLLUP.directory, 60) if (f.host, f.day) in days]
        return MinuteFiles(own, compacted, files if by_peaks else [], by_minutes, by_peaks)

    def _by_peaks(self, spans: dict[tuple[str, int], list[int]]) -> set[tuple[str, int]]:
        """The recordings for which peaks are sufficient: those that share at most their first and last minutes with others.

        In a minute that two recordings of a host share, the device's total is the sum of both. Such a minute can be among a
        day's largest although it is in neither recording.
        """
        of_host: dict[str, list[tuple[int, float, int]]] = {}
        for (host, start), tables in self.starts.items():
            span = spans.get((host, start))
            if span is None and ROLLUP.directory in tables:
                # The length of this one is unknown.
                span_from, span_to = start - start % MINUTE_NS, math.inf
            elif span:
                span_from, span_to = span
            else:
                continue
            of_host.setdefault(host, []).append((span_from, span_to, start))
        found = {key for key, span in spans.items() if not span}
        for host, recordings in of_host.items():
            alone: set[tuple[str, int]] = set()
            reached = -math.inf
            for span_from, span_to, start in sorted(recordings):
                if span_from < reached:
                    # After a recording of unknown length all are read by their minutes, and so is a host with two recordings at
                    # the same time.
                    alone = alone if reached == math.inf else set()
                    break
                reached = span_to
                if span_to < math.inf:
                    alone.add((host, start))
            found |= alone
        return found

    def has_damaged(self, table: Table) -> bool:
        """Whether a file of the table is excluded."""
        return any(file.rpartition("/")[0].endswith(f"/{table.directory}") for file in self.damaged)

    def leave_out_damaged(self, tables: Iterable[Table]) -> bool:
        """Excludes the files without a readable footer, with a warning for each. Returns whether there were new ones."""
        files = [file for table in sorted(tables, key=lambda t: t.directory) for file in self._each(table)]
        compacted = [file.path for table in tables for file in self.of_compacted(table)]
        if ROLLUP in tables:
            compacted += self.compacted.sums()[0] + self.compacted.peaks()[0]
        with ThreadPoolExecutor(READERS) as pool:
            reasons = list(pool.map(self._why_unreadable, files + compacted))
        found = [(file, why) for file, why in zip(files + compacted, reasons, strict=True) if why is not None]
        for file, why in found:
            instead = "; the recordings are read as they are" if file in compacted else ""
            warnings.warn(f"{file} is damaged and left out: {why}{instead}", stacklevel=5)
            self.damaged.add(file)
        return bool(found)

    def _why_unreadable(self, file: str) -> str | None:
        try:
            pq.read_metadata(file, filesystem=self.fs)
        except FileNotFoundError:
            # Old files may be removed at any time.
            return None
        except (OSError, ValueError) as e:
            return " ".join(str(e).split())
        return None

    def of_long(self) -> Long:
        """The files of rollups of an hour, and those of a minute for the recordings that have no hours.

        The first and last time that a host was seen are known to the minute. So its oldest and newest recording count as having
        none.
        """
        covered = self.compacted.covered(ROLLUP.directory)
        hourly = {key for key, keys in self.compacted.starts().items() if f"{ROLLUP.directory}/3600" in keys}
        files_of_sums, summed = self.compacted.sums()
        found = Long([], [], files_of_sums, [], [], set(), set(), set())
        for recordings in self._rollups_by_host(covered).values():
            for number, (key, files) in enumerate(recordings):
                inner = 0 < number < len(recordings) - 1
                if key not in covered:
                    hours = [f for f in files if _step(f) == _HOUR]
                    if inner and hours:
                        found.hours.extend(hours)
                    else:
                        found.minutes.extend(f for f in files if _step(f) in (_MINUTE, ""))
                elif inner and key in summed:
                    found.by_sums.add(key)
                elif inner and key in hourly:
                    found.by_hours.add(key)
                else:
                    found.by_minutes.add(key)

        # The compacted files of the days on which one of these recordings begins.
        for keys, step_s, to in (
            (found.by_hours, 3600, found.compacted_hours),
            (found.by_minutes, 60, found.compacted_minutes),
        ):
            days = {(host, day_of(start)) for host, start in keys}
            to.extend(f for f in self.compacted.files(ROLLUP.directory, step_s) if (f.host, f.day) in days)
        return found

    def _rollups_by_host(self, covered: set[tuple[str, int]]) -> dict[str, list[tuple[tuple[str, int], list[str]]]]:
        """The recordings of each host that have rollups, the oldest first, with their files; no files of `covered` ones."""
        paths = {(host, start): path for host, start, path in self.recordings}
        of_host: dict[str, list[tuple[tuple[str, int], list[str]]]] = {}
        for key, tables in sorted(self.starts.items()):
            if ROLLUP.directory not in tables:
                continue
            files: list[str] = []
            if key not in covered:
                directory = f"{paths[key]}/rollup"
                files = [f"{directory}/{name}" for name in self._parquet(directory)]
                if not files:
                    continue
            of_host.setdefault(key[0], []).append((key, files))
        return of_host

    def _parquet(self, path: str) -> list[str]:
        """The names of the files in a table's directory, without damaged ones."""
        if self.is_local:
            try:
                names = [e.name for e in os.scandir(path)]
            except FileNotFoundError:
                # Old files may be removed at any time.
                names = []
        else:
            names = [i.base_name for i in self.fs.get_file_info(pa_fs.FileSelector(path)) if i.is_file]
        return sorted(name for name in names if name.endswith(".parquet") and f"{path}/{name}" not in self.damaged)

    def meta_texts(self, path: str) -> list[tuple[str, str]]:
        """`meta.json` and its copy, if they exist."""
        texts = []
        for name in ("meta.json", "meta.json.bak"):
            if self.fs.get_file_info(f"{path}/{name}").is_file:
                with self.fs.open_input_stream(f"{path}/{name}") as stream:
                    texts.append((f"{path}/{name}", stream.read().decode(errors="replace")))
        return texts

    def devices_of_meta(self) -> pa.Table:
        """The devices of recordings without a table of devices; of compacted recordings those in their manifests."""
        rows = []
        covered = self.compacted.covered(DEVICES.directory)
        for host, start_ns, path in self.recordings:
            if DEVICES.directory in self.tables[path] or (host, start_ns) in covered:
                continue
            try:
                devices = parse_meta(self.meta_texts(path)).devices
            except IolensError as e:
                warnings.warn(f"{path}: its devices have no names: {e}", stacklevel=7)
                continue
            rows += [{"host": host, "start_ns": start_ns, **device_row(d)} for d in devices]
        rows += self.compacted.devices()
        return pa.Table.from_pylist(rows, schema=arrow_schema(DEVICES))


_HOUR, _MINUTE = "3600s", "60s"


def _step(file: str) -> str:
    """The step of a file of rollups, `60s` of `60s-000001.parquet`; empty if it is not in the name."""
    step, dash, _ = file.rpartition("/")[2].partition("-")
    return step if dash and step in (_HOUR, _MINUTE, "1s") else ""


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text(errors="replace")
    except FileNotFoundError:
        return None


def directories(keys: Iterable[str]) -> frozenset[str]:
    """The tables that a manifest names, without their steps."""
    return frozenset(key.partition("/")[0] for key in keys)


def arrow_schema(table: Table) -> pa.Schema:
    """The types of a table with `host` and `start_ns`."""
    columns = [pa.field("host", pa.string()), pa.field("start_ns", pa.int64())]
    return pa.schema(columns + [pa.field(c.name, ARROW[c.sql]) for c in table.columns])


def _cast(table: Table) -> str:
    return ", ".join(f'cast("{c.name}" as {duck_type(c.sql)}) as "{c.name}"' for c in table.columns)


def _without_rows(table: Table) -> str:
    return f"select cast(null as varchar) as host, cast(null as bigint) as start_ns, * from ({empty_sql(table)})"


def _among(keys: str) -> str:
    """Whether a row of `r` belongs to one of these recordings."""
    return f"exists (from {keys} k where k.host = r.host and k.start_ns = r.start_ns)"


class DuckEngine:
    """DuckDB inside this process. Files in an object store are read by pyarrow, with its credentials and options."""

    largest = f"max({{}}, {P99_RANK_MAX})"

    def __init__(self, files: Files) -> None:
        self.connection = connect()
        # Complete files never change, and a query reads the footers of all files several times.
        self.connection.execute("set parquet_metadata_cache = true")
        # Null beyond the list's end, as on Spark.
        self.connection.execute("create macro nth_largest(a, i) as list_reverse_sort(a)[i]")
        self.files = files

    def make_raw(self, table: Table) -> None:
        """Creates the raw relation of a table."""
        sql = self._source(table)
        if table is DEVICES:
            known = self.files.devices_of_meta()
            self.connection.register("devices_of_meta", known)
            sql += f" union all select {', '.join(known.column_names)} from devices_of_meta"
        self.define(f"raw_{table.directory}", sql)

    def make_long(self) -> None:
        """Creates `raw_rollup_long` of the files that the root has now."""
        self.files.look()
        found = self.files.of_long()
        for name, keys in (
            ("long_by_minutes", found.by_minutes),
            ("long_by_hours", found.by_hours),
            ("long_by_sums", found.by_sums),
        ):
            self._register_keys(name, keys)
        selects = [
            f"select * from ({self._read(ROLLUP, files, f'long_{s}')}) where step_s = {s}"
            for s, files in ((3600, found.hours), (60, found.minutes))
            if files
        ]
        selects += [
            f"select * from ({self._read_compacted(ROLLUP, files, f'compacted_{s}')}) r where step_s = {s} and {_among(keys)}"
            for s, files, keys in (
                (3600, found.compacted_hours, "long_by_hours"),
                (60, found.compacted_minutes, "long_by_minutes"),
            )
            if files
        ]
        if found.sums:
            selects.append(f"select * from ({self._read_sums(found.sums)}) r where {_among('long_by_sums')}")
        self.define(RAW_LONG, " union all ".join(selects) or _without_rows(ROLLUP))

    def make_peaks(self) -> None:
        """Creates `raw_rollup_peaks` of the files that the root has now."""
        self.files.look()
        found = self.files.of_peaks()
        self._register_keys("peaks_by_minutes", found.by_minutes)
        self._register_keys("peaks_by_peaks", found.by_peaks)
        columns = ", ".join(("host", "start_ns", *(name for name, _ in PEAKS)))
        rows = f"select {columns} from ({{}}) r where step_s = 60 and class = 'all'"
        selects = [rows.format(self._read(ROLLUP, found.own, "own_minutes"))] if found.own else []
        if found.compacted:
            minutes = self._read_compacted(ROLLUP, found.compacted, "compacted_minutes")
            selects.append(f"{rows.format(minutes)} and {_among('peaks_by_minutes')}")
        if found.peaks:
            peaks = self._of_hosts("peaks", found.peaks, PEAKS)
            selects.append(f"select {columns} from {peaks} r where {_among('peaks_by_peaks')}")
        self.define(RAW_PEAKS, " union all ".join(selects) or f"select {columns} from ({_without_rows(ROLLUP)})")

    def make_buckets(self, name: str, source: str) -> None:
        """Creates the relation `name`, the histograms of `source` with one bucket per row."""
        parts = " union all ".join(
            f"select {_BUCKET_KEYS}, '{p}' as part, unnest({p}_buckets) as bucket, unnest({p}_counts) as ios from {source}"
            for p in ("total", "device")
        )
        self.define(name, parts)

    def _source(self, table: Table) -> str:
        found = self.files.of(table)
        selects = [self._read(table, found, f"dataset_{table.directory}")] if found else []
        # The manifests have the devices of compacted recordings.
        compacted = self.files.of_compacted(table) if table is not DEVICES else []
        selects += [self._read_compacted(table, compacted, f"compacted_{table.directory}")] if compacted else []
        return " union all ".join(selects) or _without_rows(table)

    def _read_compacted(self, table: Table, found: list[File], name: str) -> str:
        files = self.files
        is_uniform = files.compacted.has_columns(table.directory, table.names)
        if files.is_local:
            return compacted_sql(self.connection, table, [f.path for f in found], is_uniform)
        keys = [("host", pa.string()), ("day", pa.string())]
        self._register(table, [f.path for f in found], name, keys, f"{files.root}/{DIRECTORY}")
        return f"select host, start_ns, {_cast(table)} from {name}"

    def _read_sums(self, files: list[str]) -> str:
        """Sums as rows of rollups: in a slot without length, at the start of the first slot."""
        source = self._of_hosts("sums", files, SUMS)
        have = {name: f'"{name}"' for name, _ in SUMS}
        cells = [f'{have.get(c.name, "0" if c.name == "step_s" else "null")} as "{c.name}"' for c in ROLLUP.columns]
        return f"select host, start_ns, {', '.join(cells)} from {source}"

    def _of_hosts(self, name: str, files: list[str], columns: tuple[tuple[str, str], ...]) -> str:
        """The source for compacted files of whole hosts."""
        if self.files.is_local:
            names = ", ".join(quoted(file) for file in files)
            return f"read_parquet([{names}], hive_partitioning = true, hive_types = {{'host': varchar}})"
        fields = [("host", pa.string()), ("start_ns", pa.int64()), *((column, SUMS_ARROW[sql]) for column, sql in columns)]
        self._dataset(name, files, pa.schema(fields), [("host", pa.string())], f"{self.files.root}/{DIRECTORY}")
        return name

    def _register_keys(self, name: str, keys: set[tuple[str, int]]) -> None:
        """Creates `name` of recordings."""
        columns = [pa.array([host for host, _ in keys], pa.string()), pa.array([start for _, start in keys], pa.int64())]
        self.connection.register(name, pa.table(columns, names=["host", "start_ns"]))

    def _register(self, table: Table, found: list[str], name: str, keys: list[tuple[str, pa.DataType]], base: str) -> None:
        """Creates `name` of files in an object store; `keys` are those of their directories below `base`."""
        schema = arrow_schema(table)
        for key, kind in keys:
            schema = schema if key in schema.names else schema.append(pa.field(key, kind))
        self._dataset(name, found, schema, keys, base)

    def _dataset(self, name: str, found: list[str], schema: pa.Schema, keys: list[tuple[str, pa.DataType]], base: str) -> None:
        data = pa_dataset.dataset(
            found,
            schema=schema,
            format="parquet",
            filesystem=self.files.fs,
            partitioning=pa_dataset.partitioning(pa.schema(keys), flavor="hive"),
            partition_base_dir=base,
        )
        self.connection.register(name, data)

    def _read(self, table: Table, found: list[str], name: str) -> str:
        files = self.files
        if files.is_local:
            return select_sql(self.connection, table, found, hive=True)
        self._register(table, found, name, [("host", pa.string()), ("start_ns", pa.int64())], files.root)
        return f"select host, start_ns, {_cast(table)} from {name}"

    def define(self, name: str, sql: str) -> None:
        """Creates the view `name`."""
        self.connection.execute(f"create or replace view {name} as {sql}")

    def query(self, sql: str) -> pa.Table:
        """The rows of `sql`."""
        try:
            return ask(self.connection, sql).to_arrow_table()
        except duckdb.Error as e:
            raise IolensError(" ".join(str(e).split())) from e

    def relation(self, sql: str) -> duckdb.DuckDBPyRelation:
        """A DuckDB relation."""
        return ask(self.connection, sql)

    def may_be_damage(self, error: Exception) -> bool:
        """Whether an unreadable file may have caused the error."""
        cause = error.__cause__ if isinstance(error, IolensError) else error
        return isinstance(cause, (duckdb.IOException, duckdb.InvalidInputException, duckdb.SerializationException))

    def close(self) -> None:
        """Closes the database."""
        self.connection.close()


class SparkEngine:
    """Spark: a session, or the master of a cluster (`spark://...`, `local[2]`)."""

    largest = "array_agg({})"

    def __init__(self, root: str, files: Files, spark: Any) -> None:
        self.spark = _session(spark)
        self.spark.sql(
            "create or replace temporary function utc(unix_ns bigint) returns timestamp_ntz "
            "return timestampadd(microsecond, unix_ns div 1000, timestamp_ntz'1970-01-01 00:00:00')"
        )
        self.spark.sql(
            "create or replace temporary function nth_largest(a array<double>, i int) returns double "
            "return try_element_at(sort_array(a, false), i)"
        )
        self.root = root.rstrip("/")
        self.files = files

    def make_raw(self, table: Table) -> None:
        """Creates the raw relation of a table."""
        if table is DEVICES:
            self._make_devices()
            return
        frame = self._read(table, self._directories(table))
        compacted = self.files.of_compacted(table)
        if compacted:
            frame = frame.union(self._read_compacted(table, compacted))
        frame.createOrReplaceTempView(f"raw_{table.directory}")

    def _directories(self, table: Table) -> list[str]:
        """Glob patterns for the directories of an uncompacted table. Spark lists those of several hosts in parallel."""
        if not self.files.of(table):
            return []
        if self.files.has_damaged(table):
            return [self.root + file.removeprefix(self.files.root) for file in self.files.of(table)]
        paths = self.files.having(table)
        if self.files.compacted:
            return [f"{self.root}{path.removeprefix(self.files.root)}/{table.directory}" for path in paths]
        hosts = dict.fromkeys(os.path.dirname(path) for path in paths)  # noqa: PTH120
        return [f"{self.root}{host.removeprefix(self.files.root)}/start_ns=*/{table.directory}" for host in hosts]

    def _make_devices(self) -> None:
        """Reads the devices with DuckDB: for a few rows of each recording a Spark task costs ten times as much."""
        local = DuckEngine(self.files)
        local.make_raw(DEVICES)
        rows = local.query("select * from raw_devices")
        self.spark.createDataFrame(rows, self._ddl(DEVICES)).createOrReplaceTempView("raw_devices")

    def make_long(self) -> None:
        """Creates `raw_rollup_long` of the files that the root has now."""
        self.files.look()
        found = self.files.of_long()
        frame = self._read(ROLLUP, self._urls(found.hours)).where("step_s = 3600")
        frame = frame.union(self._read(ROLLUP, self._urls(found.minutes)).where("step_s = 60"))
        for step_s, files, chosen in (
            (3600, found.compacted_hours, found.by_hours),
            (60, found.compacted_minutes, found.by_minutes),
        ):
            if files:
                rows = self._read_compacted(ROLLUP, files).where(f"step_s = {step_s}")
                frame = frame.union(self._among(rows, chosen))
        if found.sums:
            frame = frame.union(self._among(self._read_sums(found.sums), found.by_sums))
        frame.createOrReplaceTempView(RAW_LONG)

    def make_peaks(self) -> None:
        """Creates `raw_rollup_peaks` of the files that the root has now."""
        self.files.look()
        found = self.files.of_peaks()
        columns = ["host", "start_ns", *(name for name, _ in PEAKS)]
        is_minute = "step_s = 60 and class = 'all'"
        frame = self._read(ROLLUP, self._urls(found.own)).where(is_minute).select(*columns)
        if found.compacted:
            rows = self._read_compacted(ROLLUP, found.compacted).where(is_minute).select(*columns)
            frame = frame.union(self._among(rows, found.by_minutes))
        if found.peaks:
            peaks = self._of_hosts(found.peaks, PEAKS).select(*columns)
            frame = frame.union(self._among(peaks, found.by_peaks))
        frame.createOrReplaceTempView(RAW_PEAKS)

    def _among(self, rows: Any, keys: set[tuple[str, int]]) -> Any:
        """The rows that belong to one of these recordings."""
        chosen = self.spark.createDataFrame(sorted(keys), "host string, start_ns bigint")
        return rows.join(chosen, ["host", "start_ns"], "left_semi").select(*rows.columns)

    def _urls(self, files: list[str]) -> list[str]:
        return [self.root + file.removeprefix(self.files.root) for file in files]

    def _read_sums(self, files: list[str]) -> Any:
        """Sums as rows of rollups: in a slot without length, at the start of the first slot."""
        frame = self._of_hosts(files, SUMS)
        have = {name for name, _ in SUMS}
        cells = []
        for c in ROLLUP.columns:
            kind = "array<bigint>" if c.name.endswith("_counts") else c.sql
            cell = f"`{c.name}`" if c.name in have else "0" if c.name == "step_s" else "null"
            cells.append(f"cast({cell} as {kind}) as `{c.name}`")
        return frame.selectExpr("host", "start_ns", *cells)

    def _of_hosts(self, files: list[str], columns: tuple[tuple[str, str], ...]) -> Any:
        """Compacted files of whole hosts."""
        # `_ddl` has integers of the widest type.
        wide = ", ".join(f"`{name}` {'bigint' if sql == 'int' else sql}" for name, sql in columns)
        with self._few_listing_tasks():
            reader = self.spark.read.schema(f"host string, start_ns bigint, {wide}")
            return reader.option("basePath", f"{self.root}/{DIRECTORY}").parquet(*self._urls(files))

    def _read_compacted(self, table: Table, files: list[File]) -> Any:
        ddl = f"{self._ddl(table)}, day string"
        with self._few_listing_tasks():
            paths = self._urls([file.path for file in files])
            frame = self.spark.read.schema(ddl).option("basePath", f"{self.root}/{DIRECTORY}").parquet(*paths)
        return frame.selectExpr("host", "start_ns", *(f"cast(`{c.name}` as {c.sql}) as `{c.name}`" for c in table.columns))

    def _read(self, table: Table, paths: list[str]) -> Any:
        ddl = self._ddl(table)
        if paths:
            with self._few_listing_tasks():
                frame = self.spark.read.schema(ddl).option("basePath", self.root).parquet(*paths)
        else:
            frame = self.spark.createDataFrame([], ddl)
        columns = [f"cast(`{c.name}` as {c.sql}) as `{c.name}`" for c in table.columns]
        return frame.selectExpr("host", "start_ns", *columns)

    @contextmanager
    def _few_listing_tasks(self) -> Iterator[None]:
        """Lists directories in a few tasks. Spark itself runs a task per directory, which costs more than the listing."""
        key = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
        before = self.spark.conf.get(key, None)
        self.spark.conf.set(key, LISTING_TASKS)
        try:
            yield
        finally:
            if before is None:
                self.spark.conf.unset(key)
            else:
                self.spark.conf.set(key, before)

    def make_buckets(self, name: str, source: str) -> None:
        """Creates the relation `name`, the histograms of `source` with one bucket per row."""
        parts = " union all ".join(
            f"select {_BUCKET_KEYS}, '{p}' as part, pair.{p}_buckets as bucket, pair.{p}_counts as ios from "
            f"(select {_BUCKET_KEYS}, explode(arrays_zip({p}_buckets, {p}_counts)) as pair from {source})"
            for p in ("total", "device")
        )
        self.define(name, parts)

    @staticmethod
    def _ddl(table: Table) -> str:
        """Integers of the widest type: a file may have any width, and Spark widens but does not narrow."""
        wide = {"int": "bigint"}
        return ", ".join(["host string", "start_ns bigint", *(f"`{c.name}` {wide.get(c.sql, c.sql)}" for c in table.columns)])

    def define(self, name: str, sql: str) -> None:
        """Creates the view `name`."""
        self.spark.sql(f"create or replace temporary view {name} as {sql}")

    def query(self, sql: str) -> pa.Table:
        """The rows of `sql`."""
        frame = self.spark.sql(sql)
        names = frame.columns
        rows = [dict(zip(names, row, strict=True)) for row in frame.collect()]
        return pa.Table.from_pylist(rows) if rows else pa.table({name: pa.array([], pa.null()) for name in names})

    def relation(self, sql: str) -> Any:
        """A Spark data frame."""
        return self.spark.sql(sql)

    def may_be_damage(self, error: Exception) -> bool:
        """Whether an unreadable file may have caused the error."""
        # Spark wraps executor errors in many exception types; the text of all of them contains these names.
        return "FAILED_READ_FILE" in str(error) or "is not a Parquet file" in str(error) or "parquet" in str(error).lower()

    def close(self) -> None:
        """Drops the views. The Spark context belongs to the user."""
        for view in self.spark.catalog.listTables():
            if view.isTemporary:
                self.spark.catalog.dropTempView(view.name)


def _session(spark: Any) -> Any:
    """A separate session: view names do not collide with the user's or another lake's. Keeps the settings."""
    if isinstance(spark, str):
        try:
            from pyspark.sql import SparkSession
        except ImportError as e:
            raise IolensError("Spark is not installed: pip install 'iolens[spark]'") from e
        spark = SparkSession.builder.master(spark).appName("iolens").getOrCreate()
    own = spark.newSession()
    for row in spark.sql("set").collect():
        if spark.conf.isModifiable(row["key"]):
            own.conf.set(row["key"], row["value"])
    return own
