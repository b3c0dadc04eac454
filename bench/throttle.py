#!/usr/bin/env python3
"""What the brake is worth: a foreground reader alone, beside a plain cp, and beside a braked cp, on one disk whose service
time is programmed (bench/fuse_disk.py under a loop device, ext4 on it). Root, fio, losetup, mkfs.ext4; wants a quiet
machine: the programmed disk is itself a process.

    bench/throttle.py [--mib 512] [--seconds 20] [--program target/release/iolens]
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent


def sh(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more).stdout.strip()


class Disk:
    """The programmed disk, its loop device and the file system; taken down in reverse."""

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="iolens-bench-")
        self.fuse, self.mount = f"{self.dir}/fuse", f"{self.dir}/disk"
        os.mkdir(self.fuse), os.mkdir(self.mount)
        self.backing = f"/dev/shm/{os.path.basename(self.dir)}"
        self.undo = [lambda: os.path.exists(self.backing) and os.unlink(self.backing), lambda: shutil.rmtree(self.dir)]
        try:
            command = [sys.executable, str(HERE / "fuse_disk.py"), self.fuse, "4096", self.backing, "200", "800"]
            subprocess.Popen(command)
            self.undo.append(lambda: sh("umount", self.fuse))
            while not os.path.exists(f"{self.fuse}/disk"):
                time.sleep(0.05)
            self.loop = sh("losetup", "--find", "--show", "--direct-io=on", f"{self.fuse}/disk")
            self.undo.append(lambda: sh("losetup", "-d", self.loop))
            sh("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=1", self.loop)
            sh("mount", self.loop, self.mount)
            self.undo.append(lambda: sh("umount", self.mount))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for step in reversed(self.undo):
            try:
                step()
            except (OSError, subprocess.CalledProcessError) as e:
                print(f"not undone: {e}", file=sys.stderr)


def reader(disk, seconds):
    return subprocess.Popen(
        ["chrt", "-f", "40", "fio", "--name=fg", f"--filename={disk.mount}/fg", "--size=64m", "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=psync",
         "--rate_iops=150", "--time_based", f"--runtime={seconds}", "--output-format=json", "--randrepeat=0"],
        stdout=subprocess.PIPE, text=True)


def p99_ms(process):
    out = json.loads(process.communicate()[0])["jobs"][0]["read"]
    return out["clat_ns"]["percentile"]["99.000000"] / 1e6, out["clat_ns"]["mean"] / 1e6


def forget(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def copy(disk, prefix, seconds):
    """(seconds that cp took, foreground p99 and mean in ms, whether the copy is whole) with the foreground beside it."""
    source, target = f"{disk.mount}/source", f"{disk.mount}/target"
    forget(source)
    begin = time.monotonic()
    cp = subprocess.Popen([*prefix, "sh", "-c", f"cp {source} {target} && sync -f {target}"])
    ended = []
    waiter = threading.Thread(target=lambda: (cp.wait(), ended.append(time.monotonic())))
    waiter.start()
    p99, mean = p99_ms(reader(disk, seconds))
    waiter.join()
    took = ended[0] - begin
    same = subprocess.run(["cmp", "-s", source, target]).returncode == 0
    os.unlink(target)
    return took, p99, mean, same


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--mib", type=int, default=512)
    a.add_argument("--seconds", type=int, default=20)
    a.add_argument("--program", default=str(HERE.parent / "target/release/iolens"))
    a = a.parse_args()
    with Disk() as disk:
        for name, mib in (("fg", 64), ("source", a.mib)):
            with open(f"{disk.mount}/{name}", "wb") as f:
                for _ in range(mib):
                    f.write(os.urandom(1 << 20))
                os.fsync(f.fileno())
        solo, mean = p99_ms(reader(disk, a.seconds))
        print(f"reader alone:            p99 {solo:.2f} ms, mean {mean:.2f} ms")
        took, p99, mean, same = copy(disk, [], a.seconds)
        print(f"beside a plain cp:       p99 {p99:.2f} ms ({p99 / solo:.2f} times), mean {mean:.2f} ms; cp {took:.1f} s, whole {same}")
        for extra in ([], ["--latency-slo", f"{1.3 * solo:.3f}ms"]):
            log = f"{disk.dir}/log"
            brake = [a.program, "throttle", "-q", "--path", disk.mount, "--log", log, *extra, "--"]
            took, p99, mean, same = copy(disk, brake, a.seconds)
            steps = [json.loads(line) for line in open(log)]
            with_reader = [s for s in steps if s["time_unix_s"] - steps[0]["time_unix_s"] < a.seconds - 1]
            settled = [s["busy_percent"] for s in with_reader[10:] if s["busy_percent"] is not None]
            busy = sum(settled) / len(settled) if settled else float("nan")
            changes = sum(x["mode"] != y["mode"] for x, y in zip(with_reader[10:], with_reader[11:]))
            print(f"beside a braked cp {' '.join(extra)}: p99 {p99:.2f} ms ({p99 / solo:.2f} times), mean {mean:.2f} ms; cp {took:.1f} s, "
                  f"whole {same}; busy after 10 samples {busy:.1f} % (target 70), {changes} changes of mode in {len(with_reader)} samples")
            # Utilisation, others' part of it, and the duty that was decided on it.
            of = lambda v: "-" if v is None else f"{v:.0f}"
            print("  busy/others/duty: " + " ".join(f"{of(s['busy_percent'])}/{of(s['foreground_percent'])}/{of(s['duty_percent'])}" for s in steps))


main()
