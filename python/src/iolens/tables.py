"""The tables of a recording as relations. Their columns are those of docs/recording-format.md."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .columns import CLASS_OF_OP, COLUMNS, TIMES


@dataclass(frozen=True)
class Column:
    """A column of a table. `sql` is a type name that both DuckDB and Spark have."""

    name: str
    sql: str
    required: bool = False


@dataclass(frozen=True)
class Table:
    """A table: its directory, the name of its relation, its time column, its columns.

    `step_s`: the relation has only the rows of this step, because those of other steps describe the same I/Os.
    """

    directory: str
    relation: str
    time: str
    columns: tuple[Column, ...]
    step_s: int | None = None

    @property
    def in_lake(self) -> Table:
        """The table in a lake, in which `start_ns` is the recording's start and a request's own start is hidden."""
        return replace(self, columns=tuple(c for c in self.columns if c.name != "start_ns"))

    @property
    def names(self) -> list[str]:
        """The names of its columns."""
        return [c.name for c in self.columns]


def _table(directory: str, relation: str | None = None, step_s: int | None = None) -> Table:
    columns = tuple(Column(*column) for column in COLUMNS[directory])
    return Table(directory, relation or directory, TIMES[directory], columns, step_s)


TABLES = (
    _table("io", relation="ios"),
    _table("counters"),
    _table("lost"),
    _table("marks"),
    _table("requests"),
    _table("names"),
    _table("pressure"),
    _table("cgroups"),
    _table("rates"),
    _table("stages"),
    _table("cpu"),
    _table("rollup"),
    # Rows of ten minutes are kept as long as the recording. Rows of ten seconds are removed with the rollups of a second.
    _table("actors", step_s=600),
    _table("actors", relation="actors_10s", step_s=10),
    _table("waits", step_s=600),
    _table("waits", relation="waits_10s", step_s=10),
    _table("findings"),
)

# `dev` joins it with the other tables.
DEVICES = Table("devices", "devices", "added_ns", tuple(Column(name, sql) for name, sql, _ in COLUMNS["devices"]))

LAKE_TABLES = tuple(t.in_lake for t in TABLES)
BY_RELATION = {t.relation: t for t in TABLES}

# `REQ_OP_*` in words, as in recording-format.md.
OPERATION_OF_OP = (
    "case op when 0 then 'read' when 1 then 'write' when 2 then 'flush' when 3 then 'discard' when 5 then 'secure erase' "
    "when 7 then 'zone append' when 9 then 'write zeroes' else concat('op ', cast(op as string)) end"
)


def io_columns_sql(origin_unix_ns: int | str) -> str:
    """Columns of `ios` besides those that are stored: when an I/O started (UTC), how long it took, and its operation.

    `origin_unix_ns` is the recording's start. Each engine has a function `utc`.
    """
    total_ns = "(device_ns + coalesce(queue_ns, 0))"
    return (
        f"utc({origin_unix_ns} + done_ns - {total_ns}) as start, {total_ns} / 1e3 as total_us, "
        f"{OPERATION_OF_OP} as operation, {CLASS_OF_OP} as class"
    )


def bucket_low_sql(bucket: str) -> str:
    """SQL of the lower bound of a bucket of `rollup`, as a duration in nanoseconds (docs/recording-format.md)."""
    octave = f"({bucket} - {bucket} % 16 - 16)"
    # 2^s by a shift would need a different text for Spark. A power of two is exact in a double.
    return (
        f"(case when {bucket} < 32 then {bucket} * 8 "
        f"else cast(({bucket} % 16 + 16) * power(2, {octave} / 16.0) * 8 as bigint) end)"
    )


def bucket_of_sql(duration_ns: str) -> str:
    """DuckDB SQL of the bucket that contains a duration in nanoseconds."""
    eighths = f"(greatest({duration_ns}, 0) // 8)"
    octave = f"(length(bin({eighths})) - 5)"
    return f"least(case when {eighths} < 32 then {eighths} else 16 * {octave} + ({eighths} >> {octave}) end, 495)"
