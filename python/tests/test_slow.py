"""Fail-slow devices: planted fleets, and both kinds of input."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from conftest import write_recording
from fleets import START_S, Planted, Tail, make_fleet, make_host, with_histograms

import iolens
from iolens import slow, slow_input, slow_tails
from iolens.cli import main
from iolens.slow import Entries


def test_a_fleet_with_twenty_slow_of_a_thousand() -> None:
    hosts, truth = make_fleet(1000, 20, seed=2)
    found = slow.judge(hosts)
    flagged = {v.device for v in found if v.slow}
    strong = {device for device, p in truth.items() if p.factor >= 2}
    assert len(found) == 1000
    assert len(strong) >= 10
    assert len(flagged & set(truth)) >= 0.95 * len(flagged)
    assert len(flagged & strong) >= 0.95 * len(strong)
    steady = [(v, truth[v.device]) for v in found if v.device in truth and truth[v.device].share == 1 and v.slow]
    assert steady
    for verdict, planted in steady:
        # Healthy drives differ from each other by 7 %, so a factor cannot be known more precisely.
        assert verdict.factor == pytest.approx(planted.factor, rel=0.2)


def test_a_healthy_fleet_has_none() -> None:
    hosts, _ = make_fleet(1000, 0, seed=11)
    assert [v for v in slow.judge(hosts) if v.slow] == []


def _tails(disks: int, hosts: int, planted: dict[int, Tail], seed: int) -> list[Entries]:
    rng = np.random.default_rng(seed)
    made = []
    for host in range(hosts):
        here = {device % disks: tail for device, tail in planted.items() if device // disks == host}
        made.append(with_histograms(make_host(f"host{host}", disks, rng, {}), rng, here))
    return made


def test_slow_ios_are_found_where_means_hide_them() -> None:
    slots = np.arange(slow.DAY_S // slow.ENTRY_S)
    always, third = np.ones(len(slots)), slots // 300 % 3 == 1
    planted = {5: Tail(0.05, 6, always), 30: Tail(0.05, 8, always), 52: Tail(0.05, 12, third), 77: Tail(0.05, 6, third)}
    hosts = _tails(12, 8, planted, seed=31)
    expected = {f"host{device // 12}-d{device % 12}" for device in planted}
    found = {v.device: v for v in slow.judge(hosts)}
    assert {v.device for v in found.values() if v.slow} == expected
    by_means = slow.judge([replace(h, histograms=None) for h in hosts])
    assert {v.device for v in by_means if v.slow} < expected
    for device, tail in planted.items():
        v = found[f"host{device // 12}-d{device % 12}"]
        assert "tail" in (v.found_by or "")
        # Not all of the slow I/Os are beyond the peers' 99th percentile, and all windows have equal weight.
        assert 0.4 < (v.tail_percent or 0) / (100 * tail.share * tail.slots.mean()) < 1.4
    assert {v.found_by for name, v in found.items() if name not in expected} == {None}
    assert max(v.tail_percent or 0 for name, v in found.items() if name not in expected) < 1.5


def test_a_healthy_fleet_has_no_slow_ios() -> None:
    found = slow.judge(_tails(12, 10, {}, seed=32))
    assert len(found) == 120
    assert all(v.tail_percent is not None for v in found)
    assert [v for v in found if v.slow] == []


def test_what_slows_the_ios_of_a_whole_host_is_no_drive() -> None:
    half = np.arange(slow.DAY_S // slow.ENTRY_S) % 2000 < 700
    assert not any(v.slow for v in slow.judge(_tails(12, 1, {device: Tail(0.05, 8, half) for device in range(12)}, seed=33)))


def test_what_slows_a_whole_host_is_no_drive() -> None:
    host = make_host("h", 12, np.random.default_rng(3), {})
    half = host.time_s % slow.DAY_S > slow.DAY_S // 2
    slowed = Entries(host.host, host.names, host.time_s, host.device, host.throughput, np.where(half, 3, 1) * host.latency)
    assert not any(v.slow for v in slow.judge([slowed]))


def test_load_alone_is_not_slow() -> None:
    # One drive has five times the load of its peers, which reach it occasionally; its latency follows the load.
    rng = np.random.default_rng(4)
    load = rng.lognormal(3, 1.0, (12, slow.DAY_S // 15))
    load[5] *= 5
    latency = 0.2 * (1 + load / 40) * rng.lognormal(0, 0.2, load.shape)
    at = np.tile(START_S + 15 * np.arange(load.shape[1]), 12)
    device = np.repeat(np.arange(12), load.shape[1])
    entries = Entries("h", [f"d{i}" for i in range(12)], at, device, load.ravel(), latency.ravel())
    verdicts = {v.device: v for v in slow.judge([entries])}
    assert not verdicts["d5"].slow
    assert verdicts["d5"].steady_factor == pytest.approx(1, abs=0.1)
    assert float(np.median(latency[5]) / np.median(latency[:5])) > 2


def test_getting_slower_has_a_trend() -> None:
    rng = np.random.default_rng(5)
    host = make_host("h", 12, rng, {}, days=5)
    day = (host.time_s - START_S) // slow.DAY_S
    grown = host.latency * np.where(host.device == 4, 1.15**day, 1)
    found = slow.judge([Entries(host.host, host.names, host.time_s, host.device, host.throughput, grown)])
    trends = {v.device: v.trend_percent_per_day for v in found}
    assert trends.pop("h-d4") == pytest.approx(15, abs=3)
    assert max(abs(t or 0) for t in trends.values()) < 3


def test_too_little_is_not_judged() -> None:
    host = make_host("h", 12, np.random.default_rng(6), {0: Planted(5, 1)})
    few = host.device < 3
    short = host.time_s < START_S + 15 * 100
    for kept in (few, short):
        columns = (host.time_s[kept], host.device[kept], host.throughput[kept], host.latency[kept])
        assert slow.judge([Entries("h", host.names, *columns)]) == []


def test_whole_milliseconds_make_no_device_slow() -> None:
    hosts, truth = make_fleet(240, 4, seed=21)
    whole = [Entries(h.host, h.names, h.time_s, h.device, h.throughput, np.round(5 * h.latency)) for h in hosts]
    found = {v.device for v in slow.judge(whole) if v.slow}
    assert found <= set(truth)
    assert found >= {device for device, p in truth.items() if p.factor >= 2}


def test_the_main_cluster_leaves_outliers_out() -> None:
    rng = np.random.default_rng(7)
    load = rng.normal(3, 1, 5000)
    latency = 0.5 * load + rng.normal(0, 0.1, 5000)
    far = np.arange(5000) < 50
    latency[far] += 6
    inlier = slow.main_cluster(load, latency)
    assert not inlier[far].any()
    assert inlier[~far].mean() > 0.99


def _write_csv(entries: Entries, path: Path, **more: list[str]) -> None:
    columns = {
        "ts": entries.time_s,
        "disk_id": [entries.names[i] for i in entries.device],
        "throughput": entries.throughput,
        "latency": entries.latency,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    pa_csv.write_csv(pa.table({**columns, **more}), path)


def test_csv_files_are_hosts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(8)
    for i in range(4):
        planted = {7: Planted(2.5, 0.3)} if i == 2 else {}
        _write_csv(make_host(f"n{i}", 12, rng, planted), tmp_path / "cluster" / f"n{i}.csv")
    (tmp_path / "labels.csv").write_text("disk_id,since\nn2-d7,1\n")
    assert main(["slow", str(tmp_path), "--format", "json"]) == 0
    said = capsys.readouterr()
    [row] = json.loads(said.out)
    assert (row["host"], row["device"]) == ("cluster/n2", "n2-d7")
    assert list(row)[-2:] == ["days", "entries"]
    assert row["factor"] == pytest.approx(2.5, rel=0.2)
    assert row["factor_low"] < row["factor"] < row["factor_high"]
    assert "1 of 48 devices are slow" in said.err
    assert main(["slow", *map(str, sorted(tmp_path.glob("cluster/*.csv"))), "--all", "--format", "csv"]) == 0
    assert len(list(csv.DictReader(capsys.readouterr().out.splitlines()))) == 48


def test_a_file_for_each_disk_makes_the_directory_a_host(tmp_path: Path) -> None:
    made = {name: make_host(name, 5, np.random.default_rng(9), {}) for name in ("x", "y")}
    for name, host in made.items():
        for i, disk in enumerate(host.names):
            of = host.device == i
            columns = (host.time_s[of], np.zeros(of.sum(), dtype=np.int64), host.throughput[of], host.latency[of])
            _write_csv(Entries(name, [disk], *columns), tmp_path / name / f"{disk}.csv")
    read = list(slow_input.from_csv([tmp_path]))
    assert [(e.host, e.names) for e in read] == [(name, host.names) for name, host in made.items()]
    assert np.allclose(read[1].latency, made["y"].latency)


def test_a_file_for_each_day_makes_the_directory_a_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The layout of Perseus' published data: a directory per host, a file per day. Disks have the same names on every host.
    made = {
        name: make_host("d", 6, np.random.default_rng(i), {2: Planted(3, 1)} if name == "y" else {}, days=3)
        for i, name in enumerate("xyz")
    }
    for name, host in made.items():
        for day in range(3):
            of = (host.time_s - START_S) // slow.DAY_S == day
            columns = (host.time_s[of], host.device[of], host.throughput[of], host.latency[of])
            _write_csv(Entries(name, host.names, *columns), tmp_path / f"cluster/{name}" / f"2026-11-{day + 10}.csv")
    read = list(slow_input.from_csv([tmp_path / "cluster"]))
    assert [e.host for e in read] == ["x", "y", "z"]
    assert all(sorted(e.time_s) == sorted(made[e.host].time_s) for e in read)
    assert main(["slow", str(tmp_path / "cluster"), "--format", "json"]) == 0
    said = capsys.readouterr()
    [row] = json.loads(said.out)
    assert (row["host"], row["device"], row["days"]) == ("y", "d-d2", 3)
    assert "1 of 18 devices are slow" in said.err
    # Several logs of several days in one directory, and hosts at the same time whose disks have the same names.
    for file in (tmp_path / "cluster").rglob("*.csv"):
        text = file.read_text().replace("d-d", f"{file.parent.name}-d")
        (tmp_path / f"{file.parent.name}-{file.name}").write_text(text)
    flat = list(slow_input.from_csv(sorted(tmp_path.glob("*.csv"))))
    assert [(e.host, len(e.time_s)) for e in flat] == [(f"{n}-2026-11-10", len(made[n].time_s)) for n in "xyz"]
    same = [tmp_path / "cluster" / name / "2026-11-10.csv" for name in "xy"]
    (tmp_path / "same").mkdir()
    for number, file in enumerate(same):
        file.rename(tmp_path / f"same/n{number}.csv")
    assert [e.host for e in slow_input.from_csv([tmp_path / "same"])] == ["n0", "n1"]


def test_times_and_hosts_of_one_csv_file(tmp_path: Path) -> None:
    hosts = [make_host(name, 5, np.random.default_rng(9), {}) for name in ("x", "y")]
    path = tmp_path / "all.csv"
    _write_csv(hosts[0], tmp_path / "plain.csv")
    [plain] = slow_input.from_csv([tmp_path / "plain.csv"])
    assert plain.host == "plain"
    parts = []
    for h in hosts:
        _write_csv(h, path, host=[h.host] * len(h.time_s))
        parts.append(pa_csv.read_csv(path))
    table = pa.concat_tables(parts)
    seconds = table["ts"].to_numpy()
    for ts in (seconds, seconds * 1000, pa.array(seconds).cast(pa.timestamp("s")), seconds.astype(float)):
        pa_csv.write_csv(table.set_column(0, "ts", pa.array(ts)), path)
        read = list(slow_input.from_csv([path]))
        assert [e.host for e in read] == ["x", "y"]
        assert (read[1].time_s == hosts[1].time_s).all()
        assert read[1].names == hosts[1].names
    path.write_text("time,value\n1,2\n")
    with pytest.raises(iolens.IolensError, match="has no columns ts,disk_id"):
        list(slow_input.from_csv([path]))
    path.write_text("ts,disk_id,throughput,latency\nsoon,a,1,1\n")
    with pytest.raises(iolens.IolensError, match=r"all\.csv: "):
        list(slow_input.from_csv([path]))


def _write_lake(
    root: Path, made: dict[str, Entries], rng: np.random.Generator, more: list[dict[str, object]] | None = None
) -> None:
    """One host with six disks; the rollups of a second of each class. A histogram is in two of the seconds of its entry."""
    start_ns = START_S * 10**9
    path = root / f"host=h/start_ns={start_ns}"
    known = {"kind": "request", "model": "M"}
    devices = [{"name": f"sd{'abcdef'[i]}", "id": 8 << 20 | 16 * i, "stable_id": f"wwn-{i}", **known} for i in range(6)]
    write_recording(path, [], {"devices": devices + (more or []), "start_unix_ns": start_ns})
    parts = []
    for name, entries in made.items():
        n = len(entries.time_s)
        ios = np.full(n, 10)
        for second in (0, 7):
            lists = [pa.array([[]] * n, pa.list_(pa.int32()))] * 2
            if entries.histograms is not None:
                of = entries.histograms
                offsets = pa.array(np.searchsorted(of.entry, np.arange(n + 1)), pa.int32())
                counts = of.ios // 2 if second else of.ios - of.ios // 2
                lists = [pa.ListArray.from_arrays(offsets, pa.array(v.astype(np.int32))) for v in (of.bucket, counts)]
            columns = {
                "step_s": pa.array(np.ones(n), pa.int32()),
                "at_ns": (entries.time_s - START_S + second) * 10**9,
                "dev": pa.array(8 << 20 | 16 * entries.device, pa.int32()),
                "class": [name] * n,
                "ios": ios,
                "bytes": np.maximum(entries.throughput * 5e5, 1).astype(np.int64),
                "queue_sum_ns": (ios * rng.lognormal(16, 1, n)).astype(np.int64),
                "device_sum_ns": (ios * entries.latency * 1e6).astype(np.int64),
            }
            histograms = {
                f"{part}_{what}": lists[i] for part in ("total", "device") for i, what in enumerate(("buckets", "counts"))
            }
            parts.append(pa.table({**columns, **histograms}))
    (path / "rollup").mkdir()
    pq.write_table(pa.concat_tables(parts), path / "rollup/1s-000001.parquet")


def test_rollups_of_a_lake(tmp_path: Path) -> None:
    # The slow drive's reads are slow, its writes are not; queue time must not count.
    rng = np.random.default_rng(10)
    made = {"read": make_host("h", 6, rng, {3: Planted(2.5, 0.4)}), "write": make_host("h", 6, rng, {})}
    _write_lake(tmp_path, made, rng)
    lake = iolens.lake(tmp_path)
    found = lake.slow()
    assert isinstance(found, pa.Table)
    # A disk has one row, whichever of its classes was judged.
    rows = found.to_pylist()
    assert sorted(row["device"] for row in rows) == [f"sd{c}" for c in "abcdef"]
    assert [(r["host"], r["device"], r["stable_id"], r["model"], r["class"]) for r in rows if r["slow"]] == [
        ("h", "sdd", "wwn-3", "M", "read")
    ]
    assert math.isclose(rows[0]["factor"] or 0, 2.5, rel_tol=0.2)
    assert {(r["tail_percent"], r["found_by"], r["not_judged"]) for r in rows} == {(None, None, None)}
    lake.engine.connection.register("slow_table", found)  # type: ignore[attr-defined]
    joined = lake.query("select d.dev from slow_table s join devices d using (host, device) where slow")
    assert joined.to_pylist() == [{"dev": 8 << 20 | 48}]


def test_what_a_lake_does_not_judge_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(12)
    short = make_host("h", 6, rng, {})
    # The sixth disk has I/O for half an hour, a seventh is another model, an eighth has none; a dm device is above all.
    kept = (short.device != 5) | (short.time_s < START_S + 1800)
    columns = (short.time_s[kept], short.device[kept], short.throughput[kept], short.latency[kept])
    other = Entries("h", [*short.names, "other"], *(np.concatenate([c, c[short.device[kept] == 0]]) for c in columns))
    other.device[kept.sum() :] = 6
    above = Entries("h", [*other.names, "dm"], *(np.concatenate([c, c[: kept.sum()]]) for c in _columns(other)))
    above.device[len(other.device) :] = 8
    more = [{"name": "sdg", "id": 8 << 20 | 96, "kind": "request", "model": "N"}]
    more += [
        {"name": "sdh", "id": 8 << 20 | 112, "kind": "request", "model": "M"},
        {"name": "dm-0", "id": 8 << 20 | 128, "kind": "bio"},
    ]
    _write_lake(tmp_path, {"read": above}, rng, more)
    rows = {row["device"]: row["not_judged"] for row in iolens.lake(tmp_path).slow().to_pylist()}
    assert rows == {
        **{f"sd{c}": None for c in "abcde"},
        "sdf": "30 minutes with I/O on its busiest day, 60 are needed",
        "sdg": "1 such devices on the host, at least 4 are compared",
        "sdh": "no reads or writes of it are recorded by the second",
    }
    assert main(["slow", str(tmp_path), "--all", "--format", "json"]) == 0
    said = capsys.readouterr()
    assert {row["device"]: row["not_judged"] for row in json.loads(said.out)} == rows
    assert "0 of 5 devices are slow" in said.err
    assert "1 not judged: no reads or writes of it are recorded by the second" in said.err


def _columns(e: Entries) -> tuple[np.ndarray, ...]:
    return e.time_s, e.device, e.throughput, e.latency


def test_histograms_of_a_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(34)
    third = np.arange(slow.DAY_S // slow.ENTRY_S) // 300 % 3 == 1
    read, write = (make_host("h", 6, rng, {}) for _ in range(2))
    made = {"read": with_histograms(read, rng, {}), "write": with_histograms(write, rng, {2: Tail(0.05, 6, third)})}
    _write_lake(tmp_path, made, rng)
    read_back = {e.group.io_class: e for e in slow_input.from_lake(iolens.lake(tmp_path))}
    for name, entries in made.items():
        known, back = entries.histograms, read_back[name]
        assert known is not None
        assert back.histograms is not None

        def rows(e: Entries, of: slow_tails.Buckets, names: list[str]) -> np.ndarray:
            """Disk, time, bucket and I/Os of each count, in order."""
            disk = np.array([int(name.removeprefix("wwn-")) for name in names])
            columns = (of.ios, of.bucket, e.time_s[of.entry], disk[e.device[of.entry]])
            return np.array(columns)[:, np.lexsort(columns)]

        assert np.array_equal(rows(back, back.histograms, back.names), rows(entries, known, [f"wwn-{i}" for i in range(6)]))
    assert main(["slow", str(tmp_path), "--format", "json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["host"], row["device"], row["class"], row["found_by"]) == ("h", "sdc", "write", "tail")
    assert 0.5 < row["tail_percent"] < 2
