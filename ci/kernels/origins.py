"""What a guest recorded of its files against what the loads did: origin, file, process. A line of docs/kernels.md for each."""

import json
import re

import table

DIRECT, WRITEBACK, METADATA, BUFFERED_READ, READAHEAD = 0, 1, 2, 4, 5
READ, WRITE, FLUSH = 0, 1, 2
# The operations and origins of each load's data.
EXPECTED = {
    "random": ((READ, WRITE), (DIRECT,)),
    "large": ((WRITE,), (WRITEBACK,)),
    "readahead": ((READ,), (BUFFERED_READ, READAHEAD)),
    "uring": ((READ,), (DIRECT,)),
}
# How much of a load may have come from elsewhere: of a file read in sequence, what was in the page cache; of flushes, those of a
# commit that came of its own.
LEAST = {"random": 0.99, "large": 0.99, "readahead": 0.9, "uring": 0.99, "flush": 0.9}
# Before 5.18 f2fs did direct I/O in its own way, whose files are not found (docs/tracing.md).
F2FS_BY_IOMAP = (5, 18)
COLUMNS = ("done_ns", "dev", "op", "bytes", "origin", "ino", "comm")


def compare(found):
    """Lines for the page, and what is wrong."""
    recording = found / "all.iolens"
    if not (found / "inodes").exists() or not (recording / "meta.json").exists():
        return [], []
    meta = json.loads((recording / "meta.json").read_text())
    ios = list(table.rows(recording, "io", COLUMNS))
    lost = list(table.rows(recording, "lost", ("to_ns", "bytes", "ios")))
    names = {row[1] for row in table.rows(recording, "names", ("kind", "id", "text")) if row[0] == "file" and row[2] == "/mnt/file"}
    inodes = {}
    for line in (found / "inodes").read_text().splitlines():
        target, inode, number = line.split()
        major, minor = number.split(":")
        inodes[target] = int(inode), int(major) << 20 | int(minor)
    release = tuple(int(n) for n in re.findall(r"\d+", (found / "release").read_text())[:2])
    shares, wrong, targets = {}, [], set()
    for line in (found / "phases").read_text().splitlines():
        number, target, check, t0, t1, _ = line.split()
        targets.add(target)
        if target not in inodes:
            continue
        begin, end = (int(float(t) * 1e9) - meta["start_monotonic_ns"] for t in (t0, t1))
        inode, disk = inodes[target]
        here = [row for row in table.window(ios, begin, end) if row[1] == disk]
        gone = list(table.window(lost, begin, end))
        asked = table.asked_of((found / f"{number}.log").read_text())
        if target == "files-f2fs" and release < F2FS_BY_IOMAP and DIRECT in EXPECTED.get(check, ((), ()))[1]:
            inode = None
        share = of_flushes(here) if check == "flush" else of_data(check, here, inode, asked, gone)
        shares.setdefault(target, {})[check] = share
        if share < LEAST[check]:
            wrong.append(f"{target}, {check}: {100 * share:.1f} % have their origin, file and process: {kinds(here)}")
        if target == "files-f2fs" and any(ino is not None and ino < 3 for *_, ino, _ in here):
            wrong.append(f"{target}, {check}: blocks of the file system are shown as a file of inode 1 or 2")
    for target, (inode, _) in inodes.items():
        if inode not in names:
            wrong.append(f"{target}: the name of its file was not found")
    lines = []
    for target, of in shares.items():
        parts = ", ".join(f"{check} {100 * min(share, 1):.1f} %" for check, share in of.items())
        lines.append(f"{target}: with origin, file and process (flushes: process): {parts}")
    return lines, wrong + paths_without_name(meta, targets)


def of_data(check, ios, inode, asked, lost):
    """The share of the bytes that the load asked for which were recorded as it did them. What is lost is not recorded wrongly."""
    ops, origins = EXPECTED[check]
    right = sum(size for _, _, op, size, origin, ino, comm in ios
                if op in ops and origin in origins and ino == inode and is_of_load(comm))
    total = sum(asked["read" if op == READ else "write"][1] for op in ops) - sum(size or 0 for _, size, _ in lost)
    return right / total if total > 0 else 1.0


def is_of_load(comm):
    """Threads that io_uring makes for a process are called so."""
    return comm == "load" or (comm or "").startswith("iou-wrk-")


def of_flushes(ios):
    flushes = [comm for _, _, op, _, _, _, comm in ios if op == FLUSH]
    return sum(comm == "load" for comm in flushes) / len(flushes) if flushes else 0.0


def kinds(ios):
    """The most frequent mixtures, for people."""
    counts = {}
    for _, _, op, size, origin, ino, comm in ios:
        key = f"op {op} origin {origin} ino {ino} {comm}"
        n, b = counts.get(key, (0, 0))
        counts[key] = n + 1, b + size
    most = sorted(counts.items(), key=lambda kv: -kv[1][0])[:5]
    return "; ".join(f"{n} of {b} bytes: {key}" for key, (n, b) in most)


def paths_without_name(meta, targets):
    """What is wrong if the paths of NVMe multipath were used."""
    has_name = any(re.fullmatch(r"nvme\d+c\d+n\d+", d["name"]) for d in meta["devices"])
    return [] if has_name or "nvme-multipath" not in targets else ["nvme-multipath: its paths have no names"]
