#!/usr/bin/env python3
"""Compares `iolens iostat -x 1` with the distribution's `iostat -x 1` on a device under fio.

    bench/iostat_live.py [IOLENS]        15 s; IOLENS_FULL=1 for the whole minute

Both read the same counters, each at its own instant, so their intervals are shifted against each other by a few
milliseconds (SHIFT), and the reference measures its own in hundredths of a second. Allowed, per second (A20):

    %util     100 J/T + U (10 ms)/T + 100 SHIFT/T      J a jiffy (1/HZ), T the interval, U the busy share in percent
    aqu-sz    Q (10 ms)/T + DEPTH 2 SHIFT/T            DEPTH I/Os are in flight at most
    rates     R (10 ms + 2 SHIFT)/T, and 2 I/Os        the load's rate is limited

Fails (exit 1) if %util is outside in more than one second of a hundred, or any other in more than one of twenty: the
load's own rate is less even than its busy time when other work holds the processors.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

SECONDS = 60 if os.environ.get("IOLENS_FULL") else 15
IOLENS = sys.argv[1] if len(sys.argv) > 1 else "target/release/iolens"
JIFFY_S = 0.004
HUNDREDTH_S = 0.010
# The two start one after the other. A real-time priority prevents a busy machine from waking one of them late, and from turning
# the steady load into bursts.
FIRST = ["chrt", "--fifo", "10"]
SHIFT_S = 0.010
DEPTH = 4
RATES = ["r/s", "w/s", "rkB/s", "wkB/s", "aqu-sz"]


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def reports(process, device):
    text = process.communicate(timeout=SECONDS + 60)[0]
    out = []
    for report in json.loads(text)["sysstat"]["hosts"][0]["statistics"]:
        out += [d for d in report["disk"] if d["disk_device"] == device]
    return out


def allowed(field, a, b):
    value = max(abs(a), abs(b))
    # Rounding of both to two decimals.
    rounding = value * HUNDREDTH_S + 0.01
    if field == "util":
        return 100 * JIFFY_S + rounding + 100 * SHIFT_S
    if field == "aqu-sz":
        return rounding + DEPTH * 2 * SHIFT_S
    return rounding + value * 2 * SHIFT_S + (2 if field in ("r/s", "w/s") else 8)


def main():
    for tool in ("fio", "iostat", "losetup", "chrt"):
        if subprocess.run(["which", tool], capture_output=True).returncode:
            print(f"SKIP: no {tool} here")
            return 0
    if os.geteuid():
        print("SKIP: a loop device needs root")
        return 0
    directory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.NamedTemporaryFile(prefix="iolens-live-", dir=directory) as backing:
        backing.truncate(64 << 20)
        path = run("losetup", "--find", "--show", "--direct-io=off", backing.name)
        try:
            return compare(path)
        finally:
            run("losetup", "-d", path)


def together(commands, env):
    """Start both within SHIFT of each other, as far as this process can measure it."""
    for _ in range(50):
        began = time.monotonic()
        started = [subprocess.Popen([*FIRST, *c], stdout=subprocess.PIPE, text=True, env=env) for c in commands]
        if time.monotonic() - began < SHIFT_S:
            return started
        for process in started:
            process.kill()
            process.communicate()
    print("this machine is too busy to start two programs together; the shift is larger than allowed for")
    return [subprocess.Popen([*FIRST, *c], stdout=subprocess.PIPE, text=True, env=env) for c in commands]


def compare(path):
    device = path.rsplit("/", 1)[1]
    load = ["fio", "--name=load", f"--filename={path}", "--direct=1", "--ioengine=libaio", f"--iodepth={DEPTH}", "--bs=4k",
            "--rw=randrw", "--rwmixread=70", "--rate_iops=1400,600", "--time_based", f"--runtime={SECONDS + 15}"]
    words = ["-dxy", "-o", "JSON", path, "1", str(SECONDS)]
    env = {**os.environ, "LC_ALL": "C"}
    fio = subprocess.Popen([*FIRST, *load], stdout=subprocess.DEVNULL)
    try:
        time.sleep(2)
        ours, theirs = together([[IOLENS, "iostat", *words], ["iostat", *words]], env)
        a, b = reports(ours, device), reports(theirs, device)
    finally:
        fio.terminate()
        fio.wait()
    if len(a) != len(b) or not a:
        print(f"{len(a)} reports here, {len(b)} there")
        return 1
    inside = total = 0
    failed = []
    for field in RATES + ["util"]:
        pairs = [(x[field], y[field]) for x, y in zip(a, b)]
        good = sum(abs(x - y) <= allowed(field, x, y) for x, y in pairs)
        worst = max(pairs, key=lambda p: abs(p[0] - p[1]))
        mean = [sum(p[i] for p in pairs) / len(pairs) for i in (0, 1)]
        print(f"{field:8} {good:3} of {len(pairs)} inside; means {mean[0]:.2f} and {mean[1]:.2f}; farthest {worst[0]} and {worst[1]}")
        inside, total = inside + good, total + len(pairs)
        if good < (0.99 if field == "util" else 0.95) * len(pairs):
            failed.append(field)
    for field, count in (("r_await", "r/s"), ("w_await", "w/s")):
        # A mean over one second changes with every stall on a boundary; over the run they agree.
        mean = [sum(x[field] * x[count] for x in side) / max(sum(x[count] for x in side), 1) for side in (a, b)]
        print(f"{field:8} over the run: {mean[0]:.4f} and {mean[1]:.4f} ms")
    print(f"{inside} of {total} values inside the budget ({100 * inside / total:.1f} %) over {len(a)} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
