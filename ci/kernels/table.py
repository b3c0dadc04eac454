"""What a guest recorded against what its kernel counted, phase by phase, and the table of docs/kernels.md."""

import collections
import json
import re

CLASSES = ("read", "write", "discard", "flush")
# Positions of each class's counts in a line of /proc/diskstats: I/Os, merges, sectors (Documentation/admin-guide/iostats.rst).
FIELDS = {"read": (3, 4, 5), "write": (7, 8, 9), "discard": (14, 15, 16), "flush": (18, None, None)}
SECTOR_BYTES = 512
# REQ_PREFLUSH as recordings have it (docs/recording-format.md).
PREFLUSH = 1024


def class_of(op):
    if op == 2:
        return "flush"
    if op in (3, 5):
        return "discard"
    return "write" if op & 1 else "read"


def diskstats(path):
    """I/Os, bytes and merges by device number and class."""
    counts = {}
    for line in path.read_text().splitlines():
        f = line.split()
        dev = int(f[0]) << 20 | int(f[1])
        for name, at in FIELDS.items():
            value = lambda i: int(f[i]) if i is not None and i < len(f) else 0
            # Several devices may be printed as 0:0.
            there = counts.get((dev, name), (0, 0, 0)) if dev == 0 else (0, 0, 0)
            counts[dev, name] = (there[0] + value(at[0]), there[1] + value(at[2]) * SECTOR_BYTES, there[2] + value(at[1]))
        counts[dev, "name"] = f[2]
    return counts


def rows(recording, name, columns):
    import pyarrow.parquet

    for path in sorted((recording / name).glob("*.parquet")):
        t = pyarrow.parquet.read_table(path)
        yield from zip(*(t[c].to_pylist() if c in t.column_names else [None] * len(t) for c in columns))


class Result:
    def __init__(self):
        self.cells = collections.OrderedDict()  # (target, check): (text, equal)
        self.differences = []
        self.notes = []
        self.ios = 0
        self.failed = 0

    def about(self, name, release, version, date, commit):
        self.name, self.release, self.version, self.date, self.commit = name, release, version, date, commit

    def summary(self):
        if not self.cells:
            return "does not record"
        equal = sum(ok for _, ok in self.cells.values())
        return f"{equal} of {len(self.cells)} phases equal"

    def text(self):
        lines = [f"{self.name} ({self.release}, {self.version}): {self.summary()}, {self.ios} I/Os recorded"]
        return "\n".join(lines + ["  " + d for d in self.notes + self.differences])

    def markdown(self):
        lines = [f"### {self.name}", "", f"{'Ubuntu' if self.release.endswith('generic') else 'Debian'} {self.release} ({self.version}), {self.date}, "
                 f"{self.commit}: "
                 f"{self.summary()}, {self.ios} I/Os recorded.", ""]
        checks = list(dict.fromkeys(check for _, check in self.cells))
        if checks:
            lines += ["| device | " + " | ".join(checks) + " |", "|---" * (len(checks) + 1) + "|"]
        for target in dict.fromkeys(target for target, _ in self.cells):
            cells = (self.cells.get((target, check), ("", True))[0] for check in checks)
            lines.append(f"| {target} | " + " | ".join(cells) + " |")
        lines += [""] + [f"- {d}" for d in self.notes + self.differences]
        return "\n".join(lines).rstrip() + "\n"


def window(values, begin, end):
    return (row for row in values if begin <= row[0] < end)


def compare(found):
    """The Result of a guest whose files are in the directory `found`."""
    result = Result()
    log = (found / "record.log").read_text().strip().splitlines() if (found / "record.log").exists() else []
    recording = found / "all.iolens"
    for name, what in (("files.log", "--files"), ("auto.log", "automatic source")):
        path = found / name
        text = [l.strip() for l in path.read_text().splitlines() if "limit" in l or "refused" in l or "counters" in l] if path.exists() else []
        result.notes += [f"{what}: {line}" for line in text[:1]]
    if not (recording / "meta.json").exists():
        result.notes += ["record: " + (log[-1] if log else "no output")]
        result.failed = 1
        return result
    meta = json.loads((recording / "meta.json").read_text())
    start = meta["start_monotonic_ns"]
    result.notes += [f"limit: {l}" for l in meta.get("limits") or []]
    ios = list(rows(recording, "io", ("done_ns", "dev", "op", "bytes", "merges", "flags")))
    # What completed unseen is noticed later, and dated from its start on.
    lost = rows(recording, "lost", ("from_ns", "to_ns", "dev", "class", "ios", "bytes", "merges", "reason"))
    lost = [(row[0] if row[-1] == "unseen" else row[1], *row[2:]) for row in lost]
    result.ios = len(ios)
    phases = (found / "phases").read_text().splitlines() if (found / "phases").exists() else []
    for line in phases:
        number, target, check, t0, t1, code = line.split()
        begin, end = (int(float(t) * 1e9) - start for t in (t0, t1))
        before, after = diskstats(found / f"{number}.before"), diskstats(found / f"{number}.after")
        ours, gone, reasons, empty = {}, {}, collections.defaultdict(collections.Counter), collections.Counter()
        flushed = collections.defaultdict(list)
        for _, dev, op, size, merges, flags in window(ios, begin, end):
            key = dev, class_of(op)
            n, b, m = ours.get(key, (0, 0, 0))
            ours[key] = n + 1, b + size, m + (merges or 0)
            empty[key] += size == 0
            if size and (flags or 0) & PREFLUSH:
                flushed[key].append(size)
        for _, dev, name, n, size, merges, reason in window(lost, begin, end):
            key = dev, name
            a, b, m = gone.get(key, (0, 0, 0))
            gone[key] = a + (n or 0), b + (size or 0), m + (merges or 0)
            reasons[key][reason] += n or 0
        asked = asked_of((found / f"{number}.log").read_text())
        counted = {}  # by device and class: the kernel's counts, ours, and ours of 0 bytes
        zero = (0, 0, 0)
        for dev in {k[0] for k in after} | {k[0] for k in ours} | {k[0] for k in gone}:
            for name in CLASSES:
                kernel = tuple(a - b for a, b in zip(after.get((dev, name), zero), before.get((dev, name), zero)))
                mine, missing = ours.get((dev, name), zero), gone.get((dev, name), zero)
                counted.setdefault(dev, {})[name] = Counted(kernel, mine, missing, empty[dev, name], reasons[dev, name], flushed[dev, name])
        label_of = lambda dev: HIDDEN if dev == HIDDEN else after.get((dev, "name")) or f"{(dev or 0) >> 20}:{(dev or 0) & 0xfffff}"
        without_number(counted, after)
        lost_here = sum(c.missing[0] for classes in counted.values() for c in classes.values())
        total = sum(c.kernel[0] for classes in counted.values() for c in classes.values())
        problems, notes = [], set()
        for dev, classes in sorted(counted.items(), key=str):
            label = label_of(dev)
            unequal = [name for name in CLASSES if not classes[name].is_equal(name)]
            if not unequal:
                continue
            note = defined(target, check, label, classes, counted, label_of, asked)
            if note:
                notes.add(note)
            else:
                problems += [describe(label, name, classes[name]) for name in unequal]
        text = "=" if not problems else "**differs**"
        if not problems:
            text += "".join(f" {n}" for n in sorted(notes)) + (f" ({lost_here} lost)" if lost_here else "")
        if code != "0":
            problems.append(f"the load ended with {code}: " + " ".join((found / f"{number}.log").read_text().split()[-12:]))
            text = "no load"
        if not total and not problems and not notes:
            problems, text = ["the kernel counted nothing"], "no load"
        result.cells[target, check] = (text, not problems)
        result.differences += [f"{target}, {check}: {p}" for p in problems]
        result.failed |= bool(problems)
    if not result.cells:
        result.failed = 1
    return result


def describe(label, name, c):
    of = lambda i, unit: f"{c.kernel[i]} {unit} of the kernel, {c.mine[i]} recorded + {c.missing[i]} lost"
    parts = [of(i, unit) for i, unit in enumerate(("I/Os", "bytes", "merges")[: 1 if name == "flush" else 3]) if c.kernel[i] != c.sums[i]]
    why = ", ".join(f"{n} {r}" for r, n in c.reasons.items() if n)
    return f"{label} {name}: " + "; ".join(parts) + (f" ({why})" if why else "")


class Counted:
    """Of one device and class in one phase, each I/Os, bytes, merges."""

    def __init__(self, kernel, mine, missing, empty, reasons, flushed=()):
        self.kernel, self.mine, self.missing, self.empty, self.reasons = kernel, mine, missing, empty, reasons
        self.flushed = flushed  # bytes of each write that carries data and a flush before it
        self.sums = tuple(a + b for a, b in zip(mine, missing))

    def is_equal(self, name):
        return self.sums[0] == self.kernel[0] if name == "flush" else self.sums == self.kernel


    def knows_not_all_bytes(self):
        """Of a bio whose start or end was not shown the bytes are not known."""
        return any(self.reasons[r] for r in ("censored", "slot-clash", "unseen")) and self.sums[1] <= self.kernel[1]


def asked_of(log):
    """I/Os and bytes that the load requested, by class."""
    m = re.search(r"^asked read (\d+) (\d+) write (\d+) (\d+)$", log, re.M)
    n = [int(g) for g in m.groups()] if m else [0] * 4
    return {"read": (n[0], n[1]), "write": (n[2], n[3])}


HIDDEN = "hidden paths"


def without_number(counted, after):
    """Before 5.17 the kernel prints the hidden paths of NVMe multipath as 0:0: all of them are compared with all I/Os of
    numbers that it does not print."""
    unknown = [dev for dev in counted if dev and dev >> 20 == 259 and (dev, "name") not in after]
    if 0 not in counted or not unknown:
        return
    zeros = counted.pop(0)
    paths = [counted.pop(dev) for dev in unknown]
    add = lambda tuples: tuple(map(sum, zip(*tuples)))
    counted[HIDDEN] = {
        name: Counted(zeros[name].kernel, add(p[name].mine for p in paths), add(p[name].missing for p in paths),
                      sum(p[name].empty for p in paths), sum((p[name].reasons for p in paths), collections.Counter()))
        for name in CLASSES}


def total_of(devices, what, i):
    """I/Os (0) or bytes (1) of all classes but discards, as the kernel sums reads and writes."""
    return sum(getattr(classes[name], what)[i] for classes in devices for name in ("read", "write", "flush"))


def defined(target, check, label, classes, counted, label_of, asked):
    """The mark of a difference that is defined, see the page's text; None if it is none of these, or not exactly."""
    read, write, flush = classes["read"], classes["write"], classes["flush"]
    others = [c for dev, c in counted.items() if label_of(dev) != label]
    is_upper = re.match(r"dm-|md", label) is not None
    same_discards = classes["discard"].is_equal("discard")
    if target == "brd" and label.startswith("ram"):
        exact = all((check == "buffered" or c.sums[0] == asked[n][0]) and (c.sums[1] == asked[n][1] or c.reasons["censored"])
                    for n, c in (("read", read), ("write", write)))
        return "asked" if exact and not any(classes[n].kernel[0] for n in CLASSES) else None
    if target == "nvme-multipath" and re.fullmatch(r"nvme\d+n\d+", label):
        paths = [c for dev, c in counted.items() if dev == HIDDEN or re.match(r"nvme\d+c\d+n", label_of(dev))]
        of = lambda name, i: sum(p[name].sums[i] for p in paths)
        with_data = of("write", 0) - sum(p["write"].empty for p in paths)
        exact = read.kernel[0] == of("read", 0) + of("flush", 0) and write.kernel[:2] == (with_data, of("write", 1))
        return "head" if exact and read.kernel[1] == of("read", 1) and total_of([classes], "sums", 0) == 0 else None
    if label.startswith("dm-") and write.flushed and same_discards and read.is_equal("read"):
        more = tuple(k - s for k, s in zip(write.kernel, write.sums))
        if more[0] >= len(write.flushed) and more[1] == sum(write.flushed):
            return "flushed"
    is_split = target in ("dm-striped", "md-raid0", "ext4-on-crypt") or (target == "md-raid5" and label.startswith("dm-"))
    if is_split and is_upper and same_discards:
        clash = any(c.reasons["slot-clash"] for c in classes.values())
        pieces = all(classes[n].kernel[0] >= classes[n].sums[0] - classes[n].empty for n in ("read", "write"))
        is_whole = lambda c: c.kernel[1] == c.sums[1] or (c.kernel[0] == c.sums[0] and c.knows_not_all_bytes())
        if pieces and (clash or all(is_whole(classes[n]) for n in ("read", "write"))):
            whole = total_of([classes], "sums", 0) == total_of([classes], "kernel", 0)
            without_empty = all(classes[n].kernel[0] == classes[n].sums[0] - classes[n].empty for n in ("read", "write"))
            return "bytes" if whole else "data" if without_empty else "pieces"
        return None
    if target.startswith(("md-", "lvm-on-")) and is_upper:
        exact = all(c.kernel[0] == c.sums[0] - c.empty and (c.kernel[1] == c.sums[1] or c.knows_not_all_bytes()) for c in (read, write))
        if exact and same_discards:
            return "data" if read.empty + write.empty else "bytes"
    if target == "dm-multipath":
        if is_upper:  # 5.15 counts the requests of the paths here
            exact = all(total_of([classes], "kernel", i) == total_of([classes], "sums", i) + total_of(others, "sums", i)
                        - total_of(others, "kernel", i) for i in (0, 1))
            return "twice" if exact else None
        as_reads = read.kernel[0] == read.sums[0] + flush.sums[0] and write.kernel[:2] == write.sums[:2]
        above = [c for dev, c in counted.items() if label_of(dev).startswith("dm-")]
        is_above = total_of([classes], "kernel", 1) == 0 and total_of(above, "kernel", 1) > total_of(above, "sums", 1)
        is_above &= read.kernel[0] == flush.sums[0] or read.kernel[0] == flush.sums[0] + read.sums[0]
        return "paths" if (as_reads and read.kernel[1] == read.sums[1]) or is_above else None
    if (is_upper or label.startswith("zram")) and all(c.is_equal(n) or (c.sums[0] == c.kernel[0] and c.knows_not_all_bytes()) for n, c in classes.items()):
        return "bytes"
    unseen = sum(c.reasons["unseen"] for c in classes.values())
    return "classes" if unseen and total_of([classes], "kernel", 0) == total_of([classes], "sums", 0) else None


BEGIN, END = "<!-- generated by ci/kernels: begin -->", "<!-- generated by ci/kernels: end -->"


def write(path, order, result):
    """Replaces this kernel's part of the document."""
    text = path.read_text() if path.exists() else f"# Kernels\n\n{BEGIN}\n{END}\n"
    head, rest = text.split(BEGIN)
    old, tail = rest.split(END)
    parts = {m[1]: m[0].strip() + "\n" for m in re.finditer(r"^### (\S+)\n.*?(?=^### |\Z)", old, re.M | re.S)}
    parts[result.name] = result.markdown()
    overview = re.findall(r"^\| (\S+) \| .*\|$", old.split("### ")[0], re.M)
    lines = {l.split()[1]: l for l in old.split("### ")[0].splitlines() if l.startswith("| ") and overview and l.split()[1] in order}
    lines[result.name] = (f"| {result.name} | {result.release} | {result.date} | {result.commit} | {result.ios} | {result.summary()} |")
    table = ["| kernel | release | date | commit | I/Os recorded | result |", "|---|---|---|---|---|---|"]
    table += [lines[n] for n in order if n in lines]
    body = "\n".join(table) + "\n\n" + "\n".join(parts[n] for n in order if n in parts)
    path.write_text(f"{head}{BEGIN}\n{body}\n{END}{tail}")
