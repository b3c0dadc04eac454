"""Connections to DuckDB, and the files of a table as its SQL."""

from __future__ import annotations

import duckdb

from .errors import IolensError
from .tables import Table


def connect() -> duckdb.DuckDBPyConnection:
    """A database in memory."""
    connection = duckdb.connect()
    # DuckDB takes `python -m iolens` for a terminal and would draw its progress into the output.
    connection.execute("set enable_progress_bar = false")
    connection.execute("create macro utc(unix_ns) as make_timestamp(unix_ns // 1000)")
    return connection


def ask(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyRelation:
    """The rows of `sql`. Of a text without a statement DuckDB makes no relation, whatever its types say."""
    found: duckdb.DuckDBPyRelation | None = connection.sql(sql)
    if found is None:
        raise IolensError("the query is empty: there is no statement in it")
    return found


def quoted(text: str) -> str:
    """A string literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def empty_sql(table: Table) -> str:
    """A table without rows."""
    columns = ", ".join(f'cast(null as {duck_type(c.sql)}) as "{c.name}"' for c in table.columns)
    return f"select {columns} where false"


def duck_type(sql: str) -> str:
    """DuckDB's word for a type."""
    return {"array<int>": "integer[]", "string": "varchar", "int": "integer"}.get(sql, sql)


def select_sql(connection: duckdb.DuckDBPyConnection, table: Table, files: list[str], hive: bool = False) -> str:
    """The rows of `files`: the known columns in order, absent ones as null, integers signed."""
    names = "[" + ", ".join(quoted(f) for f in files) + "]"
    options = (
        "hive_partitioning = true, hive_types = {'host': varchar, 'start_ns': bigint}" if hive else "hive_partitioning = false"
    )
    # To unite columns DuckDB reads the footers of all files for each question; where they agree once is enough.
    kinds = connection.sql(
        "select distinct columns from (select list(name || ' ' || coalesce(type, '') order by name) as columns "
        f"from parquet_schema({names}) group by file_name)"
    ).fetchall()
    source = f"read_parquet({names}, union_by_name = {'true' if len(kinds) > 1 else 'false'}, {options})"
    have = {column.rpartition(" ")[0] for (columns,) in kinds for column in columns}
    for column in table.columns:
        if column.required and column.name not in have:
            raise IolensError(f"the table {table.directory} of {files[0]} has no column {column.name}")
    # `by` of the actors is a word of SQL, too.
    cells = {c.name: f'"{c.name}"' if c.name in have else "null" for c in table.columns}
    columns = [f'cast({cells[c.name]} as {duck_type(c.sql)}) as "{c.name}"' for c in table.columns]
    return f"select {', '.join((['host', 'start_ns'] if hive else []) + columns)} from {source}"


def compacted_sql(connection: duckdb.DuckDBPyConnection, table: Table, files: list[str], is_uniform: bool) -> str:
    """The rows of compacted `files`, which have `start_ns` as a column. `is_uniform`: they have all columns in one order."""
    names = "[" + ", ".join(quoted(f) for f in files) + "]"
    options = "hive_partitioning = true, hive_types = {'host': varchar, 'day': varchar}"
    source = f"read_parquet({names}, union_by_name = {'false' if is_uniform else 'true'}, {options})"
    have = {c.name for c in table.columns} if is_uniform else set(connection.sql(f"from {source}").columns)
    cells = {c.name: f'"{c.name}"' if c.name in have else "null" for c in table.columns}
    columns = [f'cast({cells[c.name]} as {duck_type(c.sql)}) as "{c.name}"' for c in table.columns]
    return f"select {', '.join(['host', 'start_ns', *columns])} from {source}"
