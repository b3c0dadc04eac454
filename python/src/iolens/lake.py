"""Recordings of many hosts under one root, in a directory or an object store, as relations of DuckDB or Spark.

The files are read in place. All SQL here is the same text for both engines: no `/` on integers, bins are `ts - ts % n`.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa

from . import capacity, program, questions, waits
from .containers import CONTAINERS
from .display import lake_html
from .engines import (
    RAW,
    RAW_BUCKETS,
    RAW_LONG,
    RAW_LONG_BUCKETS,
    RAW_PEAKS,
    ROLLUP,
    DuckEngine,
    Engine,
    Files,
    SparkEngine,
)
from .errors import IolensError
from .meta import parse_meta
from .tables import DEVICES, LAKE_TABLES, Table, bucket_low_sql, io_columns_sql

_Answer = TypeVar("_Answer")


def lake(root: str | os.PathLike[str], engine: str = "duckdb", spark: Any = None) -> Lake:
    """Opens the recordings `host=NAME/start_ns=UNIXNS/` under a directory or a URL such as `s3://bucket/prefix`.

    `engine="spark"` takes a `SparkSession` or the name of a master in `spark`.
    """
    return Lake(os.fspath(root), engine, spark)


class Lake:
    """The recordings of many hosts.

    The relations are the tables of the format with `host`, `start_ns`, `at_unix_ns` (absolute), `device`, `stable_id`, `model`
    and `kind` before their columns. `buckets` has the histograms of `rollup`, one bucket per row. `containers` has the pod and
    container of each control group. `actors` has the causes of the I/O of each ten minutes, `actors_10s` of each ten seconds as
    long as they are kept; `waits` and `waits_10s` have who waited for whom. `findings` (in SQL) has the findings reported while
    recording.
    """

    def __init__(self, root: str, engine: str = "duckdb", spark: Any = None) -> None:
        self.root = root
        self.files = Files(root)
        if engine == "duckdb":
            self.engine: Engine = DuckEngine(self.files)
        elif engine == "spark":
            self.engine = SparkEngine(root, self.files, spark or "local[*]")
        else:
            raise IolensError(f"engine={engine!r}: choose duckdb or spark")
        self._views = views()
        self._made: set[str] = set()
        # Tables whose files a relation reads.
        self._read: set[Table] = set()

    def __repr__(self) -> str:
        starts = self.files.starts
        return f"<Lake {self.root!r}: {len({host for host, _ in starts})} hosts, {len(starts)} recordings>"

    def _repr_html_(self) -> str:
        return lake_html(self)

    @property
    def relations(self) -> tuple[str, ...]:
        """The names of its relations, which are also its attributes."""
        return RELATIONS

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *RELATIONS})

    def close(self) -> None:
        """Closes the database, or the views of Spark; relations of this lake become unusable."""
        self.engine.close()

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        """The relations by their names: `lake.ios`, `lake.rollup`."""
        if name in RELATIONS:
            return self.sql(f"select * from {name}")
        raise AttributeError(name)

    def sql(self, text: str) -> Any:
        """SQL over the relations. Returns the engine's own type: a DuckDB relation, a Spark data frame."""
        return self._readable(re.findall(r"\w+", text.lower()), lambda: self.engine.relation(text))

    def query(self, text: str) -> pa.Table:
        """SQL over the relations, as an Arrow table."""
        return self._readable(re.findall(r"\w+", text.lower()), lambda: self.engine.query(text))

    def _ask(self, text: str) -> pa.Table:
        """A query of this package, which names its relations after `from` and `join`."""
        return self._readable(_RELATION.findall(text), lambda: self.engine.query(text))

    def _readable(self, names: list[str], answer: Callable[[], _Answer]) -> _Answer:
        """Creates the relations among `names` and queries them. If a damaged file causes an error, retries without it."""
        try:
            self._make(names)
            return answer()
        except Exception as e:
            # The search for damaged files reads all footers, so it only follows an error that they can cause.
            if not self.engine.may_be_damage(e) or not self._looks_different():
                raise
        self._made.clear()
        self._make(names)
        return answer()

    def _looks_different(self) -> bool:
        """Whether the set of files has changed: there are damaged files, or other compacted ones than before."""
        before = self.files.compacted
        self.files.look()
        is_other = self.files.compacted != before
        return self.files.leave_out_damaged(self._read) or is_other

    def _make(self, names: list[str]) -> None:
        """Creates the relations among `names`. Creating one reads the footers of its files, so others are not created."""
        for name in names:
            if name in self._made:
                continue
            if name in self._views:
                self._make(_RELATION.findall(self._views[name]))
                self.engine.define(name, self._views[name])
            elif name in RAW:
                self._read.add(RAW[name])
                self.engine.make_raw(RAW[name])
            elif name == RAW_BUCKETS:
                self._make(["raw_rollup"])
                self.engine.make_buckets(name, "raw_rollup")
            elif name == RAW_LONG:
                self._read.add(ROLLUP)
                self.engine.make_long()
            elif name == RAW_PEAKS:
                self._read.add(ROLLUP)
                self.engine.make_peaks()
            elif name == RAW_LONG_BUCKETS:
                self._make([RAW_LONG])
                self.engine.make_buckets(name, RAW_LONG)
            else:
                continue
            # These relations name files, some of which may no longer exist at the next query.
            if name not in (RAW_LONG, RAW_LONG_BUCKETS, RAW_PEAKS):
                self._made.add(name)

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        """The same as tuples."""
        return [tuple(row.values()) for row in self.query(text).to_pylist()]

    def hosts(self) -> pa.Table:
        """Each host: its recordings, time, disks, and the I/Os, bytes and losses of these, from the rollups.

        If no disk was recorded, only loop devices for example, the last three are null.
        """
        return self._ask(questions.HOSTS)

    def latency(self, by: str = "device", part: str = "total", q: float = 0.99) -> pa.Table:
        """A quantile of latency by `device`, `host` or `model` and class, from the rollups, with an error of at most 3 %."""
        if by not in ("device", "host", "model") or part not in ("total", "device") or not 0 < q <= 1:
            raise IolensError("latency(by=device|host|model, part=total|device, q above 0 and at most 1)")
        return self._ask(questions.latency(by, part, q))

    def noisy(self, by: str = "cgroup", *, per_day: bool = False) -> pa.Table:
        """How long others' I/Os waited behind each culprit, summed from the table `waits`, the worst first.

        `by` is `cgroup`, `pod`, `process` or `host`; `per_day` splits the sums by day (UTC).
        """
        if by not in waits.LAKE_GROUPS:
            raise IolensError(f"by={by!r}: choose {', '.join(waits.LAKE_GROUPS[:-1])} or {waits.LAKE_GROUPS[-1]}")
        starts = self.files.starts
        without = sum("waits" not in tables for tables in starts.values())
        if without:
            warnings.warn(
                f"{without} of {len(starts)} recordings have no table waits, which `iolens serve` writes: "
                "what waited in them is not counted",
                stacklevel=2,
            )
        return self._ask(waits.noisy(by, per_day))

    def capacity(self) -> pa.Table:
        """Headroom of each device at the 99th percentile of its minutes, and the number of weeks until it is used up."""
        return capacity.forecast(self._ask(questions.busy_days(self.engine.largest)))

    def slow(self) -> pa.Table:
        """Compares each disk with its peers on the host, by means and histograms, fail-slow ones first. Needs numpy.

        `not_judged` is the reason why a disk was not judged.
        """
        try:
            from . import slow, slow_input, slow_table
        except ImportError as e:
            raise IolensError("slow needs numpy: pip install 'iolens[slow]'") from e
        return slow_table.table(*slow.judge_all(slow_input.from_lake(self)), slow_input.disks_of_lake(self))

    def findings(self, newest: bool = True) -> pa.Table:
        """The program's findings on each host's newest recording, or on all of them; with kernel and model."""
        self._local("findings")
        recordings = {host if newest else path: (host, start, path) for host, start, path in self.files.recordings}
        rows = [row for host, start, path in recordings.values() for row in self._findings(host, start, path)]
        return pa.Table.from_pylist(rows, schema=_FINDINGS)

    def _findings(self, host: str, start_ns: int, path: str) -> list[dict[str, Any]]:
        meta = parse_meta(self.files.meta_texts(path))
        models = {d.name: d.model for d in meta.devices}
        return [
            {
                "host": host,
                "at_unix_ns": start_ns + round(f["start_s"] * 1e9) if f.get("start_s") is not None else None,
                "kind": f["kind"],
                "severity": f["severity"],
                "device": f.get("device"),
                "model": models.get(f.get("device") or ""),
                "kernel": meta.raw.get("kernel"),
                "summary": f["summary"],
            }
            for f in program.run_json("report", path, "--json")["findings"]
        ]

    def report(self, host: str | None = None, at: str | None = None) -> dict[str, Any]:
        """The program's report on one of the host's recordings: the one at a time (`at`), or the newest."""
        return dict(program.run_json("report", *self.report_arguments(host, at), "--json"))

    def report_arguments(self, host: str | None, at: str | None) -> list[str]:
        """The arguments of `iolens report` for it."""
        self._local("report")
        paths = [path for name, _, path in self.files.recordings if host in (None, name)]
        hosts = sorted({name for name, _, _ in self.files.recordings})
        if not paths or (host is None and len(hosts) > 1):
            raise IolensError(f"choose one of the hosts {', '.join(hosts[:10])}")
        # A host's directory, in which `--at` selects the recording; without it, the newest recording.
        return [os.path.dirname(paths[-1]), "--at", at] if at else [paths[-1]]  # noqa: PTH120

    def _local(self, what: str) -> None:
        if not self.files.is_local:
            raise IolensError(f"{what} runs the iolens program, which reads directories only; copy the recordings first")


_FINDINGS = pa.schema(
    [("host", pa.string()), ("at_unix_ns", pa.int64())]
    + [(name, pa.string()) for name in ("kind", "severity", "device", "model", "kernel", "summary")]
)

_RELATION = re.compile(r"\b(?:from|join)\s+(\w+)")
_DEVICE = "d.device as device, d.stable_id as stable_id, d.model as model, d.kind as kind"
RELATIONS = (*(t.relation for t in LAKE_TABLES), "devices", "buckets", "containers")


def views() -> dict[str, str]:
    """The relations by name, over the raw ones."""
    # In the table `devices` an empty text means unknown.
    named = "name as device, nullif(stable_id, '') as stable_id, nullif(model, '') as model, kind"
    found = {"named_devices": f"select host, start_ns, dev, {named} from raw_devices"}
    found |= {t.relation: _view(t) for t in LAKE_TABLES}
    found["devices"] = (
        f"select host, start_ns, name as device, {', '.join(c for c in DEVICES.names if c != 'name')} from raw_devices"
    )
    found["containers"] = CONTAINERS
    found["buckets"] = f"""
        select b.host, b.start_ns, b.start_ns + b.at_ns as at_unix_ns, {_DEVICE}, b.step_s, b.dev, b.class, b.part, b.bucket,
               {bucket_low_sql("b.bucket")} as low_ns, b.ios
        from raw_buckets b left join named_devices d on d.host = b.host and d.start_ns = b.start_ns and d.dev = b.dev"""
    return found


# If a name was used by two disks at different times, it is ambiguous and joins neither.
_FINDINGS_VIEW = """
with disks as (
    select host as d_host, start_ns as d_start, device as d_device,
           case when min(stable_id) = max(stable_id) then min(stable_id) end as stable_id,
           case when min(model) = max(model) then min(model) end as model
    from named_devices group by host, start_ns, device)
select t.host, t.start_ns, t.start_ns + t.from_ns as at_unix_ns, t.device, d.stable_id, d.model, t.kind, t.severity, t.summary,
       t.start_ns + t.to_ns as to_unix_ns, t.open, t.from_ns, t.to_ns, t.evidence
from raw_findings t left join disks d on d_host = t.host and d_start = t.start_ns and d_device = t.device"""


def _view(table: Table) -> str:
    if table.relation == "findings":
        return _FINDINGS_VIEW
    columns = ", ".join(f"t.{name} as own_kind" if name == "kind" else f"t.{name}" for name in table.names)
    before = f"t.host, t.start_ns, t.start_ns + t.{table.time} as at_unix_ns"
    if "dev" not in table.names:
        return f"select {before}, {columns.replace('own_kind', 'kind')} from raw_{table.directory} t"
    of_io = f", {io_columns_sql('t.start_ns')}" if table.relation == "ios" else ""
    joined = "left join named_devices d on d.host = t.host and d.start_ns = t.start_ns and d.dev = t.dev"
    chosen = "" if table.step_s is None else f" where t.step_s = {table.step_s}"
    return f"select {before}, {_DEVICE}, {columns}{of_io} from raw_{table.directory} t {joined}{chosen}"
