"""A standalone Spark cluster of one master and two workers gives the same results as DuckDB; run by `make python-spark`."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, START_NS
from lakes import make_ended, make_root
from test_actors import DAY_NS, answer
from test_actors import write_lake as write_actors_lake
from test_containers import write_lake

import iolens
from iolens.compact import compact

pytestmark = pytest.mark.spark
pytest.importorskip("pyspark", reason="SKIP: pyspark is not installed")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A session on the cluster."""
    if shutil.which("java") is None:
        pytest.skip("SKIP: Java is missing (Debian: openjdk-17-jre-headless)")
    import spark_cluster

    with spark_cluster.session() as session:
        yield session


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lake")
    make_root(path)
    return path


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) or isinstance(b, float):
        return math.isclose(float(a), float(b), rel_tol=1e-12, abs_tol=1e-12)
    return bool(a == b)


def assert_same(spark: list[dict[str, Any]], duck: list[dict[str, Any]], what: str) -> None:
    def key(row: dict[str, Any]) -> list[str]:
        return [str(v) for v in row.values() if not isinstance(v, float)]

    assert len(spark) == len(duck) > 0, what
    for a, b in zip(sorted(spark, key=key), sorted(duck, key=key), strict=True):
        assert list(a) == list(b), what
        assert all(same(a[name], b[name]) for name in a), (what, a, b)


def test_answers_are_those_of_duckdb(cluster: Any, root: Path) -> None:
    spark, duck = iolens.lake(root, engine="spark", spark=cluster), iolens.lake(root)
    for name in ("hosts", "latency", "capacity"):
        assert_same(getattr(spark, name)().to_pylist(), getattr(duck, name)().to_pylist(), name)
    for by in ("process", "cgroup"):
        assert_same(spark.noisy(by).to_pylist(), duck.noisy(by).to_pylist(), by)
    for sql in (
        """select host, device, class, at_unix_ns - at_unix_ns % 10000000 as bin, count(*) as n, sum(bytes) as b
           from ios group by 1, 2, 3, 4""",
        "select host, stable_id, kind, dev, size_bytes from devices where start_ns = 1795000000000000000",
        "select host, class, bucket, low_ns, sum(ios) as n from buckets where part = 'total' group by 1, 2, 3, 4",
        "select host, class, percentile_disc(0.99) within group (order by device_ns) as p99_ns from ios group by 1, 2",
        "select * from findings",
        "select host, start, total_us, op, operation from ios",
    ):
        assert_same(spark.query(sql).to_pylist(), duck.query(sql).to_pylist(), sql)
    assert spark.query("select * from requests").num_rows == 0


def test_hours_are_read_as_by_duckdb(cluster: Any, tmp_path: Path) -> None:
    starts = sorted(make_ended(tmp_path))
    duck = iolens.lake(tmp_path)
    expected = [duck.hosts().to_pylist(), duck.latency("device", "total", 0.5).to_pylist()]
    for start in starts[1:2]:
        for file in (tmp_path / f"host=d/start_ns={start}/rollup").glob("60s-*"):
            file.write_bytes(b"no Parquet")
    spark = iolens.lake(tmp_path, engine="spark", spark=cluster)
    assert_same(spark.hosts().to_pylist(), expected[0], "hosts")
    assert_same(spark.latency("device", "total", 0.5).to_pylist(), expected[1], "latency")


@pytest.mark.parametrize("min_piece_bytes", [0, 64 << 10])
def test_compacted_days_are_read_as_by_duckdb(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, min_piece_bytes: int
) -> None:
    monkeypatch.setattr("iolens.compact._SETTLED_S", 0)
    monkeypatch.setattr("iolens.compact._MIN_PIECE_BYTES", min_piece_bytes)
    make_root(tmp_path)
    make_ended(tmp_path, "e")
    for file in sorted(tmp_path.glob("host=e/*/meta.json"))[:-1]:
        file.write_text(json.dumps({**json.loads(file.read_text()), "end_ns": 7200 * 10**9}))
    with iolens.lake(tmp_path) as before:
        expected = {name: getattr(before, name)().to_pylist() for name in ("hosts", "latency", "capacity")}
        names = ("ios", "rollup", "waits", "devices", "findings")
        rows = {name: before.query(f"select * from {name}").to_pylist() for name in names}
    assert len(compact(tmp_path)) == 4
    spark = iolens.lake(tmp_path, engine="spark", spark=cluster)
    for name, of_duckdb in expected.items():
        assert_same(getattr(spark, name)().to_pylist(), of_duckdb, name)
    for name, of_duckdb in rows.items():
        found = spark.query(f"select * from {name}").to_pylist()
        assert sorted(map(str, map(_plain, found))) == sorted(map(str, map(_plain, of_duckdb))), name


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A list of no buckets is one, whatever the engine makes of it."""
    return {name: list(value) if isinstance(value, list) else value for name, value in row.items()}


def test_pods_are_those_of_duckdb(cluster: Any, tmp_path: Path) -> None:
    write_lake(tmp_path)
    spark, duck = iolens.lake(tmp_path, engine="spark", spark=cluster), iolens.lake(tmp_path)
    assert_same(spark.noisy("pod").to_pylist(), duck.noisy("pod").to_pylist(), "pod")
    sql = "select * from containers"
    assert_same(spark.query(sql).to_pylist(), duck.query(sql).to_pylist(), sql)


def test_actors_and_findings_are_those_of_duckdb(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_actors_lake(tmp_path)
    spark, duck = iolens.lake(tmp_path, engine="spark", spark=cluster), iolens.lake(tmp_path)
    for relation in ("actors", "actors_10s"):
        sql = f"select a.* from {relation} a"
        assert_same(spark.query(sql).to_pylist(), duck.query(sql).to_pylist(), relation)
    for relation, root in (("actors", tmp_path), ("findings", FIXTURES / "lake")):
        asked = (iolens.lake(root, engine="spark", spark=cluster), iolens.lake(root))
        assert_same(*(answer(relation, lake, START_NS + DAY_NS, monkeypatch) for lake in asked), relation)


def test_two_lakes_and_the_users_own_views_stay_apart(cluster: Any, root: Path, tmp_path: Path) -> None:
    make_ended(tmp_path)
    cluster.sql("select 7 as seven").createOrReplaceTempView("names")
    cluster.conf.set("spark.sql.shuffle.partitions", "3")
    first, second = (iolens.lake(path, engine="spark", spark=cluster) for path in (root, tmp_path))
    count = "select count(*) as n from rollup, (select count(*) as names from names)"
    counts = [lake.query(count).to_pylist() for lake in (first, second, first)]
    assert counts[0] == counts[2] == iolens.lake(root).query(count).to_pylist()
    assert counts[1] == iolens.lake(tmp_path).query(count).to_pylist() != counts[0]
    assert [row["seven"] for row in cluster.sql("select * from names").collect()] == [7]
    assert first.engine.spark.conf.get("spark.sql.shuffle.partitions") == "3"


def test_a_damaged_file_is_left_out_with_a_warning(cluster: Any, tmp_path: Path) -> None:
    make_root(tmp_path, ios=50)
    file = next(tmp_path.glob("host=a/*/rollup/*.parquet"))
    file.write_bytes(file.read_bytes()[:100])
    spark, duck = iolens.lake(tmp_path, engine="spark", spark=cluster), iolens.lake(tmp_path)
    with pytest.warns(UserWarning, match="is damaged and left out"):
        rows = spark.hosts().to_pylist()
    with pytest.warns(UserWarning, match="is damaged and left out"):
        assert_same(rows, duck.hosts().to_pylist(), "hosts")


def test_the_cluster_has_its_workers(cluster: Any) -> None:
    executors = cluster.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    # The driver is in the list as well.
    assert len(executors) == 2 + 1


def test_partitions_are_pruned(cluster: Any, tmp_path: Path) -> None:
    make_root(tmp_path, ios=50)
    lake = iolens.lake(tmp_path, engine="spark", spark=cluster)
    frame = lake.sql("select count(*) as n, sum(bytes) as b from ios where host = 'c/1' and start_ns > 1795000000000000000")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    scans = [line for line in plan.splitlines() if "FileScan" in line]
    assert scans, plan
    for scan in scans:
        assert "PartitionFilters: [" in scan, plan
        filters = scan.split("PartitionFilters: [")[1]
        assert "= c/1)" in filters, plan
        assert "> 1795" in filters, plan
    # Files that are not needed are not opened; they are unreadable here.
    for file in tmp_path.glob("host=[ab]/*/*/*.parquet"):
        file.write_bytes(b"no Parquet")
    assert frame.collect()[0]["n"] == 50
