"""Opening, tables, closed forms, and error messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import DISK, FIXTURES, random_ios, write_recording

import iolens
from iolens.tables import TABLES, bucket_low_sql, bucket_of_sql

FINISHED = FIXTURES / "recordings/v1/finished.iolens"
SDA = {"devices": [{"name": "sda", "id": DISK, "kind": "request"}]}


def io(done_ns: int, device_ns: int, **more: object) -> dict[str, Any]:
    return {"done_ns": done_ns, "dev": DISK, "op": 0, "bytes": 4096, "device_ns": device_ns, **more}


def test_tables_are_those_of_the_format() -> None:
    text = (FIXTURES.parent / "docs/recording-format.md").read_text()
    for table in TABLES:
        # `cpu` is described in a sentence; `rollup` is only in always-on recordings.
        if table.directory == "cpu" or f"### {table.directory}\n" not in text:
            continue
        section = text.split(f"### {table.directory}\n")[1].split("\n### ")[0]
        documented = [
            name.strip(" `")
            for line in section.splitlines()
            if line.startswith("| `")
            for name in line.split("|")[1].split(",")
        ]
        assert sorted(documented) == sorted(table.names), table.directory


def test_every_table_is_a_relation() -> None:
    recording = iolens.open(FINISHED)
    for table in TABLES:
        assert set(table.names) <= set(recording.table(table.relation).columns)
    assert recording.ios.aggregate("count(*), sum(bytes)").fetchall() == [(200, 819200)]
    assert recording.sql("select reason, ios from lost").fetchall() == [("ring-full", 3)]
    assert recording.ios.filter("class = 'write'").aggregate("count(*)").fetchall() == [(50,)]
    assert recording.stages.fetchall() == []


def test_busy_time_by_hand(tmp_path: Path) -> None:
    # Two overlapping I/Os in 10 ms: one in flight for 4 ms, two for 2 ms.
    path = write_recording(tmp_path / "r", [io(5_000_000, 4_000_000), io(7_000_000, 4_000_000)], {**SDA, "end_ns": 10_000_000})
    relation = iolens.open(path).busy()
    [row] = relation.fetchall()
    figures = dict(zip(relation.columns, row, strict=True))
    assert (figures["busy_percent"], figures["in_flight_mean"], figures["in_flight_max"]) == (60.0, 0.8, 2)
    assert (figures["in_flight_p50"], figures["in_flight_p75"], figures["in_flight_p99"]) == (1, 1, 2)
    assert (figures["busy_read_percent"], figures["busy_write_percent"], figures["busy_both_percent"]) == (60.0, 0.0, 0.0)


def test_busy_time_of_each_device_over_many_years(tmp_path: Path) -> None:
    # Eight devices over 36 years, one after the other, would exceed a 64-bit integer of nanoseconds.
    end_ns = 1 << 60
    ios = []
    for i in range(8):
        dev = {"dev": DISK | 16 * i}
        ios += [io(end_ns // 4, (end_ns >> 3) * (i % 2 + 1), op=i % 4, **dev), io(end_ns, end_ns >> 2, **dev)]
    devices = [{"name": f"sd{'abcdefgh'[i]}", "id": DISK | 16 * i, "kind": "request"} for i in range(8)]
    path = write_recording(tmp_path / "r", sorted(ios, key=lambda i: i["done_ns"]), {"devices": devices, "end_ns": end_ns})
    figures = "busy_percent, busy_read_percent, busy_write_percent, busy_both_percent, in_flight_max"
    rows = iolens.open(path).busy().project(f"device, {figures}").fetchall()
    first = [12.5, 25.0] * 4
    reads = [37.5, 25.0, 25.0, 25.0, 37.5, 25.0, 25.0, 25.0]
    writes = [0.0, 25.0, 0.0, 0.0] * 2
    assert [row[0] for row in rows] == [d["name"] for d in devices]
    assert [row[1:] for row in rows] == [
        (pytest.approx(f + 25), pytest.approx(r), pytest.approx(w), pytest.approx(0), 1)
        for f, r, w in zip(first, reads, writes, strict=True)
    ]


def test_what_is_not_known_is_null(tmp_path: Path) -> None:
    retention = {"from_ns": 0, "to_ns": 2_000_000_000, "reason": "retention", "ios": 100}
    path = write_recording(tmp_path / "r", [io(2_500_000_000, 10_000)], {**SDA, "end_ns": 4_000_000_000}, lost=[retention])
    recording = iolens.open(path)
    rows = recording.series("1s").project("r_per_s, r_us, lossy").fetchall()
    assert rows == [(None, None, True), (None, None, True), (1.0, 10.0, False), (0.0, None, False)]
    assert recording.percentiles().project("queue_mean_us, merges").fetchall() == [(None, None)]


def test_series_add_up_at_every_step(tmp_path: Path) -> None:
    ios = random_ios(5, 500)
    path = write_recording(tmp_path / "r", ios, {"end_ns": ios[-1]["done_ns"]})
    recording = iolens.open(path)
    reads = sum(1 for i in ios if i["op"] == 0)
    for step in ("1ms", "13ms", "1s", "1h"):
        rows = recording.series(step).project("time_s, r_per_s").fetchall()
        begins = [0.0] + [end for end, _ in rows]
        counted = sum(rate * (end - begin) for begin, (end, rate) in zip(begins, rows, strict=False))
        assert counted == pytest.approx(reads)
        assert rows[-1][0] == pytest.approx(recording.duration_s)


def test_heatmap_counts_every_io_once_where_it_belongs(tmp_path: Path) -> None:
    ios = random_ios(6, 800)
    path = write_recording(tmp_path / "r", ios, {"end_ns": ios[-1]["done_ns"]})
    recording = iolens.open(path)
    for per_octave in (1, 2, 16):
        cells = recording.heatmap("50ms", "device", per_octave=per_octave)
        assert cells.aggregate("sum(ios)").fetchall() == [(800,)]
        for low, high, n in cells.aggregate("low_us, high_us, sum(ios)", "low_us, high_us").fetchall():
            assert n == sum(1 for i in ios if low <= i["device_ns"] / 1e3 < high)
    assert recording.heatmap("1s", "queue").aggregate("sum(ios)").fetchall() == [
        (sum(1 for i in ios if i["queue_ns"] is not None),)
    ]


def test_buckets_are_those_of_the_format() -> None:
    text = f"""
        select x, {bucket_of_sql("x")} as b from
        (select unnest(range(0, 70000)) as x union all select (power(1.7, unnest(range(20, 70))))::bigint)"""
    sql = f"select x, {bucket_low_sql('b')}, {bucket_low_sql('(b + 1)')}, b from ({text})"
    for x, low, high, bucket in duckdb.connect().sql(sql).fetchall():
        assert low <= x < (high if bucket < 495 else x + 1), (x, low, high, bucket)
        assert high - low <= max(8, low / 16)


def test_partition_and_stack_count_once(tmp_path: Path) -> None:
    ios = [io(1000, 10), {**io(1000, 12), "dev": 253 << 20}]
    devices = [
        {"name": "sda", "id": DISK, "kind": "request", "partitions": [["sda1", DISK | 1]]},
        {"name": "dm-0", "id": 253 << 20, "kind": "bio", "slaves": ["sda1"]},
    ]
    recording = iolens.open(write_recording(tmp_path / "r", ios, {"devices": devices, "end_ns": 1_000_000_000}))
    assert recording.series("1s").project("r_per_s").fetchall() == [(1.0,)]
    assert recording.series("1s", "device").project("device, r_per_s").fetchall() == [("dm-0", 1.0), ("sda", 1.0)]


def test_a_crashed_recording_and_a_damaged_file_are_said(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="write-ahead log"):
        crashed = iolens.open(FIXTURES / "recordings/v1/crashed.iolens")
    assert crashed.ios.aggregate("count(*)").fetchall()[0][0] > 0
    path = write_recording(tmp_path / "r", [io(1000, 10)], SDA)
    (path / "io/000002.parquet").write_bytes(b"PAR1 cut")
    with pytest.warns(UserWarning, match=r"000002\.parquet is damaged"):
        assert iolens.open(path).ios.aggregate("count(*)").fetchall() == [(1,)]


def test_a_damaged_description_has_a_copy(tmp_path: Path) -> None:
    path = write_recording(tmp_path / "r", [io(1000, 10)], SDA)
    (path / "meta.json").rename(path / "meta.json.bak")
    (path / "meta.json").write_text('{"schema')
    assert iolens.open(path).devices[0].name == "sda"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda p: iolens.open(p / "none"), "is no directory"),
        (lambda p: iolens.open(p), "meta.json"),
        (lambda p: iolens.open(FINISHED).table("nothing"), "no table is called"),
        (lambda p: iolens.open(FINISHED).series("1us"), "finest is 1ms"),
        (lambda p: iolens.open(FINISHED).series("soon"), "is no duration"),
        (lambda p: iolens.open(FINISHED).series(by="colour"), "choose one of all, device"),
        (lambda p: iolens.open(FINISHED).series(start=9.0), "nothing from 9.000 s"),
        (lambda p: iolens.open(FINISHED).heatmap(part="whole"), "choose total, queue or device"),
        (lambda p: iolens.open(FINISHED).heatmap(device="sdz"), "no device is called"),
        (lambda p: iolens.open(write_recording(p / "n", [], {"schema_version": 9})), "newer than this package reads"),
        (lambda p: iolens.open(write_recording(p / "c", [], {"source": "counters"})).busy(), "no single I/Os"),
    ],
)
def test_mistakes_get_one_clear_line(make: object, said: str, tmp_path: Path) -> None:
    with pytest.raises(iolens.IolensError, match=said) as caught:
        make(tmp_path)  # type: ignore[operator]
    assert "\n" not in str(caught.value)


def test_the_program_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IOLENS", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(iolens.IolensError, match="not on the PATH"):
        iolens.open(FINISHED).report()


def test_a_notebook_shows_it_and_names_stay_text(tmp_path: Path) -> None:
    meta = {"devices": [{"name": "<script>", "id": DISK, "kind": "request"}], "host": "<b>"}
    html = iolens.open(write_recording(tmp_path / "r", [io(1000, 10)], meta))._repr_html_()
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
    assert "<b>:" not in html
    assert "<svg" in html
