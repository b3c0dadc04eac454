"""Compacted lakes give the same results as the recordings, at any time."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import DISK, FIXTURES, RANDOM_META, START_NS, random_ios, write_recording
from lakes import make_ended, make_root, random_waits, rollup_rows, write_table, write_waits
from served import served

import iolens
from iolens import compact as compaction
from iolens import questions
from iolens.cli import main
from iolens.compact import compact
from iolens.engines import arrow_schema
from iolens.tables import DEVICES

HOUR_NS = 3600 * 10**9
DAY = "2026-11-18"
QUESTIONS = ("hosts", "latency", "capacity", "noisy")
pytestmark = pytest.mark.filterwarnings("ignore:.*have no table waits")


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files written by the tests count as settled immediately; other processes need `age`."""
    monkeypatch.setattr(compaction, "_SETTLED_S", 0)


def age(root: Path) -> None:
    for path in root.rglob("*"):
        if path.is_dir():
            os.utime(path, (0, 0))


def end(root: Path, host: str, but: int = 0) -> None:
    """Ends the recordings of a host, except the newest `but`."""
    files = sorted(root.glob(f"host={host}/start_ns=*/meta.json"))
    for file in files[: len(files) - but]:
        file.write_text(json.dumps({**json.loads(file.read_text()), "end_ns": 2 * HOUR_NS}))


def answers(root: Path) -> dict[str, Any]:
    """All rows of all relations, and the results of queries."""
    with iolens.lake(root) as lake:
        return asked(lake)


def asked(lake: iolens.Lake) -> dict[str, Any]:
    found: dict[str, Any] = {name: lake.query(f"select * from {name} order by all").to_pylist() for name in lake.relations}
    found |= {name: getattr(lake, name)().to_pylist() for name in QUESTIONS}
    return {**found, "repr": repr(lake)}


def files(root: Path) -> dict[str, tuple[int, int]]:
    """Size and time of each compacted file."""
    found = {}
    for file in (root / "compacted").rglob("*"):
        if file.is_file() and file.name != "lock":
            found[str(file.relative_to(root))] = (file.stat().st_size, file.stat().st_mtime_ns)
    return found


@pytest.fixture(scope="session")
def saved_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four hosts. The newest recording of the last one has not ended, and another has no hours. Tests change copies of it."""
    path = tmp_path_factory.mktemp("saved") / "lake"
    make_root(path)
    make_ended(path, "e")
    end(path, "e", but=1)
    return path


@pytest.fixture(params=[0, 64 << 10], ids=["joined", "encoded"])
def root(saved_root: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four hosts, whose files are joined, or encoded again."""
    monkeypatch.setattr(compaction, "_MIN_PIECE_BYTES", request.param)
    return shutil.copytree(saved_root, tmp_path / "lake")


def add(root: Path, host: str, number: int) -> None:
    """One more ended recording of the same day."""
    start_ns = START_NS + number * HOUR_NS
    ios = random_ios(70 + number, 100)
    path = root / f"host={host}/start_ns={start_ns}"
    meta = {**RANDOM_META, "host": host, "start_unix_ns": start_ns, "end_ns": ios[-1]["done_ns"]}
    write_recording(path, ios, meta)
    write_table(path, "rollup", rollup_rows(ios, 60), "60s-000001.parquet")
    write_waits(path, random_waits(number, 2, 600))


def test_answers_are_those_of_the_recordings(root: Path) -> None:
    before = answers(root)
    assert all(before[name] for name in (*QUESTIONS, "ios", "rollup", "actors", "actors_10s", "waits", "findings", "buckets"))
    done = compact(root)
    assert [(d.host, d.day, d.recordings) for d in done] == [("a", DAY, 2), ("b", DAY, 2), ("c/1", DAY, 2), ("e", DAY, 4)]
    # One file per table, or per step of it; the newest recording of `e` is read from its own files.
    names = sorted(file.name for file in (root / f"compacted/host=e/day={DAY}").iterdir())
    assert names == [f"{n}-000001.parquet" for n in ("devices", "io", "rollup-1s", "rollup-3600s", "rollup-60s")]
    assert answers(root) == before
    # Nothing is read of compacted recordings, including their descriptions.
    for path in sorted(root.glob("host=*/start_ns=*"))[:-1]:
        shutil.rmtree(path)
        if path.parent.name != "host=e":
            path.mkdir()
            for table in ("io", "rollup"):
                (path / table).mkdir()
                (path / table / "000001.parquet").write_bytes(b"no Parquet")
    assert answers(root) == before


def test_devices_of_a_day_that_differ_or_are_none(root: Path) -> None:
    """Two recordings with different devices, and one whose table of devices has no rows."""
    row = dict.fromkeys(DEVICES.names) | {"dev": 9, "name": "sdx", "kind": "request", "stable_id": "", "model": "other"}
    paths = sorted(root.glob("host=a/start_ns=*"))
    for path, rows in zip(paths, ([row, {**row, "dev": 10, "name": "sdy"}], []), strict=True):
        (path / "devices").mkdir(exist_ok=True)
        schema = pa.schema([f for f in arrow_schema(DEVICES) if f.name not in ("host", "start_ns")])
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path / "devices/000001.parquet")
    before = answers(root)
    assert len([d for d in before["devices"] if d["host"] == "a"]) == 2
    compact(root)
    assert answers(root) == before
    [file] = (root / f"compacted/host=a/day={DAY}").glob("devices-*")
    columns = ["start_ns", "dev", "name", "model"]
    start_ns = int(paths[0].name.removeprefix("start_ns="))
    assert pq.read_table(file, columns=columns).to_pylist() == [
        dict(zip(columns, (start_ns, dev, name, "other"), strict=True)) for dev, name in ((9, "sdx"), (10, "sdy"))
    ]
    # A host without any devices has no such file.
    path = root / f"host=f/start_ns={START_NS}"
    write_recording(path, random_ios(5, 50), {**RANDOM_META, "host": "f", "devices": []})
    (path / "devices").mkdir()
    pq.write_table(pa.Table.from_pylist([], schema=schema), path / "devices/000001.parquet")
    end(root, "f")
    before = answers(root)
    assert [d.host for d in compact(root)] == ["f"]
    assert not list((root / f"compacted/host=f/day={DAY}").glob("devices-*"))
    assert answers(root) == before


def test_rows_are_read_by_whoever_reads_parquet(root: Path) -> None:
    ios = iolens.lake(root).query(
        "select host, count(*) as n, sum(bytes) as b from ios where host <> 'e' group by host order by 1"
    )
    compact(root)
    lake = iolens.lake(root)
    rows = lake.engine.query(
        f"""select host, count(*) as n, sum(bytes) as b from read_parquet('{root}/compacted/host=*/day=*/io-*.parquet',
            hive_partitioning = true) where day = '{DAY}' and host <> 'e' group by host order by 1"""
    )
    assert rows.to_pylist() == ios.to_pylist()


def test_whole_recordings_are_summed_once(root: Path) -> None:
    questions = [("hosts", ()), ("latency", ()), ("latency", ("host", "device", 0.5)), ("latency", ("model", "total", 0.9))]

    def asked_all() -> list[Any]:
        with iolens.lake(root) as lake:
            return [getattr(lake, name)(*args).to_pylist() for name, args in questions]

    before = asked_all()
    compact(root)
    with iolens.lake(root) as lake:
        found = lake.files.of_long()
        starts = sorted(start for host, start, _ in lake.files.recordings if host == "e")
        # Both recordings of a host with two are read by minutes, because its first and last time are known to the minute.
        assert {start for host, start in found.by_minutes if host == "e"} == {starts[0]}
        assert (len(found.by_minutes), found.by_hours, found.hours, len(found.sums)) == (7, set(), [], 4)
    assert asked_all() == before
    # Without the sums, the hours give the same result; the fourth recording has only minutes.
    manifest = root / "compacted/host=e/manifest.json"
    text = json.loads(manifest.read_text())
    assert len(text["sums"]["recordings"]) == 4
    manifest.write_text(json.dumps({**text, "sums": None}))
    with iolens.lake(root) as lake:
        assert lake.files.of_long().by_hours == {("e", starts[1]), ("e", starts[2])}
    assert asked_all() == before
    # The next run creates them.
    assert compact(root) == []
    assert len(json.loads(manifest.read_text())["sums"]["recordings"]) == 4
    assert asked_all() == before


def test_processes_divide_the_hosts(root: Path) -> None:
    before = answers(root)
    age(root)
    file = root / f"host=a/start_ns={START_NS}/io/000001.parquet"
    shutil.copyfile(file, file.with_name("000002.parquet"))
    file.with_name("000002.parquet").write_bytes(b"no Parquet")
    age(root)
    with pytest.warns(UserWarning, match=f"host=a: {DAY} is not compacted"):
        assert [d.host for d in compact(root, workers=2)] == ["b", "c/1", "e"]
    file.with_name("000002.parquet").unlink()
    age(root)
    words = [sys.executable, "-m", "iolens", "compact", str(root), "--format", "csv"]
    environment = {**os.environ, "PYTHONPATH": str(Path(iolens.__file__).parents[1])}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1].startswith(f"{DAY},1,2,14,8,")
    assert answers(root) == before


def test_what_is_done_is_left_alone(root: Path) -> None:
    assert len(compact(root)) == 4
    before = files(root)
    assert compact(root) == []
    assert files(root) == before
    assert main(["compact", str(root)]) == 0


def test_days_that_were_chosen(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(root, "a", 24)
    age(root)
    before = answers(root)
    assert main(["compact", str(root), "--day", "2026-11-19", "--format", "json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["day"], row["hosts"], row["recordings"], row["files_before"]) == ("2026-11-19", 1, 1, 3)
    assert answers(root) == before
    assert main(["compact", str(root), "--day", "2026-11-19"]) == 0
    assert capsys.readouterr().out == "nothing new: what has ended is compacted\n"
    assert [d.day for d in compact(root, ["2026-11-18"])] == [DAY] * 4
    assert answers(root) == before
    with pytest.raises(SystemExit):
        main(["compact", str(root), "--day", "18.11."])
    assert "is no day such as" in capsys.readouterr().err


def test_a_day_that_goes_on_is_made_anew(root: Path) -> None:
    compact(root)
    opened = iolens.lake(root)
    before = asked(opened)
    for file in (root / "compacted").glob("host=*/day=*/*"):
        os.utime(file, (0, 0))
    add(root, "a", 3)
    end(root, "e")
    with_new = answers(root)
    assert len(with_new["ios"]) == len(before["ios"]) + 100
    done = compact(root)
    assert [(d.host, d.recordings) for d in done] == [("a", 1), ("e", 1)]
    assert answers(root) == with_new
    # A reader that opened the lake earlier continues with the files of that time.
    assert opened.rows("select count(*) from ios") == [(len(before["ios"]),)]
    old = sorted((root / "compacted").glob("host=[ae]/day=*/*-000001.parquet"))
    assert len(old) == 8 + 5
    compact(root)
    assert all(file.exists() for file in old)
    for file in old:
        os.utime(file, (0, 0))
    compact(root)
    assert not any(file.exists() for file in old)
    assert answers(root) == with_new
    # It lists them again when these are gone.
    assert opened.rows("select count(*) from ios") == [(len(with_new["ios"]),)]
    assert asked(opened) == with_new


class Killed(BaseException):
    """The exception with which a test ends a compaction: no code catches it."""


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], None]], None]:
    """Sets a function that is called with the step's number before each step that reaches the disk."""
    count = 0
    call: Callable[[int], None] = lambda _: None  # noqa: E731

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any) -> Any:
            nonlocal count
            count += 1
            call(count)
            return function(*args)

        return step

    def begin(what: Callable[[int], None]) -> None:
        nonlocal count, call
        count, call = 0, what

    monkeypatch.setattr(os, "replace", counted(os.replace))
    monkeypatch.setattr(compaction, "_sync", counted(compaction._sync))
    monkeypatch.setattr(compaction, "_make", counted(compaction._make))
    return begin


def one_host(root: Path) -> None:
    """Two recordings of a day, compacted, and one more of the same and one of the next day."""
    for number in (0, 1):
        add(root, "a", number)
    compact(root)
    for number in (2, 24):
        add(root, "a", number)


SUMS = """select (select count(*) from ios), (select sum(device_ns) from ios), (select sum(ios) from rollup),
    (select sum(ns) from waits), (select count(*) from devices)"""


def sums(root: Path) -> Any:
    with iolens.lake(root) as lake:
        answers = (lake.hosts(), lake.latency(), lake.capacity())
        return lake.rows(SUMS), *(answer.to_pylist() for answer in answers)


def test_no_io_counts_twice_while_it_runs_or_was_killed(tmp_path: Path, steps: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Some tables are joined, others are not.
    monkeypatch.setattr(compaction, "_MIN_PIECE_BYTES", 6000)
    root = tmp_path / "lake"
    one_host(root)
    whole = sums(root)
    assert whole[0][0][0] == 400
    seen = []

    def look(number: int) -> None:
        seen.append(number)
        # A lookup has steps of its own if it is part of a compaction.
        assert sums(root) == whole, number

    shutil.copytree(root, tmp_path / "saved")
    steps(look)
    compact(root)
    assert len(seen) > 20
    for killed in seen:
        shutil.rmtree(root)
        shutil.copytree(tmp_path / "saved", root)

        def kill(number: int, killed: int = killed) -> None:
            if number == killed:
                raise Killed

        steps(kill)
        with pytest.raises(Killed):
            compact(root)
        assert sums(root) == whole, killed
        steps(lambda _: None)
        compact(root)
        assert sums(root) == whole, killed
        # All four recordings are compacted, and leftover files are removed.
        for file in (root / "compacted").glob("host=*/day=*/*"):
            os.utime(file, (0, 0))
        assert compact(root) == []
        manifest = json.loads((root / "compacted/host=a/manifest.json").read_text())
        assert sum(len(day["recordings"]) for day in manifest["days"].values()) == 4
        named = {f"day={name}/{file}" for name, day in manifest["days"].items() for file in day["files"].values()}
        assert {f"{f.parent.name}/{f.name}" for f in (root / "compacted/host=a").glob("day=*/*")} == named
        assert sums(root) == whole, killed


def test_a_process_that_is_killed(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    one_host(root)
    whole = sums(root)
    age(root)
    script = f"""
import os, signal
from iolens import compact as c
replace = os.replace
def kill(a, b):
    if str(b).endswith("manifest.json"):
        os.kill(os.getpid(), signal.SIGKILL)
    replace(a, b)
os.replace = kill
c.compact({str(root)!r})
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(iolens.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert any((root / "compacted").rglob("manifest.json.tmp"))
    assert sums(root) == whole
    # Its lock was released with it.
    assert len(compact(root)) == 2
    assert sums(root) == whole


def test_who_may_not_read_the_recordings_reads_nothing(root: Path) -> None:
    root.chmod(0o755)
    for path in (*root.glob("host=*"), *root.glob("host=*/start_ns=*")):
        path.chmod(0o750)
    compact(root)
    assert (root / "compacted").stat().st_mode & 0o777 == 0o750
    next(root.glob("host=b/start_ns=*")).chmod(0o700)
    compact(root)
    assert (root / "compacted").stat().st_mode & 0o777 == 0o700


def test_two_compactions_do_not_meet(root: Path) -> None:
    with (
        compaction._locked(root / "compacted", 0o700),
        pytest.raises(iolens.IolensError, match="another compaction is at work"),
    ):
        compact(root)
    assert len(compact(root)) == 4


def test_a_damaged_compacted_file_is_not_read(root: Path) -> None:
    before = answers(root)
    compact(root)
    file = root / f"compacted/host=a/day={DAY}/io-000001.parquet"
    file.write_bytes(file.read_bytes()[:100])
    lake = iolens.lake(root)
    with pytest.warns(UserWarning, match="the recordings are read as they are"):
        assert lake.query("select * from ios order by all").to_pylist() == before["ios"]
    for name in ("rollup", "devices", "waits"):
        assert lake.query(f"select * from {name} order by all").to_pylist() == before[name]


def test_a_damaged_manifest_is_not_read(root: Path) -> None:
    before = answers(root)
    compact(root)
    manifest = root / "compacted/host=a/manifest.json"
    for text in ("{", "{}", '{"version": 99}', '{"version": 1, "schemas": {}, "days": {"2026-11-18": []}}'):
        manifest.write_text(text)
        with pytest.warns(UserWarning, match="its recordings are read as they are"):
            assert answers(root) == before
        with pytest.raises(iolens.IolensError, match="all days of this host are compacted anew"):
            compact(root)
    manifest.unlink()
    assert [d.host for d in compact(root)] == ["a"]
    assert answers(root) == before


def test_a_damaged_recording_stays_as_it_is(root: Path) -> None:
    file = root / f"host=a/start_ns={START_NS}/io/000001.parquet"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.warns(UserWarning, match=f"{DAY} is not compacted"):
        assert [d.host for d in compact(root)] == ["b", "c/1", "e"]
    with pytest.warns(UserWarning, match="is damaged and left out"):
        assert iolens.lake(root).rows("select count(*) from ios where host = 'a'") == [(400,)]


def test_a_file_of_an_older_version_lacks_columns(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = answers(root)
    with monkeypatch.context() as older:
        columns = {name: [c for c in of if c != "origin"] for name, of in compaction._COLUMNS.items()}
        del columns["waits"]
        tables = {name: table for name, table in compaction._TABLES.items() if name != "waits"}
        older.setattr(compaction, "_COLUMNS", columns)
        older.setattr(compaction, "_TABLES", tables)
        older.setattr(compaction, "_SCHEMA", "older")
        compact(root)
    # A table that it did not know is read from the recording's own files.
    assert answers(root) == before
    # Tables that it did not know are compacted again, while the recordings exist.
    shutil.rmtree(root / f"host=b/start_ns={START_NS}")
    assert [d.host for d in compact(root)] == ["a", "c/1", "e"]
    found = answers(root)
    assert found["ios"] == before["ios"]
    assert [row for row in found["waits"] if row["host"] != "b"] == [row for row in before["waits"] if row["host"] != "b"]


def test_the_program_reads_the_recordings(tmp_path: Path, program: str) -> None:
    root = tmp_path / "lake"
    for host in (*(FIXTURES / "lake").glob("host=*"), *(FIXTURES / "waits").glob("host=*")):
        shutil.copytree(host, root / host.name)
    lake = iolens.lake(root)
    end_ns = max(start + 60 * 10**9 for _, start, _ in lake.files.recordings)
    begin_ns = min(start for _, start, _ in lake.files.recordings)
    query = f"from={begin_ns // 10**9}&to={end_ns // 10**9}"

    def fleet() -> Any:
        with served(program, root) as address, urllib.request.urlopen(f"{address}/api/v1/hosts?{query}") as answer:
            return json.load(answer)

    before, rows = fleet(), answers(root)
    report = lake.report("db1")
    assert len(compact(root)) == 3
    assert fleet() == before
    assert len(json.dumps(before)) > 500
    assert iolens.lake(root).report("db1") == report
    assert answers(root) == rows


def test_recordings_without_the_tables_of_serve(tmp_path: Path) -> None:
    write_recording(tmp_path / f"host=h/start_ns={START_NS}", random_ios(1, 20), {**RANDOM_META, "end_ns": 10**9})
    write_recording(tmp_path / f"host=h/start_ns={START_NS + 1}", [], {"end_ns": 1})
    before = answers(tmp_path)
    [done] = compact(tmp_path)
    # Its devices are in its description only.
    assert (done.recordings, done.files_before, done.files) == (2, 1, 2)
    assert answers(tmp_path) == before
    assert {row["dev"] for row in before["ios"]} >= {DISK}
    with pytest.raises(iolens.IolensError, match="holds no recordings"):
        compact(tmp_path / "host=h")
    with pytest.raises(iolens.IolensError, match="into directories only"):
        compact("s3://bucket/lake")


def test_a_recording_that_was_not_finished_stays_as_it_is(tmp_path: Path) -> None:
    path = write_recording(tmp_path / f"host=h/start_ns={START_NS}", random_ios(1, 20), {**RANDOM_META, "end_ns": 10**9})
    (path / "wal").mkdir()
    (path / "wal/io-000002.wal").write_bytes(b"")
    assert compact(tmp_path) == []
    (path / "wal/io-000002.wal").unlink()
    with pytest.MonkeyPatch.context() as patch:
        # Nor one whose last files have just arrived.
        patch.setattr(compaction, "_SETTLED_S", 600)
        age(tmp_path)
        write_table(path, "rollup", rollup_rows(random_ios(1, 20), 60), "60s-000001.parquet")
        assert compact(tmp_path) == []
    (path / "meta.json").write_text(json.dumps({**json.loads((path / "meta.json").read_text()), "end_ns": None}))
    assert compact(tmp_path) == []


def test_recordings_that_are_too_new_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compaction, "_SETTLED_S", 600)
    for number in (1, 2):
        add(tmp_path, "h", number)
    # Years after any day on which this test runs.
    changed_s = 4_000_000_000
    for path in (tmp_path / "host=h").rglob("*"):
        os.utime(path, (changed_s, changed_s))
    until = datetime.fromtimestamp(changed_s + 600 + 1, timezone.utc)
    waiting = f"ended or changed less than 10 minutes ago; run compact again after {until:%Y-%m-%dT%H:%M:%SZ}\n"
    assert main(["compact", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"nothing to do yet: 2 recordings {waiting}"

    first = tmp_path / f"host=h/start_ns={START_NS + HOUR_NS}"
    age(first)
    os.utime(first, (0, 0))
    assert main(["compact", str(tmp_path), "--format", "json"]) == 0
    printed = capsys.readouterr()
    assert [row["recordings"] for row in json.loads(printed.out)] == [1]
    assert printed.err == f"iolens: 1 recording {waiting}"
    assert compact(tmp_path) == []

    age(tmp_path / "host=h")
    assert main(["compact", str(tmp_path)]) == 0
    assert main(["compact", str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith("nothing new: what has ended is compacted\n")


MINUTE_NS = 60 * 10**9


def minutes_of(path: Path, meta: dict[str, Any], spans: list[tuple[int, int, int]], rng: random.Random) -> None:
    """A recording with minutes of devices, each from one to another: busy, idle and equal ones, some in several rows."""
    write_recording(path, [], meta)
    rows = []
    for dev, first, last in spans:
        for minute in range(first, last):
            for _ in range(0 if rng.random() < 0.2 else 1 + (rng.random() < 0.05)):
                ios = rng.choice([1, 1, 60, rng.randrange(1, 10**6)])
                sums = {"ios": ios, "bytes": ios * rng.choice([512, 4096]), "device_sum_ns": 1}
                busy_ns = rng.choice([MINUTE_NS // 2, None, rng.randrange(MINUTE_NS)])
                row = {"step_s": 60, "at_ns": minute * MINUTE_NS, "dev": dev, "class": "all", **sums, "busy_ns": busy_ns}
                lists = {f"{part}_{what}": [] for part in ("total", "device") for what in ("buckets", "counts")}
                rows += [{**row, **lists}, {**row, **lists, "class": "read"}]
    rows.append({**rows[0], "dev": None, "ios": 0, "lost_ios": 3})
    write_table(path, "rollup", rows, "60s-000001.parquet")


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Hosts whose recordings follow each other within a minute, overlap, were killed, and whose disks change."""
    rng = random.Random(5)
    root = tmp_path / "fleet"
    disk = {"name": "sda", "id": DISK, "kind": "request", "stable_id": "wwn-1"}
    other = {"name": "sdb", "id": DISK | 16, "kind": "request", "stable_id": "wwn-2"}
    # Hours, from the half of a minute on: of each recording when it began and ended, and whether it has ended.
    hosts = {
        "follow": [(0, 10, True), (10, 31, True), (31, 50, True), (50, 55, False)],
        "overlap": [(0, 10, True), (9, 20, True), (20, 30, True)],
        "killed": [(0, 10, True), (10, 12, False), (12, 31, True), (31, 32, False)],
        "long": [(0, 30, False), (12, 31, True)],
        "swapped": [(0, 10, True), (10, 20, True)],
    }
    for host, recordings in hosts.items():
        for number, (begin, end, has_ended) in enumerate(recordings):
            start_ns = START_NS // MINUTE_NS * MINUTE_NS + MINUTE_NS // 2 + begin * HOUR_NS
            devices = [disk, {**other, "stable_id": f"wwn-{number}"} if host == "swapped" else other]
            minutes = (end - begin) * 60
            meta = {"devices": devices, "host": host, "start_unix_ns": start_ns}
            meta["end_ns"] = minutes * MINUTE_NS if has_ended else None
            spans = [(DISK, 0, minutes + 1), (DISK | 16, minutes // 3, minutes // 2)]
            minutes_of(root / f"host={host}/start_ns={start_ns}", meta, spans, rng)
    return root


def days_of(root: Path) -> tuple[Any, Any, set[str]]:
    """The results by day, to the digit, and the hosts of which peaks were read."""
    with iolens.lake(root) as lake:
        days = lake._ask(questions.busy_days(lake.engine.largest)).to_pylist()
        return days, lake.capacity().to_pylist(), {host for host, _ in lake.files.of_peaks().by_peaks}


def test_days_are_the_same_from_their_peaks_alone(fleet: Path) -> None:
    days, capacity, of_peaks = days_of(fleet)
    assert (len(days), of_peaks) == (22, set())
    compact(fleet, ["2026-11-18"])
    assert days_of(fleet) == (days, capacity, {"follow", "killed", "swapped"})
    compact(fleet)
    assert days_of(fleet) == (days, capacity, {"follow", "killed", "swapped"})
    manifest = json.loads((fleet / "compacted/host=follow/manifest.json").read_text())
    assert len(manifest["peaks"]["recordings"]) == 3
    # They are few beside the minutes.
    [peaks] = (fleet / "compacted/host=follow").glob(f"{manifest['peaks']['file']}")
    minutes = sum(pq.read_metadata(file).num_rows for file in fleet.glob("host=follow/*/rollup/*"))
    assert pq.read_metadata(peaks).num_rows < minutes / 8
    # The minutes of these hosts are not read.
    for file in fleet.glob("compacted/host=[fs]*/day=*/rollup-60s-*"):
        file.write_bytes(b"no Parquet")
    assert days_of(fleet)[:2] == (days, capacity)


def test_without_peaks_days_are_from_the_minutes(fleet: Path) -> None:
    days, capacity, _ = days_of(fleet)
    compact(fleet)
    manifest = fleet / "compacted/host=follow/manifest.json"
    text = json.loads(manifest.read_text())
    # An earlier version's compaction had none; the next one creates them.
    manifest.write_text(json.dumps({name: of for name, of in text.items() if name != "peaks"}))
    assert days_of(fleet) == (days, capacity, {"killed", "swapped"})
    assert compact(fleet) == []
    assert days_of(fleet) == (days, capacity, {"follow", "killed", "swapped"})
    name = json.loads(manifest.read_text())["peaks"]["file"]
    (manifest.parent / name).write_bytes(b"no Parquet")
    with pytest.warns(UserWarning, match="peaks-.* is damaged and left out"):
        assert days_of(fleet)[:2] == (days, capacity)


def test_sums_of_a_day_that_is_damaged_do_not_count_beside_it(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    make_ended(root, "e")
    end(root, "e", but=1)
    before = answers(root)
    compact(root)
    file = root / f"compacted/host=e/day={DAY}/rollup-60s-000001.parquet"
    file.write_bytes(file.read_bytes()[:100])
    with iolens.lake(root) as lake:
        with pytest.warns(UserWarning, match="the recordings are read as they are"):
            assert lake.query("select * from rollup order by all").to_pylist() == before["rollup"]
        for name in ("hosts", "latency", "capacity"):
            assert getattr(lake, name)().to_pylist() == before[name], name
