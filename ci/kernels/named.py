"""Whose I/O the threads of dm and md carry out, as `iolens zoom` names it: a line of docs/kernels.md for each load."""

import collections
import json
import re
import subprocess

# Their I/O reaches the disks by threads of the kernel.
TARGETS = ("dm-crypt", "ext4-on-crypt", "dm-multipath", "md-raid5")
THREAD = re.compile(r"(kworker/|dmcrypt_write|md\d+_raid|dm-)")


def by_process(binary, recording, begin, end):
    """Reads and writes on the lowest devices from `begin` to `end` (seconds), by the name of the process."""
    command = [binary, "zoom", recording, "--by", "process", "--format", "json", "--step", "1s", "--from", f"{begin:.3f}", "--to", f"{end:.3f}"]
    text = subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    counts = collections.Counter()
    for row in json.loads(text):
        counts[row["process"].split("[")[0]] += round((row["r_per_s"] + row["w_per_s"]) * row.get("slot_s", 1.0))
    return counts


def notes(binary, found):
    """One line for each target: how many of its I/Os on the disks have the name of a process."""
    recording, sums = found / "all.iolens", {}
    start_s = json.loads((recording / "meta.json").read_text())["start_monotonic_ns"] / 1e9
    for line in (found / "phases").read_text().splitlines():
        _, target, _, begin, end, _ = line.split()
        if target in TARGETS:
            sums.setdefault(target, collections.Counter()).update(by_process(binary, recording, float(begin) - start_s, float(end) - start_s))
    lines = []
    for target, counts in sums.items():
        total, unknown = sum(counts.values()), counts["unknown"]
        threads = sum(n for name, n in counts.items() if THREAD.match(name))
        if total:
            lines.append(f"{target}: of {total} I/Os on the disks {100 * (total - unknown - threads) / total:.1f} % are named by a process, "
                         f"{100 * unknown / total:.1f} % by none, {100 * threads / total:.1f} % by a thread of the kernel")
    return lines
