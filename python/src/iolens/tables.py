"""The tables of a recording: columns and types, as docs/recording-format.md lists them."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Column:
    """A column of a table; `sql` is a type name that DuckDB and Spark share."""

    name: str
    sql: str
    required: bool = False


@dataclass(frozen=True)
class Table:
    """A table: its directory, the name of its relation, its column of time, its columns.

    `step_s`: the relation has the rows of this step alone, as those of another describe the same I/Os.
    """

    directory: str
    relation: str
    time: str
    columns: tuple[Column, ...]
    step_s: int | None = None

    @property
    def in_lake(self) -> Table:
        """The table as a lake has it: there `start_ns` is the recording's, and a request's own start is not shown."""
        return replace(self, columns=tuple(c for c in self.columns if c.name != "start_ns"))

    @property
    def names(self) -> list[str]:
        """The names of its columns."""
        return [c.name for c in self.columns]


def _columns(text: str) -> tuple[Column, ...]:
    """`!` marks a required column; a type holds for the names after it."""
    found, sql = [], "bigint"
    for word in text.split():
        if word.endswith(":"):
            sql = {"list": "array<int>"}.get(word[:-1], word[:-1])
        else:
            found.append(Column(word.rstrip("!"), sql, word.endswith("!")))
    return tuple(found)


def _table(directory: str, time: str, columns: str, relation: str | None = None, step_s: int | None = None) -> Table:
    return Table(directory, relation or directory, time, _columns(columns), step_s)


_CALLS = " ".join(
    f"bigint: {call}_after_ns {call}_ns {call}_bytes int: {call}_how" for call in ("io1", "io2", "io3", "io4", "slowest")
)

_ACTORS = (
    "int: step_s! bigint: at_ns! int: dev! string: class! by! int: others! string: name int: tgid bigint: cgroup "
    "int: fs_dev bigint: ino generation ios! bytes! queue_sum_ns device_sum_ns!"
)

TABLES = (
    _table(
        "io",
        "done_ns",
        "bigint: done_ns! int: dev! op! bigint: bytes! queue_ns device_ns! sector int: flags error merges tgid "
        "string: comm bigint: cgroup ino int: fs_dev origin bigint: generation",
        relation="ios",
    ),
    _table(
        "counters",
        "at_ns",
        "bigint: at_ns! int: dev! bigint: read_ios! read_merges! read_sectors! read_ticks_ms! write_ios! write_merges! "
        "write_sectors! write_ticks_ms! in_flight! io_ticks_ms! time_in_queue_ms! discard_ios discard_merges "
        "discard_sectors discard_ticks_ms flush_ios flush_ticks_ms",
    ),
    _table(
        "lost",
        "to_ns",
        "bigint: from_ns! to_ns! string: reason! int: dev string: class bigint: ios bytes merges",
    ),
    _table("marks", "at_ns", "bigint: at_ns! string: kind! text!"),
    _table(
        "requests",
        "end_ns",
        "bigint: end_ns! start_ns! int: flags! sync bigint: open_ns close_ns last_after_ns active_ns! ios_in! ios_out! "
        f"bytes_in! bytes_out! empty_reads! failed! device_ios! slept_ios! {_CALLS} bigint: size int: tgid string: comm "
        "bigint: cgroup int: fd bigint: ino int: fs_dev string: path read_histogram write_histogram",
    ),
    _table("names", "at_ns", "bigint: at_ns! string: kind! int: fs_dev bigint: id! string: text! bigint: generation"),
    _table(
        "pressure",
        "to_ns",
        "bigint: from_ns! to_ns! int: cpus bigint: cpu_some_ns io_some_ns io_full_ns steal_ns int: runnable "
        "bigint: timer_due_ns timer_late_ns",
    ),
    _table(
        "cgroups",
        "at_ns",
        "bigint: at_ns! cgroup int: tgid string: path! int: dev bigint: read_bytes_per_s write_bytes_per_s read_ios_per_s "
        "write_ios_per_s latency_target_ns weight memory_max memory_high io_some_ns io_full_ns",
    ),
    _table(
        "rates",
        "to_ns",
        "bigint: from_ns! to_ns! int: dev! string: class! double: ios_per_s bytes_per_s merges_per_s mean_us in_flight "
        "util_percent service_us",
    ),
    _table("stages", "done_ns", "bigint: done_ns! int: dev! bigint: q2g_ns g2i_ns q2m_ns i2d_ns m2d_ns d2c_ns! q2c_ns"),
    _table("cpu", "to_ns", "bigint: from_ns! to_ns! double: user nice system iowait steal idle"),
    _table(
        "rollup",
        "at_ns",
        "int: step_s! bigint: at_ns! int: dev string: class! bigint: ios! bytes! merges errors queue_sum_ns "
        "device_sum_ns! busy_ns in_flight_ns in_flight_max lost_ios "
        "list: total_buckets! total_counts! device_buckets! device_counts!",
    ),
    # Ten minutes stay as long as the recording does, ten seconds go with the rollups of a second.
    _table("actors", "at_ns", _ACTORS, step_s=600),
    _table("actors", "at_ns", _ACTORS, relation="actors_10s", step_s=10),
    _table(
        "findings",
        "from_ns",
        "bigint: from_ns! to_ns! int: open! string: kind! severity! device summary! evidence!",
    ),
)

LAKE_TABLES = tuple(t.in_lake for t in TABLES)
BY_RELATION = {t.relation: t for t in TABLES}

# `op_stat_group()` of the kernel: of all but discards and flushes odd numbers count as writes, even ones as reads.
CLASS_OF_OP = "case when op = 2 then 'flush' when op = 3 then 'discard' when abs(op) % 2 = 1 then 'write' else 'read' end"

# `REQ_OP_*` in words, as recording-format.md has them.
OPERATION_OF_OP = (
    "case op when 0 then 'read' when 1 then 'write' when 2 then 'flush' when 3 then 'discard' when 5 then 'secure erase' "
    "when 7 then 'zone append' when 9 then 'write zeroes' else concat('op ', cast(op as string)) end"
)


def io_columns_sql(origin_unix_ns: int | str) -> str:
    """Columns of `ios` beside those that are stored: when an I/O started (UTC), how long it took, and what it was.

    `origin_unix_ns` is the recording's start. Each engine has a function `utc`.
    """
    total_ns = "(device_ns + coalesce(queue_ns, 0))"
    return (
        f"utc({origin_unix_ns} + done_ns - {total_ns}) as start, {total_ns} / 1e3 as total_us, "
        f"{OPERATION_OF_OP} as operation, {CLASS_OF_OP} as class"
    )


def bucket_low_sql(bucket: str) -> str:
    """SQL of the duration in nanoseconds with which a bucket of `rollup` begins (docs/recording-format.md)."""
    octave = f"({bucket} - {bucket} % 16 - 16)"
    # 2^s by a shift would need another text in Spark; a power of two is exact in a double.
    return (
        f"(case when {bucket} < 32 then {bucket} * 8 "
        f"else cast(({bucket} % 16 + 16) * power(2, {octave} / 16.0) * 8 as bigint) end)"
    )


def bucket_of_sql(duration_ns: str) -> str:
    """DuckDB SQL of the bucket that holds a duration in nanoseconds."""
    eighths = f"(greatest({duration_ns}, 0) // 8)"
    octave = f"(length(bin({eighths})) - 5)"
    return f"least(case when {eighths} < 32 then {eighths} else 16 * {octave} + ({eighths} >> {octave}) end, 495)"
