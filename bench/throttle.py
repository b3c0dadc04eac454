#!/usr/bin/env python3
"""What the throttle is worth: a foreground reader alone, beside a plain cp, beside one that is throttled, and beside one that is
held at fixed shares, on one disk whose service time is programmed (bench/fuse_disk.py under a loop device, ext4 on it).

The disk has four channels, as a flash disk or an array has several: a reader waits only where the background fills them
all. Each condition gets a verdict; the exit code is 1 if one of them does not hold. Root, fio, losetup, mkfs.ext4; needs
a quiet machine: the programmed disk is itself a process.

    bench/throttle.py [--mib 3072] [--seconds 60] [--program target/release/iolens] [--actuator auto] [--no-sweep]
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
MIB = 1 << 20
# Slow enough that CPU time per I/O is negligible.
BASE_US, MB_PER_S, CHANNELS, JITTER, READAHEAD_KIB = 6000, 100, 4, 0.5, 128
READER_PER_S = 45
TARGET, SETTLED_PP, SETTLE_SAMPLES = 70, 5, 10
P99_TIMES, SHARE_OF_STATIC, TRANSITIONS_PER_MIN = 1.3, 0.8, 2
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
FIXED_PERCENT = (5, 10, 20, 30, 40, 50, 60, 80)


def sh(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more).stdout.strip()


# Everything that runs on the disk must have ended before the disk can be removed.
RUNNING = []


def start(words, **more):
    """A program in its own process group, which `end_all` ends with all its children."""
    RUNNING.append(subprocess.Popen(words, process_group=0, **more))
    return RUNNING[-1]


def end_all():
    for process in RUNNING:
        # iolens passes SIGTERM on and resumes its command, so that it can end; with SIGKILL it could not.
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is None:
                try:
                    os.killpg(process.pid, number)
                    process.wait(timeout=30)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    pass


def umount(path):
    """A command that is ended while it writes closes its files only when its I/O in flight is done."""
    for attempt in range(60):
        try:
            return sh("umount", path)
        except subprocess.CalledProcessError as e:
            if "busy" not in e.stderr or attempt == 59:
                raise
            time.sleep(0.5)


class Disk:
    """The programmed disk, its loop device and the file system; removed in reverse order."""

    def __init__(self, mib):
        self.mib = mib

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="iolens-bench-")
        self.fuse, self.mount = f"{self.dir}/fuse", f"{self.dir}/disk"
        os.mkdir(self.fuse), os.mkdir(self.mount)
        self.backing = f"/dev/shm/{os.path.basename(self.dir)}"
        self.undo = [lambda: os.path.exists(self.backing) and os.unlink(self.backing), lambda: shutil.rmtree(self.dir)]
        try:
            command = [sys.executable, str(HERE / "fuse_disk.py"), self.fuse, str(self.mib), self.backing,
                       str(BASE_US), str(MB_PER_S), str(CHANNELS), str(JITTER)]
            # A signal to this program must not end the disk first: its I/O in flight would never complete.
            subprocess.Popen(command, start_new_session=True)
            self.undo.append(lambda: umount(self.fuse))
            while not os.path.exists(f"{self.fuse}/disk"):
                time.sleep(0.05)
            self.loop = sh("losetup", "--find", "--show", "--direct-io=on", f"{self.fuse}/disk")
            self.undo.append(lambda: sh("losetup", "-d", self.loop))
            # The default of fast disks. The kernel's own write throttling would hide the effect of iolens.
            for knob, value in (("read_ahead_kb", READAHEAD_KIB), ("scheduler", "none"), ("wbt_lat_usec", 0)):
                with open(f"/sys/block/{os.path.basename(self.loop)}/queue/{knob}", "w") as f:
                    f.write(str(value))
            sh("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=1", self.loop)
            # The kernel's own zeroing of inode tables would be additional load on this disk.
            sh("mount", "-o", "noinit_itable", self.loop, self.mount)
            self.undo += [lambda: umount(self.mount), end_all]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # A second signal must not interrupt the removal; on this disk it is quick.
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        for step in reversed(self.undo):
            try:
                step()
            except (OSError, subprocess.CalledProcessError) as e:
                print(f"not undone: {e}", file=sys.stderr)


def fill(path, mib):
    """Bytes that differ in every MiB."""
    block = os.urandom(MIB)
    with open(path, "wb") as f:
        for i in range(mib):
            f.write(i.to_bytes(8, "little") + block[8:])
        os.fsync(f.fileno())
    forget(path)


def forget(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def reader(disk, seconds):
    return start(
        ["chrt", "-f", "40", "fio", "--name=fg", f"--filename={disk.mount}/fg", "--size=64m", "--rw=randread", "--bs=4k",
         "--direct=1", "--ioengine=psync", f"--rate_iops={READER_PER_S}", "--time_based", f"--runtime={seconds}",
         "--output-format=json", "--randrepeat=0"], stdout=subprocess.PIPE, text=True)


def p99_ms(process):
    out = json.loads(process.communicate()[0])["jobs"][0]["read"]
    return out["clat_ns"]["percentile"]["99.000000"] / 1e6, out["clat_ns"]["mean"] / 1e6


def size_of(path):
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


class Copy:
    """A cp under `prefix` with the reader beside it for this many seconds."""

    def __init__(self, disk, prefix, seconds, to_the_end=True):
        source, target = f"{disk.mount}/source", f"{disk.mount}/target"
        forget(source)
        cp = start([*prefix, "sh", "-c", f"cp {source} {target} && sync -f {target}"])
        watch = reader(disk, seconds)
        begin, marks = time.monotonic(), []

        def look():
            while watch.poll() is None:
                marks.append((time.monotonic() - begin, size_of(target)))
                time.sleep(0.1)

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        self.p99, self.mean = p99_ms(watch)
        looking.join()
        if not to_the_end and cp.poll() is None:
            os.killpg(cp.pid, 15)
        cp.wait()
        self.took = time.monotonic() - begin
        self.whole = to_the_end and subprocess.run(["cmp", "-s", source, target]).returncode == 0
        # Progress while both ran, after the start-up.
        late = [m for m in marks if m[0] >= min(SETTLE_SAMPLES, seconds / 3) and 0 < m[1] < os.stat(source).st_size]
        (t0, b0), (t1, b1) = (late[0], late[-1]) if len(late) > 1 else ((0, 0), (0, 0))
        self.mib_per_s = (b1 - b0) / MIB / (t1 - t0) if t1 > t0 else float("nan")
        if os.path.exists(target):
            os.unlink(target)
        sh("sync", "-f", disk.mount)


def mean(values):
    values = [v for v in values if v is not None]
    return sum(values) / len(values) if values else float("nan")


class Throttled(Copy):
    """The same under `iolens throttle`, with its log while the reader ran."""

    def __init__(self, disk, a, seconds, *options, to_the_end=True):
        log = f"{disk.dir}/log"
        prefix = [a.program, "throttle", "-q", "--path", disk.mount, "--log", log, "--actuator", a.actuator, *options, "--"]
        super().__init__(disk, prefix, seconds, to_the_end)
        steps = [json.loads(line) for line in open(log)]
        # The first decision is a second or two after the reader's start.
        self.steps = [s for s in steps if s["time_unix_s"] - steps[0]["time_unix_s"] < seconds - 4]
        self.settled = self.steps[SETTLE_SAMPLES:] or self.steps
        self.busy = mean(s["busy_percent"] for s in self.settled)
        # Means of ten samples, as one sample of a bursty disk varies too much.
        windows = [mean(s["busy_percent"] for s in self.settled[i:i + 10]) for i in range(max(len(self.settled) - 9, 1))]
        self.furthest = max(windows, key=lambda u: abs(u - TARGET))
        # Of the minute with the most; decisions are a second apart.
        changes = [x["mode"] != y["mode"] for x, y in zip(self.settled, self.settled[1:])]
        self.changes = max(sum(changes[i:i + 60]) for i in range(max(len(changes) - 59, 1)))

    def trace(self):
        of = lambda v: "-" if v is None else f"{v:.0f}"
        return "  busy/others/duty: " + " ".join(
            f"{of(s['busy_percent'])}/{of(s['foreground_percent'])}/{of(s['duty_percent'])}" for s in self.steps)


FAILED = []


def verdict(what, value, holds):
    print(f"  {'holds' if holds else 'FAILS'}: {what}: {value}")
    if not holds:
        FAILED.append(what)


def best_static(disk, a, solo):
    """The fixed share that copies the most within the same conditions: busy within the target, p99 within its limit."""
    best = None
    for fixed in FIXED_PERCENT:
        # Watermarks this low are always exceeded, so only the floor applies.
        r = Throttled(disk, a, 20, "--low", "0", "--high", "10", "--max", "11", "--floor", str(fixed), to_the_end=False)
        fits = r.p99 <= P99_TIMES * solo and r.busy <= TARGET + SETTLED_PP
        print(f"  fixed share {fixed:2} %: {r.mib_per_s:6.1f} MiB/s, busy {r.busy:.0f} %, p99 {r.p99 / solo:.2f} times"
              f"{'' if fits else ' (too much)'}", flush=True)
        if fits and (best is None or r.mib_per_s > best):
            best = r.mib_per_s
        if r.busy > TARGET + 3 * SETTLED_PP:
            break
    return best


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--mib", type=int, default=3072)
    a.add_argument("--seconds", type=int, default=60)
    a.add_argument("--program", default=str(HERE.parent / "target/release/iolens"))
    a.add_argument("--actuator", default="auto")
    a.add_argument("--no-sweep", action="store_true")
    a = a.parse_args()
    for number in ENDING:
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    print(f"load of this machine before: {os.getloadavg()[0]:.2f}")
    with Disk(2 * a.mib + 512) as disk:
        fill(f"{disk.mount}/fg", 64), fill(f"{disk.mount}/source", a.mib)
        solo, average = p99_ms(reader(disk, min(a.seconds, 30)))
        print(f"reader alone: p99 {solo:.2f} ms, mean {average:.2f} ms", flush=True)
        # As long as the throttled run: data written by a cp reaches the disk 30 s later, all at once.
        plain = Copy(disk, [], a.seconds)
        print(f"beside a plain cp of {a.mib} MiB: p99 {plain.p99:.2f} ms ({plain.p99 / solo:.2f} times), mean {plain.mean:.2f} ms; cp {plain.took:.1f} s")
        verdict(f"unbraked, p99 is beyond {P99_TIMES} times", f"{plain.p99 / solo:.2f}", plain.p99 > P99_TIMES * solo)
        throttled = Throttled(disk, a, a.seconds)
        print(f"beside a throttled cp: p99 {throttled.p99:.2f} ms, mean {throttled.mean:.2f} ms; cp {throttled.took:.1f} s, {throttled.mib_per_s:.1f} MiB/s beside the reader")
        print(throttled.trace(), flush=True)
        verdict(f"p99 within {P99_TIMES} times its solo run", f"{throttled.p99 / solo:.2f}", throttled.p99 <= P99_TIMES * solo)
        verdict(f"busy within {SETTLED_PP} points of {TARGET} after {SETTLE_SAMPLES} samples",
                f"mean {throttled.busy:.1f} %, furthest mean of ten {throttled.furthest:.1f} %", abs(throttled.furthest - TARGET) <= SETTLED_PP)
        verdict(f"at most {TRANSITIONS_PER_MIN} changes of mode a minute", f"{throttled.changes} in the worst, of {len(throttled.settled)} samples",
                throttled.changes <= TRANSITIONS_PER_MIN)
        verdict("the copy is whole", throttled.whole, throttled.whole)
        if not a.no_sweep:
            best = best_static(disk, a, solo)
            share = throttled.mib_per_s / best if best else float("nan")
            verdict(f"cp has {SHARE_OF_STATIC:.0%} of the best fixed share's rate", f"{share:.2f} of {best} MiB/s" if best else "no fixed share keeps the conditions",
                    best is None or share >= SHARE_OF_STATIC)
    print(f"load of this machine after: {os.getloadavg()[0]:.2f}")
    sys.exit(1 if FAILED else 0)


main()
