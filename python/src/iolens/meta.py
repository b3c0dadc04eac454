"""Reads `meta.json` of a recording, and finds which devices are stacked on others."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .errors import IolensError

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Device:
    """A device of a recording. `dev` is its device number, `major << 20 | minor`."""

    name: str
    dev: int
    kind: str = "unknown"
    stable_id: str | None = None
    model: str | None = None
    size_bytes: int | None = None
    rotational: bool | None = None
    slaves: tuple[str, ...] = ()
    partitions: tuple[tuple[str, int], ...] = ()

    @property
    def is_sum(self) -> bool:
        """Whether it is the sum over several devices of a table."""
        return (self.stable_id or "").startswith("aggregate:")

    @property
    def is_imported(self) -> bool:
        """Whether its device number is invented, because a log contains only names."""
        return self.dev >> 20 == 0


@dataclass(frozen=True)
class Meta:
    """The properties of a recording as a whole. `raw` is the complete `meta.json`."""

    source: str
    start_unix_ns: int
    end_ns: int | None
    host: str | None
    devices: tuple[Device, ...]
    raw: dict[str, Any] = field(repr=False, default_factory=dict)


def parse_meta(texts: Iterable[tuple[str, str]]) -> Meta:
    """The first valid text of `(place, text)`: that of `meta.json`, or else of its copy."""
    reasons = []
    for place, text in texts:
        try:
            return _meta(json.loads(text), place)
        except (ValueError, KeyError, TypeError) as e:
            reasons.append(f"{place}: {e}")
    raise IolensError("; ".join(reasons) or "meta.json is missing: is this a recording?")


def _meta(raw: dict[str, Any], place: str) -> Meta:
    version = int(raw["schema_version"])
    if version > SCHEMA_VERSION:
        raise IolensError(f"{place}: format version {version} is newer than this package reads ({SCHEMA_VERSION})")
    devices = tuple(_device(d) for d in raw.get("devices") or [])
    end_ns = raw.get("end_ns")
    return Meta(
        source=str(raw["source"]),
        start_unix_ns=int(raw["start_unix_ns"]),
        end_ns=None if end_ns is None else int(end_ns),
        host=raw.get("host"),
        devices=devices,
        raw=raw,
    )


def _device(raw: dict[str, Any]) -> Device:
    return Device(
        name=str(raw["name"]),
        dev=int(raw["id"]),
        kind=str(raw.get("kind") or "unknown"),
        stable_id=raw.get("stable_id"),
        model=raw.get("model"),
        size_bytes=raw.get("size_bytes"),
        rotational=raw.get("rotational"),
        slaves=tuple(raw.get("slaves") or ()),
        partitions=tuple((str(name), int(dev)) for name, dev in raw.get("partitions") or ()),
    )


def layers_above(devices: Iterable[Device], recorded: Callable[[int], bool]) -> set[int]:
    """Numbers of the devices that sums exclude: those with another recorded device at any level below them.

    An I/O through dm or md passes each layer. It is counted on the lowest layer that was recorded.
    """
    all_devices = list(devices)
    above = set()
    for device in all_devices:
        met, upper = {device.dev}, [device]
        while upper:
            layer = upper.pop()
            for lower in all_devices:
                if lower.dev in met or not _is_above(layer, lower):
                    continue
                met.add(lower.dev)
                if recorded(lower.dev):
                    above.add(device.dev)
                else:
                    upper.append(lower)
    return above


def _is_above(upper: Device, lower: Device) -> bool:
    partition_names = {name for name, _ in lower.partitions}
    if any(slave == lower.name or slave in partition_names for slave in upper.slaves):
        return True
    if any(dev == upper.dev for _, dev in lower.partitions):
        return True
    return not upper.is_sum and not lower.is_sum and _is_partition_name(upper.name, lower.name)


def _is_partition_name(name: str, disk: str) -> bool:
    """`sda1` of `sda`, `nvme0n1p2` of `nvme0n1`, `ata-NAME-part1` of `ata-NAME`."""
    if not name.startswith(disk):
        return False
    between = "p" if disk[-1:].isdigit() else ""
    return re.fullmatch(f"(-part|{between})[0-9]+", name[len(disk) :]) is not None
