#!/usr/bin/env python3
"""How long the questions to a lake take: makes rollups of many hosts and days, and asks them of DuckDB or Spark.

    bench/lake.py DIR --hosts 1000 --days 30 [--disks 1] [--links] [--compacted] [--engine spark [--master spark://HOST:PORT]] [hosts|latency|capacity...]

A host has one disk or more, and a recording for each day, as `iolens serve` makes them: rows of a minute and of an hour for `all`, `read`
and `write`, with histograms. The newest of each host goes on: it has no hours. The files of eight hosts differ, the others are
copies of them, or with --links hard links. With --compacted the eight are compacted, which is timed beside plain reading and plain copies by DuckDB, and what
comes of it is copied or linked as well. DIR is used as it is if it holds a lake. Spark is by default a standalone cluster of one
master and two workers, started here, of a core each; CPU time is that of all processes, and of a master elsewhere not known.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python/src"), str(ROOT / "python/tests")]

import duckdb  # noqa: E402
import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.compute as pc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

import iolens  # noqa: E402
from iolens.compact import compact  # noqa: E402

DAY_NS = 86_400 * 10**9
START_NS = 1_792_800_000_000_000_000 // DAY_NS * DAY_NS
MINUTES = 1440
DIFFERENT = 8
HOURS = 24
CELLS = 24
# Of the format: the durations of a histogram's buckets.
BUCKETS = 496
SUMS = ("ios", "bytes", "merges", "errors", "queue_sum_ns", "device_sum_ns", "busy_ns", "in_flight_ns")
# Of disk 0; the others count on from it.
DEV = 8 << 20


def disk(number: int) -> dict[str, Any]:
    """The entry of a host's disk in `meta.json`."""
    return {"name": f"sd{chr(ord('a') + number)}", "id": DEV + 16 * number, "kind": "request", "stable_id": f"wwn{number}", "model": "M"}


def rollups(rng: np.random.Generator, dev: int) -> pa.Table:
    """The minutes of a disk's day."""
    parts = []
    for name in ("all", "read", "write"):
        ios = rng.poisson(40_000, MINUTES)
        counts = rng.poisson(ios[:, None] / CELLS, (MINUTES, CELLS))
        buckets = rng.integers(180, 260, MINUTES)[:, None] + 3 * np.arange(CELLS)
        columns = {
            "bytes": ios * rng.integers(4096, 65536, MINUTES),
            "merges": np.zeros(MINUTES, np.int64),
            "errors": np.zeros(MINUTES, np.int64),
            "queue_sum_ns": ios * rng.integers(10**4, 10**5, MINUTES),
            "device_sum_ns": ios * rng.integers(10**5, 10**6, MINUTES),
            "busy_ns": rng.integers(10**9, 60 * 10**9, MINUTES),
            "in_flight_ns": rng.integers(10**9, 200 * 10**9, MINUTES),
            "in_flight_max": rng.integers(1, 64, MINUTES),
        }
        parts.append(table(dev, name, 60, ios, columns, None if name == "all" else (buckets, counts)))
    return pa.concat_tables(parts)


def hours(minutes: pa.Table, dev: int) -> pa.Table:
    """The hours of those minutes of a disk: sums, and histograms merged."""
    parts = []
    for name in ("all", "read", "write"):
        rows = minutes.filter(pc.equal(minutes["class"], name))
        columns = {c: rows[c].to_numpy().reshape(HOURS, 60).sum(axis=1) for c in SUMS}
        columns["in_flight_max"] = rows["in_flight_max"].to_numpy().reshape(HOURS, 60).max(axis=1)
        merged = None
        if name != "all":
            merged = np.zeros((HOURS, BUCKETS), np.int64)
            of = np.repeat(np.arange(HOURS), 60 * CELLS)
            np.add.at(merged, (of, rows["device_buckets"].combine_chunks().flatten()), rows["device_counts"].combine_chunks().flatten())
        ios = columns.pop("ios")
        parts.append(table(dev, name, 3600, ios, columns, None if merged is None else (np.tile(np.arange(BUCKETS), (HOURS, 1)), merged)))
    return pa.concat_tables(parts)


def table(dev: int, name: str, step_s: int, ios: np.ndarray, columns: dict[str, np.ndarray], histogram: tuple[np.ndarray, np.ndarray] | None) -> pa.Table:
    """Rows of a class; buckets without I/Os are left out."""
    n = len(ios)
    lists = [pa.array([[]] * n, pa.list_(pa.int32()))] * 2
    if histogram is not None:
        some = histogram[1] > 0
        offsets = pa.array(np.concatenate([[0], np.cumsum(some.sum(axis=1))]), pa.int32())
        lists = [pa.ListArray.from_arrays(offsets, pa.array(values[some], pa.int32())) for values in histogram]
    return pa.table(
        {
            "step_s": pa.array(np.full(n, step_s), pa.int32()),
            "at_ns": np.arange(n) * step_s * 10**9,
            "dev": pa.array(np.full(n, dev), pa.int32()),
            "class": pa.array([name] * n),
            "ios": ios,
            **columns,
            "lost_ios": pa.nulls(n, pa.int64()),
            **{f"{part}_{what}": lists[i] for part in ("total", "device") for i, what in enumerate(("buckets", "counts"))},
        }
    )


def peers(root: Path) -> None:
    """Time to read the same files, and time that DuckDB takes just to copy each table of a host and day."""
    groups = defaultdict(list)
    for path in sorted(root.glob("host=*/start_ns=*")):
        if json.loads((path / "meta.json").read_text())["end_ns"] is not None:
            for file in sorted(path.glob("*/*.parquet")):
                step = file.name.partition("-")[0] if "s-" in file.name else ""
                day = int(path.name.removeprefix("start_ns=")) // DAY_NS
                groups[path.parent, day, file.parent.name, step].append(file)
    size = sum(file.stat().st_size for files in groups.values() for file in files) / 1e6
    begin, cpu = time.monotonic(), cpu_s()
    for files in groups.values():
        for file in files:
            file.read_bytes()
    took, cpu = time.monotonic() - begin, cpu_s() - cpu
    print(f"plain read {size:.0f} MB, {sum(map(len, groups.values()))} files: {took:.2f} s, {size / took:.0f} MB/s", flush=True)
    begin, cpu = time.monotonic(), cpu_s()
    with duckdb.connect() as connection, tempfile.TemporaryDirectory(dir=root.parent) as to:
        connection.execute("set threads = 1")
        for number, files in enumerate(groups.values()):
            names = ", ".join(f"'{file}'" for file in files)
            connection.execute(
                f"copy (select * from read_parquet([{names}], hive_partitioning = false)) to '{to}/{number}.parquet' "
                "(format parquet, compression zstd, compression_level 1)"
            )
    took, cpu = time.monotonic() - begin, cpu_s() - cpu
    print(f"plain copy {size:.0f} MB, {len(groups)} files: {took:.2f} s, {cpu:.2f} s of CPU, {size / cpu:.1f} MB/s of CPU", flush=True)


def compacted(root: Path) -> None:
    """Compact the recordings, and print the speed."""
    peers(root)
    # Make the files look older, so that they count as settled.
    for path in root.glob("host=*/start_ns=*/**/"):
        os.utime(path, (0, 0))
    begin, cpu = time.monotonic(), cpu_s()
    done = compact(root, workers=os.cpu_count() or 1)
    took, cpu = time.monotonic() - begin, cpu_s() - cpu
    size = sum(d.bytes_before for d in done) / 1e6
    files = f"{sum(d.files_before for d in done)} files to {sum(d.files for d in done)}"
    speed = f"{size / took:.1f} MB/s, {size / cpu:.1f} MB/s of CPU, {cpu / len(done) * 1e3:.1f} ms of CPU a host and day"
    print(f"compact    {size:.0f} MB, {files}: {took:.2f} s, {cpu:.2f} s of CPU, {speed}", flush=True)


def make(root: Path, hosts_: int, days: int, disks: int, links: bool, is_compacted: bool) -> None:
    rng = np.random.default_rng(1)
    of_host = [disk(number) for number in range(disks)]
    columns = {name: [d[name] for d in of_host] for name in ("name", "kind", "stable_id", "model")}
    devices = pa.table({"dev": pa.array([d["id"] for d in of_host], pa.int32()), **columns})
    put: Callable[..., Any] = os.link if links else shutil.copyfile
    for host in range(hosts_):
        if is_compacted and host == DIFFERENT:
            compacted(root)
        for day in range(days):
            to = root / f"host=h{host:04}" / f"start_ns={START_NS + day * DAY_NS}"
            (to / "rollup").mkdir(parents=True)
            start_ns = START_NS + day * DAY_NS
            end_ns = DAY_NS if day < days - 1 else None
            meta = {"schema_version": 1, "source": "ebpf", "start_unix_ns": start_ns, "end_ns": end_ns, "host": f"h{host:04}"}
            (to / "meta.json").write_text(json.dumps({**meta, "devices": of_host}))
            (to / "devices").mkdir()
            if host < DIFFERENT:
                minutes = [rollups(rng, d["id"]) for d in of_host]
                pq.write_table(pa.concat_tables(minutes), to / "rollup/60s-000001.parquet", compression="zstd")
                if day < days - 1:
                    of_day = pa.concat_tables(hours(of_disk, d["id"]) for of_disk, d in zip(minutes, of_host))
                    pq.write_table(of_day, to / "rollup/3600s-000002.parquet", compression="zstd")
                pq.write_table(devices, to / "devices/000001.parquet")
            else:
                source = root / f"host=h{host % DIFFERENT:04}" / to.name
                for file in source.glob("*/*.parquet"):
                    put(file, to / file.relative_to(source))
        if is_compacted and host >= DIFFERENT:
            made = root / f"compacted/host=h{host % DIFFERENT:04}"
            shutil.copytree(made, root / f"compacted/host=h{host:04}", copy_function=put)
    if is_compacted and hosts_ <= DIFFERENT:
        compacted(root)


def cpu_s() -> float:
    """CPU time of this process and all processes that it started, including those that have exited."""
    parents, used = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    total = 0.0
    for pid, seconds in used.items():
        ancestor = pid
        while ancestor not in (os.getpid(), 0):
            ancestor = parents.get(ancestor, 0)
        total += seconds if ancestor else 0
    return total


@contextmanager
def session(engine: str, master: str | None, memory: str) -> Iterator[Any]:
    """The value for `spark` of `iolens.lake`; its executors are running."""
    if engine == "duckdb":
        yield None
        return
    import spark_cluster

    with spark_cluster.session(master, memory) as spark:
        spark.range(1000).repartition(4).count()
        yield spark


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("questions", nargs="*", metavar="QUESTION", default=["hosts", "latency", "capacity"])
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--disks", type=int, default=1, help="of a host; at most 26")
    parser.add_argument("--links", action="store_true")
    parser.add_argument("--compacted", action="store_true")
    parser.add_argument("--engine", choices=["duckdb", "spark"], default="duckdb")
    parser.add_argument("--master")
    parser.add_argument("--memory", default="2g", help="of each Spark worker, and of the driver")
    args = parser.parse_intermixed_args()
    if not args.root.exists():
        make(args.root, args.hosts, args.days, args.disks, args.links, args.compacted)
    size = sum(f.stat().st_size for f in args.root.glob("host=*/*/rollup/*"))
    with session(args.engine, args.master, args.memory) as spark:
        begin, cpu = time.monotonic(), cpu_s()
        lake = iolens.lake(args.root, engine=args.engine, spark=spark)
        took = f"{time.monotonic() - begin:.2f} s, {cpu_s() - cpu:.2f} s of CPU"
        print(f"{lake}: {size / 1e9:.3f} GB of rollups, {args.engine}; opened in {took}", flush=True)
        for name in args.questions:
            begin, cpu = time.monotonic(), cpu_s()
            rows = getattr(lake, name)().num_rows
            took, cpu = time.monotonic() - begin, cpu_s() - cpu
            print(f"{name:10} {rows:7} rows {took:8.2f} s, {cpu:8.2f} s of CPU, {cpu / size * 1e9:8.2f} s of CPU/GB", flush=True)


if __name__ == "__main__":
    main()
