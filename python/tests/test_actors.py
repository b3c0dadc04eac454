"""Causes of I/O and findings in lakes: compared with the I/Os, and in a lake that the program recorded."""

from __future__ import annotations

import re
import shutil
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from conftest import DISK, FIXTURES, RANDOM_META, START_NS, random_ios, write_recording
from lakes import ACTORS, FINDINGS, PATHS, class_of, finding, make_root, write_actors, write_table

import iolens

Ios = list[dict[str, Any]]
DAY_NS = 86_400 * 10**9
KEYS = "a.host, a.start_ns, a.dev, a.class, a.by"
SUMS = "sum(a.ios) as ios, sum(a.bytes) as bytes, sum(a.device_sum_ns) as device_sum_ns"


def spread(seed: int) -> Ios:
    """I/Os over half an hour, so that slots of both steps are several."""
    ios = random_ios(seed)
    factor = 1800 * 10**9 // ios[-1]["done_ns"]
    return [{**io, "done_ns": io["done_ns"] * factor} for io in ios]


def write_lake(root: Path, named: int = 20) -> dict[tuple[str, int], Ios]:
    """Four recordings. Those of the first hour have lost their I/Os, names and sums of ten seconds to the size limit."""
    truth = {}
    for i, host in enumerate(("a", "b")):
        for j in range(2):
            start_ns, ios = START_NS + j * 3600 * 10**9, spread(10 * i + j)
            path = root / f"host={host}/start_ns={start_ns}"
            names = [{"at_ns": 1, "kind": "cgroup", "id": id_, "text": text} for id_, text in PATHS.items()]
            write_recording(path, ios if j else [], {**RANDOM_META, "host": host}, names=names if j else [])
            write_actors(path, ios, named)
            if j == 0:
                [fine] = path.glob("actors/10s-*")
                fine.unlink()
            truth[host, start_ns] = ios
    return truth


def totals(ios_of: dict[tuple[str, int], Ios]) -> dict[tuple[Any, ...], tuple[int, int, int]]:
    found: dict[tuple[Any, ...], Ios] = defaultdict(list)
    for (host, start_ns), ios in ios_of.items():
        for io in ios:
            for by in ACTORS:
                found[host, start_ns, io["dev"], class_of(io["op"]), by].append(io)
    return {key: (len(of), sum(io["bytes"] for io in of), sum(io["device_ns"] for io in of)) for key, of in found.items()}


def asked(lake: iolens.Lake, relation: str) -> dict[tuple[Any, ...], tuple[int, int, int]]:
    rows = lake.rows(f"select {KEYS}, {SUMS} from {relation} a group by {KEYS}")
    return {row[:5]: (int(row[5]), int(row[6]), int(row[7])) for row in rows}


@pytest.mark.parametrize("named", [1, 20])
def test_every_io_is_counted_once_whatever_the_size_limit_took(tmp_path: Path, named: int) -> None:
    truth = write_lake(tmp_path, named)
    lake = iolens.lake(tmp_path)
    assert asked(lake, "actors") == totals(truth)
    left = {key: ios for key, ios in truth.items() if key[1] > START_NS}
    assert asked(lake, "actors_10s") == totals(left)
    for relation, step_s, slots in (("actors", 600, 3), ("actors_10s", 10, 100)):
        rows = lake.query(f"select distinct host, start_ns, step_s, at_ns, at_unix_ns, device from {relation}").to_pylist()
        assert {row["step_s"] for row in rows} == {step_s}
        assert all(row["at_unix_ns"] == row["start_ns"] + row["at_ns"] and row["device"] for row in rows)
        assert len({row["at_ns"] for row in rows}) >= slots
    others = dict(lake.rows("select a.by, sum(others) from actors a group by a.by"))
    assert all((n > 0) == (named == 1) for n in others.values()), others


def test_an_actor_has_its_own_ios(tmp_path: Path) -> None:
    truth = write_lake(tmp_path)
    for by, number, column in (("process", 7, "tgid"), ("cgroup", 41, "cgroup"), ("file", 100, "ino")):
        sql = f"select name, {SUMS} from actors a where a.by = '{by}' and {column} = {number} and host = 'b' group by name"
        [(name, ios, size, device_ns)] = iolens.lake(tmp_path).rows(sql)
        of = [io for (host, _), all_ in truth.items() for io in all_ if host == "b" and io[column] == number]
        assert (ios, size) == (len(of), sum(io["bytes"] for io in of))
        assert device_ns == sum(io["device_ns"] for io in of)
        assert name == {"process": "task7", "cgroup": PATHS[41], "file": None}[by]
    # Without a number: unknown actors.
    [(n,)] = iolens.lake(tmp_path).rows(
        "select sum(ios) from actors a where a.by = 'process' and others = 0 and tgid is null and name is null"
    )
    assert n == sum(1 for ios in truth.values() for io in ios if io["tgid"] is None)


def test_control_groups_are_called_what_they_were_when_the_ios_are_gone(tmp_path: Path) -> None:
    write_lake(tmp_path)
    rows = iolens.lake(tmp_path).rows("select host, start_ns, cgroup, path, pod_uid, container_id from containers")
    expected = []
    for host in ("a", "b"):
        for start_ns in (START_NS, START_NS + 3600 * 10**9):
            expected.append((host, start_ns, 41, PATHS[41], None, None))
            expected.append((host, start_ns, 42, PATHS[42], "2f4e7a1c-0b0d-4a3c-9a1e-5d6f7a8b9c0d", "4a" * 32))
    assert sorted(rows) == expected


def worked(relation: str) -> str:
    """The example query of the documentation that reads `relation`."""
    text = (FIXTURES.parent / "docs/python.md").read_text()
    [block] = [b for b in re.findall(r"```python\n(.*?)```", text, re.S) if f"from {relation} " in b]
    return str(block)


def answer(relation: str, lake: iolens.Lake, now_ns: int, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    lines = worked(relation).replace("lake.query(", "found = lake.query(")
    names: dict[str, Any] = {"lake": lake, "time": time}
    with monkeypatch.context() as patched:
        patched.setattr(time, "time_ns", lambda: now_ns)
        exec(lines, names)
    rows: list[dict[str, Any]] = names["found"].to_pylist()
    return rows


def test_the_worked_question_of_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = write_lake(tmp_path)
    # Of another day, which is not queried.
    old = tmp_path / f"host=a/start_ns={START_NS - DAY_NS}"
    write_recording(old, [], RANDOM_META)
    write_actors(old, spread(5))
    lake = iolens.lake(tmp_path)
    rows = answer("actors", lake, START_NS + DAY_NS, monkeypatch)
    expected = []
    for cgroup, container in ((41, PATHS[41]), (42, "4a" * 32), (None, None)):
        ios = [io for of in truth.values() for io in of if io["cgroup"] == cgroup and io["dev"] == DISK]
        # If not all queue times of a slot, class and control group are known, their sum is unknown, too.
        expected.append((container, 2, len(ios), sum(io["device_ns"] for io in ios) / 1e3 / len(ios)))
    assert sorted(expected, key=str) == sorted(
        ((r["container"], r["hosts"], r["ios"], pytest.approx(r["mean_device_us"])) for r in rows), key=str
    )
    assert [r["io_time_s"] for r in rows] == sorted((r["io_time_s"] for r in rows), reverse=True)
    assert answer("actors", lake, START_NS + 9 * DAY_NS, monkeypatch) == []


def test_findings_have_their_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_root(tmp_path, ios=50)
    lake = iolens.lake(tmp_path)
    rows = lake.query("select * from findings").to_pylist()
    assert len(rows) == 6 * len(FINDINGS)
    for row in rows:
        assert (row["at_unix_ns"], row["to_unix_ns"]) == (row["start_ns"] + row["from_ns"], row["start_ns"] + row["to_ns"])
        assert row["stable_id"] == ("wwn-1" if row["device"] else None)
        # The table of devices of the other hosts has no models.
        assert row["model"] == ("M1" if row["device"] and row["host"] == "b" else None)
    found = answer("findings", lake, START_NS, monkeypatch)
    assert [(r["model"], r["kind"], r["findings"], r["disks"]) for r in found] == [(None, "stall", 4, 2), ("M1", "stall", 2, 1)]
    assert {r["first_unix_ns"] for r in found} == {START_NS + 100}


def test_a_name_of_two_disks_is_neither(tmp_path: Path) -> None:
    path = write_recording(tmp_path / f"host=h/start_ns={START_NS}", [], {})
    devices = [("sda", 1, "one", "A"), ("sda", 2, "two", "A"), ("sdb", 3, "three", "B")]
    rows = [{"dev": dev, "name": name, "kind": "request", "stable_id": id_, "model": m} for name, dev, id_, m in devices]
    write_table(path, "devices", rows)
    write_table(path, "findings", [finding("stall", "warning", d, i) for i, d in enumerate(("sda", "sdb", "sda, sdb", None))])
    found = iolens.lake(tmp_path).rows("select device, stable_id, model from findings order by from_ns")
    assert found == [("sda", None, "A"), ("sdb", "three", "B"), ("sda, sdb", None, None), (None, None, None)]


def test_a_lake_without_these_tables_has_them_without_rows(tmp_path: Path) -> None:
    write_recording(tmp_path / f"host=h/start_ns={START_NS}", random_ios(1, 20), RANDOM_META)
    lake = iolens.lake(tmp_path)
    for relation in ("actors", "actors_10s", "findings"):
        assert lake.query(f"select * from {relation}").num_rows == 0


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A copy of the lake that the program recorded."""
    for host in ("host=db1", "host=db2"):
        shutil.copytree(FIXTURES / "lake" / host, tmp_path / host)
    return tmp_path


def test_what_the_program_recorded_is_what_its_ios_say(recorded: Path) -> None:
    lake = iolens.lake(recorded)
    of_ios = """select host, device, class, tgid, comm, cgroup, count(*), sum(bytes), sum(device_ns), sum(queue_ns)
                from ios group by all order by all"""
    said = {
        by: lake.rows(of_ios.replace("tgid, comm, cgroup", key))
        for by, key in (("process", "tgid, comm"), ("cgroup", "cgroup"))
    }
    assert len(said["process"]) == 4
    for relation in ("actors", "actors_10s"):
        for by, key in (("process", "tgid, name"), ("cgroup", "cgroup")):
            rows = lake.rows(
                f"""select host, device, class, {key}, sum(ios), sum(bytes), sum(device_sum_ns), sum(queue_sum_ns)
                    from {relation} a where a.by = '{by}' group by all order by all"""
            )
            assert rows == said[by], (relation, by)


def test_the_same_answer_when_only_ten_minutes_are_left(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded_ns = 1_795_458_482_490_027_642
    before = answer("actors", iolens.lake(recorded), recorded_ns + DAY_NS, monkeypatch)
    assert [(r["container"][:8], r["hosts"], r["ios"]) for r in before] == [
        ("d4735e3a", 2, 2046),
        ("6b86b273", 1, 1752),
        ("4e074085", 1, 1328),
    ]
    for gone in (*recorded.glob("*/*/actors/10s-*"), *recorded.glob("*/*/io/*"), *recorded.glob("*/*/names/*")):
        gone.unlink()
    lake = iolens.lake(recorded)
    assert answer("actors", lake, recorded_ns + DAY_NS, monkeypatch) == before
    assert lake.query("select * from actors_10s").num_rows == 0


def test_findings_of_the_recorder(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer("findings", iolens.lake(recorded), 0, monkeypatch)
    by_kind = {r["kind"]: r for r in found}
    assert {kind: (r["findings"], r["disks"]) for kind, r in by_kind.items()} == {
        "latency-trend": (2, 2),
        "latency-step": (1, 1),
        "slow-io": (1, 1),
        "stall": (1, 1),
    }
    recording = iolens.open(next(recorded.glob("host=db1/*")))
    [(from_ns, to_ns, evidence)] = recording.sql(
        "select from_ns, to_ns, evidence from findings where kind = 'stall'"
    ).fetchall()
    assert 4.0 < (to_ns - from_ns) / 1e9 < 4.1
    assert '"in_flight":2' in evidence
    assert by_kind["stall"]["first_unix_ns"] == recording.meta.start_unix_ns + from_ns


def test_relations_of_one_recording(recorded: Path, program: str) -> None:
    recording = iolens.open(next(recorded.glob("host=db1/*")))
    assert recording.actors.aggregate("min(step_s), max(step_s)").fetchall() == [(600, 600)]
    assert recording.actors_10s.aggregate("min(step_s), max(step_s), count(distinct at_ns)").fetchall() == [(10, 10, 5)]
    whole = recording.ios.aggregate("count(*)").fetchall()
    for relation in ("actors", "actors_10s"):
        assert recording.sql(f"select sum(ios) from {relation} a where a.by = 'file'").fetchall() == whole
    assert len(recording.table("findings").fetchall()) == 5
    # The findings of the report are separate, and listed beside them.
    assert {row[0] for row in recording.findings.fetchall()} >= {"stall", "slow-io"}
    assert len(recording.sql("select * from findings").fetchall()) == 5
