#!/usr/bin/env python3
"""What following files costs a program that does nothing but cached 4 KiB preads: the share of its speed that it keeps
while it is recorded, while a filter leaves it out, while only block I/O is recorded, and beside strace and perf trace; and
what programs that do nothing leave of it, which no tracer of system calls can better.

Speed is calls per second of its own CPU time, so that other work on the machine counts little, and beside it calls per
second that passed, which counts the waits for a tracer that stops it, and other work. Each contender is measured between
two measurements without it. Needs root and a C compiler.

    bench/files.py [--rounds N] [--only NAME,...] [--iolens PATH]
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

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv)
{
    char block[4096], line[16];
    int fd = open(argv[1], O_RDONLY);

    while (fgets(line, sizeof(line), stdin)) {
        double begin = now(CLOCK_PROCESS_CPUTIME_ID), end = begin, wall = now(CLOCK_MONOTONIC);
        long n = 0;

        while (end - begin < 1e8) {
            for (int i = 0; i < 200; i++)
                if (pread(fd, block, 4096, 0) != 4096)
                    return 1;
            n += 200;
            end = now(CLOCK_PROCESS_CPUTIME_ID);
        }
        printf("%f %f\n", (end - begin) / n, (now(CLOCK_MONOTONIC) - wall) / n);
        fflush(stdout);
    }
    return 0;
}
"""


class Loop:
    """The program: it returns a measurement (ns of CPU time per call, and of elapsed time) on each request."""

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
            out.append([float(word) for word in self.process.stdout.readline().split()])
        return [statistics.median(column) for column in zip(*out)]


def contenders(iolens, pid, directory):
    """Command, and how to tell that it runs: a path that appears, or a word that it prints."""
    record = [iolens, "record", "-q", "--for", "5m", "-o"]
    rec = f"{directory}/r.iolens"
    empty = os.path.join(os.path.dirname(os.path.abspath(__file__)), "empty_programs.py")
    out = {
        "empty programs on all system calls": ([sys.executable, empty, "sys_enter", "sys_exit"], "ready"),
        "recorded": (record + [rec, "--pid", str(pid)], rec),
        "left out by a filter": (record + [rec, "--pid", str(os.getpid())], rec),
        "without --files": (record + [rec], rec),
    }
    if shutil.which("bpftrace"):
        # The minimum cost of any program on system call tracepoints: of all calls, of pread64 alone, and of another call, which
        # adds to a pread64 only the kernel's slow entry and exit path. BEGIN runs when all are attached.
        pair = 'BEGIN {{ printf("ready\\n"); }} tracepoint:{0} {{}} tracepoint:{1} {{}}'
        raw = pair.format("raw_syscalls:sys_enter", "raw_syscalls:sys_exit")
        out["bpftrace, empty, all system calls"] = (["bpftrace", "-e", raw], "ready")
        for name in ("pread64", "getpid"):
            one = pair.format(f"syscalls:sys_enter_{name}", f"syscalls:sys_exit_{name}")
            out[f"bpftrace, empty, {name} only"] = (["bpftrace", "-e", one], "ready")
    if shutil.which("perf"):
        out["perf trace"] = (["perf", "trace", "-o", "/dev/null", "-p", str(pid)], None)
    if shutil.which("strace"):
        out["strace"] = (["strace", "-f", "-o", "/dev/null", "-p", str(pid)], "attached")
    return out


def wait_for(process, log, sign):
    """Wait until it is attached; false if it ended instead."""
    for _ in range(300 if sign else 30):
        time.sleep(0.1)
        if process.poll() is not None:
            return False
        if sign and (os.path.exists(sign) if "/" in sign else sign in open(log).read()):
            break
    time.sleep(1)
    return process.poll() is None


def run(loop, command, sign, directory):
    """Ratios of the speed with `command` to that without, and ns of CPU time without; or the reason why there are none."""
    before = loop.measure(7)
    log = f"{directory}/log"
    with open(log, "w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    if not wait_for(process, log, sign):
        return None, open(log).read().strip().splitlines()[-1:]
    beside = loop.measure(3 if command[0] in ("perf", "strace") else 9)
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    after = loop.measure(7)
    alone = [(a + b) / 2 for a, b in zip(before, after)]
    return [a / b for a, b in zip(alone, beside)], alone[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="names of contenders, comma-separated (default: all)")
    parser.add_argument("--iolens", default=os.path.join(os.path.dirname(__file__), "../target/release/iolens"))
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("recording needs root: run this as root")
    selected = options.only and options.only.split(",")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        loop = Loop(directory)
        ratios, alone = {}, []
        for _ in range(options.rounds):
            for name, (command, sign) in contenders(options.iolens, loop.process.pid, directory).items():
                if selected and name not in selected:
                    continue
                ratio, about = run(loop, command, sign, directory)
                if ratio is None:
                    print(f"SKIP: {name}: {' '.join(about)}", file=sys.stderr)
                    continue
                ratios.setdefault(name, []).append(ratio)
                alone.append(about)
                shutil.rmtree(f"{directory}/r.iolens", ignore_errors=True)
        loop.process.stdin.close()
        loop.process.wait()
    print(f"a cached 4 KiB pread takes {statistics.median(alone):.0f} ns of CPU time; speed kept, median of {options.rounds} rounds (least .. most)")
    print(f"{'':48} {'CPU time':28} time that passed")
    for name, values in ratios.items():
        columns = [f"{statistics.median(c):6.3f}  ({min(c):.3f} .. {max(c):.3f})   " for c in zip(*values)]
        print(f"{name:48} {'  '.join(columns)}")


if __name__ == "__main__":
    main()
