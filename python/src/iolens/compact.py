"""Writes one file of a table for each host and day of a lake, beside the recordings, which are not changed.

A day's files are written under names that nothing refers to. Then the host's manifest is replaced, which makes them valid
(compacted.py). If the compaction is killed at any point, readers see either the old or the new state, and the next run
continues.
"""

from __future__ import annotations

import fcntl
import io
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from .compacted import (
    DIRECTORY,
    MANIFEST,
    PEAKS,
    SUMS,
    Day,
    Manifest,
    Peaks,
    Sums,
    day_of,
    device_row,
    device_rows,
    digest,
    host_of,
    key_of,
    parse,
)
from .duck import connect, duck_type, quoted
from .engines import ARROW, arrow_schema
from .errors import IolensError
from .meta import Meta, parse_meta
from .parquet_join import NotJoinableError, Part, join
from .questions import DAY_NS, MINUTE_NS, P99_RANK_MAX
from .tables import DEVICES, LAKE_TABLES, Table

# A reader may have a file open for this long after the manifest no longer names it.
_GRACE_S = 3600
_TEMPORARY = ".tmp"
# For this long after a recording's end, its hours may still be written and shipped files may still arrive.
_SETTLED_S = 600
# Files of at least this mean size are joined without decoding: each piece of a file costs a reader some milliseconds.
_MIN_PIECE_BYTES = 32 << 10
# A manifest is written after this much data, and at the end. Waiting for the disk after each day would dominate the cost.
_COMMIT_BYTES = 256 << 20

# Rows of rollups, summed over whole recordings (compacted.SUMS).
_SUMS = """
with r as materialized ({{rows}}),
plain as (
    select start_ns, dev, class, min(at_ns) as at_ns, cast(sum(ios) as bigint) as ios, cast(sum(bytes) as bigint) as bytes,
           cast(sum(lost_ios) as bigint) as lost_ios from r group by start_ns, dev, class),
{histograms}
select p.start_ns, p.at_ns, p.dev, p.class, ios, bytes, lost_ios, total_buckets, total_counts, device_buckets, device_counts
from plain p
left join total t on t.start_ns = p.start_ns and t.dev is not distinct from p.dev and t.class = p.class
left join device d on d.start_ns = p.start_ns and d.dev is not distinct from p.dev and d.class = p.class
order by p.start_ns, p.dev, p.class""".format(
    histograms=",\n".join(
        f"""{part} as (
    select start_ns, dev, class, list(bucket order by bucket) as {part}_buckets, list(ios order by bucket) as {part}_counts
    from (select start_ns, dev, class, bucket, cast(sum(ios) as bigint) as ios
          from (select start_ns, dev, class, unnest({part}_buckets) as bucket, unnest({part}_counts) as ios from r)
          group by start_ns, dev, class, bucket)
    group by start_ns, dev, class)"""
        for part in ("total", "device")
    )
)

# Of each recording, device and day: the minutes with most time, I/Os and bytes, and the first and last (compacted.PEAKS).
_PEAKS = f"""
with minutes as materialized (
    select start_ns, dev, start_ns + at_ns - (start_ns + at_ns) % {MINUTE_NS} as minute, min(at_ns) as at_ns,
           cast(sum(ios) as bigint) as ios, cast(sum(bytes) as bigint) as bytes, cast(sum(busy_ns) as bigint) as busy_ns
    from ({{rows}}) group by start_ns, dev, minute),
fullest as (
    select start_ns, dev, unnest(list_distinct(list_concat(
               max_by(minute, busy_ns, {P99_RANK_MAX}), max_by(minute, ios, {P99_RANK_MAX}),
               max_by(minute, bytes, {P99_RANK_MAX}), [min(minute), max(minute)]))) as minute
    from minutes group by start_ns, dev, minute - minute % {DAY_NS})
select start_ns, at_ns, dev, ios, bytes, busy_ns
from minutes join fullest using (start_ns, dev, minute) order by start_ns, dev, at_ns"""

_TABLES = {t.directory: t for t in (*LAKE_TABLES, DEVICES)}
_COLUMNS = {directory: table.names for directory, table in _TABLES.items()}
_SCHEMA = digest(_COLUMNS)


@dataclass(frozen=True)
class Done:
    """What was added to a host's day: the number of recordings, the number of their files, and the day's files now."""

    host: str
    day: str
    recordings: int
    files_before: int
    files: int
    bytes_before: int
    bytes: int


@dataclass(frozen=True)
class Outcome:
    """What a compaction added, and when each recording that is too new will be settled, in seconds since 1970."""

    done: list[Done]
    settled_at: list[float]

    def waiting(self) -> str | None:
        """How many recordings are too new, and until when; `None` if there are none."""
        if not self.settled_at:
            return None
        number = len(self.settled_at)
        recordings = "recording" if number == 1 else "recordings"
        # The time has whole seconds, and must not be before the exact one.
        last = datetime.fromtimestamp(int(max(self.settled_at)) + 1, timezone.utc)
        return (
            f"{number} {recordings} ended or changed less than {_SETTLED_S // 60} minutes ago; "
            f"run compact again after {last:%Y-%m-%dT%H:%M:%SZ}"
        )


@dataclass(frozen=True)
class _Source:
    """A recording: its start, its directory and its `meta.json`."""

    start_ns: int
    path: Path
    meta: Meta


def compact(root: str | os.PathLike[str], days: Iterable[str] | None = None, workers: int = 1) -> list[Done]:
    """Compacts the ended recordings of a lake: those that began on `days` (`YYYY-MM-DD`, UTC), or all of them.

    Recordings that are already compacted are skipped. With more than one of the `workers`, hosts are divided among as many
    processes; a script that does this must call it below `if __name__ == "__main__"`.
    """
    return outcome(root, days, workers).done


def outcome(root: str | os.PathLike[str], days: Iterable[str] | None = None, workers: int = 1) -> Outcome:
    """Compacts like `compact`, and also returns which recordings are too new."""
    text = os.fspath(root)
    if "://" in text:
        raise IolensError(f"{text}: compact writes into directories only")
    path = Path(text)
    hosts = sorted(e.name for e in os.scandir(path) if e.name.startswith("host=") and e.is_dir(follow_symlinks=False))
    if not hosts:
        raise IolensError(f"{text} holds no recordings host=NAME/start_ns=UNIXNS/")
    wanted = None if days is None else set(days)
    of_hosts = partial(_compact_hosts, path, wanted)
    with _locked(path / DIRECTORY, _mode(path, hosts)):
        if workers > 1 and len(hosts) > 1:
            with ProcessPoolExecutor(min(workers, len(hosts)), get_context("spawn")) as pool:
                size = max(1, min(16, len(hosts) // (4 * workers)))
                parts = list(pool.map(of_hosts, (hosts[at : at + size] for at in range(0, len(hosts), size))))
        else:
            parts = [of_hosts(hosts)]
    for _, remarks in parts:
        for remark in remarks:
            warnings.warn(remark, stacklevel=3)
    return Outcome(
        done=[done for part, _ in parts for done in part.done],
        settled_at=[at for part, _ in parts for at in part.settled_at],
    )


def _compact_hosts(root: Path, wanted: set[str] | None, names: list[str]) -> tuple[Outcome, list[str]]:
    """The results of these hosts, and the messages about them."""
    whole = Outcome([], [])
    remarks = []
    with _database() as connection:
        for name in names:
            host = _Host(root, name, wanted, connection)
            whole.done.extend(host.compact())
            whole.settled_at.extend(host.settled_at)
            remarks += host.remarks
    return whole, remarks


@contextmanager
def _database() -> Iterator[Callable[[], duckdb.DuckDBPyConnection]]:
    """One connection, opened when it is first needed: opening one costs as much as several days."""
    made: list[duckdb.DuckDBPyConnection] = []

    def connection() -> duckdb.DuckDBPyConnection:
        if not made:
            made.append(connect())
            # Hosts are compacted in parallel.
            made[0].execute("set threads = 1")
        return made[0]

    try:
        yield connection
    finally:
        for one in made:
            one.close()


@contextmanager
def _locked(directory: Path, mode: int) -> Iterator[None]:
    """Only one compaction at a time writes into a lake. A user who may not read every recording may read nothing of it."""
    directory.mkdir(mode=mode, exist_ok=True)
    directory.chmod(mode)
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            raise IolensError(f"{directory}: another compaction is at work") from e
        yield


def _mode(root: Path, hosts: list[str]) -> int:
    """The permissions that the root, its hosts' directories and their recordings have in common."""
    mode = 0o755 & root.stat().st_mode
    for host in hosts:
        mode &= (root / host).stat().st_mode
        for recording in os.scandir(root / host):
            if recording.name.startswith("start_ns="):
                mode &= recording.stat(follow_symlinks=False).st_mode
    return mode | 0o700


class _Host:
    """The compaction of one host."""

    def __init__(
        self, root: Path, name: str, wanted: set[str] | None, connection: Callable[[], duckdb.DuckDBPyConnection]
    ) -> None:
        self.name = host_of(name)
        self.recordings = root / name
        self.directory = root / DIRECTORY / name
        self.wanted = wanted
        self.manifest = _manifest(self.directory / MANIFEST)
        self.connection = connection
        # Messages to the user.
        self.remarks: list[str] = []
        # When each recording that is too new will be settled, in seconds since 1970.
        self.settled_at: list[float] = []
        # Files and directories that the next manifest names, and the size of these files.
        self.written: list[Path] = []
        self.written_bytes = 0
        # Files that it no longer names.
        self.replaced: list[Path] = []

    def compact(self) -> list[Done]:
        """Compacts the days that have new recordings."""
        self._remove_forgotten()
        found = self._ended()
        done = []
        for day, sources in sorted(found.items()):
            try:
                made = self._day(day, sources)
            except (duckdb.Error, pa.ArrowException, IolensError, OSError) as e:
                # Nothing of this day is valid; its recordings are read from their own files.
                self.remarks.append(f"{self.recordings}: {day} is not compacted: {' '.join(str(e).split())}")
                continue
            if made is None:
                continue
            done.append(made)
            self.written_bytes += made.bytes
            if self.written_bytes >= _COMMIT_BYTES:
                self._commit()
        self._sum()
        self._find_peaks()
        if self.written:
            self._commit()
        return done

    def _commit(self) -> None:
        """Makes the written files valid: syncs them to disk, then replaces the manifest that names them."""
        for path in self.written:
            _sync(path)
        for path in self.replaced:
            # The grace period of replaced files begins.
            with suppress(FileNotFoundError):
                os.utime(path)
        _write(self.directory / MANIFEST, self.manifest.text())
        self.written, self.written_bytes, self.replaced = [], 0, []

    def _ended(self) -> dict[str, list[_Source]]:
        """The ended and settled recordings that are not compacted, by day, the oldest first."""
        found = defaultdict(list)
        for entry in os.scandir(self.recordings):
            text = entry.name.removeprefix("start_ns=")
            if text == entry.name or not text.isdigit() or not entry.is_dir(follow_symlinks=False):
                continue
            day = day_of(int(text))
            if self.wanted is not None and day not in self.wanted:
                continue
            known = self.manifest.days.get(day)
            if known is not None and known.schema == _SCHEMA and int(text) in known.recordings:
                continue
            source = _source(int(text), Path(entry.path))
            if source is None:
                continue
            settled_at = _changed(source.path) + _SETTLED_S
            if time.time() < settled_at:
                self.settled_at.append(settled_at)
            else:
                found[day].append(source)
        return {day: sorted(sources, key=lambda s: s.start_ns) for day, sources in found.items()}

    def _day(self, day: str, sources: list[_Source]) -> Done | None:
        known = self.manifest.days.get(day)
        if known is not None and known.schema != _SCHEMA:
            # Written by a version with other columns: compacted again, if all of its recordings still exist.
            if not set(known.recordings) <= {s.start_ns for s in sources}:
                return None
            known = None

        # New files have new numbers; the old ones stay until the manifest names the new ones.
        directory = self.directory / f"day={day}"
        _make(directory)
        number = _next_number(directory.iterdir())
        files_of = {s.start_ns: _files(s.path) for s in sources}
        keys_of = {s.start_ns: self._keys(s, files_of[s.start_ns]) for s in sources}
        made: dict[str, str] = {}
        devices = _devices_of_day(sources, files_of, known)
        for key in sorted({key for keys in keys_of.values() for key in keys} | set(known.files if known else ())):
            if key == DEVICES.directory:
                made |= self._device_file(devices, directory, number)
                continue
            having = [s for s in sources if key in keys_of[s.start_ns]]
            made |= self._table(key, directory, number, known, having, files_of)
        self.written.append(directory)

        recordings = {s.start_ns: keys_of[s.start_ns] for s in sources}
        if day in self.manifest.days:
            self.replaced += [directory / file for file in self.manifest.days[day].files.values()]
        self.manifest.schemas[_SCHEMA] = _COLUMNS
        self.manifest.days[day] = Day(
            schema=_SCHEMA,
            recordings={**(known.recordings if known else {}), **recordings},
            files=made,
            devices=device_rows(devices),
        )
        read = [file for tables in files_of.values() for files in tables.values() for file in files]
        return Done(
            host=self.name,
            day=day,
            recordings=len(sources),
            files_before=len(read),
            files=len(made),
            bytes_before=sum(file.stat().st_size for file in read),
            bytes=sum((directory / file).stat().st_size for file in made.values()),
        )

    def _sum(self) -> None:
        """Rewrites the sums over whole recordings, if there are recordings without them."""
        known = set(self.manifest.sums.recordings) if self.manifest.sums else set()
        by_step: dict[int, dict[str, list[int]]] = {3600: defaultdict(list), 60: defaultdict(list)}
        for day, of in self.manifest.days.items():
            for start, keys in of.recordings.items():
                # The hours of a recording have the same sums as its minutes.
                steps = [step for step in by_step if key_of("rollup", step) in keys]
                if start not in known and steps:
                    by_step[steps[0]][day].append(start)
        columns = ("start_ns", *(name for name, _ in SUMS))
        selects = [self._rollups(step_s, starts, columns) for step_s, starts in by_step.items() if starts]
        if not selects:
            return
        select = _SUMS.format(rows=" union all ".join(selects))
        name = self._added("sums", self.manifest.sums, select)
        if name is not None:
            new = {start for days in by_step.values() for starts in days.values() for start in starts}
            self.manifest.sums = Sums(name, sorted(known | new))

    def _find_peaks(self) -> None:
        """Rewrites the peak minutes, if there are recordings without them."""
        known = self.manifest.peaks.recordings if self.manifest.peaks else {}
        starts_of: dict[str, list[int]] = {}
        for day, of in self.manifest.days.items():
            starts = [start for start, keys in of.recordings.items() if key_of("rollup", 60) in keys and start not in known]
            if starts:
                starts_of[day] = starts
        if not starts_of:
            return
        columns = ("start_ns", *(name for name, _ in PEAKS))
        rows = self._rollups(60, starts_of, columns)
        select = _PEAKS.format(rows=f"{rows} and class = 'all' and dev is not null")
        name = self._added("peaks", self.manifest.peaks, select)
        if name is not None:
            spans = self.connection().sql(
                f"select start_ns, min(start_ns + at_ns) // {MINUTE_NS} * {MINUTE_NS}, "
                f"max(start_ns + at_ns) // {MINUTE_NS} * {MINUTE_NS} "
                f"from read_parquet({quoted(str(self.directory / name))}, hive_partitioning = false) group by start_ns"
            )
            without: dict[int, list[int]] = {start: [] for starts in starts_of.values() for start in starts}
            found = {start: [span_from, span_to] for start, span_from, span_to in spans.fetchall()}
            self.manifest.peaks = Peaks(name, {**known, **without, **found})

    def _added(self, kind: str, old: Sums | Peaks | None, select: str) -> str | None:
        """Writes a file of the whole host: the old file's rows and those of `select`. Its name; `None` without rows."""
        if old is not None:
            before = quoted(str(self.directory / old.file))
            select = f"select * from read_parquet({before}, hive_partitioning = false) union all select * from ({select})"
        name = f"{kind}-{_next_number(self.directory.glob(f'{kind}-*')):06}.parquet"
        if not self._copied(select, self.directory / name):
            return None
        if old is not None:
            self.replaced.append(self.directory / old.file)
        self.written.append(self.directory)
        return name

    def _rollups(self, step_s: int, starts_of: Mapping[str, list[int]], columns: Iterable[str]) -> str:
        """SQL of rows of a step, of compacted recordings by their days. One list of files is cheaper than a query for each."""
        days = self.manifest.days
        files = (self.directory / f"day={day}/{days[day].files[key_of('rollup', step_s)]}" for day in sorted(starts_of))
        names = ", ".join(quoted(str(file)) for file in files)
        union = "true" if len({days[day].schema for day in starts_of}) > 1 else "false"
        select = (
            f"select {', '.join(columns)} from read_parquet([{names}], union_by_name = {union}, hive_partitioning = false) "
            f"where step_s = {step_s}"
        )
        # A lookup of each row's start in a list takes a fifth of the query, and usually all rows are selected.
        key = key_of("rollup", step_s)
        in_files = {start for day in starts_of for start, keys in days[day].recordings.items() if key in keys}
        wanted = {start for starts in starts_of.values() for start in starts}
        if wanted == in_files:
            return select
        return f"{select} and start_ns in ({', '.join(map(str, sorted(wanted)))})"

    def _keys(self, source: _Source, files: dict[str, list[Path]]) -> list[str]:
        """The tables and steps of which a recording has rows."""
        keys = {key_of(DEVICES.directory, None)} if source.meta.devices else set()
        for directory, of in files.items():
            steps = self._steps(of) if "step_s" in _COLUMNS[directory] else {None}
            keys |= {key_of(directory, step_s) for step_s in steps}
        return sorted(keys)

    def _table(
        self,
        key: str,
        directory: Path,
        number: int,
        known: Day | None,
        sources: list[_Source],
        files_of: dict[int, dict[str, list[Path]]],
    ) -> dict[str, str]:
        """Writes the file of a table, or of one step of it: the rows that are already compacted, and those of `sources`."""
        of, _, step = key.partition("/")
        table, step_s = _TABLES[of], int(step) if step else None
        name = f"{of}-{'' if step_s is None else f'{step_s}s-'}{number:06}.parquet"
        before = directory / known.files[key] if known is not None and key in known.files else None
        # If a table has steps, a file without a step in its name may have rows of several steps.
        named = {s.start_ns: [f for f in files_of[s.start_ns].get(of, []) if _step(f) in (step_s, None)] for s in sources}
        parts = [Part(before, None)] if before else []
        parts += [Part(file, start) for start, files in named.items() for file in files if _step(file) == step_s]
        if len(parts) == bool(before) + sum(map(len, named.values())) and self._joined(table, parts, directory / name):
            return {key: name}
        selects = []
        if before is not None:
            old = quoted(str(before))
            columns = ", ".join(f'"{name}"' for name in table.names)
            selects.append(f"select start_ns, {columns} from read_parquet({old}, hive_partitioning = false)")
        for source in sources:
            files = [str(file) for file in named[source.start_ns]]
            if files:
                where = "" if step_s is None else f" where step_s = {step_s}"
                selects.append(f"select {source.start_ns}::bigint as start_ns, * from ({_rows(table, files)}){where}")
        if not selects or not self._copied(" union all ".join(selects), directory / name):
            return {}
        return {key: name}

    def _device_file(self, devices: list[tuple[int, dict[str, Any]]], directory: Path, number: int) -> dict[str, str]:
        """Writes the file of the table `devices`; no file if there are none."""
        by_start: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for start, row in devices:
            by_start[start].append(row)
        if not by_start:
            return {}
        name = f"{DEVICES.directory}-{number:06}.parquet"
        temporary = directory / (name + _TEMPORARY)
        # Recordings of a host usually have the same devices; their files differ only in the start.
        parts = [Part(_encoded_devices(tuple(map(_values, rows))), start) for start, rows in sorted(by_start.items())]
        join(parts, "start_ns", temporary)
        self._named(temporary, directory / name)
        return {DEVICES.directory: name}

    def _steps(self, files: list[Path]) -> set[int | None]:
        """The steps of the rows of these files; most have them in their names."""
        steps: set[int | None] = {_step(file) for file in files}
        if None in steps:
            steps.discard(None)
            nameless = ", ".join(quoted(str(file)) for file in files if _step(file) is None)
            found = self.connection().sql(f"select distinct step_s from read_parquet([{nameless}], union_by_name = true)")
            steps |= {step for (step,) in found.fetchall()}
        return steps

    def _joined(self, table: Table, parts: list[Part], to: Path) -> bool:
        """Joins the files into one without decoding them, if that creates no file of very small pieces."""
        if not parts or sum(part.size for part in parts) < len(parts) * _MIN_PIECE_BYTES:
            return False
        temporary = to.with_name(to.name + _TEMPORARY)
        try:
            rows = join(parts, "start_ns", temporary, {c.name: ARROW[c.sql] for c in table.columns})
        except NotJoinableError:
            rows = 0
        if rows == 0:
            temporary.unlink(missing_ok=True)
            return False
        self._named(temporary, to)
        return True

    def _named(self, temporary: Path, to: Path) -> None:
        os.replace(temporary, to)  # noqa: PTH105
        self.written.append(to)

    def _copied(self, select: str, to: Path) -> bool:
        """Writes the rows of `select`; no file if there are none."""
        temporary = to.with_name(to.name + _TEMPORARY)
        options = "format parquet, compression zstd, compression_level 1"
        row = self.connection().execute(f"copy ({select}) to {quoted(str(temporary))} ({options})").fetchone()
        if row is None or row[0] == 0:
            temporary.unlink()
            return False
        self._named(temporary, to)
        return True

    def _remove_forgotten(self) -> None:
        """Removes files of a killed compaction, and replaced files that no reader can have open any more."""
        named = {f"day={day}/{file}" for day, of in self.manifest.days.items() for file in of.files.values()}
        named |= {f"{self.directory.name}/{file}" for file in self.manifest.of_host()}
        now = time.time()
        of_host = (file for kind in ("sums", "peaks") for file in self.directory.glob(f"{kind}-*"))
        for file in (*self.directory.glob("day=*/*"), *of_host):
            place = f"{file.parent.name}/{file.name}"
            if place not in named and now - file.stat().st_mtime > _GRACE_S:
                file.unlink()


def _manifest(path: Path) -> Manifest:
    try:
        return parse(path.read_text())
    except FileNotFoundError:
        return Manifest()
    except ValueError as e:
        raise IolensError(f"{path}: {e}; remove it, and all days of this host are compacted anew") from e


def _source(start_ns: int, path: Path) -> _Source | None:
    """The recording at `path`, if it has ended."""
    places = [path / "meta.json", path / "meta.json.bak"]
    try:
        meta = parse_meta((str(p), p.read_text(errors="replace")) for p in places if p.is_file())
    except IolensError:
        return None
    if meta.end_ns is None or any(path.glob("wal/*.wal")):
        return None
    return _Source(start_ns, path, meta)


def _changed(recording: Path) -> float:
    """When a file was last added to or removed from a recording, from the times of its directories."""
    times = [recording.stat().st_mtime]
    times += [
        entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(recording) if entry.is_dir(follow_symlinks=False)
    ]
    return max(times)


def _files(recording: Path) -> dict[str, list[Path]]:
    """The files of each table that a recording has."""
    found = {}
    for entry in os.scandir(recording):
        if entry.name in _TABLES and entry.is_dir():
            files = sorted(Path(file.path) for file in os.scandir(entry.path) if file.name.endswith(".parquet"))
            if files:
                found[entry.name] = files
    return found


def _rows(table: Table, files: list[str]) -> str:
    """SQL of a recording's rows of a table, with all known columns."""
    schemas = [pq.read_schema(file) for file in files]
    have = set(schemas[0].names).union(*(schema.names for schema in schemas))
    for column in table.columns:
        if column.required and column.name not in have:
            raise IolensError(f"the table {table.directory} of {files[0]} has no column {column.name}")
    union = "false" if all(schema.equals(schemas[0]) for schema in schemas) else "true"
    names = ", ".join(quoted(file) for file in files)
    cells = {c.name: f'"{c.name}"' if c.name in have else "null" for c in table.columns}
    columns = ", ".join(f'cast({cells[c.name]} as {duck_type(c.sql)}) as "{c.name}"' for c in table.columns)
    return f"select {columns} from read_parquet([{names}], union_by_name = {union}, hive_partitioning = false)"


def _devices(source: _Source, files: dict[str, list[Path]]) -> list[dict[str, Any]]:
    """The devices of a recording, from its table or else from its `meta.json`."""
    if DEVICES.directory not in files:
        return [device_row(device) for device in source.meta.devices]
    rows: list[dict[str, Any]] = []
    for file in files[DEVICES.directory]:
        rows += _decoded_devices(file.read_bytes())
    return rows


def _devices_of_day(
    sources: list[_Source], files_of: dict[int, dict[str, list[Path]]], known: Day | None
) -> list[tuple[int, dict[str, Any]]]:
    """The devices of all recordings of a day, each with the recording's start: of `sources`, and those compacted before."""
    devices = [(s.start_ns, row) for s in sources for row in _devices(s, files_of[s.start_ns])]
    for device in known.devices if known else []:
        row = {name: value for name, value in device.items() if name != "starts"}
        devices += [(start, row) for start in device["starts"]]
    return devices


@lru_cache(maxsize=64)
def _decoded_devices(data: bytes) -> list[dict[str, Any]]:
    """The rows of a file of devices. The files of a host's recordings are usually identical."""
    rows = pq.read_table(pa.BufferReader(data), use_threads=False).to_pylist()
    return [{name: row.get(name) for name in DEVICES.names} for row in rows]


def _values(device: dict[str, Any]) -> tuple[Any, ...]:
    """A device's row in the order of the table's columns."""
    return tuple(device.get(name) for name in DEVICES.names)


@lru_cache(maxsize=64)
def _encoded_devices(rows: tuple[tuple[Any, ...], ...]) -> bytes:
    """A file of devices without `start_ns`."""
    schema = pa.schema([field for field in arrow_schema(DEVICES) if field.name not in ("host", "start_ns")])
    table = pa.Table.from_pylist([dict(zip(DEVICES.names, row, strict=True)) for row in rows], schema=schema)
    made = io.BytesIO()
    pq.write_table(table, made, compression="zstd")
    return made.getvalue()


def _step(file: Path) -> int | None:
    """The step in the name of a file, as in `60s-000001.parquet`."""
    step, dash, _ = file.name.partition("s-")
    return int(step) if dash and step.isdigit() else None


def _number(name: str) -> int:
    """The number in the name of a file, complete or not."""
    digits = name.removesuffix(_TEMPORARY).removesuffix(".parquet").rpartition("-")[2]
    return int(digits) if digits.isdigit() else 0


def _next_number(files: Iterable[Path]) -> int:
    """A number that none of these files has."""
    return 1 + max((_number(file.name) for file in files), default=0)


def _make(directory: Path) -> None:
    if not directory.is_dir():
        directory.mkdir(parents=True)
        _sync(directory.parent)


def _write(path: Path, text: str) -> None:
    """Replaces a file atomically."""
    temporary = path.with_name(path.name + _TEMPORARY)
    temporary.write_text(text)
    _sync(temporary)
    os.replace(temporary, path)  # noqa: PTH105
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
