"""One disk, whose counters are read through an open file descriptor."""

from __future__ import annotations

import errno
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from ..errors import IolensError
from .counters import Sample, parse
from .topology import Bottom, Machine, is_number, text

GONE = {errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.ENOTDIR}


class SignalError(IolensError):
    """A value is unknown: of a disk, of a path, or of a service that does not answer."""


class DiskLostError(SignalError):
    """The disk was removed."""


@dataclass(slots=True)
class Info:
    """Properties that do not change while a disk is present."""

    name: str
    dev: str
    model: str = ""
    size_bytes: int = 0
    rotational: bool = False
    nvme: bool = False
    logical_bytes: int = 0
    physical_bytes: int = 0
    paths: tuple[str, ...] = ()
    """Of NVMe multipath, where the kernel counts those only; they are summed."""


class KernelFile:
    """A small file of sysfs. One pread at offset 0 makes the kernel print it again."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = -1
        self.opened = 0

    def read(self, size: int = 4096) -> bytes:
        """Its text. If the device is gone, the file is opened again, which finds a device that came back under its name."""
        if self.fd >= 0:
            try:
                # A file of a saved tree can be replaced by another one of its name; an open file of sysfs always has a link.
                if os.fstat(self.fd).st_nlink:
                    return os.pread(self.fd, size, 0)
            except OSError:
                pass
            self.close()
        self.fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        self.opened += 1
        try:
            return os.pread(self.fd, size, 0)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Closes the file; the next read opens it again."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Disk:
    """Reads the counters of a disk or partition, by kernel name (sda), node (/dev/mapper/data) or device number (8:0).

    Not for concurrent use by several threads.
    """

    def __init__(self, dev: str, root: str = "/") -> None:
        machine = Machine(root)
        bottom = find(machine, dev)
        if bottom is None:
            raise DiskLostError(f"{dev}: the disk is not there")
        self._open(machine, bottom)
        self.read()

    @classmethod
    def of(cls, machine: Machine, bottom: Bottom) -> Disk:
        """Opens the result of a lookup. The disk may be gone, or not there yet."""
        disk = cls.__new__(cls)
        disk._open(machine, bottom)
        return disk

    def _open(self, machine: Machine, bottom: Bottom) -> None:
        self.bottom = bottom
        self._machine = machine
        self._files = [KernelFile(path) for path in bottom.stats]
        paths = tuple(Path(p).parent.name for p in bottom.stats) if len(bottom.stats) > 1 else ()
        self.info = Info(bottom.name, bottom.dev, paths=paths)
        self._not_accounted = False
        self.describe()

    def describe(self) -> None:
        """Reads the properties of the disk from sysfs."""
        path = Path(self._machine.stat_file(self.info.name)).parent
        self.info.size_bytes = int(text(path / "size") or 0) * 512
        # A partition uses the queue of its disk.
        real = path.resolve()
        if (real / "partition").is_file():
            path = real.parent
        self.info.model = text(path / "device/model")
        self.info.nvme = self.info.name.startswith("nvme")
        self.info.rotational = text(path / "queue/rotational") == "1"
        self.info.logical_bytes = int(text(path / "queue/logical_block_size") or 0)
        self.info.physical_bytes = int(text(path / "queue/physical_block_size") or 0)
        self._not_accounted = text(path / "queue/iostats") == "0"

    def read(self, at_ns: int | None = None) -> Sample:
        """Reads the counters: one pread. When a lost disk comes back under its name, the next read finds it."""
        at_ns = time.monotonic_ns() if at_ns is None else at_ns
        out: Sample | None = None
        try:
            for file in self._files:
                one = parse(file.read(), at_ns)
                if out is None:
                    out = one
                else:
                    out.add(one)
        except OSError as e:
            if sys.platform != "linux":
                raise SignalError("disks can be read on Linux only") from e
            if e.errno in GONE:
                raise DiskLostError(f"{self.info.name}: the disk is not there") from e
            raise SignalError(f"{self.info.name}: its counters cannot be read: {e.strerror}") from e
        assert out is not None
        out.not_accounted = self._not_accounted
        out.generation = sum(f.opened for f in self._files)
        return out

    def close(self) -> None:
        """Closes its files."""
        for file in self._files:
            file.close()

    def __enter__(self) -> Disk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def find(machine: Machine, dev: str) -> Bottom | None:
    """Finds the disk of a name, node or number; None if it does not exist."""
    name = dev
    if is_number(dev):
        link = machine.at(f"/sys/dev/block/{dev}")
        name = link.resolve().name.replace("!", "/") if link.exists() else ""
    elif dev.startswith("/dev/"):
        name = machine.kernel_name(dev)
    if not name or not Path(machine.stat_file(name)).is_file():
        return None
    number = text(Path(machine.stat_file(name)).parent / "dev")
    paths = [p.name for p in machine.nvme_paths(name)]
    return Bottom(name, number, machine.stats_of(name, paths))
