"""I/O of this process' control group on each disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .disk import SignalError
from .topology import Machine, parse_mounts, text

Counters = tuple[int, int, int, int]
"""Reads, writes, bytes read, bytes written."""


@dataclass(slots=True)
class Own:
    """The part of a disk's I/O that this process' control group caused, per second. None: unknown."""

    reads_per_s: float | None = None
    writes_per_s: float | None = None
    read_bytes_per_s: float | None = None
    write_bytes_per_s: float | None = None
    others_read_bytes_per_s: float | None = None
    others_write_bytes_per_s: float | None = None


class Group:
    """The counters of this process' control group."""

    def __init__(self, machine: Machine) -> None:
        self._v2 = False
        self._directory = self._find(machine)

    def _find(self, machine: Machine) -> Path:
        who = "self" if str(machine.root) == "/" else "1"
        table = parse_mounts(text(machine.at(f"/proc/{who}/mountinfo")))
        for line in text(machine.at("/proc/self/cgroup")).split("\n"):
            number, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            v2 = number == "0"
            if not v2 and "blkio" not in controllers.split(","):
                continue
            for mount in table:
                fits = mount.fs_type == "cgroup2" if v2 else mount.fs_type == "cgroup" and "blkio" in mount.options.split(",")
                directory = machine.at(mount.point + "/" + path)
                name = "io.stat" if v2 else "blkio.throttle.io_service_bytes"
                if not fits or not (directory / name).is_file():
                    continue
                # Only the root group has no type (version 2), or has a release_agent (version 1).
                is_root = not (directory / "cgroup.type").is_file() if v2 else (directory / "release_agent").is_file()
                if is_root:
                    raise SignalError("this process is in the root control group, whose I/O is everybody's")
                self._v2 = v2
                return directory
        raise SignalError("no control group counts this process' I/O (cgroup v2 with the io controller, or v1 blkio)")

    def read(self) -> dict[str, Counters]:
        """Counters by MAJOR:MINOR. A disk on which the group did no I/O may be missing."""
        out: dict[str, Counters] = {}
        if self._v2:
            for line in text(self._directory / "io.stat").split("\n"):
                dev, _, words = line.partition(" ")
                values = dict(w.partition("=")[::2] for w in words.split())
                if "rbytes" in values:
                    out[dev] = (int(values["rios"]), int(values["wios"]), int(values["rbytes"]), int(values["wbytes"]))
            return out
        number, size = self._v1("blkio.throttle.io_serviced"), self._v1("blkio.throttle.io_service_bytes")
        for dev, moved in size.items():
            done = number.get(dev, {})
            out[dev] = (done.get("Read", 0), done.get("Write", 0), moved.get("Read", 0), moved.get("Write", 0))
        return out

    def _v1(self, name: str) -> dict[str, dict[str, int]]:
        out: dict[str, dict[str, int]] = {}
        for line in text(self._directory / name).split("\n"):
            words = line.split()
            if len(words) == 3:
                out.setdefault(words[0], {})[words[1]] = int(words[2])
        return out
