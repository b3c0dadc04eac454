#!/usr/bin/env python3
"""What following files costs a program that does nothing but cached 4 KiB preads: the share of its speed that it keeps
while it is recorded, while a filter leaves it out, while only block I/O is recorded, and beside strace and perf trace.

Speed is calls per second of its own CPU time, so that other work on the machine counts little. Each contender is
measured between two measurements without it. Needs root and a C compiler.

    bench/files.py [--rounds N] [--iolens PATH]
"""
import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

LOOP = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static double cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv)
{
    char block[4096], line[16];
    int fd = open(argv[1], O_RDONLY);

    while (fgets(line, sizeof(line), stdin)) {
        double begin = cpu(), end = begin;
        long n = 0;

        while (end - begin < 1e8) {
            for (int i = 0; i < 200; i++)
                if (pread(fd, block, 4096, 0) != 4096)
                    return 1;
            n += 200;
            end = cpu();
        }
        printf("%f\n", (end - begin) / n);
        fflush(stdout);
    }
    return 0;
}
"""


class Loop:
    """The program: a measurement (ns of CPU time per call) each time it is asked."""

    def __init__(self, directory):
        source, program = f"{directory}/loop.c", f"{directory}/loop"
        data = f"{directory}/data"
        with open(source, "w") as f:
            f.write(LOOP)
        with open(data, "wb") as f:
            f.write(b"x" * 4096)
        subprocess.run(["cc", "-O2", "-o", program, source], check=True)
        self.process = subprocess.Popen([program, data], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, windows):
        out = []
        for _ in range(windows):
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
            out.append(float(self.process.stdout.readline()))
        return statistics.median(out)


def contenders(iolens, pid, directory):
    record = [iolens, "record", "-q", "--for", "60s", "-o"]
    out = {
        "recorded": (record + [f"{directory}/a.iolens", "--pid", str(pid)], 7),
        "left out by a filter": (record + [f"{directory}/b.iolens", "--pid", str(os.getpid())], 7),
        "without --files": (record + [f"{directory}/c.iolens"], 7),
    }
    if shutil.which("bpftrace"):
        # What any program on system call tracepoints must cost: of all calls, of pread64 alone, and of another call, which
        # leaves to a pread64 only the kernel's slow way in and out.
        pair = "tracepoint:{0} {{}} tracepoint:{1} {{}}"
        raw = pair.format("raw_syscalls:sys_enter", "raw_syscalls:sys_exit")
        out["bpftrace, empty, all system calls"] = (["bpftrace", "-e", raw], 7)
        for name in ("pread64", "getpid"):
            one = pair.format(f"syscalls:sys_enter_{name}", f"syscalls:sys_exit_{name}")
            out[f"bpftrace, empty, {name} only"] = (["bpftrace", "-e", one], 7)
    if shutil.which("perf"):
        out["perf trace"] = (["perf", "trace", "-o", "/dev/null", "-p", str(pid)], 3)
    if shutil.which("strace"):
        out["strace"] = (["strace", "-f", "-o", "/dev/null", "-p", str(pid)], 2)
    return out


def run(loop, command, windows):
    """Ratio of the speed beside `command` to that without, or why there is none."""
    before = loop.measure(7)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    time.sleep(4)
    if process.poll() is not None:
        return None, process.stderr.read().decode(errors="replace").strip().splitlines()[-1:]
    beside = loop.measure(windows)
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    after = loop.measure(7)
    return (before + after) / 2 / beside, (before + after) / 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iolens", default=os.path.join(os.path.dirname(__file__), "../target/release/iolens"))
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("recording needs root: run this as root")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        loop = Loop(directory)
        ratios, alone = {}, []
        for _ in range(options.rounds):
            for name, (command, windows) in contenders(options.iolens, loop.process.pid, directory).items():
                ratio, about = run(loop, command, windows)
                if ratio is None:
                    print(f"SKIP: {name}: {' '.join(about)}", file=sys.stderr)
                    continue
                ratios.setdefault(name, []).append(ratio)
                alone.append(about)
                for rec in "abc":
                    shutil.rmtree(f"{directory}/{rec}.iolens", ignore_errors=True)
        loop.process.stdin.close()
        loop.process.wait()
    print(f"a cached 4 KiB pread takes {statistics.median(alone):.0f} ns of CPU time; speed kept, median of {options.rounds} rounds (least .. most)")
    for name, values in ratios.items():
        print(f"{name:48} {statistics.median(values):6.3f}  ({min(values):.3f} .. {max(values):.3f})")


if __name__ == "__main__":
    main()
