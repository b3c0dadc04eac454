"""Connections to DuckDB, and the files of a table as its SQL."""

from __future__ import annotations

import duckdb

from .errors import IolensError
from .tables import Table


def connect() -> duckdb.DuckDBPyConnection:
    """A database in memory."""
    connection = duckdb.connect()
    # DuckDB takes `python -m iolens` for an interactive session and would print its progress bar into the output.
    connection.execute("set enable_progress_bar = false")
    connection.execute("create macro utc(unix_ns) as make_timestamp(unix_ns // 1000)")
    return connection


def ask(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyRelation:
    """The rows of `sql`. DuckDB returns None for a text without a statement, although its type hints exclude that."""
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
    """DuckDB's name of a type."""
    return {"array<int>": "integer[]", "string": "varchar", "int": "integer"}.get(sql, sql)


def select_sql(connection: duckdb.DuckDBPyConnection, table: Table, files: list[str], hive: bool = False) -> str:
    """The rows of `files`: the known columns in order, absent ones as null, integers signed."""
    names = "[" + ", ".join(quoted(f) for f in files) + "]"
    options = (
        "hive_partitioning = true, hive_types = {'host': varchar, 'start_ns': bigint}" if hive else "hive_partitioning = false"
    )
    # To unite columns by name DuckDB reads the footers of all files for each query; if they are known to agree, it need not.
    kinds = connection.sql(
        "select distinct columns from (select list(name || ' ' || coalesce(type, '') order by name) as columns "
        f"from parquet_schema({names}) group by file_name)"
    ).fetchall()
    source = f"read_parquet({names}, union_by_name = {'true' if len(kinds) > 1 else 'false'}, {options})"
    have = {column.rpartition(" ")[0] for (columns,) in kinds for column in columns}
    for column in table.columns:
        if column.required and column.name not in have:
            raise IolensError(f"the table {table.directory} of {files[0]} has no column {column.name}")
    # `by`, a column of the actors, is also a SQL keyword.
    cells = {c.name: f'"{c.name}"' if c.name in have else "null" for c in table.columns}
    columns = [f'cast({cells[c.name]} as {duck_type(c.sql)}) as "{c.name}"' for c in table.columns]
    return f"select {', '.join((['host', 'start_ns'] if hive else []) + columns)} from {source}"


def compacted_sql(connection: duckdb.DuckDBPyConnection, table: Table, files: list[str], is_uniform: bool) -> str:
    """The rows of compacted `files`, which have a column `start_ns`. `is_uniform`: all have the same columns in one order."""
    names = "[" + ", ".join(quoted(f) for f in files) + "]"
    options = "hive_partitioning = true, hive_types = {'host': varchar, 'day': varchar}"
    source = f"read_parquet({names}, union_by_name = {'false' if is_uniform else 'true'}, {options})"
    have = {c.name for c in table.columns} if is_uniform else set(connection.sql(f"from {source}").columns)
    cells = {c.name: f'"{c.name}"' if c.name in have else "null" for c in table.columns}
    columns = [f'cast({cells[c.name]} as {duck_type(c.sql)}) as "{c.name}"' for c in table.columns]
    return f"select {', '.join(['host', 'start_ns', *columns])} from {source}"
