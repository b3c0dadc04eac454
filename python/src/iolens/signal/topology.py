"""Resolves a path to its disks: mounts, partitions, dm, RAID, loop devices, btrfs, zfs, overlay, NVMe multipath."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

MAX_DEPTH = 32
"""More layers than any machine has; a deeper tree leads round in a ring."""

MAX_LINKS = 40
"""The kernel's own limit of symbolic links in a path."""

NETWORK = {"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "virtiofs", "afs", "glusterfs", "fuse.sshfs"}


def text(path: Path) -> str:
    """The trimmed text of a file; empty if there is none."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape").strip()
    except OSError:
        return ""


def names(path: Path) -> list[str]:
    """The sorted entries of a directory; empty if there is none."""
    try:
        return sorted(p.name for p in path.iterdir())
    except OSError:
        return []


def is_number(dev: str) -> bool:
    """Whether the text is MAJOR:MINOR."""
    return re.fullmatch(r"[0-9]+:[0-9]+", dev) is not None


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of the mount table."""

    id: int
    parent: int
    dev: str
    point: str
    fs_type: str
    source: str
    options: str


def unescape(word: str) -> str:
    """Decodes the kernel's octal escapes of blank, tab, newline and backslash."""
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), word)


def parse_mounts(table: str) -> list[Mount]:
    """Parses the lines of `/proc/self/mountinfo`; other lines are skipped."""
    out = []
    for line in table.split("\n"):
        words = [w for w in line.split(" ") if w]
        dash = words.index("-") if "-" in words else 0
        if dash < 5 or len(words) < dash + 3 or not is_number(words[2]):
            continue
        kind, source, options = (*words[dash + 1 : dash + 4], "")[:3]
        out.append(Mount(int(words[0]), int(words[1]), words[2], unescape(words[4]), kind, unescape(source), unescape(options)))
    return out


def is_under(path: str, point: str) -> bool:
    """Whether a path is a mount point or below it."""
    return point == "/" or path == point or path.startswith(point + "/")


def mount_of(table: list[Mount], path: str) -> Mount | None:
    """Walks from the root downwards as the kernel does, so that a mount hidden by a later one is not used."""
    ids = {m.id for m in table}
    roots = [m for m in table if m.point == "/"]
    if not roots:
        return None
    at = next((m for m in roots if m.parent not in ids - {m.id}), roots[0])
    # Each step goes to a child, so a walk has at most as many steps as the table has lines.
    for _ in table:
        below = [m for m in table if m.parent == at.id and m.id != at.id and is_under(path, m.point)]
        if not below:
            break
        at = min(below, key=lambda m: len([p for p in m.point.split("/") if p]))
    return at


@dataclass(frozen=True, slots=True)
class Bottom:
    """A disk at the bottom of a stack: the device that can be busy."""

    name: str
    dev: str
    stats: tuple[str, ...]
    """Where its counters are; several for an NVMe multipath disk whose kernel counts its paths only."""


@dataclass(slots=True)
class Layer:
    """A block device and the devices under it."""

    name: str
    dev: str = ""
    is_path: bool = False
    below: list[Layer] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """A resolved path: its canonical form, and the device number if it is a device node."""

    path: str
    node: str | None


class Machine:
    """The machine whose files are under a root: "/", or "/host" in a container."""

    def __init__(self, root: str = "/") -> None:
        self.root = Path(root)
        self.table: list[Mount] = []
        self.literal = False
        """Paths are taken as they are, without a look at file systems that may have to wait for a disk."""

    def at(self, path: str) -> Path:
        """The name by which this process opens a path of the machine."""
        return self.root / path.lstrip("/")

    def read_mounts(self) -> None:
        """Reads the mount table: of this process on the live machine, of process 1 under another root."""
        who = "self" if str(self.root) == "/" else "1"
        self.table = parse_mounts(self.at(f"/proc/{who}/mountinfo").read_bytes().decode("utf-8", "surrogateescape"))

    def canonical(self, path: str) -> str:
        """Resolves links, "." and ".." inside the root. An absolute link refers to a file under the root."""
        done, links = Path("/"), 0
        todo = [p for p in path.split("/") if p not in ("", ".")]
        while todo:
            part = todo.pop(0)
            if part == "..":
                done = done.parent
                continue
            following = done / part
            if not stat.S_ISLNK(self.at(str(following)).lstat().st_mode):
                done = following
                continue
            links += 1
            if links > MAX_LINKS:
                raise OSError(f"{path}: symbolic links lead round in a ring")
            target = str(self.at(str(following)).readlink())
            if target.startswith("/"):
                done = Path("/")
            todo = [p for p in target.split("/") if p not in ("", ".")] + todo
        return str(done)

    def follow(self, path: str) -> str | None:
        """The canonical form; None if the path does not exist or may not be read."""
        if self.literal:
            return path
        try:
            return self.canonical(path)
        except OSError:
            return None

    def place(self, path: str) -> Place:
        """Queries the file system, which may block on the disk."""
        canonical = self.canonical(path)
        st = self.at(canonical).stat()
        is_node = stat.S_ISBLK(st.st_mode)
        return Place(canonical, f"{os.major(st.st_rdev)}:{os.minor(st.st_rdev)}" if is_node else None)

    def disks_of(self, place: Place) -> tuple[list[Bottom], str]:
        """The disks under a path, by name, and the reason if there are none."""
        if place.node is not None:
            layers, why = self.device(place.node, 0), f"sysfs has no block device {place.node}"
        elif mount := mount_of(self.table, place.path):
            layers, why = self.layers(mount, 0), why_none(mount)
        else:
            layers, why = [], "the mount table does not say what it is on"
        found: dict[str, Bottom] = {}
        for layer in layers:
            self.collect(layer, found)
        return [found[name] for name in sorted(found)], why

    def collect(self, layer: Layer, found: dict[str, Bottom]) -> None:
        """A loop device whose file is on no disk is the lowest device that can be busy. An NVMe multipath head is one disk."""
        paths = [b.name for b in layer.below if b.is_path]
        if len(paths) < len(layer.below):
            for below in layer.below:
                self.collect(below, found)
        elif layer.dev:
            found.setdefault(layer.name, Bottom(layer.name, layer.dev, self.stats_of(layer.name, paths)))

    def stat_file(self, name: str) -> str:
        """The files in which the kernel prints a device's counters."""
        name = name.replace("/", "!")
        own, partition = self.at(f"/sys/block/{name}/stat"), self.at(f"/sys/class/block/{name}/stat")
        return str(partition if partition.is_file() and not own.is_file() else own)

    def stats_of(self, name: str, paths: list[str]) -> tuple[str, ...]:
        """Before Linux 6.1 the head of an NVMe multipath disk counts nothing, so its paths are read instead."""
        own = self.stat_file(name)
        if not paths or text(Path(own)).strip("0 "):
            return (own,)
        return tuple(self.stat_file(p) for p in paths)

    def device(self, dev: str, depth: int) -> list[Layer]:
        """The device with this number and all devices under it."""
        return self.directory(self.at(f"/sys/dev/block/{dev}"), depth)

    def named(self, name: str, depth: int) -> list[Layer]:
        """The device with this kernel name."""
        if not name:
            return []
        return self.directory(self.at(f"/sys/class/block/{name}"), depth) or self.directory(
            self.at(f"/sys/block/{name}"), depth
        )

    def directory(self, path: Path, depth: int) -> list[Layer]:
        """The device of a sysfs directory or of a link to one."""
        try:
            path = path.resolve(strict=True)
        except (OSError, RuntimeError):
            return []
        dev = text(path / "dev")
        layer = Layer(path.name.replace("!", "/"), dev if is_number(dev) else "")
        if depth < MAX_DEPTH:
            layer.below = self.below(path, layer.name, depth + 1)
        return [layer]

    def below(self, path: Path, name: str, depth: int) -> list[Layer]:
        """The devices directly under a device."""
        if (path / "partition").is_file():
            return self.directory(path.parent, depth)
        slaves = names(path / "slaves")
        if slaves:
            return [layer for s in slaves for layer in self.directory(path / "slaves" / s, depth)]
        file = text(path / "loop/backing_file")
        if file:
            # A deleted file is still on the disk of its directory.
            file = file.removesuffix(" (deleted)")
            mount = mount_of(self.table, self.follow(file) or file)
            return self.layers(mount, depth) if mount else []
        return self.nvme_paths(name)

    def nvme_paths(self, head: str) -> list[Layer]:
        """The hidden paths nvmeXcYnZ of a multipath head nvmeXnZ."""
        found = re.fullmatch(r"nvme([^n]*)n(.*)", head)
        if not found:
            return []
        path = re.compile(f"nvme{re.escape(found[1])}c[0-9]*n{re.escape(found[2])}")
        return [Layer(n, is_path=True) for n in names(self.at("/sys/block")) if path.fullmatch(n)]

    def layers(self, mount: Mount, depth: int) -> list[Layer]:
        """The devices directly under a file system."""
        if depth >= MAX_DEPTH:
            return []
        if not mount.dev.startswith("0:"):
            return self.device(mount.dev, depth)
        if mount.fs_type == "overlay":
            return self.overlay(mount, depth)
        if mount.fs_type == "zfs":
            return self.zfs(mount, depth)
        if mount.fs_type == "btrfs" and (devices := self.btrfs_members(mount)):
            return [layer for n in names(devices) for layer in self.directory(devices / n, depth)]
        # A file system without a device number of its own that is mounted from devices (bcachefs: /dev/a:/dev/b).
        if not mount.source.startswith("/dev/"):
            return []
        return [layer for s in mount.source.split(":") for layer in self.named(self.kernel_name(s), depth)]

    def overlay(self, mount: Mount, depth: int) -> list[Layer]:
        """The disks of the upper and all lower directories."""
        directories: list[str] = []
        for option in re.split(r"(?<!\\),", mount.options):
            key, _, value = option.replace("\\,", ",").partition("=")
            if key in ("upperdir", "lowerdir+", "datadir+"):
                directories.append(value)
            elif key == "lowerdir":
                directories += [re.sub(r"\\([:,\\])", r"\1", d) for d in re.findall(r"(?:\\.|[^:\\])+", value)]
        out: list[Layer] = []
        seen = set()
        for directory in filter(None, directories):
            path = self.follow(directory)
            of = mount_of(self.table, path) if path else None
            if of and of.id != mount.id and of.dev not in seen:
                seen.add(of.dev)
                out += self.layers(of, depth + 1)
        return out

    def btrfs_members(self, mount: Mount) -> Path | None:
        """The sysfs directory that lists all members of the file system."""
        member = self.kernel_name(mount.source)
        base = self.at("/sys/fs/btrfs")
        for uuid in names(base):
            devices = base / uuid / "devices"
            if member and os.path.lexists(devices / member):
                return devices
        return None

    def zfs(self, mount: Mount, depth: int) -> list[Layer]:
        """The members of the pool. zfs has no entry in sysfs, but udev stores each member's label."""
        pool = mount.source.partition("/")[0]
        data = self.at("/run/udev/data")
        out = []
        for name in names(data):
            lines = text(data / name).split("\n") if re.fullmatch(r"b[0-9]+:[0-9]+", name) else []
            if "E:ID_FS_TYPE=zfs_member" in lines and f"E:ID_FS_LABEL={pool}" in lines:
                out += self.device(name[1:], depth)
        # udev labels the whole disk and its partition alike; the partition is the member.
        under = {b.dev for layer in out for b in layer.below}
        return [layer for layer in out if layer.dev not in under]

    def kernel_name(self, source: str) -> str:
        """The kernel name of a node under /dev: its own, that of the link's target, or that of the dm device."""
        try:
            path = Path(self.canonical(source))
        except OSError:
            path = Path(source)
        if path.parent != Path("/dev/mapper"):
            return path.name
        block = self.at("/sys/block")
        return next((d for d in names(block) if text(block / d / "dm/name") == path.name), "")

    def whole_disks(self) -> list[str]:
        """Disks that hold data: whole disks with a size, not made of other devices, not in memory."""
        out = []
        block = self.at("/sys/block")
        for name in names(block):
            path = block / name
            in_memory = name.startswith(("ram", "zram", "loop"))
            if not in_memory and text(path / "dev") and text(path / "size") not in ("", "0") and not names(path / "slaves"):
                out.append(name.replace("!", "/"))
        return out


def why_none(mount: Mount) -> str:
    """The reason why there is no disk under a mount."""
    kind = mount.fs_type
    reasons = {
        "overlay": "overlay: none of its layers is on a visible block device",
        "zfs": "zfs: no member of the pool is known to udev here (/run/udev/data)",
        "btrfs": "btrfs: its members are not under /sys/fs/btrfs here",
    }
    if kind in NETWORK:
        return f"{kind} is a network file system: its disks are another machine's"
    if kind in reasons:
        return reasons[kind]
    if kind.startswith("fuse"):
        return f"{kind} is served by a process, not by a block device"
    if mount.dev.startswith("0:"):
        return f"{kind} has no block device under it"
    return f"its device {mount.dev} is not in sysfs (removed?)"
