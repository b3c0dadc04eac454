"""Recordings for the tests: fixtures, imports of real logs, and generated ones."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
DISK, DM = 8 << 20, 253 << 20
START_NS = 1_795_000_000_000_000_000


def find_program() -> str | None:
    built = [ROOT / "target" / kind / "iolens" for kind in ("release", "debug")]
    return os.environ.get("IOLENS") or next((str(p) for p in built if p.is_file()), shutil.which("iolens"))


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> str:
    """The iolens program, with which results are compared."""
    found = find_program()
    if found is None:
        pytest.skip("SKIP: the iolens program is not built (make build)")
    monkeypatch.setenv("IOLENS", found)
    return found


def run(program: str, *args: object) -> str:
    done = subprocess.run([program, *map(str, args)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode(errors="replace")


def write_recording(path: Path, ios: list[dict[str, Any]], meta: dict[str, Any], **tables: list[dict[str, Any]]) -> Path:
    """A recording with these rows; integers are 64-bit except where the format has 32-bit ones."""
    path.mkdir(parents=True)
    defaults = {"schema_version": 1, "source": "ebpf", "start_unix_ns": START_NS, "host": "h"}
    (path / "meta.json").write_text(json.dumps({**defaults, **meta}))
    for name, rows in {"io": ios, **tables}.items():
        if rows:
            (path / name).mkdir()
            table = pa.Table.from_pylist(rows)
            known = table.select([f.name for f in table.schema if f.type != pa.null()])
            pq.write_table(known, path / name / "000001.parquet")
    return path


def random_ios(seed: int, n: int = 3000) -> list[dict[str, Any]]:
    """I/Os of all kinds that overlap, of a disk and of a dm device on it, some of which outlast a second."""
    rng, now, ios = random.Random(seed), 5_000_000, []
    for _ in range(n):
        now += int(rng.expovariate(1 / 400_000)) + (rng.random() < 0.002) * 300_000_000
        device_ns = int(rng.lognormvariate(12, 1)) + (rng.random() < 0.003) * 900_000_000
        tgid = rng.choice([7, 7, 8, None])
        ios.append(
            {
                "done_ns": now,
                "dev": rng.choice([DISK, DISK, DM]),
                "op": rng.choice([0, 0, 0, 1, 1, 2, 3, 5, 9]),
                "bytes": rng.choice([0, 4096, 65536]),
                "queue_ns": rng.choice([None, int(rng.expovariate(1 / 50_000))]),
                "device_ns": min(device_ns, now - 1_000_000),
                "error": rng.choice([0, 0, 0, 5]),
                "merges": rng.choice([0, 1]),
                "tgid": tgid,
                "comm": None if tgid is None else f"task{tgid}",
                "cgroup": rng.choice([41, 42, None]),
                "ino": rng.choice([100, 101, None]),
                "fs_dev": DM,
                "generation": None,
            }
        )
        if ios[-1]["queue_ns"]:
            ios[-1]["queue_ns"] = min(ios[-1]["queue_ns"], now - ios[-1]["device_ns"])
    return ios


RANDOM_META = {
    "devices": [
        {"name": "sda", "id": DISK, "kind": "request", "stable_id": "wwn-1", "model": "M1"},
        {"name": "dm-0", "id": DM, "kind": "bio", "slaves": ["sda1"]},
        {"name": "sdb", "id": DISK | 16, "kind": "request"},
        {"name": "loop0", "id": 7 << 20, "kind": "request", "size_bytes": 0},
    ]
}
RANDOM_META["devices"][0]["partitions"] = [["sda1", DISK | 1]]


def _lost(from_ns: int, to_ns: int, reason: str, dev: int | None, ios: int | None) -> dict[str, Any]:
    return {"from_ns": from_ns, "to_ns": to_ns, "reason": reason, "dev": dev, "class": None, "ios": ios}


LOST = [
    _lost(100_000_000, 250_000_000, "ring-full", DISK, 3),
    _lost(400_000_000, 400_000_000, "unseen", None, 40),
    _lost(500_000_000, 600_000_000, "censored", DISK, 9),
    _lost(600_000_000, 700_000_000, "request-ring-full", DISK, 9),
    _lost(700_000_000, 705_000_000, "writer-busy", DM, None),
]
NAMES = [
    {"at_ns": 1, "kind": "file", "fs_dev": DM, "id": 100, "text": "/old", "generation": None},
    {"at_ns": 9, "kind": "file", "fs_dev": DM, "id": 100, "text": "/new", "generation": None},
    {"at_ns": 9, "kind": "cgroup", "fs_dev": None, "id": 41, "text": "/system.slice", "generation": None},
]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """A generated recording, by its seed."""
    base = tmp_path_factory.mktemp("made")
    known: dict[int, Path] = {}

    def make(seed: int) -> Path:
        if seed not in known:
            ios = random_ios(seed)
            meta = {**RANDOM_META, "end_ns": ios[-1]["done_ns"] + seed % 2 * 12_345_678}
            known[seed] = write_recording(base / f"{seed}.iolens", ios, meta, lost=LOST, names=NAMES)
        return known[seed]

    return make
