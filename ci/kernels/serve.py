"""Judges what serve.sh left: the service went on through all of it, said what it could not do, and what it stored is whole."""

import json
import pathlib
import subprocess


def health(found: pathlib.Path, step: str) -> dict:
    return json.loads((found / f"{step}.health").read_bytes().split(b"\r\n\r\n", 1)[1])


def ios(found: pathlib.Path, step: str, device: str = "") -> float:
    """I/Os that /metrics has counted, of one device or of all."""
    lines = (found / f"{step}.metrics").read_text().splitlines()
    of = [l for l in lines if l.startswith("iolens_io_total_seconds_count") and f'device="{device}' in l]
    return sum(float(l.rsplit(" ", 1)[1]) for l in of)


def faults(program: pathlib.Path, found: pathlib.Path) -> tuple[list[str], list[str]]:
    """What is wrong, and what was seen."""
    wrong, seen = [], []
    steps = ["begins", "clock-forward", "clock-back", "clock-right", "sleeps", "disk-comes", "read-only", "writable"]
    before = 0.0
    for step in steps:
        reasons, now = health(found, step)["reasons"], ios(found, step)
        stored = not any("nothing is stored" in r for r in reasons)
        seen.append(f"{step}: {now:.0f} I/Os, {'; '.join(reasons) or 'healthy'}")
        if now <= before:
            wrong.append(f"{step}: no I/O more than the {before:.0f} before")
        if stored == (step == "read-only"):
            wrong.append(f"{step}: {reasons}")
        before = now
    if ios(found, "disk-comes", "loop1") == 0:
        wrong.append("disk-comes: its I/Os are not counted")
    if (found / "exit").read_text().strip() != "0":
        wrong.append(f"the service ended with {(found / 'exit').read_text().strip()}: {(found / 'serve.log').read_text()[-300:]}")
    recordings = sorted(found.glob("root/host=*/start_ns=*"))
    for path in recordings:
        read = subprocess.run([program, "report", path, "--json"], capture_output=True, text=True)
        if read.returncode != 0 or "damaged" in read.stderr:
            wrong.append(f"{path.name}: {read.stderr.strip()}")
            continue
        recording = json.loads(read.stdout)["recording"]
        seen.append(f"{path.name}: {recording['ios']} I/Os in {recording['duration_s']:.1f} s, {recording['lost_ios']} lost")
    if len(recordings) < 2:
        wrong.append(f"{len(recordings)} recording: none began when the disk was writable again")
    return wrong, seen
