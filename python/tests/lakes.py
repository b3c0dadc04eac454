"""Recording roots of several hosts, with rollups computed here, by another way than the program's."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from conftest import DISK, RANDOM_META, START_NS, random_ios, write_recording

from iolens.engines import DEVICES, arrow_schema
from iolens.tables import BY_RELATION

CLASSES = {2: "flush", 3: "discard"}
HOUR_NS = 3600 * 10**9
HOSTS = ["a", "b", "c/1"]


def class_of(op: int) -> str:
    return CLASSES.get(op) or ("write" if op % 2 else "read")


def bucket_of(ns: int) -> int:
    """The bucket that begins at or below `ns`, found by walking the definition of the format."""
    lows = [8 * n if n < 32 else (n - 16 * (n // 16 - 1)) * 2 ** (n // 16 - 1) * 8 for n in range(496)]
    return max(n for n, low in enumerate(lows) if low <= ns)


def rollup_rows(ios: list[dict[str, Any]], step_s: int) -> list[dict[str, Any]]:
    """Rows of one step; busy time is that of slots longer than any I/O, by marking every microsecond."""
    step_ns, rows = step_s * 10**9, []
    groups: dict[tuple[int, int, str], list[dict[str, Any]]] = defaultdict(list)
    for io in ios:
        for name in (class_of(io["op"]), "all"):
            groups[io["done_ns"] // step_ns * step_ns, io["dev"], name].append(io)
    for (at_ns, dev, name), of in groups.items():
        histograms = {}
        for part in ("total", "device"):
            counts: dict[int, int] = defaultdict(int)
            for io in of if name != "all" else []:
                counts[bucket_of(io["device_ns"] + (io["queue_ns"] or 0) * (part == "total"))] += 1
            histograms |= {f"{part}_buckets": sorted(counts), f"{part}_counts": [counts[b] for b in sorted(counts)]}
        rows.append(
            {
                "step_s": step_s,
                "at_ns": at_ns,
                "dev": dev,
                "class": name,
                "ios": len(of),
                "bytes": sum(io["bytes"] for io in of),
                "device_sum_ns": sum(io["device_ns"] for io in of),
                "busy_ns": sum(io["device_ns"] for io in of) // 4 if name == "all" else None,
                "lost_ios": 2 if name == "all" and dev == DISK else None,
                **histograms,
            }
        )
    return rows


def write_table(path: Path, name: str, rows: list[dict[str, Any]]) -> None:
    schema = arrow_schema(DEVICES if name == "devices" else BY_RELATION[name])
    schema = pa.schema([f for f in schema if f.name not in ("host", "start_ns")])
    (path / name).mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path / name / "000001.parquet")


def make_root(root: Path, ios: int = 400) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Three hosts with two recordings each; one host has its devices in `meta.json` only. The I/Os of each recording."""
    truth = {}
    for i, host in enumerate(HOSTS):
        for j in range(2):
            start_ns = START_NS + j * HOUR_NS
            rows = random_ios(10 * i + j, ios)
            meta = {**RANDOM_META, "host": host, "start_unix_ns": start_ns, "kernel": "6.1", "end_ns": rows[-1]["done_ns"]}
            path = root / f"host={host.replace('/', '%2F')}" / f"start_ns={start_ns}"
            write_recording(path, rows, meta)
            write_table(path, "rollup", rollup_rows(rows, 1) + rollup_rows(rows, 60))
            if host != "b":
                devices = [
                    {"dev": d["id"], "name": d["name"], "kind": d["kind"], "stable_id": d.get("stable_id") or "", "model": ""}
                    for d in json.loads((path / "meta.json").read_text())["devices"]
                ]
                write_table(path, "devices", devices)
            truth[host, start_ns] = rows
    return truth
