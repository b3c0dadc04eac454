"""One recording as relations of DuckDB."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow.parquet as pq

from . import plots, program, series, waits
from .containers import CONTAINERS
from .display import recording_html
from .duck import ask, connect, empty_sql, quoted, select_sql
from .durations import parse_ns
from .errors import IolensError
from .meta import Device, Meta, layers_above, parse_meta
from .moments import Moment, since_start_ns
from .series import Window
from .tables import BY_RELATION, TABLES, Table, io_columns_sql

# Kinds of loss that concern file-level requests, not I/Os.
_OF_REQUESTS = ("request-ring-full", "request-table-full", "request-unwritten")

# Waits of longer windows are answered from slots of ten minutes, as in the program.
_MAX_FINER_NS = 3600 * 10**9


def open_recording(path: str | os.PathLike[str]) -> Recording:
    """Opens the recording in the directory `path`. Its tables become relations when they are first used."""
    return Recording(Path(path))


class Recording:
    """A recording. Its tables are DuckDB relations (`.df()`, `.pl()`, `.arrow()`, `.show()`), and views of `sql`."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise IolensError(f"{path} is no directory: a recording is a directory with meta.json")
        places = [path / "meta.json", path / "meta.json.bak"]
        self.path = path
        self.meta: Meta = parse_meta((str(p), p.read_text(errors="replace")) for p in places if p.is_file())
        self.connection = connect()
        self._made: set[str] = set()
        # For an imported log: the temporary files that are removed with the recording.
        self.directory: TemporaryDirectory[str] | None = None
        if any(path.glob("wal/*-*.wal")):
            warnings.warn(
                f"{path} was not finished: the rows in its write-ahead log are not shown; the iolens program reads them",
                stacklevel=3,
            )

    def close(self) -> None:
        """Closes the database; relations of this recording become unusable."""
        self.connection.close()
        if self.directory is not None:
            self.directory.cleanup()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Recording {str(self.path)!r}: {self.meta.source}, {self.duration_s:.3f} s>"

    def _repr_html_(self) -> str:
        return recording_html(self)

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices of its `meta.json`."""
        return self.meta.devices

    # Tables.

    def table(self, name: str) -> duckdb.DuckDBPyRelation:
        """The relation `name`; empty if the recording has no such table."""
        if name not in BY_RELATION:
            raise IolensError(f"no table is called {name!r}: there are {', '.join(sorted(BY_RELATION))}")
        self._view(BY_RELATION[name])
        return self.connection.table(name)

    @property
    def ios(self) -> duckdb.DuckDBPyRelation:
        """Completed I/Os, each with its `class` and `device`."""
        return self.table("ios")

    @property
    def counters(self) -> duckdb.DuckDBPyRelation:
        """The kernel's counters."""
        return self.table("counters")

    @property
    def lost(self) -> duckdb.DuckDBPyRelation:
        """Losses: what could not be recorded."""
        return self.table("lost")

    @property
    def marks(self) -> duckdb.DuckDBPyRelation:
        """Marks on the time line."""
        return self.table("marks")

    @property
    def requests(self) -> duckdb.DuckDBPyRelation:
        """File-level requests."""
        return self.table("requests")

    @property
    def names(self) -> duckdb.DuckDBPyRelation:
        """Paths of files and control groups."""
        return self.table("names")

    @property
    def pressure(self) -> duckdb.DuckDBPyRelation:
        """How scarce the host's CPUs and I/O were (pressure)."""
        return self.table("pressure")

    @property
    def cgroup_limits(self) -> duckdb.DuckDBPyRelation:
        """The limits of the control groups that did I/O: the table `cgroups`."""
        return self.table("cgroups")

    @property
    def rates(self) -> duckdb.DuckDBPyRelation:
        """Averages of an imported table."""
        return self.table("rates")

    @property
    def stages(self) -> duckdb.DuckDBPyRelation:
        """The paths of imported bios through the block layer."""
        return self.table("stages")

    @property
    def cpu(self) -> duckdb.DuckDBPyRelation:
        """CPU shares of an imported table."""
        return self.table("cpu")

    @property
    def rollup(self) -> duckdb.DuckDBPyRelation:
        """Sums per second and per minute. Several rows of one slot must be added."""
        return self.table("rollup")

    @property
    def actors(self) -> duckdb.DuckDBPyRelation:
        """Top actors by I/O time in each ten minutes. Several rows of one slot and actor must be added."""
        return self.table("actors")

    @property
    def actors_10s(self) -> duckdb.DuckDBPyRelation:
        """The same for each ten seconds, as long as the size limit keeps them."""
        return self.table("actors_10s")

    @property
    def waits(self) -> duckdb.DuckDBPyRelation:
        """Who waited for whom in each ten minutes. Rows of one slot, victim, cause and culprit must be added."""
        return self.table("waits")

    @property
    def waits_10s(self) -> duckdb.DuckDBPyRelation:
        """The same for each ten seconds, as long as the size limit keeps them."""
        return self.table("waits_10s")

    @property
    def processes(self) -> duckdb.DuckDBPyRelation:
        """I/Os, bytes and time of each process on the devices that sums include."""
        return self._actors("process")

    @property
    def cgroups(self) -> duckdb.DuckDBPyRelation:
        """The same for each control group."""
        return self._actors("cgroup")

    @property
    def files(self) -> duckdb.DuckDBPyRelation:
        """The same for each file."""
        return self._actors("file")

    def sql(self, text: str) -> duckdb.DuckDBPyRelation:
        """SQL over the tables by their names (`ios`, `counters`, `lost`, ...)."""
        for table in TABLES:
            self._view(table)
        return ask(self.connection, text)

    # Analyses.

    @property
    def end_ns(self) -> int:
        """The recording's end: as written, or else its last row; never before the last I/O."""
        if "end" not in self._made:
            ends = [self.meta.end_ns or 0]
            for table in TABLES if self.meta.end_ns is None else [BY_RELATION["ios"]]:
                if table.directory not in ("rollup", "actors", "waits"):
                    self._view(table)
                    [(found,)] = self.connection.sql(f"select max({table.time}) from {table.relation}").fetchall()
                    ends.append(found or 0)
            self._end_ns = max(*ends, 1)
            self._made.add("end")
        return self._end_ns

    @property
    def duration_s(self) -> float:
        """Its length in seconds."""
        return self.end_ns / 1e9

    def series(
        self,
        step: str | float = "1s",
        by: str = "all",
        *,
        start: Moment | None = None,
        stop: Moment | None = None,
        extended: bool = False,
    ) -> duckdb.DuckDBPyRelation:
        """The time series of `iolens zoom`, not rounded: a row per `step`, labelled by its end.

        `start` and `stop` are seconds since the recording's start, a `datetime`, or text such as `2026-11-18 11:06:40` or
        `11:06:40`. `by` is `all`, `device`, `process`, `cgroup` or `file`; `extended` adds percentiles, number in flight and
        busy time.
        """
        step_ns = parse_ns(step)
        window = self.window_ns(start, stop)
        if by not in series.GROUPS:
            raise IolensError(f"by={by!r}: choose one of {', '.join(series.GROUPS)}")
        if step_ns < series.MIN_STEP_NS:
            raise IolensError(f"step={step!r} is too short: the finest is 1ms")
        if (window[1] - window[0]) // step_ns > series.MAX_ROWS:
            raise IolensError(f"more than {series.MAX_ROWS} rows: choose a longer step or a shorter stretch")
        self._choose(window, by)
        if not extended:
            return self._kept(series.series_sql(Window(*window), step_ns, by, extended))
        found = self._kept(series.series_sql(self._numbered(window), step_ns, by, extended))
        self.connection.execute("drop table placed")
        return found

    def percentiles(
        self, by: str = "device", *, start: Moment | None = None, stop: Moment | None = None
    ) -> duckdb.DuckDBPyRelation:
        """Number, bytes and latencies by `by` and class, as in the report; percentiles are nearest rank."""
        if by not in series.GROUPS[1:]:
            raise IolensError(f"by={by!r}: choose one of {', '.join(series.GROUPS[1:])}")
        self._choose(self.window_ns(start, stop), by)
        return self._kept(series.percentiles_sql(by))

    def busy(self, *, start: Moment | None = None, stop: Moment | None = None) -> duckdb.DuckDBPyRelation:
        """Exact busy time and number in flight of each device."""
        window = self.window_ns(start, stop)
        self._choose(window, "device")
        numbered = self._numbered(window)
        [(others,)] = self.connection.sql("select count(*) from placed where class not in ('read', 'write')").fetchall()
        found = self._kept(series.busy_sql(numbered, only_data=others == 0))
        self.connection.execute("drop table placed")
        return found

    def who_waited(
        self, by: str = "process", *, start: Moment | None = None, stop: Moment | None = None
    ) -> duckdb.DuckDBPyRelation:
        """How much I/O time was lost to which cause, and behind whom, summed from the table `waits`, the largest losses first.

        `by` is `process`, `cgroup` or `pod`. Over its causes, the rows of a victim add up to its I/O time. Slots that overlap
        the window count in full: slots of ten seconds, or of ten minutes if the window is longer than an hour. Only `iolens
        serve` writes that table.
        """
        if by not in waits.GROUPS:
            raise IolensError(f"by={by!r}: choose one of {', '.join(waits.GROUPS)}")
        if not self._has_waits():
            raise IolensError(
                f"{self.path}: this recording has no table waits, which `iolens serve` writes; `iolens report` computes them"
            )
        window = (0, self.end_ns) if start is None and stop is None else self.window_ns(start, stop)
        relation, step_ns = self._wait_slots(window[1] - window[0])
        # Late rows, and those of slots that were open when the recording began, are of the whole slot.
        whole = window == (0, self.end_ns)
        from_ns, to_ns = (-(2**62), 2**62) if whole else (window[0] // step_ns * step_ns, window[1])
        self._view(BY_RELATION["ios"])
        self._name_cgroups()
        return self._kept(waits.who_waited(by, from_ns, to_ns, relation))

    def heatmap(
        self,
        step: str | float = "1s",
        part: str = "total",
        *,
        per_octave: int = 2,
        device: str | None = None,
        start: Moment | None = None,
        stop: Moment | None = None,
    ) -> duckdb.DuckDBPyRelation:
        """Completions by time, class and duration: `part` is `total`, `queue` or `device`.

        Durations are in `per_octave` (1, 2, 4, 8 or 16) ranges per doubling. Cells without I/Os have no row.
        """
        if part not in ("total", "queue", "device"):
            raise IolensError(f"part={part!r}: choose total, queue or device")
        if per_octave not in (1, 2, 4, 8, 16):
            raise IolensError(f"per_octave={per_octave!r}: choose 1, 2, 4, 8 or 16")
        window = self.window_ns(start, stop)
        self._choose(window, "device" if device else "all", device)
        return self._kept(series.heatmap_sql(*window, max(parse_ns(step), 1), part, per_octave))

    def plot(
        self,
        what: str = "throughput",
        step: str | float | None = None,
        by: str = "all",
        *,
        start: Moment | None = None,
        stop: Moment | None = None,
        ax: Any = None,
    ) -> Any:
        """Draws `throughput`, `iops`, `latency` or a `heatmap` of latencies over time; returns the axes of matplotlib."""
        return plots.plot(self, what, step, by, start, stop, ax)

    def report(self, html: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """The program's report as its JSON document. With `html`, the page is also written there."""
        if html is not None:
            program.run("report", self.path, "-o", Path(html))
        document = program.run_json("report", self.path, "--json")
        return dict(document)

    @property
    def findings(self) -> duckdb.DuckDBPyRelation:
        """The findings of the program's report; `evidence` is JSON. Stored findings are in `table("findings")`."""
        rows = [
            [f.get(k) for k in ("kind", "device", "start_s", "end_s", "severity", "summary")] + [json.dumps(f.get("evidence"))]
            for f in self.report().get("findings", [])
        ]
        self.connection.execute(
            "create or replace table report_findings (kind varchar, device varchar, start_s double, end_s double, "
            "severity varchar, summary varchar, evidence varchar)"
        )
        if rows:
            self.connection.executemany("insert into report_findings values (?, ?, ?, ?, ?, ?, ?)", rows)
        return self.connection.table("report_findings")

    # Implementation.

    def _kept(self, sql: str) -> duckdb.DuckDBPyRelation:
        """A relation that does not depend on the views it was made from, which the next call replaces."""
        number = len(self._made)
        self._made.add(f"answer {number}")
        self.connection.execute(f"create or replace temp table answer_{number} as {sql}")
        return self.connection.sql(f"from answer_{number}")

    def _files(self, table: Table) -> list[str]:
        whole = []
        for file in sorted((self.path / table.directory).glob("*.parquet")):
            try:
                pq.read_metadata(file)
                whole.append(str(file))
            except (OSError, ValueError) as e:
                warnings.warn(f"{file} is damaged and left out: {e}", stacklevel=4)
        return whole

    def _view(self, table: Table) -> None:
        if table.relation in self._made:
            return
        files = self._files(table)
        sql = select_sql(self.connection, table, files) if files else empty_sql(table)
        if table.step_s is not None:
            sql = f"select * from ({sql}) where step_s = {table.step_s}"
        if table.relation == "ios":
            names = [(d.dev, d.name) for d in self.devices]
            self.connection.execute("create table device_names (dev integer, name varchar)")
            if names:
                self.connection.executemany("insert into device_names values (?, ?)", names)
            number = "(dev >> 20) || ':' || (dev & 1048575)"
            sql = (
                f"select i.*, {io_columns_sql(self.meta.start_unix_ns)}, coalesce(n.name, {number}) as device "
                f"from ({sql}) i left join device_names n using (dev)"
            )
        self.connection.execute(f"create view {table.relation} as {sql}")
        self._made.add(table.relation)

    def window_ns(self, start: Moment | None = None, stop: Moment | None = None) -> tuple[int, int]:
        """A window of single I/Os in nanoseconds since the recording's start; without bounds, all of it."""
        if not self.ios.limit(1).fetchall() and self.meta.source != "ebpf":
            has = ", ".join(t.relation for t in TABLES if self._files(t)) or "nothing"
            raise IolensError(f"{self.path} has no single I/Os (source {self.meta.source}); it has {has}")
        from_ns = 0
        to_ns = self.end_ns
        if start is not None:
            from_ns = since_start_ns(start, self.meta.start_unix_ns, self.end_ns)
        if stop is not None:
            to_ns = min(since_start_ns(stop, self.meta.start_unix_ns, self.end_ns), self.end_ns)
        if not 0 <= from_ns < to_ns:
            raise IolensError(f"nothing from {from_ns / 1e9:.3f} s to {to_ns / 1e9:.3f} s: it has {self.duration_s:.3f} s")
        return from_ns, to_ns

    def _above(self) -> set[int]:
        """Devices that sums exclude."""
        recorded = {dev for (dev,) in self.ios.unique("dev").fetchall()}
        return layers_above(self.devices, lambda dev: dev in recorded)

    def _choose(self, window: tuple[int, int], by: str, device: str | None = None) -> None:
        """Creates `chosen`, `always` and `missing`, which the SQL of `series` reads."""
        for name in ("ios", "lost", "names"):
            self._view(BY_RELATION[name])
        above = [] if by == "device" else sorted(self._above())
        where = f"dev not in ({', '.join(map(str, above))})" if above else "true"
        if device is not None:
            if device not in {d.name for d in self.devices}:
                raise IolensError(f"no device is called {device!r}")
            where += " and device = " + quoted(device)
        columns = "done_ns, dev, device, class, bytes, queue_ns, device_ns, error, merges"
        chosen = series.chosen_sql(columns, *window, self.end_ns, label_sql(by, window[1]), where)
        # A view, so that a query reads only the columns that it needs.
        self.connection.execute(f"create or replace temp view chosen as {chosen}")
        devices = ", ".join(f"({quoted(d.name)})" for d in self.devices if d.size_bytes != 0) or "(null)"
        every = "('')" if by != "device" else devices
        self.connection.execute(f"create or replace temp table always as select label from (values {every}) v(label)")
        lost_where = where.replace("dev not in", "dev is null or dev not in") if device is None else "true"
        self.connection.execute(f"""
            create or replace temp table missing as
            select from_ns, to_ns, greatest(to_ns, from_ns + 1) as end_ns, reason, n.name as label,
                   case when reason = 'retention' or ios is null then 'infinity'::double else greatest(ios, 0) end as ios
            from lost left join device_names n using (dev)
            where reason <> 'censored' and reason not in {_OF_REQUESTS} and ({lost_where})""")

    def _has_waits(self) -> bool:
        """Whether the recorder wrote the table `waits`; damaged files and the write-ahead log count."""
        return any(self.path.glob("waits/*.parquet")) or any(self.path.glob("wal/waits-*.wal"))

    def _wait_slots(self, length_ns: int) -> tuple[str, int]:
        """The relation of waits to use for a window of this length, and its step: the same choice as in the program."""
        for name in ("waits_10s", "waits"):
            self._view(BY_RELATION[name])
        finer = length_ns <= _MAX_FINER_NS and self.waits_10s.limit(1).fetchall()
        if finer or not self.waits.limit(1).fetchall():
            return "waits_10s", 10 * 10**9
        return "waits", 600 * 10**9

    def _name_cgroups(self) -> None:
        """Creates `cgroup_texts`: the path of each control group, and its pod by name, UID or path."""
        if "cgroup_texts" in self._made:
            return
        for name in ("names", "actors"):
            self._view(BY_RELATION[name])
            self.connection.execute(f"create view raw_{name} as select '' as host, 0 as start_ns, * from {name}")
        self.connection.execute(
            f"create table cgroup_texts as select cgroup, path, coalesce(pod, pod_uid, path) as pod from ({CONTAINERS})"
        )
        self._made.add("cgroup_texts")

    def _numbered(self, window: tuple[int, int]) -> Window:
        """Creates `lanes`, the numbers of the labels of `chosen`, and `placed`, its I/Os with these numbers."""
        self.connection.execute("""
            create or replace temp table lanes as
            select label, row_number() over (order by label) - 1 as lane from (select distinct label from chosen)""")
        self.connection.execute("""
            create or replace temp table placed as
            select lane, class, start_ns, device_ns, done_ns from chosen join lanes using (label)""")
        [(lanes,)] = self.connection.sql("select count(*) from lanes").fetchall()
        return Window(*window, lanes)

    def _actors(self, by: str) -> duckdb.DuckDBPyRelation:
        self._choose((0, self.end_ns), by)
        return self._kept(f"""
            select label as {by}, count(*) as ios, sum(bytes)::bigint as bytes,
                   count(*) filter (class = 'read') as reads, count(*) filter (class = 'write') as writes,
                   sum(total_ns) / 1e9 as time_s, sum(device_ns) / 1e9 as device_s, max(total_ns) / 1e3 as max_us
            from chosen where completed group by label order by time_s desc, label""")


def label_sql(by: str, to_ns: int) -> str:
    """SQL of the group of an I/O, by the names that `iolens zoom` prints."""
    known = f"""(select max_by(text, at_ns) filter (at_ns <= {to_ns}) as late, min_by(text, at_ns) as early from names n"""
    if by == "device":
        return "device"
    if by == "process":
        return "case when tgid is not null then coalesce(comm, '') || '[' || tgid || ']' else coalesce(comm, 'unknown') end"
    if by == "cgroup":
        name = f"(select coalesce(late, early) from {known} where n.kind = 'cgroup' and n.id = cgroup))"
        return f"case when cgroup is null then 'unknown' else coalesce({name}, cgroup::varchar) end"
    if by == "file":
        same = "n.id = ino and n.fs_dev = moved.fs_dev and n.generation is not distinct from moved.generation"
        name = f"(select coalesce(late, early) from {known} where n.kind = 'file' and {same}))"
        number = "(fs_dev >> 20) || ':' || (fs_dev & 1048575) || ' inode ' || ino"
        return f"case when ino is null or fs_dev is null then 'unknown' else coalesce({name}, {number}) end"
    return "''"
