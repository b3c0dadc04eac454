"""Files that are joined by copying have the rows of their parts, for every reader."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import FIXTURES, random_ios

from iolens.parquet_join import NotJoinableError, Part, join

RECORDED = sorted([*FIXTURES.glob("lake/*/*/*/*.parquet"), *FIXTURES.glob("waits/*/*/*/*.parquet")])


def rows(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(file, partitioning=None).to_pylist()
    return found


@pytest.mark.parametrize("file", RECORDED, ids=lambda f: f"{f.parts[-4]}-{f.parent.name}-{f.stem}")
def test_what_the_program_wrote(file: Path, tmp_path: Path) -> None:
    own = rows(file)
    values = (5, -(2**63), 2**63 - 1)
    expected = [{"start_ns": value, **row} for value in values for row in own]
    assert join([Part(file, value) for value in values], "start_ns", tmp_path / "one") == len(expected)
    assert rows(tmp_path / "one") == expected
    # Another reader gives the same result, and finds rows by the statistics of their pieces.
    relation = duckdb.read_parquet(str(tmp_path / "one"))
    assert [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()] == expected
    assert relation.filter("start_ns = 5").aggregate("count(*)").fetchall() == [(len(own),)]
    # Joined once more, with files that have the column.
    assert join([Part(tmp_path / "one", None), Part(file, 7)], "start_ns", tmp_path / "two") == len(expected) + len(own)
    assert rows(tmp_path / "two") == expected + [{"start_ns": 7, **row} for row in own]


def write(path: Path, table: pa.Table, **options: Any) -> Path:
    pq.write_table(table, path, **options)
    return path


@pytest.mark.parametrize("compression", ["zstd", "snappy", "none"])
def test_many_pieces_and_encodings(tmp_path: Path, compression: str) -> None:
    table = pa.Table.from_pylist(random_ios(1, 1000))
    options = {"compression": compression, "row_group_size": 30, "write_page_index": True}
    some = write(tmp_path / "a", table, use_dictionary=True, **options)
    other = write(tmp_path / "b", table, use_dictionary=False, data_page_version="2.0", **options)
    assert join([Part(some, 1), Part(other, 2)], "start_ns", tmp_path / "one") == 2000
    assert pq.read_metadata(tmp_path / "one").num_row_groups == 68
    assert rows(tmp_path / "one") == [{"start_ns": n, **row} for n in (1, 2) for row in table.to_pylist()]


def test_what_cannot_be_joined_is_refused(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2], "b": ["x", None]})
    file = write(tmp_path / "file", table)
    for name, other in (("type", table.set_column(0, "a", pa.array([1.5, 2.0]))), ("fewer", table.select(["a"]))):
        with pytest.raises(NotJoinableError, match="other columns or another writer"):
            join([Part(file, 1), Part(write(tmp_path / name, other), 2)], "start_ns", tmp_path / "one")
    whole = file.read_bytes()
    for length in range(0, len(whole), 7):
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(NotJoinableError):
            join([Part(tmp_path / "cut", 1)], "start_ns", tmp_path / "one")
    # Whatever a footer contains, the file is rejected or the rows are complete.
    rng = random.Random(1)
    length = int.from_bytes(whole[-8:-4], "little")
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[-8 - 1 - rng.randrange(length)] = rng.randrange(256)
        (tmp_path / "cut").write_bytes(damaged)
        with contextlib.suppress(NotJoinableError):
            assert (
                join([Part(tmp_path / "cut", 1)], "start_ns", tmp_path / "one") == pq.read_metadata(tmp_path / "one").num_rows
            )
    assert join([Part(write(tmp_path / "none", table.slice(0, 0)), 1)], "start_ns", tmp_path / "one") == 0


def test_what_is_in_memory_is_joined_as_a_file_is(tmp_path: Path) -> None:
    table = pa.table({"n": pa.array([1, 2, 3], pa.int64()), "s": ["a", None, "c"]})
    file = write(tmp_path / "file", table)
    assert join([Part(file.read_bytes(), 7), Part(file, 8)], "start_ns", tmp_path / "one") == 6
    assert pq.read_table(tmp_path / "one").to_pydict() == {
        "start_ns": [7] * 3 + [8] * 3,
        "n": [1, 2, 3] * 2,
        "s": ["a", None, "c"] * 2,
    }


def test_other_columns_than_asked_for_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "file", pa.table({"n": pa.array([1], pa.int64()), "s": ["a"]}))
    types = {"n": pa.int64(), "s": pa.string()}
    assert join([Part(file, 1)], "start_ns", tmp_path / "one", types) == 1
    # Files that were joined already have the added column, which is not one of the table's.
    assert join([Part(tmp_path / "one", None), Part(file, 2)], "start_ns", tmp_path / "two", types) == 2
    for other in ({"n": pa.int64()}, {**types, "more": pa.int64()}, {**types, "n": pa.int32()}):
        with pytest.raises(NotJoinableError, match="other columns"):
            join([Part(file, 1)], "start_ns", tmp_path / "three", other)
