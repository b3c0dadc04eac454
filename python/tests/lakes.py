"""Recording roots of several hosts, with rollups computed here by another method than the program's."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from conftest import DISK, DM, RANDOM_META, START_NS, random_ios, write_recording

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
    """Rows of one step. Busy time is that of slots longer than any I/O, calculated by marking every microsecond."""
    step_ns, rows = step_s * 10**9, []
    # Two losses in each slot of up to a minute.
    slot_ns = min(step_ns, 60 * 10**9)
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
                "lost_ios": 2 * len({io["done_ns"] // slot_ns for io in of}) if name == "all" and dev == DISK else None,
                **histograms,
            }
        )
    return rows


ACTOR_STEPS_S = (10, 600)
# The columns that identify an actor, and those with its name, by kind of row.
ACTORS = {"process": ("tgid", "comm"), "cgroup": ("cgroup", "path"), "file": ("fs_dev", "ino", "generation", "path")}
PATHS = {41: "/system.slice/one.service", 42: "/kubepods/burstable/pod2f4e7a1c-0b0d-4a3c-9a1e-5d6f7a8b9c0d/" + "4a" * 32}


def actor_rows(ios: list[dict[str, Any]], step_s: int, named: int = 20) -> list[dict[str, Any]]:
    """Rows of one step; those after the first `named` of a slot, device and kind are others."""
    slots: dict[tuple[int, int, str], dict[tuple[Any, ...], list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for io in ios:
        for by, names in ACTORS.items():
            path = PATHS.get(io["cgroup"]) if by == "cgroup" else None
            key = tuple({**io, "path": path}[name] for name in names)
            slots[io["done_ns"] // (step_s * 10**9) * step_s * 10**9, io["dev"], by][key].append(io)
    rows = []
    for (at_ns, dev, by), actors in slots.items():
        ranked = sorted(actors.items(), key=lambda a: -sum(i["device_ns"] + (i["queue_ns"] or 0) for i in a[1]))
        sets = [(dict(zip(ACTORS[by], key, strict=True)), 0, of) for key, of in ranked[:named]]
        sets.append(({}, 1, [io for _, of in ranked[named:] for io in of]))
        for numbers, others, of in sets:
            name = numbers.pop("comm", None) or numbers.pop("path", None)
            at = {"step_s": step_s, "at_ns": at_ns, "dev": dev, "by": by, "others": others, "name": name, **numbers}
            for cls in sorted({class_of(io["op"]) for io in of}):
                rows.append({**at, "class": cls, **_sums([io for io in of if class_of(io["op"]) == cls])})
    return sorted(rows, key=lambda row: row["at_ns"])


def _sums(ios: list[dict[str, Any]]) -> dict[str, int | None]:
    queues = [io["queue_ns"] for io in ios]
    return {
        "ios": len(ios),
        "bytes": sum(io["bytes"] for io in ios),
        "queue_sum_ns": None if None in queues else sum(queues),
        "device_sum_ns": sum(io["device_ns"] for io in ios),
    }


def write_actors(path: Path, ios: list[dict[str, Any]], named: int = 20) -> None:
    for number, step_s in enumerate(ACTOR_STEPS_S, 1):
        write_table(path, "actors", actor_rows(ios, step_s, named), f"{step_s}s-{number:06}.parquet")


WAIT_CAUSES = ("undisturbed", "own", "held", "device", "unknown")


def party(rng: random.Random) -> dict[str, Any]:
    """One of a few processes, all others, or an unknown one."""
    cls = rng.choice(["read", "write"])
    if rng.random() < 0.15:
        return {"others": 1, "name": None, "tgid": None, "cgroup": None, "class": cls, "origin": 3}
    comm, tgid = rng.choice([("db", 7), ("db", 8), ("db", None), ("a\\xff", 9), (None, 5), (None, None)])
    return {
        "others": 0,
        "name": comm,
        "tgid": tgid,
        "cgroup": rng.choice([41, None]),
        "class": cls,
        "origin": rng.choice([1, 77]),
    }


def of_culprit(party: dict[str, Any] | None) -> dict[str, Any]:
    names = ("others", "name", "tgid", "cgroup", "class", "origin")
    return {f"culprit_{name}": party[name] if party else None for name in names}


def random_waits(seed: int, slots: int, step_s: int) -> list[dict[str, Any]]:
    """Rows many of which have equal times, so that time alone does not determine their order."""
    rng, rows = random.Random(seed), []
    for slot in range(slots):
        for dev in (DISK, DM):
            for _ in range(6):
                at = {"step_s": step_s, "at_ns": slot * step_s * 10**9, "dev": dev, **party(rng)}
                worst = {"worst_done_ns": slot * step_s * 10**9 + 5, "worst_ns": 9000, "worst_undisturbed_ns": 100}
                counts = {"ios": rng.randrange(1, 90), "delayed_ios": 1}
                rows.append({**at, "cause": "undisturbed", **of_culprit(None), "ns": 1000, **counts, **worst})
                for cause in rng.sample(WAIT_CAUSES[1:], 2):
                    rows.append({**at, "cause": cause, **of_culprit(None), "ns": rng.choice([1000, 5000, 123_457])})
                for _ in range(3):
                    behind = {"cause": "others", **of_culprit(party(rng)), "ns": rng.choice([1000, 7000]), "ios": 3}
                    rows.append({**at, **behind})
    return rows


def write_waits(path: Path, rows: list[dict[str, Any]]) -> None:
    for step_s in (10, 600):
        of = [row for row in rows if row["step_s"] == step_s]
        if of:
            write_table(path, "waits", of, f"{step_s}s-000001.parquet")


def finding(kind: str, severity: str, device: str | None, from_ns: int) -> dict[str, Any]:
    text = {"summary": f"a {kind}", "evidence": '{"p99_us":51000.0}'}
    return {"from_ns": from_ns, "to_ns": from_ns + 5, "open": 0, "kind": kind, "severity": severity, "device": device, **text}


FINDINGS = [finding("stall", "warning", "sda", 100), finding("slow-io", "info", None, 200)]


def write_table(path: Path, name: str, rows: list[dict[str, Any]], file: str = "000001.parquet") -> None:
    schema = arrow_schema(DEVICES if name == "devices" else BY_RELATION[name])
    schema = pa.schema([f for f in schema if f.name not in ("host", "start_ns")])
    (path / name).mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path / name / file)


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
            write_actors(path, rows)
            write_waits(path, random_waits(10 * i + j, 3, 600))
            write_table(path, "findings", FINDINGS)
            if host != "b":
                devices = [
                    {"dev": d["id"], "name": d["name"], "kind": d["kind"], "stable_id": d.get("stable_id") or "", "model": ""}
                    for d in json.loads((path / "meta.json").read_text())["devices"]
                ]
                write_table(path, "devices", devices)
            truth[host, start_ns] = rows
    return truth


def make_ended(root: Path, host: str = "d") -> dict[int, list[dict[str, Any]]]:
    """Five recordings of two hours of a host, all but the last of which have ended; the fourth was killed and has no hours.

    The third is of another writer, whose file of minutes and seconds has a name that does not say so.
    """
    truth = {}
    for number in range(5):
        start_ns = START_NS + 2 * number * HOUR_NS
        # A range of a second as two hours.
        ios = [{**io, "done_ns": io["done_ns"] * 7000 % (2 * HOUR_NS)} for io in random_ios(50 + number, 300)]
        path = root / f"host={host}/start_ns={start_ns}"
        write_recording(
            path, sorted(ios, key=lambda io: io["done_ns"]), {**RANDOM_META, "host": host, "start_unix_ns": start_ns}
        )
        steps = [(1, 60)] if number == 2 else [(1,), (60,)]
        for step in steps:
            name = "" if len(step) > 1 else f"{step[0]}s-"
            write_table(path, "rollup", [row for s in step for row in rollup_rows(ios, s)], f"{name}000001.parquet")
        if number not in (3, 4):
            write_table(path, "rollup", rollup_rows(ios, 3600), "3600s-000002.parquet")
        truth[start_ns] = ios
    return truth
