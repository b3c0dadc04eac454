"""The package's results equal those of the program, on the same recordings."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, run

import iolens

LOGS = [["loop.blktrace.0", "loop.blktrace.1"], ["perf-script-ns.txt"], ["perf-script.txt"]]


def recordings(made: Callable[[int], Path], program: str, tmp_path: Path) -> list[Path]:
    imported = []
    for logs in LOGS:
        imported.append(tmp_path / f"{logs[0]}.iolens")
        run(program, "import", *(FIXTURES / "import" / log for log in logs), "-o", imported[-1])
    return [FIXTURES / "recordings/v1/finished.iolens", made(1), made(2), *imported]


def rounded(value: Any) -> Any:
    """Rounds like `zoom`: to a thousandth, smaller values to three digits."""
    if value is None or isinstance(value, (str, bool)):
        return value
    places = 3.0 if value == 0 or abs(value) >= 0.1 else 2.0 - math.floor(math.log10(abs(value)))
    unit = 10.0 ** min(places, 15.0)
    return math.floor(abs(value) * unit + 0.5) / unit


def same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, float) or isinstance(theirs, float):
        # The last digit of a value that is rounded from exactly half may differ.
        return mine is not None and theirs is not None and math.isclose(mine, theirs, rel_tol=1e-9, abs_tol=1.001e-3)
    return bool(mine == theirs)


def as_printed(name: Any) -> Any:
    """The program prints invalid UTF-8 as U+FFFD."""
    return (name or "").replace("\\xff", "\ufffd")


# Of control groups the program has these, too: test_containers.py.
CONTAINER = ("pod", "container", "pod_uid", "container_id", "runtime")


def without_idle_devices(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Rows as `zoom` prints them: devices without any I/O are omitted."""
    active = {row["device"] for row in rows if row["r_per_s"] or row["w_per_s"] or row["inflight_max"]}
    return [row for row in rows if row["device"] in active]


@pytest.mark.parametrize("by", ["all", "device", "process", "cgroup", "file"])
@pytest.mark.parametrize("step", ["10ms", "7ms", "1s"])
def test_series_is_zoom(by: str, step: str, made: Callable[[int], Path], program: str, tmp_path: Path) -> None:
    for path in recordings(made, program, tmp_path):
        args = ["zoom", path, "--step", step, "--by", by, "-x", "--format", "json"]
        theirs = json.loads(run(program, *args))
        relation = iolens.open(path).series(step, by, extended=True)
        mine = [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]
        if by == "device":
            mine = without_idle_devices(mine)
        assert len(mine) == len(theirs) > 0, path

        def key(row: dict[str, Any]) -> tuple[float, str]:
            return round(row["time_s"], 6), as_printed(row.get(by))

        for a, b in zip(sorted(mine, key=key), sorted(theirs, key=key), strict=True):
            assert key(a) == key(b), path
            for name, value in b.items():
                if name not in ("time", "time_unix_s", "time_s", "slot_s", by, *CONTAINER):
                    assert same(rounded(a[name]), value), (path, name, a, b)


def test_windows_are_those_of_zoom(made: Callable[[int], Path], program: str) -> None:
    path = made(1)
    theirs = json.loads(run(program, "zoom", path, "--step", "50ms", "--from", "0.33", "--to", "0.9", "-x", "--format", "json"))
    relation = iolens.open(path).series("50ms", extended=True, start=0.33, stop=0.9)
    mine = [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]
    assert len(mine) == len(theirs) == 12
    for a, b in zip(mine, theirs, strict=True):
        assert all(
            same(rounded(a[name]), value) for name, value in b.items() if name not in ("time", "time_unix_s", "slot_s")
        ), (a, b)


def test_percentiles_and_busy_are_the_reports(made: Callable[[int], Path], program: str, tmp_path: Path) -> None:
    compared = 0
    for path in recordings(made, program, tmp_path):
        recording = iolens.open(path)
        percentiles, busy = recording.percentiles(), recording.busy()
        classes = {row[:2]: dict(zip(percentiles.columns, row, strict=True)) for row in percentiles.fetchall()}
        devices = {row[0]: dict(zip(busy.columns, row, strict=True)) for row in busy.fetchall()}
        for theirs in recording.report()["devices"]:
            name = theirs["name"]
            for key in ("busy_percent", "busy_read_percent", "busy_write_percent", "busy_both_percent", "busy_device_percent"):
                if theirs[key] is not None:
                    assert same(devices[name][key], theirs[key]), (path, name, key)
                    compared += 1
            for key, value in theirs["concurrency"].items():
                assert same(devices[name][f"in_flight_{key}"], value), (path, name, key)
            for kind in ("read", "write", "discard", "flush"):
                mine = classes.get((name, kind))
                assert (mine["ios"] if mine else 0) == theirs[kind]["ios"], (path, name, kind)
                for key in mine or {}:
                    if key in theirs[kind] and theirs[kind][key] is not None:
                        assert same(mine[key], theirs[kind][key]), (path, name, kind, key)
                        compared += 1
    assert compared > 200


def test_findings_are_the_reports(program: str) -> None:
    recording = iolens.open(FIXTURES / "recordings/v1/finished.iolens")
    kinds = [row[0] for row in recording.findings.fetchall()]
    assert kinds == [f["kind"] for f in recording.report()["findings"]]
    assert kinds
