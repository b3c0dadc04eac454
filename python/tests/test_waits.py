"""Who waited for whom: sums of the table `waits`, equal to the program's."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from conftest import DISK, FIXTURES, RANDOM_META, START_NS, run, write_recording
from lakes import WAIT_CAUSES as CAUSES
from lakes import of_culprit, random_waits, write_table, write_waits
from served import served

import iolens
from iolens.cli import main
from iolens.columns import ORIGINS

S = 10**9
DAY_NS = 86_400 * S
ROOT = FIXTURES / "waits"
KEPT = {
    "from_ns": 0,
    "to_ns": 10**15,
    "reason": "retention",
    "dev": None,
    "class": None,
    "ios": 3624,
    "bytes": None,
    "merges": None,
}
NAMES = [{"at_ns": 1, "kind": "cgroup", "fs_dev": None, "id": 41, "text": "/system.slice", "generation": None}]


def recorded() -> Path:
    return next(ROOT.glob("host=*/start_ns=*"))


def made(root: Path, seed: int, slots: int, step_s: int) -> Path:
    """A recording of which only sums remain."""
    path = root / f"host=h/start_ns={START_NS}"
    meta = {**RANDOM_META, "end_ns": slots * step_s * S}
    write_recording(path, [], meta, lost=[{**KEPT, "to_ns": slots * step_s * S}], names=NAMES)
    write_waits(path, random_waits(seed, slots, step_s))
    return path


def answered(url: str) -> dict[str, Any]:
    """The answer. On a very busy machine it may take several requests, because each has ten seconds."""
    said = ""
    for _ in range(20):
        try:
            with urllib.request.urlopen(url) as answer:
                document: dict[str, Any] = json.load(answer)
                return document
        except urllib.error.HTTPError as e:
            said = e.read().decode()
            if e.code != 503:
                break
    raise AssertionError(said)


def program_says(address: str, by: str, from_ns: int, to_ns: int) -> tuple[list[tuple[Any, ...]], list[float]]:
    """The sums of `/api/v1/waits`, as rows, and the total loss of each victim in its order."""
    query = f"by={by}&from={from_ns / 1e9:.9f}&to={to_ns / 1e9:.9f}"
    document = answered(f"{address}/api/v1/waits?{query}")
    assert document["waits_others"]["ios"] == 0
    assert any("sums" in note for note in document["notes"]), document["notes"]
    return rows_of(document["waits"], by), [w["io_time_s"] - w["undisturbed_s"] for w in document["waits"]]


def rows_of(waits: list[dict[str, Any]], by: str) -> list[tuple[Any, ...]]:
    rows = []
    for wait in waits:
        victim = (wait["device"], *named(wait["victim"], by))
        for cause in CAUSES:
            rows.append((*victim, cause, None, None, None, wait[f"{cause}_s"], wait["ios"] if cause == "undisturbed" else None))
        for behind in wait["behind"]:
            rows.append((*victim, "others", *named(behind, by), behind["seconds"], behind["ios"]))
    return sorted((row for row in rows if row[-2]), key=str)


def named(group: dict[str, Any], by: str) -> tuple[Any, ...]:
    pid = "" if group["pid"] is None else f"[{group['pid']}]"
    process = None if group["process"] is None and not pid else f"{group['process'] or ''}{pid}"
    return (process if by == "process" else group["cgroup"], group["class"], group["origin"])


def mine(recording: iolens.Recording, by: str, **window: Any) -> list[tuple[Any, ...]]:
    relation = recording.who_waited(by, **window)
    rows = []
    for row in (dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()):

        def name(side: str, row: dict[str, Any] = row) -> Any:
            # A document has no name for an unknown actor.
            text = row[side]
            if text in (None, "(others)", "(not known)"):
                return None
            return text.removeprefix("(not known)")

        behind = (name("behind"), row["behind_class"], row["behind_origin"])
        rows.append(
            (row["device"], name("victim"), row["class"], row["origin"], row["cause"], *behind, row["seconds"], row["ios"])
        )
    return rows


def summed(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Sums over rows that a document cannot distinguish: names are those of a process, except for control groups."""
    sums: dict[tuple[Any, ...], list[Any]] = {}
    for *key, seconds, ios in rows:
        entry = sums.setdefault(tuple(key), [0, None])
        entry[0] += round(seconds * 1e9)
        entry[1] = ios if entry[1] is None else entry[1] + (ios or 0)
    return sorted(((*key, *value) for key, value in sums.items()), key=str)


@pytest.mark.parametrize(("seed", "slots", "step_s"), [(1, 5, 10), (2, 8, 600), (3, 12, 10)])
@pytest.mark.parametrize("by", ["process", "cgroup"])
def test_sums_are_those_of_the_program(tmp_path: Path, program: str, by: str, seed: int, slots: int, step_s: int) -> None:
    recording = iolens.open(made(tmp_path, seed, slots, step_s))
    end_ns = slots * step_s * S
    with served(program, tmp_path) as address:
        for from_ns, to_ns in ((0, end_ns), (step_s * S * 2, step_s * S * 4), (step_s * S * 3 // 2, end_ns)):
            theirs, lost_s = program_says(address, by, START_NS + from_ns, START_NS + to_ns)
            whole = (from_ns, to_ns) == (0, end_ns)
            window = {} if whole else {"start": from_ns / 1e9, "stop": to_ns / 1e9}
            rows = mine(recording, by, **window)
            assert len(theirs) > 20
            assert summed(rows) == summed(theirs)
            # Sorted by the time lost, the largest first.
            lost: dict[tuple[Any, ...], int] = {}
            relation = recording.who_waited(by, **window)
            at = [
                relation.columns.index(c)
                for c in relation.columns
                if c in ("device", "victim", "victim_cgroup", "class", "origin")
            ]
            for row in relation.fetchall():
                named_ = dict(zip(relation.columns, row, strict=True))
                key = tuple(row[i] for i in at)
                lost.setdefault(key, 0)
                lost[key] += round(named_["seconds"] * 1e9) * (named_["cause"] != "undisturbed")
            assert list(lost.values()) == sorted(lost.values(), reverse=True)
            assert sum(lost.values()) == pytest.approx(sum(lost_s) * 1e9)


@pytest.mark.parametrize("by", ["process", "cgroup"])
def test_what_was_recorded_is_summed_as_the_program_sums_it(tmp_path: Path, program: str, by: str) -> None:
    path = tmp_path / recorded().relative_to(ROOT)
    shutil.copytree(recorded(), path)
    shutil.rmtree(path / "io")
    for file in path.glob("meta.json*"):
        meta = json.loads(file.read_text())
        del meta["tables"]
        file.write_text(json.dumps(meta))
    recording = iolens.open(path)
    write_table(path, "lost", [{**KEPT, "to_ns": recording.end_ns}])
    start_ns = recording.meta.start_unix_ns
    with served(program, tmp_path) as address:
        theirs, _ = program_says(address, by, start_ns, start_ns + recording.end_ns)
    assert sorted(mine(recording, by), key=str) == theirs
    assert {row[4] for row in theirs} >= {"undisturbed", "own", "others", "device"}


def test_sums_are_what_the_report_says_of_single_ios(program: str) -> None:
    """The recorder learns undisturbed latencies while it runs, the report in advance: I/Os and times are equal, parts close."""
    recording = iolens.open(recorded())
    entries = recording.report()["waits"]
    assert len(entries) == 3
    for wait in entries:
        victim = (wait["device"], *named(wait["victim"], "process"))
        rows = [row for row in mine(recording, "process") if row[:4] == victim]
        assert sum(row[-2] for row in rows) == pytest.approx(wait["io_time_s"], abs=1e-9)
        assert [row[-1] for row in rows if row[4] == "undisturbed"] == [wait["ios"]]
        close = pytest.approx(0, abs=0.1 * wait["io_time_s"])
        for cause in CAUSES:
            assert sum(row[-2] for row in rows if row[4] == cause) - wait[f"{cause}_s"] == close, (wait, cause)
        behind = {named(b, "process"): b["seconds"] for b in wait["behind"]}
        for row in rows:
            if row[4] == "others":
                assert row[-2] - behind.pop(row[5:8], 0) == close
        assert sum(behind.values()) == close


def test_sums_are_those_of_zoom(program: str) -> None:
    recording = iolens.open(recorded())
    words = ["zoom", recording.path, "--by", "process", "--step", "10s", "--waits", "--format", "json"]
    theirs = json.loads(run(program, *words))
    rows = mine(recording, "process")
    for process in {row[1] for row in rows}:
        of = [row for row in theirs if row["process"] == process]
        spent = {cause: sum(row[f"{cause}_s"] or 0 for row in of) for cause in (*CAUSES, "others")}
        own = {cause: sum(row[-2] for row in rows if row[1] == process and row[4] == cause) for cause in spent}
        # Zoom rounds its cells to a thousandth.
        assert sum(own.values()) == pytest.approx(sum(spent.values()), abs=len(of) * 6 * 5e-4)
        for cause, seconds in spent.items():
            assert own[cause] == pytest.approx(seconds, abs=0.1 * sum(spent.values())), (process, cause)


def test_both_steps_have_the_same_sums() -> None:
    recording = iolens.open(recorded())
    ns = [r.aggregate("sum(ns), min(step_s), max(step_s)").fetchall()[0] for r in (recording.waits, recording.waits_10s)]
    assert [row[1:] for row in ns] == [(600, 600), (10, 10)]
    assert ns[0][0] == ns[1][0] == recording.ios.aggregate("sum(device_ns + coalesce(queue_ns, 0))").fetchall()[0][0]


def test_a_recording_without_waits_says_so(made: Any, capsys: pytest.CaptureFixture[str]) -> None:
    recording = iolens.open(made(1))
    with pytest.raises(iolens.IolensError, match="choose one of process, cgroup, pod"):
        recording.who_waited("file")
    why = "this recording has no table waits, which `iolens serve` writes; `iolens report` computes them"
    windows: tuple[dict[str, Any], ...] = ({}, {"start": 0.1, "stop": 0.2})
    for window in windows:
        with pytest.raises(iolens.IolensError, match=why):
            recording.who_waited(**window)
    assert recording.waits.fetchall() == []
    assert main(["waits", str(made(1))]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert why in said.err


def test_a_table_of_waits_may_have_no_rows(tmp_path: Path) -> None:
    path = write_recording(tmp_path / "r", [], {**RANDOM_META, "end_ns": 10 * S})
    write_table(path, "waits", [], "600s-000001.parquet")
    assert iolens.open(path).who_waited().fetchall() == []


def behind(at_ns: int, victim: dict[str, Any], culprit: dict[str, Any], ns: int, ios: int = 1) -> dict[str, Any]:
    both = {"origin": 0, "class": "read", "others": 0}
    row = {"step_s": 600, "at_ns": at_ns, "dev": DISK, **both, **victim}
    return {**row, "cause": "others", **of_culprit({**both, **culprit}), "ns": ns, "ios": ios}


def process(tgid: int, cgroup: int | None) -> dict[str, Any]:
    return {"name": f"p{tgid}", "tgid": tgid, "cgroup": cgroup}


UID = "2f4e7a1c-0b0d-4a3c-9a1e-5d6f7a8b9c0d"
NOBODY = {"name": None, "tgid": None, "cgroup": None, "others": 1}


def noisy_lake(root: Path) -> None:
    """Two hosts and days: a pod has two containers, of which one recording has the names, the others only the paths."""
    pod_paths = {1: f"/kubepods/pod{UID}/" + "1a" * 32, 2: f"/kubepods/pod{UID}/" + "2b" * 32, 3: "/system.slice/x"}
    rows = [
        behind(0, process(10, 1), process(30, 3), 4 * S, ios=40),
        behind(600 * S, process(20, 2), process(30, 3), 2 * S, ios=5),
        # Behind its own flushes, behind another process of its control group, behind another container of its pod.
        behind(0, process(10, 1), {**process(10, 1), "class": "flush"}, 50 * S),
        behind(0, process(11, 1), process(10, 1), 8 * S),
        behind(0, process(20, 2), process(10, 1), 16 * S),
        # And the pod behind which system processes wait.
        behind(0, process(30, 3), process(10, 1), S, ios=7),
        behind(0, process(30, 3), NOBODY, S // 2),
        behind(0, NOBODY, NOBODY, 99 * S),
    ]
    for host, day in (("a", 0), ("a", 1), ("b", 0)):
        path = root / f"host={host}/start_ns={START_NS + day * DAY_NS}"
        write_recording(path, [], {**RANDOM_META, "start_unix_ns": START_NS + day * DAY_NS, "end_ns": 1200 * S})
        write_waits(path, sorted(rows, key=lambda row: row["at_ns"]))
        at = {"at_ns": 1, "fs_dev": None, "generation": None}
        names = [{**at, "kind": "cgroup", "id": cgroup, "text": text} for cgroup, text in pod_paths.items()]
        if (host, day) == ("a", 0):
            names.append({**at, "kind": "pod", "id": 1, "text": "default/web/one"})
        write_table(path, "names", names)


def costs(lake: iolens.Lake, by: str, host: str) -> dict[str, tuple[float, int, int]]:
    rows = [row for row in lake.noisy(by).to_pylist() if row["host"] == host]
    assert [row["cost_s"] for row in rows] == sorted((row["cost_s"] for row in rows), reverse=True)
    return {"" if by == "host" else row[by]: (row["cost_s"], row["ios"], row["neighbours"]) for row in rows}


def test_noise_is_what_others_waited(tmp_path: Path) -> None:
    noisy_lake(tmp_path)
    lake = iolens.lake(tmp_path)
    # Of host `a` twice as much, in two recordings.
    assert costs(lake, "process", "b") == {
        "p10[10]": (25.0, 9, 3),
        "p30[30]": (6.0, 45, 2),
        "(others)": (0.5, 1, 1),
    }
    one, two = (f"/kubepods/pod{UID}/" + text * 32 for text in ("1a", "2b"))
    assert costs(lake, "cgroup", "b") == {one: (17.0, 8, 2), "/system.slice/x": (6.0, 45, 2), "(others)": (0.5, 1, 1)}
    assert two not in costs(lake, "cgroup", "b")
    assert costs(lake, "pod", "b") == {"/system.slice/x": (6.0, 45, 1), UID: (1.0, 7, 1), "(others)": (0.5, 1, 1)}
    # The second day's recording does not know the pod's name: another one does.
    assert costs(lake, "pod", "a") == {"/system.slice/x": (12.0, 90, 1), "default/web": (2.0, 14, 1), "(others)": (1.0, 2, 1)}
    assert costs(lake, "host", "b") == {"": (31.5, 55, 4)}


def test_noise_of_each_day(tmp_path: Path) -> None:
    noisy_lake(tmp_path)
    lake = iolens.lake(tmp_path)
    for by in ("process", "cgroup", "pod", "host"):
        days = [row for row in lake.noisy(by, per_day=True).to_pylist() if row["host"] == "a"]
        assert {row["day_unix_ns"] for row in days} == {(START_NS + d * DAY_NS) // DAY_NS * DAY_NS for d in (0, 1)}
        whole = costs(lake, by, "a")
        for actor, (cost_s, ios, _) in whole.items():
            of = [row for row in days if by == "host" or row[by] == actor]
            assert (sum(row["cost_s"] for row in of), sum(row["ios"] for row in of)) == (cost_s, ios)


def test_equal_noise_is_in_the_order_of_names(tmp_path: Path) -> None:
    path = tmp_path / f"host=a/start_ns={START_NS}"
    write_recording(path, [], {**RANDOM_META, "end_ns": 600 * S})
    write_waits(path, [behind(0, process(1, None), process(tgid, None), S) for tgid in (5, 3, 4)])
    rows = iolens.lake(tmp_path).noisy("process").to_pylist()
    assert [(row["process"], row["cost_s"]) for row in rows] == [("p3[3]", 1.0), ("p4[4]", 1.0), ("p5[5]", 1.0)]


def test_noise_of_what_was_recorded_is_what_its_victims_say(capsys: pytest.CaptureFixture[str]) -> None:
    lake = iolens.lake(ROOT)
    costs = {row["cgroup"]: row["cost_s"] for row in lake.noisy().to_pylist()}
    relation = iolens.open(recorded()).who_waited("cgroup")
    expected: dict[str, float] = {}
    for row in (dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()):
        if row["cause"] == "others" and row["victim"] != row["behind"]:
            expected[row["behind"]] = expected.get(row["behind"], 0) + row["seconds"]
    assert costs == {cgroup: pytest.approx(seconds) for cgroup, seconds in expected.items()}
    assert list(costs) == sorted(costs, key=lambda cgroup: -costs[cgroup])
    assert main(["noisy", str(ROOT), "--by", "pod", "--per-day", "--format", "json"]) == 0
    assert {row["pod"] for row in json.loads(capsys.readouterr().out)} == {UID, "7b1d0c52-93aa-4d0e-8c11-0a4f3e2d1c6b"}
    assert main(["waits", str(recorded()), "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(iolens.open(recorded()).who_waited().fetchall())


def test_recordings_without_waits_are_counted(tmp_path: Path) -> None:
    noisy_lake(tmp_path)
    write_recording(tmp_path / f"host=c/start_ns={START_NS}", [], {})
    with pytest.warns(UserWarning, match="1 of 4 recordings have no table waits"):
        assert iolens.lake(tmp_path).noisy("host").num_rows == 2


def test_origins_are_named_as_the_format_does() -> None:
    assert ORIGINS[:4] == ("direct", "writeback", "metadata", "unknown")
