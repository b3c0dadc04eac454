"""Typical use in a notebook: plots, windows by time of day, `with`, completion, other tools' logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from conftest import DISK, FIXTURES, START_NS, write_recording
from lakes import make_root

import iolens

START = datetime.fromtimestamp(START_NS // 10**9, timezone.utc)
HOUR_NS = 3600 * 10**9


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A local time zone that is not UTC."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def _reads(path: Path, done_ns: list[int]) -> iolens.Recording:
    ios = [{"done_ns": at, "dev": DISK, "op": 0, "bytes": 4096, "device_ns": 1000} for at in done_ns]
    devices = [{"name": "sda", "id": DISK, "kind": "request"}]
    return iolens.open(write_recording(path, ios, {"devices": devices, "end_ns": done_ns[-1] + 1000}))


@pytest.mark.usefixtures("zone")
def test_windows_are_of_the_clock(tmp_path: Path) -> None:
    # A read each ten minutes for two days; START is 2026-11-18 11:06:40 UTC, 16:36:40 in Kolkata.
    recording = _reads(tmp_path / "r", [n * HOUR_NS // 6 + 5 for n in range(289)])

    def found(start: Any, stop: Any) -> list[tuple[int]]:
        return recording.percentiles(start=start, stop=stop).project("ios").fetchall()

    seconds = found(3600, 7200)
    assert seconds == [(6,)]
    hour = timedelta(hours=1)
    assert found(START + hour, START + 2 * hour) == seconds
    local = START.replace(tzinfo=None) + timedelta(hours=5, minutes=30)
    assert recording.window_ns(local + hour, local + 2 * hour) == (HOUR_NS, 2 * HOUR_NS)
    assert recording.window_ns("2026-11-18 17:36:40", "2026-11-18T13:06:40Z") == (HOUR_NS, 2 * HOUR_NS)
    assert recording.window_ns("2026-11-18 12:06:40.5+00:00")[0] == HOUR_NS + 500_000_000
    # The latest such time: on the last day, or on the one before if the last day ends earlier.
    assert recording.window_ns("16:00")[0] == recording.window_ns("2026-11-20 16:00")[0]
    assert recording.window_ns("17:00:00.25")[0] == recording.window_ns("2026-11-19 17:00:00.25")[0]
    for wrong in ("soon", "25:00", "2026-13-01"):
        with pytest.raises(iolens.IolensError, match="no time"):
            recording.window_ns(wrong)
    with pytest.raises(iolens.IolensError, match="nothing from"):
        recording.window_ns("2020-01-01", "2020-01-02")


def test_pictures_by_matplotlib(made: Callable[[int], Path]) -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="SKIP: matplotlib is not installed")
    matplotlib.use("Agg")
    recording = iolens.open(made(1))
    for what in ("throughput", "iops", "latency"):
        axes = recording.plot(what)
        assert [line.get_label() for line in axes.lines] == ["read", "write"]
        column = {"throughput": "r_kib_per_s", "iops": "r_per_s", "latency": "r_us"}[what]
        drawn = [float(v) for v in axes.lines[0].get_ydata() if v is not None]
        step = f"{recording.end_ns // 240}ns"
        values = recording.series(step).project(column).fetchall()
        assert drawn == pytest.approx([v for (v,) in values if v is not None], nan_ok=True)
    by_device = recording.plot("iops", "100ms", by="device")
    assert {line.get_label() for line in by_device.lines} >= {"sda read", "dm-0 write"}
    heat = recording.plot("heatmap", "50ms")
    [mesh] = heat.collections
    counted = sum(ios for (ios,) in recording.heatmap("50ms", per_octave=4).project("ios").fetchall())
    assert int(mesh.get_array().sum()) == counted > 0
    assert heat.get_yscale() == "log"
    with pytest.raises(iolens.IolensError, match="choose throughput, iops, latency or heatmap"):
        recording.plot("colour")
    matplotlib.pyplot.close("all")


def test_a_recording_in_a_notebook_has_a_heat_map(made: Callable[[int], Path]) -> None:
    recording = iolens.open(made(2))
    html = recording._repr_html_()
    cells = recording.heatmap(max(recording.duration_s / 240, 0.001), per_octave=1).aggregate("1", "time_s, low_us").fetchall()
    assert html.count("<rect ") == len(cells)
    assert 'aria-label="latencies over time"' in html


def test_a_lake_in_a_notebook_opens_no_file(tmp_path: Path) -> None:
    make_root(tmp_path, ios=20)
    lake = iolens.lake(tmp_path)
    for file in tmp_path.rglob("*.parquet"):
        file.write_bytes(b"no Parquet")
    html = lake._repr_html_()
    assert "3 hosts, 6 recordings" in html
    assert "<td>c/1</td><td>2</td><td>2026-11-18 11:06:40 UTC</td><td>2026-11-18 12:06:40 UTC</td>" in html
    assert set(lake.relations) <= set(dir(lake))
    assert {"ios", "rollup", "findings", "hosts", "slow"} <= set(dir(lake))
    write_recording(tmp_path / "host=%3Cscript%3E/start_ns=1", [], {})
    assert "<script>" not in iolens.lake(tmp_path)._repr_html_()


def test_with_closes_what_was_opened(tmp_path: Path) -> None:
    make_root(tmp_path, ios=20)
    with iolens.lake(tmp_path) as lake, iolens.open(FIXTURES / "recordings/v1/finished.iolens") as recording:
        assert lake.query("select count(*) as n from ios")["n"].to_pylist() == [120]
        assert recording.ios.aggregate("count(*)").fetchall() == [(200,)]
    with pytest.raises(iolens.IolensError, match="closed"):
        lake.query("select 1")


def test_read_any_takes_what_there_is(tmp_path: Path, program: str) -> None:
    assert isinstance(iolens.read_any(FIXTURES / "recordings/v1/finished.iolens"), iolens.Recording)
    make_root(tmp_path / "lake", ios=20)
    assert isinstance(iolens.read_any(tmp_path / "lake"), iolens.Lake)
    log = next(p for p in sorted((FIXTURES / "import").glob("iostat*")) if p.is_file())
    with iolens.read_any(log) as imported:
        assert isinstance(imported, iolens.Recording)
        assert imported.rates.aggregate("count(*)").fetchall()[0][0] > 0
        assert "<svg" in imported._repr_html_()
        path = imported.path
        assert path.is_dir()
    assert not path.exists()
    (tmp_path / "poem.txt").write_text("a rose\n")
    for wrong, said in ((tmp_path / "poem.txt", "poem.txt"), (tmp_path / "none", "does not exist")):
        with pytest.raises(iolens.IolensError, match=said):
            iolens.read_any(wrong)
