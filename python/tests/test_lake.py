"""Queries over a lake, compared with results computed from its I/Os in Python."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import DISK, DM, FIXTURES, RANDOM_META, START_NS, random_ios, write_recording
from lakes import HOSTS, bucket_of, class_of, make_ended, make_root, rollup_rows, write_table

import iolens
from iolens import capacity
from iolens.cli import main

Truth = dict[tuple[str, int], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    path = tmp_path_factory.mktemp("lake")
    return path, make_root(path)


def test_relations_have_host_time_and_device(root: tuple[Path, Truth]) -> None:
    path, truth = root
    lake = iolens.lake(path)
    rows = lake.query("select host, start_ns, at_unix_ns, device, stable_id, done_ns, class, op from ios").to_pylist()
    assert len(rows) == sum(map(len, truth.values()))
    assert {row["host"] for row in rows} == set(HOSTS)
    for row in rows:
        assert row["at_unix_ns"] == row["start_ns"] + row["done_ns"]
        assert row["class"] == class_of(row["op"])
    assert {(r["device"], r["stable_id"]) for r in rows} == {("sda", "wwn-1"), ("dm-0", None)}
    assert lake.lost.fetchall() == []
    assert len(lake.devices.fetchall()) == 6 * 4
    assert repr(lake) == f"<Lake {str(path)!r}: 3 hosts, 6 recordings>"


def test_names_are_found_however_they_are_written(root: tuple[Path, Truth]) -> None:
    lake = iolens.lake(root[0])
    for sql in (
        "select count(*) from (select 1 from devices) a, marks, (select * from lost)",
        "SELECT count(*) FROM\n  Counters c, requests r WHERE c.dev=r.flags",
        'select count(*) from "stages" s left join cpu on true',
        "with i as (from ios) select count(*) from i",
        "select count(*) from rollup join buckets using (host)",
    ):
        assert lake.query(sql).num_rows == 1, sql


def test_bins_of_absolute_time(root: tuple[Path, Truth]) -> None:
    path, truth = root
    sql = "select host, at_unix_ns - at_unix_ns % 10000000 as bin, count(*) as n from ios group by 1, 2"
    counted = {(r["host"], r["bin"]): r["n"] for r in iolens.lake(path).query(sql).to_pylist()}
    expected: dict[tuple[str, int], int] = {}
    for (host, start), ios in truth.items():
        for one in ios:
            at = start + one["done_ns"]
            expected[host, at - at % 10_000_000] = expected.get((host, at - at % 10_000_000), 0) + 1
    assert counted == expected


def test_hosts_count_disks_only(root: tuple[Path, Truth]) -> None:
    path, truth = root
    for row in iolens.lake(path).hosts().to_pylist():
        ios = [i for (host, _), of in truth.items() if host == row["host"] for i in of if i["dev"] == DISK]
        assert (row["recordings"], row["disks"], row["ios"]) == (2, 1, len(ios))
        assert row["bytes"] == sum(i["bytes"] for i in ios)
        assert row["first_unix_ns"] == START_NS
        newest = max(start + i["done_ns"] for (host, start), of in truth.items() if host == row["host"] for i in of)
        assert newest - 60 * 10**9 < row["last_unix_ns"] <= newest


def test_a_host_of_loop_devices_has_recordings_and_no_sums(tmp_path: Path) -> None:
    for host in ("db1", "db2"):
        shutil.copytree(FIXTURES / f"lake/host={host}", tmp_path / f"host={host}")
    make_root(tmp_path)
    rows = {row["host"]: row for row in iolens.lake(tmp_path).hosts().to_pylist()}
    assert list(rows) == [*HOSTS, "db1", "db2"]
    for host in ("db1", "db2"):
        row = rows[host]
        assert (row["recordings"], row["disks"]) == (1, 0)
        assert (row["ios"], row["bytes"], row["lost_ios"]) == (None, None, None)
        assert 0 < row["first_unix_ns"] <= row["last_unix_ns"]
    assert rows["a"]["disks"] == 1
    assert rows["a"]["ios"] > 0


@pytest.mark.parametrize("q", [0.5, 0.99, 1.0])
def test_latency_from_histograms(q: float, root: tuple[Path, Truth]) -> None:
    path, truth = root
    rows = iolens.lake(path).latency("device", "total", q).to_pylist()
    assert len(rows) == 3 * 2 * 4
    for row in rows:
        dev = {"sda": DISK, "dm-0": DM}[row["device"]]
        of = [i for (host, _), ios in truth.items() if host == row["host"] for i in ios]
        took = sorted(
            i["device_ns"] + (i["queue_ns"] or 0) for i in of if i["dev"] == dev and class_of(i["op"]) == row["class"]
        )
        exact = took[math.ceil(q * len(took)) - 1]
        assert row["ios"] == len(took)
        assert bucket_of(round(row["quantile_us"] * 1000)) == bucket_of(exact)
        assert row["quantile_us"] == pytest.approx(exact / 1e3, rel=0.032)


def test_hours_answer_as_minutes_do(tmp_path: Path) -> None:
    truth = make_ended(tmp_path / "hours")
    starts = sorted(truth)
    shutil.copytree(tmp_path / "hours", tmp_path / "minutes")
    for file in (tmp_path / "minutes").rglob("3600s-*"):
        file.unlink()
    questions = (
        "hosts",
        *(("latency", by, part, q) for by in ("device", "host") for part in ("total", "device") for q in (0.5, 0.99)),
    )

    def answers(root: Path) -> list[Any]:
        lake = iolens.lake(root)
        return [lake.hosts() if q == "hosts" else lake.latency(*q[1:]) for q in questions]

    by_minutes = answers(tmp_path / "minutes")
    for a, b in zip(answers(tmp_path / "hours"), by_minutes, strict=True):
        assert a.num_rows > 0
        assert a.equals(b)
    [row] = by_minutes[0].to_pylist()
    of_disk = [(start, io) for start in starts for io in truth[start] if io["dev"] == DISK]
    assert (row["recordings"], row["ios"]) == (5, len(of_disk))
    minute_ns = 60 * 10**9
    minutes = [start + io["done_ns"] // minute_ns * minute_ns for start, io in of_disk]
    assert (row["first_unix_ns"], row["last_unix_ns"]) == (min(minutes), max(minutes))
    # The minutes of the second and third recording are not read; they are unreadable.
    for start in starts[1:3]:
        for file in (tmp_path / f"hours/host=d/start_ns={start}/rollup").glob("*"):
            if not file.name.startswith("3600s-"):
                file.write_bytes(b"no Parquet")
    for a, b in zip(answers(tmp_path / "hours"), by_minutes, strict=True):
        assert a.equals(b)


def test_the_hour_of_a_short_recording_does_not_reach_beyond_the_newest(tmp_path: Path) -> None:
    minute_ns = 60 * 10**9
    for number in range(3):
        start_ns = START_NS + 2 * number * minute_ns
        ios = random_ios(60 + number, 100)
        assert ios[-1]["done_ns"] < minute_ns
        path = tmp_path / f"host=d/start_ns={start_ns}"
        write_recording(path, ios, {**RANDOM_META, "host": "d", "start_unix_ns": start_ns})
        for step_s in (1, 60, 3600):
            write_table(path, "rollup", rollup_rows(ios, step_s), f"{step_s}s-000001.parquet")
    [row] = iolens.lake(tmp_path).hosts().to_pylist()
    assert row["recordings"] == 3
    assert (row["first_unix_ns"], row["last_unix_ns"]) == (START_NS, START_NS + 4 * minute_ns)


def test_a_truncated_file_is_left_out_with_a_warning(tmp_path: Path) -> None:
    make_root(tmp_path)
    whole = {row["host"]: row for row in iolens.lake(tmp_path).hosts().to_pylist()}
    file = tmp_path / f"host=a/start_ns={START_NS}/rollup/000001.parquet"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    for name in ("hosts", "latency", "capacity"):
        lake = iolens.lake(tmp_path)
        with pytest.warns(UserWarning, match=rf"{file} is damaged and left out") as said:
            rows = getattr(lake, name)().to_pylist()
        assert len(said) == 1
        # A day that is known for less than an hour has no capacity.
        assert {row["host"] for row in rows} == set(HOSTS[1:] if name == "capacity" else HOSTS)
        if name == "hosts":
            assert rows[1:] == [whole[host] for host in HOSTS[1:]]
            assert (whole["a"]["recordings"], rows[0]["recordings"]) == (2, 1)
    # A damaged file must not hide an error in the query.
    with pytest.raises(iolens.IolensError, match="nosuch"):
        iolens.lake(tmp_path).query("select nosuch from ios")


def test_a_damaged_description_takes_the_names_of_its_devices_only(tmp_path: Path) -> None:
    make_root(tmp_path)
    for name in ("meta.json", "meta.json.bak"):
        (tmp_path / f"host=b/start_ns={START_NS}" / name).write_text('{"schema')
    lake = iolens.lake(tmp_path)
    with pytest.warns(UserWarning, match="its devices have no names"):
        found = lake.query("select host, start_ns, count(*) as n, count(device) as named from ios group by 1, 2").to_pylist()
    assert {(r["host"], r["start_ns"]) for r in found if r["named"] == 0} == {("b", START_NS)}
    assert all(row["n"] == 400 for row in found)


def test_ios_say_when_they_started_and_what_they_were(root: tuple[Path, Truth]) -> None:
    path, truth = root
    rows = iolens.lake(path).query("select * from ios").to_pylist()
    words = {0: "read", 1: "write", 2: "flush", 3: "discard", 5: "secure erase", 9: "write zeroes"}
    for row in rows:
        total_ns = row["device_ns"] + (row["queue_ns"] or 0)
        assert row["total_us"] == total_ns / 1e3
        start_us = (row["at_unix_ns"] - total_ns) // 1000
        assert row["start"] == datetime(1970, 1, 1) + timedelta(microseconds=start_us)
        assert row["operation"] == words[row["op"]]
    [(host, start_ns), *_] = truth
    recording = iolens.open(path / f"host={host}" / f"start_ns={start_ns}")
    columns = "done_ns, dev, start, total_us, op, operation"
    mine = recording.sql(f"select {columns} from ios order by all").fetchall()
    theirs = iolens.lake(path).sql(f"select {columns} from ios where host = '{host}' and start_ns = {start_ns} order by all")
    assert mine == theirs.fetchall()


def test_the_output_has_no_progress_bar(root: tuple[Path, Truth]) -> None:
    sql = "select current_setting('enable_progress_bar') as bar"
    for path in (root[0], FIXTURES / "recordings/v1/finished.iolens"):
        words = [sys.executable, "-m", "iolens", "query", str(path), sql, "--format", "json"]
        environment = {**os.environ, "PYTHONPATH": str(Path(iolens.__file__).parents[1])}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout) == [{"bar": False}]


def test_recordings_come_and_go_between_questions(tmp_path: Path) -> None:
    truth = make_ended(tmp_path)
    lake = iolens.lake(tmp_path)
    assert lake.hosts()["recordings"].to_pylist() == [5]
    shutil.rmtree(tmp_path / f"host=d/start_ns={min(truth)}")
    assert lake.hosts()["recordings"].to_pylist() == [4]
    assert lake.latency().num_rows > 0
    make_ended(tmp_path, "e")
    assert lake.hosts()["recordings"].to_pylist() == [4, 5]


def _days(values: list[float], minutes: float = 1440.0) -> pa.Table:
    day_ns = 86_400 * 10**9
    return pa.Table.from_pylist(
        [
            {
                "host": "h",
                "device": "sda",
                "stable_id": "s",
                "day_unix_ns": START_NS + day * day_ns,
                "minutes": minutes,
                "busy_p99_percent": value,
                "ios_per_s_p99": 10.0,
                "bytes_per_s_p99": 40.0,
            }
            for day, value in enumerate(values)
        ]
    )


def test_capacity_says_when_only_where_it_grows() -> None:
    [growing] = capacity.forecast(_days([30 + day + (day % 3) for day in range(28)])).to_pylist()
    assert growing["growth_percent_per_week"] == pytest.approx(7, abs=0.3)
    assert growing["weeks_left"] == pytest.approx(growing["headroom_percent"] / growing["growth_percent_per_week"])
    assert growing["weeks_left_low"] <= growing["weeks_left"] <= growing["weeks_left_high"]
    [level] = capacity.forecast(_days([40 + (day * 7) % 5 for day in range(28)])).to_pylist()
    assert (level["weeks_left"], level["growth_percent_per_week"]) == (None, 0.0)
    [short] = capacity.forecast(_days([40.0, 41.0, 42.0])).to_pylist()
    assert (short["headroom_percent"], short["growth_percent_per_week"]) == (59.0, None)
    assert capacity.forecast(_days([40.0], minutes=3.0)).num_rows == 0


def test_a_days_percentile_counts_idle_minutes(tmp_path: Path) -> None:
    # Of 200 minutes 100 have I/O, 1 to 100 % busy: the 99th percentile (rank 198) is the third largest.
    path = tmp_path / f"host=h/start_ns={START_NS}"
    write_recording(path, [], {"devices": [{"name": "sda", "id": DISK, "kind": "request"}], "start_unix_ns": START_NS})
    minute_ns = 60 * 10**9
    first = -START_NS % (86_400 * 10**9)
    rows = [
        {"step_s": 60, "at_ns": first + m * minute_ns, "dev": DISK, "class": "all", "ios": 60, "bytes": 60 * (m + 1)}
        | {"device_sum_ns": 1, "busy_ns": (m + 1) * minute_ns // 100}
        | {"total_buckets": [], "total_counts": [], "device_buckets": [], "device_counts": []}
        for m in [*range(99), 199]
    ]
    rows[-1]["busy_ns"] = minute_ns
    write_table(path, "rollup", rows)
    [row] = iolens.lake(tmp_path).capacity().to_pylist()
    assert (row["busy_p99_percent"], row["headroom_percent"]) == (98.0, 2.0)
    assert row["ios_per_s_p99"] == 1.0


def test_the_program_finds_on_every_host(tmp_path: Path, program: str) -> None:
    for host in ("x", "y"):
        (tmp_path / f"host={host}").mkdir()
        (tmp_path / f"host={host}/start_ns=1795000000000000000").symlink_to(FIXTURES / "recordings/v1/finished.iolens")
    with pytest.raises(iolens.IolensError, match="holds no recordings"):
        iolens.lake(tmp_path)
    for host in ("x", "y"):
        link = tmp_path / f"host={host}/start_ns=1795000000000000000"
        link.unlink()
        shutil.copytree(FIXTURES / "recordings/v1/finished.iolens", link)
    lake = iolens.lake(tmp_path)
    rows = lake.findings().to_pylist()
    expected = iolens.open(link).report()
    assert sorted({r["host"] for r in rows}) == ["x", "y"]
    assert [r["kind"] for r in rows] == [f["kind"] for f in expected["findings"]] * 2
    assert lake.report("x")["devices"] == expected["devices"]
    with pytest.raises(iolens.IolensError, match="choose one of the hosts x, y"):
        lake.report()


def test_the_command_line(root: tuple[Path, Truth], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, truth = root
    total = sum(map(len, truth.values()))
    assert main(["query", str(path), "select count(*) as n from ios", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"n": total}]
    assert main(["query", str(FIXTURES / "recordings/v1/finished.iolens"), "select count(*) as n from ios"]) == 0
    assert capsys.readouterr().out.split() == ["n", "200"]
    assert main(["hosts", str(path), "--format", "csv"]) == 0
    assert [row["host"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out))] == HOSTS
    hostile = write_recording(tmp_path / "r", [{**random_ios(1, 1)[0], "comm": "a\x1b[2Jb"}], {})
    assert main(["query", str(hostile), "select comm from ios"]) == 0
    assert capsys.readouterr().out.split() == ["comm", "a\\x1b[2Jb"]
    assert main(["query", str(hostile), "select '=1+1' as a, ' @SUM(1)' as b, -1 as c, 'x' as d", "--format", "csv"]) == 0
    assert capsys.readouterr().out == "a,b,c,d\n'=1+1,' @SUM(1),-1,x\n"
    assert main(["query", str(path), "select 1795000000000000000 as at_unix_ns"]) == 0
    assert capsys.readouterr().out.split() == ["at_unix_ns", "2026-11-18T11:06:40Z"]
    assert main(["query", str(path), "select * from ios where false"]) == 0
    assert capsys.readouterr().err == "iolens: no rows\n"
    assert main(["query", str(path), "select host, 1 as n from ios where false", "--format", "csv"]) == 0
    assert capsys.readouterr().out == "host,n\n"
    finished = str(FIXTURES / "recordings/v1/finished.iolens")
    unbounded = "select 'inf'::double as a, {'b': ['nan'::double, 1.5]} as c"
    assert main(["query", finished, unbounded, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == [{"a": None, "c": {"b": [None, 1.5]}}]
    for arguments, said in (
        (["query", finished, ""], "the query is empty"),
        (["query", finished, "; -- nothing"], "the query is empty"),
        (["query", str(path), ";"], "the query is empty"),
        (["query", str(path), "select nothing from ios"], "nothing"),
        (["hosts", str(tmp_path)], "holds no recordings"),
        (["hosts", str(tmp_path / "none")], "is no directory"),
        (["slow", str(tmp_path)], "no CSV file"),
    ):
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
