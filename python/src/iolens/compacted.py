"""Contents of a lake's `compacted/`: one file for each host, day and table, and which recordings have their rows in it.

    compacted/host=NAME/manifest.json                      which files are valid; replaced atomically
    compacted/host=NAME/day=YYYY-MM-DD/TABLE-NNNNNN.parquet   of the recordings that began on that day (UTC)
    compacted/host=NAME/sums-NNNNNN.parquet                sums over whole recordings: rollups by device and class
    compacted/host=NAME/peaks-NNNNNN.parquet               the minutes that can determine a day's percentiles

Files are never changed, and a name is never reused. A file that the manifest does not name is not valid: a killed compaction
left it, or a reader may still have it open. So a reader finds each I/O in exactly one place at any time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any
from urllib.parse import unquote

from .meta import Device

DIRECTORY = "compacted"
MANIFEST = "manifest.json"
VERSION = 1


def day_of(start_ns: int) -> str:
    """The day (UTC) on which a recording began."""
    return f"{datetime.fromtimestamp(start_ns // 10**9, timezone.utc):%Y-%m-%d}"


@dataclass
class Day:
    """A host's compacted recordings that began on one day.

    `recordings`: the tables, or tables and steps (`rollup/60`), of each recording, by its start. `files`: by table or table and
    step. `devices`: rows of the table `devices` with the `starts` of their recordings.
    """

    schema: str
    recordings: dict[int, list[str]]
    files: dict[str, str]
    devices: list[dict[str, Any]]

    def as_json(self) -> dict[str, Any]:
        """The form of the manifest."""
        return {
            "schema": self.schema,
            "recordings": {str(start): tables for start, tables in sorted(self.recordings.items())},
            "files": self.files,
            "devices": self.devices,
        }


@dataclass
class Sums:
    """The file of sums over whole recordings, and which recordings it covers (their starts)."""

    file: str
    recordings: list[int]


@dataclass
class Peaks:
    """The file of peak minutes, and its recordings: by their starts, the first and the last minute of each.

    A recording without minutes has an empty list.
    """

    file: str
    recordings: dict[int, list[int]]


@dataclass
class Manifest:
    """All days of a host. `schemas`: the columns of each table, by their digest."""

    days: dict[str, Day] = field(default_factory=dict)
    schemas: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    sums: Sums | None = None
    peaks: Peaks | None = None

    def of_host(self) -> list[str]:
        """The files that belong to no single day."""
        return [of.file for of in (self.sums, self.peaks) if of is not None]

    def text(self) -> str:
        """The stored form."""
        used = {day.schema for day in self.days.values()}
        document = {
            "version": VERSION,
            "schemas": {digest: columns for digest, columns in self.schemas.items() if digest in used},
            "days": {name: day.as_json() for name, day in sorted(self.days.items())},
        }
        if self.sums is not None:
            document["sums"] = {"file": self.sums.file, "recordings": self.sums.recordings}
        if self.peaks is not None:
            spans = {str(start): span for start, span in sorted(self.peaks.recordings.items())}
            document["peaks"] = {"file": self.peaks.file, "recordings": spans}
        return json.dumps(document, separators=(",", ":")) + "\n"


def parse(text: str) -> Manifest:
    """Parses a manifest. A manifest of a later version or a damaged one is an error (`ValueError`)."""
    try:
        raw = json.loads(text)
        if int(raw["version"]) > VERSION:
            raise ValueError(f"version {raw['version']} is newer than this package reads ({VERSION})")
        days = {
            name: Day(
                schema=str(day["schema"]),
                recordings={int(start): list(tables) for start, tables in day["recordings"].items()},
                files={str(key): str(file) for key, file in day["files"].items()},
                devices=list(day["devices"]),
            )
            for name, day in raw["days"].items()
        }
        schemas = {str(digest): dict(columns) for digest, columns in raw["schemas"].items()}
        of = raw.get("sums")
        sums = Sums(str(of["file"]), [int(start) for start in of["recordings"]]) if of else None
        of = raw.get("peaks")
        spans = {int(start): [int(at) for at in span] for start, span in of["recordings"].items()} if of else {}
        peaks = Peaks(str(of["file"]), spans) if of else None
        if any(day.schema not in schemas for day in days.values()):
            raise ValueError("it has no columns of a day")
    except (KeyError, TypeError, AttributeError) as e:
        raise ValueError(f"it is damaged: {e!r}") from e
    return Manifest(days, schemas, sums, peaks)


def digest(columns: dict[str, list[str]]) -> str:
    """A short digest of the columns of all tables."""
    return hashlib.sha256(json.dumps(columns, sort_keys=True).encode()).hexdigest()[:12]


def key_of(directory: str, step_s: int | None) -> str:
    """The manifest's name of a table, or of the rows of one step of it."""
    return directory if step_s is None else f"{directory}/{step_s}"


@dataclass(frozen=True)
class File:
    """A compacted file: its path, its columns, its host and its day."""

    path: str
    schema: str
    host: str
    day: str


# Columns of the sums besides `start_ns`: those of a rollup that queries over whole recordings need. `at_ns` is that of the
# first slot. Counts are 64-bit.
SUMS = (
    ("at_ns", "bigint"),
    ("dev", "int"),
    ("class", "string"),
    ("ios", "bigint"),
    ("bytes", "bigint"),
    ("lost_ios", "bigint"),
    ("total_buckets", "array<int>"),
    ("total_counts", "array<bigint>"),
    ("device_buckets", "array<int>"),
    ("device_counts", "array<bigint>"),
)

# Columns of the peaks besides `start_ns`: those of a minute of class `all`, with several rows of one minute added.
PEAKS = (
    ("at_ns", "bigint"),
    ("dev", "int"),
    ("ios", "bigint"),
    ("bytes", "bigint"),
    ("busy_ns", "bigint"),
)


class Compacted:
    """The compacted days of a lake. `damaged` files are excluded, so that for their table their days count as not compacted."""

    def __init__(self, manifests: Iterable[tuple[str, str, Manifest]], damaged: set[str]) -> None:
        self._damaged = damaged
        # By host: the path of its files, and its manifest.
        self._of: dict[str, tuple[str, Manifest]] = {host: (path, manifest) for host, path, manifest in manifests}

    def __bool__(self) -> bool:
        return any(manifest.days for _, manifest in self._of.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Compacted) and self._of == other._of

    __hash__ = None  # type: ignore[assignment]

    def starts(self) -> dict[tuple[str, int], list[str]]:
        """The tables of each recording that is compacted."""
        return {
            (host, start): tables
            for host, (_, manifest) in self._of.items()
            for day in manifest.days.values()
            for start, tables in day.recordings.items()
        }

    def knows(self, host: str, start_ns: int, tables: set[str]) -> bool:
        """Whether the compaction of a recording knew all of these tables."""
        _, manifest = self._of[host]
        return tables <= manifest.schemas[manifest.days[day_of(start_ns)].schema].keys()

    def covered(self, table: str) -> set[tuple[str, int]]:
        """The recordings whose rows of a table are read from compacted files only."""
        return {(host, start) for host, name, day in self._days_of(table) for start in day.recordings}

    def _days_of(self, table: str) -> Iterable[tuple[str, str, Day]]:
        for host, (path, manifest) in self._of.items():
            for name, day in manifest.days.items():
                is_known = table in manifest.schemas[day.schema]
                if is_known and not (self._damaged and self._is_damaged(path, name, day, table)):
                    yield host, name, day

    def _is_damaged(self, path: str, name: str, day: Day, table: str) -> bool:
        of = (file for key, file in day.files.items() if key.partition("/")[0] == table)
        return any(f"{path}/day={name}/{file}" in self._damaged for file in of)

    def files(self, table: str, step_s: int | None = None) -> list[File]:
        """The files of a table, or of one step of it."""
        found = []
        for host, name, day in self._days_of(table):
            for key, file in day.files.items():
                of, _, step = key.partition("/")
                if of == table and (step_s is None or step == str(step_s)):
                    found.append(File(f"{self._of[host][0]}/day={name}/{file}", day.schema, host, name))
        return found

    def sums(self) -> tuple[list[str], set[tuple[str, int]]]:
        """The files of sums, and the recordings that they cover."""
        files, keys = [], set()
        for host, (path, manifest) in self._of.items():
            sums = manifest.sums
            if sums is not None and f"{path}/{sums.file}" not in self._damaged:
                files.append(f"{path}/{sums.file}")
                keys |= {(host, start) for start in sums.recordings}
        return files, keys

    def peaks(self) -> tuple[list[str], dict[tuple[str, int], list[int]]]:
        """The files of peaks, and the recordings that they cover, with the first and the last minute of each."""
        files: list[str] = []
        spans: dict[tuple[str, int], list[int]] = {}
        for host, (path, manifest) in self._of.items():
            peaks = manifest.peaks
            if peaks is not None and f"{path}/{peaks.file}" not in self._damaged:
                files.append(f"{path}/{peaks.file}")
                spans |= {(host, start): span for start, span in peaks.recordings.items()}
        return files, spans

    def has_columns(self, table: str, columns: Iterable[str]) -> bool:
        """Whether all files of a table have these columns in the same order."""
        lists = [m.schemas[day.schema].get(table) for _, m in self._of.values() for day in m.days.values()]
        return all(known == lists[0] for known in lists) and lists[0] == list(columns)

    def devices(self) -> list[dict[str, Any]]:
        """Rows of the table `devices`, with host and start."""
        rows = []
        for host, _, day in self._days_of("devices"):
            for device in day.devices:
                known = {name: value for name, value in device.items() if name != "starts"}
                rows += [{"host": host, "start_ns": start, **known} for start in device["starts"]]
        return rows


def host_of(directory: str) -> str:
    """The host of a directory `host=NAME`."""
    return unquote(directory.removeprefix("host="))


def device_rows(devices: Iterable[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Devices of several recordings, each distinct row once with the starts of all recordings that have it."""
    together: dict[str, dict[str, Any]] = {}
    for start, device in devices:
        known = {name: value for name, value in device.items() if value is not None}
        row = together.setdefault(json.dumps(known, sort_keys=True), {**known, "starts": []})
        row["starts"].append(start)
    return list(together.values())


def device_row(device: Device) -> dict[str, Any]:
    """A device of `meta.json` as a row of the table."""
    return {
        "dev": device.dev,
        "name": device.name,
        "kind": device.kind,
        "stable_id": device.stable_id or "",
        "model": device.model or "",
        "size_bytes": device.size_bytes,
        "rotational": None if device.rotational is None else int(device.rotational),
        "added_ns": None,
        "removed_ns": None,
    }
