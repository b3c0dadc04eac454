#!/usr/bin/env python3
"""One program of a scenario: it takes a name of its own, waits for the common begin, and does one kind of I/O.

    load.py NAME ROLE BEGIN LOG KEY=VALUE...

BEGIN is a time of the monotonic clock. LOG gets one JSON document: of a role with requests, when each was to start (seconds
since BEGIN) and how long it took from then, whatever the requests before it did.
"""

import ctypes
import itertools
import json
import mmap
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

PR_SET_NAME = 15
BLOCK = 4096
MIB = 1 << 20


class Options:
    """What the command line says, as numbers or texts."""

    def __init__(self, words: list[str]) -> None:
        self.values = dict(word.split("=", 1) for word in words)

    def number(self, key: str, default: float) -> float:
        """The number of `key`."""
        return float(self.values.get(key, default))

    def count(self, key: str, default: int) -> int:
        """The number of `key`, an integer."""
        return int(float(self.values.get(key, default)))

    def text(self, key: str, default: str = "") -> str:
        """The text of `key`."""
        return self.values.get(key, default)


class Clock:
    """Time since the begin that all programs of a scenario share."""

    def __init__(self, begin: float) -> None:
        self.begin = begin

    def now(self) -> float:
        """Seconds since the begin."""
        return time.monotonic() - self.begin

    def wait_until(self, at: float) -> None:
        """Sleep until `at`; returns at once if that is past."""
        left = at - self.now()
        if left > 0:
            time.sleep(left)


def buffer_of(size: int) -> mmap.mmap:
    """Memory that direct I/O accepts, with something in it."""
    memory = mmap.mmap(-1, size)
    memory.write(os.urandom(min(size, MIB)) * (size // min(size, MIB)))
    return memory


def in_threads(work: Callable[[int], None], threads: int) -> None:
    """Run `work` on so many threads and wait for all of them."""
    all_threads = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()


def arrivals(options: Options, chance: random.Random) -> list[float]:
    """Poisson arrivals from `from` to `to` seconds at `rate` a second."""
    at, end, rate = options.number("from", 3), options.number("to", 14), options.number("rate", 50)
    times = []
    while (at := at + chance.expovariate(rate)) < end:
        times.append(at)
    return times


def compute(seconds: float) -> None:
    """Use the CPU for so long."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def request(options: Options, chance: random.Random) -> Callable[[], None]:
    """What one request of an open-loop program does; each thread has its own."""
    kind, size = options.text("op", "read"), options.count("bytes", BLOCK)
    path, memory = options.text("file"), buffer_of(size)
    if kind == "read":
        file = os.open(path, os.O_RDONLY | os.O_DIRECT)
        blocks = os.fstat(file).st_size // size
        return lambda: void(os.preadv(file, [memory], chance.randrange(blocks) * size))
    if kind == "overwrite":
        file = os.open(path, os.O_WRONLY | os.O_DIRECT | os.O_DSYNC)
        blocks = os.fstat(file).st_size // size
        return lambda: void(os.pwritev(file, [memory], chance.randrange(blocks) * size))
    # An append to a log of its own, which a sync makes durable.
    file = os.open(f"{path}.{threading.get_ident()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def append() -> None:
        os.write(file, memory)
        os.fdatasync(file)

    return append


def void(_: object) -> None:
    """Drop a result."""


def requests(options: Options, clock: Clock, seed: int) -> list[tuple[float, float]]:
    """Open loop: requests start at fixed times as long as one of `workers` threads is free; latency is from that time."""
    times = iter(arrivals(options, random.Random(seed)))
    lock, done = threading.Lock(), []
    compute_s = options.number("compute_ms", 0) / 1e3
    think_s = options.number("peer_ms", 0) / 1e3
    shared = threading.Lock()

    def work(worker: int) -> None:
        serve = request(options, random.Random(seed * 1000 + worker))
        while True:
            with lock:
                at = next(times, None)
            if at is None:
                return
            clock.wait_until(at)
            serve()
            compute(compute_s)
            if think_s:
                # Another program's answer, for which only one request at a time waits.
                with shared:
                    time.sleep(think_s)
            took = clock.now() - at
            with lock:
                done.append((round(at, 6), round(took, 6)))

    in_threads(work, options.count("workers", 24))
    return done


def flush(options: Options, clock: Clock, seed: int) -> None:
    """Every `every` seconds write `mib` MiB to the page cache; `sync=1`: and make them durable."""
    memory = buffer_of(MIB)
    chance = random.Random(seed)
    at = options.number("from", 3) + chance.uniform(0, options.number("every", 2.5) / 2)
    rounds = itertools.count()
    while at < options.number("to", 14):
        clock.wait_until(at)
        path = f"{options.text('file')}.{next(rounds) % 2}"
        file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        for _ in range(options.count("mib", 48)):
            os.write(file, memory)
        if options.count("sync", 1):
            os.fsync(file)
        os.close(file)
        at += options.number("every", 2.5)


def scan(options: Options, clock: Clock, seed: int) -> None:
    """Read the file from one end to the other, again and again, with `depth` reads in flight, at most `mib_per_s`."""
    size, path = options.count("bytes", MIB), options.text("file")
    end, pace = options.number("to", 14), options.number("mib_per_s", 0) * MIB
    counter, lock = itertools.count(), threading.Lock()
    begin = options.number("from", 3)

    def work(_: int) -> None:
        memory = buffer_of(size)
        file = os.open(path, os.O_RDONLY | os.O_DIRECT)
        blocks = os.fstat(file).st_size // size
        clock.wait_until(begin)
        while clock.now() < end:
            with lock:
                n = next(counter)
            if pace:
                clock.wait_until(begin + n * size / pace)
            os.preadv(file, [memory], n % blocks * size)

    in_threads(work, options.count("depth", 1))


def syncs(options: Options, clock: Clock, seed: int) -> None:
    """`threads` threads append `bytes` each to a file of their own and sync it, one after the other."""
    memory = buffer_of(options.count("bytes", BLOCK))
    end = options.number("to", 14)

    def work(thread: int) -> None:
        file = os.open(f"{options.text('file')}.{thread}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        clock.wait_until(options.number("from", 3))
        while clock.now() < end:
            os.write(file, memory)
            os.fsync(file)

    in_threads(work, options.count("threads", 8))


ROLES = {"requests": requests, "flush": flush, "scan": scan, "syncs": syncs}


def main() -> None:
    """Do what the command line says."""
    name, role, begin, log, *words = sys.argv[1:]
    # Before there are threads: they take its name.
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)
    options, clock = Options(words), Clock(float(begin))
    done = ROLES[role](options, clock, options.count("seed", 1))
    result = {"name": name, "ended_s": clock.now(), "requests": sorted(done or [])}
    Path(log).write_text(json.dumps(result))


main()
