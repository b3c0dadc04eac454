"""The engines that answer SQL over a lake. Each gives the same raw relations; the views and questions are common text.

Raw relations are `raw_TABLE` with `host` and `start_ns` before the table's columns, `raw_devices`, and `raw_buckets`, the
histograms of the rollups row by row; `nth_largest` is a function. Lists are the one thing that the engines word differently.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.dataset as pa_dataset
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from .duck import connect, duck_type, empty_sql, select_sql
from .errors import IolensError
from .meta import Device, parse_meta
from .tables import LAKE_TABLES, Column, Table

# The table `devices`; `dev` joins it with the others.
DEVICES = Table(
    "devices",
    "devices",
    "added_ns",
    tuple(
        Column(name, sql)
        for name, sql in (
            ("dev", "int"),
            ("name", "string"),
            ("kind", "string"),
            ("stable_id", "string"),
            ("model", "string"),
            ("size_bytes", "bigint"),
            ("rotational", "int"),
            ("added_ns", "bigint"),
            ("removed_ns", "bigint"),
        )
    ),
)

_ARROW = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "array<int>": pa.list_(pa.int32()),
}

# Footers read at a time, of which an object store answers many at once.
READERS = 16

# Tasks that list the directories of a lake on Spark.
LISTING_TASKS = 16

_BUCKET_KEYS = "host, start_ns, step_s, at_ns, dev, class"


# What an engine can make, by name.
RAW = {f"raw_{t.directory}": t for t in (*LAKE_TABLES, DEVICES)}
ROLLUP = RAW["raw_rollup"]
RAW_BUCKETS = "raw_buckets"
# The rollups for sums over whole recordings, and their histograms row by row: of an hour where that gives the same answer.
RAW_LONG = "raw_rollup_long"
RAW_LONG_BUCKETS = "raw_buckets_long"


class Engine(Protocol):
    """What a lake needs of an engine."""

    def make_raw(self, table: Table) -> None:
        """Makes the raw relation of a table."""

    def make_long(self) -> None:
        """Makes `raw_rollup_long` of the files that the root has now."""

    def make_buckets(self, name: str, source: str) -> None:
        """Makes the relation `name`, the histograms of `source` row by row."""

    def define(self, name: str, sql: str) -> None:
        """Makes the view `name`."""

    def query(self, sql: str) -> pa.Table:
        """The rows of `sql`."""

    def relation(self, sql: str) -> Any:
        """What the engine itself calls the result: a DuckDB relation, a Spark data frame."""

    def may_be_damage(self, error: Exception) -> bool:
        """Whether a file that cannot be read may have caused the error."""

    def close(self) -> None:
        """Gives up what it holds."""


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
        # Files that are left out.
        self.damaged: set[str] = set()
        self.look()
        if not self.recordings:
            raise IolensError(f"{root} holds no recordings host=NAME/start_ns=UNIXNS/")

    def look(self) -> None:
        """Looks again which recordings there are."""
        # The directories of each recording.
        self.tables: dict[str, frozenset[str]] = {}
        self.recordings = self._recordings()

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
        try:
            for host in self._directories(self.root, "host="):
                for start in self._directories(f"{self.root}/{host}", "start_ns="):
                    text = start.removeprefix("start_ns=")
                    if text.isdigit():
                        path = f"{self.root}/{host}/{start}"
                        found.append((unquote(host.removeprefix("host=")), int(text), path))
                        self.tables[path] = frozenset(self._directories(path, ""))
        except OSError as e:
            raise IolensError(f"{self.root}: {e}") from e
        return found

    def of(self, table: Table) -> list[str]:
        """The files of a table, of all recordings; of a local root the pattern that stands for them."""
        if self.is_local and not self.has_damaged(table):
            # An empty directory has no files that a pattern could stand for.
            some = any(next(Path(path, table.directory).glob("*.parquet"), None) for path in self._having(table))
            return [f"{self.root}/host=*/start_ns=*/{table.directory}/*.parquet"] if some else []
        return self._each(table)

    def _having(self, table: Table) -> list[str]:
        return [path for _, _, path in self.recordings if table.directory in self.tables[path]]

    def _each(self, table: Table) -> list[str]:
        """The files of a table one by one."""
        directories = (f"{path}/{table.directory}" for path in self._having(table))
        return [f"{directory}/{name}" for directory in directories for name in self._parquet(directory)]

    def has_damaged(self, table: Table) -> bool:
        """Whether a file of the table is left out."""
        return any(file.rpartition("/")[0].endswith(f"/{table.directory}") for file in self.damaged)

    def leave_out_damaged(self, tables: Iterable[Table]) -> bool:
        """Leaves out, with a warning each, the files without a readable footer. Whether there are such that were not known."""
        files = [file for table in sorted(tables, key=lambda t: t.directory) for file in self._each(table)]
        with ThreadPoolExecutor(READERS) as pool:
            reasons = list(pool.map(self._why_unreadable, files))
        found = [(file, why) for file, why in zip(files, reasons, strict=True) if why is not None]
        for file, why in found:
            warnings.warn(f"{file} is damaged and left out: {why}", stacklevel=5)
            self.damaged.add(file)
        return bool(found)

    def _why_unreadable(self, file: str) -> str | None:
        try:
            pq.read_metadata(file, filesystem=self.fs)
        except FileNotFoundError:
            # What is too old goes at any time.
            return None
        except (OSError, ValueError) as e:
            return " ".join(str(e).split())
        return None

    def of_long(self) -> tuple[list[str], list[str]]:
        """The files of rollups of an hour, and those of a minute for the recordings that have no hours.

        When a host was seen first and last is known to the minute, so its oldest and newest recording count as having none.
        """
        of_host: dict[str, list[list[str]]] = {}
        for host, _, path in self.recordings:
            names = self._parquet(f"{path}/rollup") if "rollup" in self.tables[path] else []
            if names:
                of_host.setdefault(host, []).append([f"{path}/rollup/{name}" for name in names])
        hours: list[str] = []
        minutes: list[str] = []
        for recordings in of_host.values():
            for number, files in enumerate(recordings):
                having = [f for f in files if _step(f) == _HOUR]
                inner = 0 < number < len(recordings) - 1
                hours += having if inner else []
                if not (having and inner):
                    minutes += [f for f in files if _step(f) in (_MINUTE, "")]
        return hours, minutes

    def _parquet(self, path: str) -> list[str]:
        """The names of the files in a table's directory, without damaged ones."""
        if self.is_local:
            try:
                names = [e.name for e in os.scandir(path)]
            except FileNotFoundError:
                # What is too old goes at any time.
                names = []
        else:
            names = [i.base_name for i in self.fs.get_file_info(pa_fs.FileSelector(path)) if i.is_file]
        return sorted(name for name in names if name.endswith(".parquet") and f"{path}/{name}" not in self.damaged)

    def meta_texts(self, path: str) -> list[tuple[str, str]]:
        """`meta.json` and its copy, as far as they are there."""
        texts = []
        for name in ("meta.json", "meta.json.bak"):
            if self.fs.get_file_info(f"{path}/{name}").is_file:
                with self.fs.open_input_stream(f"{path}/{name}") as stream:
                    texts.append((f"{path}/{name}", stream.read().decode(errors="replace")))
        return texts

    def devices_of_meta(self) -> pa.Table:
        """The devices of the recordings that do not have them as a table."""
        rows = []
        for host, start_ns, path in self.recordings:
            if DEVICES.directory in self.tables[path]:
                continue
            try:
                devices = parse_meta(self.meta_texts(path)).devices
            except IolensError as e:
                warnings.warn(f"{path}: its devices have no names: {e}", stacklevel=7)
                continue
            rows += [_device_row(host, start_ns, d) for d in devices]
        return pa.Table.from_pylist(rows, schema=arrow_schema(DEVICES))


_HOUR, _MINUTE = "3600s", "60s"


def _step(file: str) -> str:
    """The step of a file of rollups, `60s` of `60s-000001.parquet`; empty if its name does not say it."""
    step, dash, _ = file.rpartition("/")[2].partition("-")
    return step if dash and step in (_HOUR, _MINUTE, "1s") else ""


def _device_row(host: str, start_ns: int, device: Device) -> dict[str, Any]:
    rotational = None if device.rotational is None else int(device.rotational)
    return {
        "host": host,
        "start_ns": start_ns,
        "dev": device.dev,
        "name": device.name,
        "kind": device.kind,
        "stable_id": device.stable_id or "",
        "model": device.model or "",
        "size_bytes": device.size_bytes,
        "rotational": rotational,
        "added_ns": None,
        "removed_ns": None,
    }


def arrow_schema(table: Table) -> pa.Schema:
    """The types of a table with `host` and `start_ns`."""
    columns = [pa.field("host", pa.string()), pa.field("start_ns", pa.int64())]
    return pa.schema(columns + [pa.field(c.name, _ARROW[c.sql]) for c in table.columns])


def _without_rows(table: Table) -> str:
    return f"select cast(null as varchar) as host, cast(null as bigint) as start_ns, * from ({empty_sql(table)})"


class DuckEngine:
    """DuckDB inside this process. Of an object store the files are read by pyarrow, with its credentials and options."""

    def __init__(self, files: Files) -> None:
        self.connection = connect()
        # Closed files never change, and a question reads the footers of all files several times.
        self.connection.execute("set parquet_metadata_cache = true")
        # Null beyond the list's end, as on Spark.
        self.connection.execute("create macro nth_largest(a, i) as list_reverse_sort(a)[i]")
        self.files = files

    def make_raw(self, table: Table) -> None:
        """Makes the raw relation of a table."""
        sql = self._source(table)
        if table is DEVICES:
            known = self.files.devices_of_meta()
            self.connection.register("devices_of_meta", known)
            sql += f" union all select {', '.join(known.column_names)} from devices_of_meta"
        self.define(f"raw_{table.directory}", sql)

    def make_long(self) -> None:
        """Makes `raw_rollup_long` of the files that the root has now."""
        self.files.look()
        parts = zip(self.files.of_long(), (3600, 60), strict=True)
        selects = [
            f"select * from ({self._read(ROLLUP, files, f'long_{s}')}) where step_s = {s}" for files, s in parts if files
        ]
        self.define(RAW_LONG, " union all ".join(selects) or _without_rows(ROLLUP))

    def make_buckets(self, name: str, source: str) -> None:
        """Makes the relation `name`, the histograms of `source` row by row."""
        parts = " union all ".join(
            f"select {_BUCKET_KEYS}, '{p}' as part, unnest({p}_buckets) as bucket, unnest({p}_counts) as ios from {source}"
            for p in ("total", "device")
        )
        self.define(name, parts)

    def _source(self, table: Table) -> str:
        found = self.files.of(table)
        return self._read(table, found, f"dataset_{table.directory}") if found else _without_rows(table)

    def _read(self, table: Table, found: list[str], name: str) -> str:
        files = self.files
        if files.is_local:
            return select_sql(self.connection, table, found, hive=True)
        partitioning = pa_dataset.partitioning(pa.schema([("host", pa.string()), ("start_ns", pa.int64())]), flavor="hive")
        data = pa_dataset.dataset(
            found,
            schema=arrow_schema(table),
            format="parquet",
            filesystem=files.fs,
            partitioning=partitioning,
            partition_base_dir=files.root,
        )
        self.connection.register(name, data)
        columns = ", ".join(f'cast("{c.name}" as {duck_type(c.sql)}) as "{c.name}"' for c in table.columns)
        return f"select host, start_ns, {columns} from {name}"

    def define(self, name: str, sql: str) -> None:
        """Makes the view `name`."""
        self.connection.execute(f"create or replace view {name} as {sql}")

    def query(self, sql: str) -> pa.Table:
        """The rows of `sql`."""
        try:
            return self.connection.sql(sql).to_arrow_table()
        except duckdb.Error as e:
            raise IolensError(" ".join(str(e).split())) from e

    def relation(self, sql: str) -> duckdb.DuckDBPyRelation:
        """A DuckDB relation."""
        return self.connection.sql(sql)

    def may_be_damage(self, error: Exception) -> bool:
        """Whether a file that cannot be read may have caused the error."""
        cause = error.__cause__ if isinstance(error, IolensError) else error
        return isinstance(cause, (duckdb.IOException, duckdb.InvalidInputException, duckdb.SerializationException))

    def close(self) -> None:
        """Closes the database."""
        self.connection.close()


class SparkEngine:
    """Spark: a session, or the master of a cluster (`spark://...`, `local[2]`)."""

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
        """Makes the raw relation of a table."""
        if table is DEVICES:
            self._make_devices()
            return
        self._read(table, self._directories(table)).createOrReplaceTempView(f"raw_{table.directory}")

    def _directories(self, table: Table) -> list[str]:
        """Patterns for the directories of a table. Spark follows those of several hosts at once."""
        if not self.files.of(table):
            return []
        if self.files.has_damaged(table):
            return [self.root + file.removeprefix(self.files.root) for file in self.files.of(table)]
        paths = (path for _, _, path in self.files.recordings if table.directory in self.files.tables[path])
        hosts = dict.fromkeys(os.path.dirname(path) for path in paths)  # noqa: PTH120
        return [f"{self.root}{host.removeprefix(self.files.root)}/start_ns=*/{table.directory}" for host in hosts]

    def _make_devices(self) -> None:
        """Reads the devices here: a few rows of each recording cost a task of Spark ten times what they cost DuckDB."""
        local = DuckEngine(self.files)
        local.make_raw(DEVICES)
        rows = local.query("select * from raw_devices")
        self.spark.createDataFrame(rows, self._ddl(DEVICES)).createOrReplaceTempView("raw_devices")

    def make_long(self) -> None:
        """Makes `raw_rollup_long` of the files that the root has now."""
        self.files.look()
        hours, minutes = ([self.root + f.removeprefix(self.files.root) for f in files] for files in self.files.of_long())
        frame = self._read(ROLLUP, hours).where("step_s = 3600").union(self._read(ROLLUP, minutes).where("step_s = 60"))
        frame.createOrReplaceTempView(RAW_LONG)

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
        """Lists directories in few tasks. Spark makes one of each directory, which costs more than to list it."""
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
        """Makes the relation `name`, the histograms of `source` row by row."""
        parts = " union all ".join(
            f"select {_BUCKET_KEYS}, '{p}' as part, pair.{p}_buckets as bucket, pair.{p}_counts as ios from "
            f"(select {_BUCKET_KEYS}, explode(arrays_zip({p}_buckets, {p}_counts)) as pair from {source})"
            for p in ("total", "device")
        )
        self.define(name, parts)

    @staticmethod
    def _ddl(table: Table) -> str:
        """Integers as the widest: a file may have any width, and Spark widens but does not narrow."""
        wide = {"int": "bigint"}
        return ", ".join(["host string", "start_ns bigint", *(f"`{c.name}` {wide.get(c.sql, c.sql)}" for c in table.columns)])

    def define(self, name: str, sql: str) -> None:
        """Makes the view `name`."""
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
        """Whether a file that cannot be read may have caused the error."""
        # Spark wraps what an executor reports in errors of many kinds; these names stand in all of them.
        return "FAILED_READ_FILE" in str(error) or "is not a Parquet file" in str(error) or "parquet" in str(error).lower()

    def close(self) -> None:
        """Drops the views; the session's context is the user's."""
        for view in self.spark.catalog.listTables():
            if view.isTemporary:
                self.spark.catalog.dropTempView(view.name)


def _session(spark: Any) -> Any:
    """A session of the lake's own: names of its views are neither the user's nor another lake's. Settings are those given."""
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
