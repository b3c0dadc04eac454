#!/usr/bin/env python3
"""How long the questions to a lake take: makes rollups of many hosts and days, and asks them of DuckDB or Spark.

    bench/lake.py DIR --hosts 1000 --days 30 [--engine spark --master spark://HOST:PORT]

A host has one disk, and a recording for each day, as `iolens serve` makes them: rows of a minute for `all`, `read` and `write`, with
histograms. The files of eight hosts differ, the others are copies of them. DIR is used as it is if it holds a lake.
"""

import argparse
import json
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python/src"))

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

import iolens  # noqa: E402

DAY_NS = 86_400 * 10**9
START_NS = 1_792_800_000_000_000_000 // DAY_NS * DAY_NS
MINUTES = 1440
DIFFERENT = 8
CELLS = 24
DISK = {"name": "sda", "id": 8 << 20, "kind": "request", "stable_id": "wwn", "model": "M"}


def rollups(rng: np.random.Generator) -> pa.Table:
    parts = []
    for name in ("all", "read", "write"):
        ios = rng.poisson(40_000, MINUTES)
        counts = rng.poisson(ios[:, None] / CELLS, (MINUTES, CELLS)).astype(np.int32)
        first = rng.integers(180, 260, MINUTES)
        lists = [(first[:, None] + 3 * np.arange(CELLS)).astype(np.int32), counts]
        offsets = pa.array(np.arange(0, (MINUTES + 1) * CELLS, CELLS), pa.int32())
        empty = pa.array([[]] * MINUTES, pa.list_(pa.int32()))
        buckets, numbers = (pa.ListArray.from_arrays(offsets, pa.array(v.ravel())) if name != "all" else empty for v in lists)
        parts.append(
            pa.table(
                {
                    "step_s": pa.array(np.full(MINUTES, 60), pa.int32()),
                    "at_ns": np.arange(MINUTES) * 60 * 10**9,
                    "dev": pa.array(np.full(MINUTES, 8 << 20), pa.int32()),
                    "class": pa.array([name] * MINUTES),
                    "ios": ios,
                    "bytes": ios * rng.integers(4096, 65536, MINUTES),
                    "merges": np.zeros(MINUTES, np.int64),
                    "errors": np.zeros(MINUTES, np.int64),
                    "queue_sum_ns": ios * rng.integers(10**4, 10**5, MINUTES),
                    "device_sum_ns": ios * rng.integers(10**5, 10**6, MINUTES),
                    "busy_ns": rng.integers(10**9, 60 * 10**9, MINUTES),
                    "in_flight_ns": rng.integers(10**9, 200 * 10**9, MINUTES),
                    "in_flight_max": rng.integers(1, 64, MINUTES),
                    "lost_ios": pa.nulls(MINUTES, pa.int64()),
                    "total_buckets": buckets,
                    "total_counts": numbers,
                    "device_buckets": buckets,
                    "device_counts": numbers,
                }
            )
        )
    return pa.concat_tables(parts)


def make(root: Path, hosts: int, days: int) -> None:
    rng = np.random.default_rng(1)
    devices = pa.table({"dev": pa.array([8 << 20], pa.int32()), "name": ["sda"], "kind": ["request"], "stable_id": ["wwn"], "model": ["M"]})
    for host in range(hosts):
        for day in range(days):
            to = root / f"host=h{host:04}" / f"start_ns={START_NS + day * DAY_NS}"
            (to / "rollup").mkdir(parents=True)
            start_ns = START_NS + day * DAY_NS
            meta = {"schema_version": 1, "source": "ebpf", "start_unix_ns": start_ns, "end_ns": DAY_NS, "host": f"h{host:04}"}
            (to / "meta.json").write_text(json.dumps({**meta, "devices": [DISK]}))
            (to / "devices").mkdir()
            if host < DIFFERENT:
                pq.write_table(rollups(rng), to / "rollup/60s-000001.parquet", compression="zstd")
                pq.write_table(devices, to / "devices/000001.parquet")
            else:
                source = root / f"host=h{host % DIFFERENT:04}" / to.name
                shutil.copyfile(source / "rollup/60s-000001.parquet", to / "rollup/60s-000001.parquet")
                shutil.copyfile(source / "devices/000001.parquet", to / "devices/000001.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--engine", choices=["duckdb", "spark"], default="duckdb")
    parser.add_argument("--master", default="local[2]")
    args = parser.parse_args()
    if not args.root.exists():
        make(args.root, args.hosts, args.days)
    size = sum(f.stat().st_size for f in args.root.glob("host=*/*/rollup/*"))
    begin = time.monotonic()
    lake = iolens.lake(args.root, engine=args.engine, spark=args.master if args.engine == "spark" else None)
    print(f"{lake}: {size / 1e9:.3f} GB of rollups, {args.engine}; opened in {time.monotonic() - begin:.2f} s", flush=True)
    for name in ("hosts", "latency", "capacity"):
        begin, cpu = time.monotonic(), time.process_time()
        rows = getattr(lake, name)().num_rows
        took = time.monotonic() - begin
        cpu = time.process_time() - cpu
        print(f"{name:10} {rows:7} rows {took:8.2f} s, {cpu:8.2f} s of CPU, {took / size * 1e9:8.2f} s/GB", flush=True)


if __name__ == "__main__":
    main()
