"""Pods and containers of control groups, the same cases as in the program's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conftest import DISK, RANDOM_META, START_NS, random_ios, write_recording
from lakes import of_culprit, write_waits

import iolens

PATHS = Path(__file__).resolve().parents[2] / "fixtures/cgroups/paths.tsv"


def vectors() -> list[dict[str, str | None]]:
    lines = [line.split("\t") for line in PATHS.read_text().splitlines() if not line.startswith("#")]
    keys = ("path", "pod_uid", "qos", "container_id", "runtime")
    return [{k: None if v == "-" else v for k, v in zip(keys, line, strict=True)} for line in lines]


def write_lake(root: Path) -> list[dict[str, Any]]:
    """A recording with all these control groups, with I/Os of each in turn; the expected rows."""
    expected, names = [], []
    for i, vector in enumerate(vectors()):
        at = {"at_ns": 1, "fs_dev": None, "id": i, "generation": None}
        names.append({**at, "kind": "cgroup", "text": vector["path"]})
        row: dict[str, Any] = {"cgroup": i, **vector, "pod": None, "container": None}
        del row["qos"]
        if vector["pod_uid"]:
            row["pod"] = f"default/web-{i}"
            row["container"] = "nginx" if vector["container_id"] else None
            names.append({**at, "kind": "pod", "text": row["pod"] + ("/nginx" if row["container"] else "")})
        expected.append(row)
    ios = [{**io, "cgroup": i % len(expected)} for i, io in enumerate(random_ios(3, 1000))]
    write_recording(root / f"host=h/start_ns={START_NS}", ios, {**RANDOM_META, "end_ns": ios[-1]["done_ns"]}, names=names)
    rows: list[dict[str, Any]] = []
    for row in expected:
        # Each control group is one that another process waits for.
        at = {"step_s": 600, "at_ns": 0, "dev": DISK, "others": 0, "name": "victim", "tgid": 7, "cgroup": None}
        culprit = {"others": 0, "name": "p", "tgid": row["cgroup"], "cgroup": row["cgroup"], "class": "read", "origin": 0}
        rows.append({**at, "class": "read", "origin": 0, "cause": "others", **of_culprit(culprit), "ns": 10**9, "ios": 1})
    write_waits(next(root.glob("*/*")), rows)
    return expected


COLUMNS = "cgroup, path, pod_uid, container_id, runtime, pod, container"


def test_every_path_is_understood_as_the_program_does(tmp_path: Path) -> None:
    expected = write_lake(tmp_path)
    rows = iolens.lake(tmp_path).query(f"select {COLUMNS} from containers order by cgroup").to_pylist()
    assert rows == expected


def test_pods_are_noisy_by_their_names(tmp_path: Path) -> None:
    expected = write_lake(tmp_path)
    lake = iolens.lake(tmp_path)
    by_pod = {r["pod"] for r in lake.noisy(by="pod").to_pylist()}
    assert by_pod == {row["pod"] or row["path"] for row in expected}
    whole = {by: sum(r["cost_s"] for r in lake.noisy(by=by).to_pylist()) for by in ("pod", "cgroup")}
    assert whole == {"pod": len(expected), "cgroup": len(expected)}
