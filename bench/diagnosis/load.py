#!/usr/bin/env python3
"""One program of a scenario: it sets its own name, waits for the common start time, and does one kind of I/O.

    load.py NAME ROLE BEGIN LOG KEY=VALUE...

BEGIN is a time of the monotonic clock. LOG gets one JSON document. For a role with requests it has each one's scheduled start
(seconds since BEGIN), its latency from then, including waits for earlier requests, and the duration of its call.
"""

import ctypes
import fcntl
import itertools
import json
import math
import mmap
import os
import random
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

PR_SET_NAME = 15
BLOCK = 4096
Requests = list[tuple[float, float, float]]
MIB = 1 << 20
FITRIM = 0xC0185879


class Options:
    """The command line's options, as numbers or texts."""

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
    """Time since the start that all programs of a scenario share."""

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
    """Memory suitable for direct I/O, with some content."""
    memory = mmap.mmap(-1, size)
    memory.write(os.urandom(min(size, MIB)) * (size // min(size, MIB)))
    return memory


def in_threads(work: Callable[[int], None], threads: int) -> None:
    """Run `work` on this many threads and wait for all of them."""
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
    """Use the CPU for this long."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def request(options: Options, chance: random.Random) -> Callable[[], None]:
    """The work of one request of an open-loop program; each thread has its own."""
    kind, size = options.text("op", "read"), options.count("bytes", BLOCK)
    path, memory = options.text("file"), buffer_of(size)
    if kind == "read":
        file = os.open(path, os.O_RDONLY | os.O_DIRECT)
        blocks = os.fstat(file).st_size // size
        return lambda: void(os.preadv(file, [memory], chance.randrange(blocks) * size))
    if kind == "cached":
        file = os.open(path, os.O_RDONLY)
        blocks = os.fstat(file).st_size // size
        return lambda: void(os.preadv(file, [memory], chance.randrange(blocks) * size))
    if kind == "overwrite":
        file = os.open(path, os.O_WRONLY | os.O_DIRECT | os.O_DSYNC)
        blocks = os.fstat(file).st_size // size
        return lambda: void(os.pwritev(file, [memory], chance.randrange(blocks) * size))
    # An append to its own log, which a sync makes durable.
    file = os.open(f"{path}.{threading.get_ident()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def append() -> None:
        os.write(file, memory)
        os.fdatasync(file)

    return append


def void(_: object) -> None:
    """Drop a result."""


def requests(options: Options, clock: Clock, seed: int) -> Requests:
    """Open loop: requests start at fixed times as long as one of `workers` threads is free; latency is from that time."""
    # Its measurement is the truth of a case, so other work on the machine should not delay it.
    os.nice(options.count("nice", -10))
    times = iter(arrivals(options, random.Random(seed)))
    lock, done = threading.Lock(), []
    compute_s = options.number("compute_ms", 0) / 1e3
    think_s = options.number("peer_ms", 0) / 1e3
    tick_s = options.number("tick_ms", 0) / 1e3
    shared = threading.Lock()
    if options.text("op", "read") == "cached":
        # Its data is read into memory before its requests come, as far as there is room.
        with Path(options.text("file")).open("rb") as file:
            while file.read(MIB):
                pass

    def work(worker: int) -> None:
        serve = request(options, random.Random(seed * 1000 + worker))
        while True:
            with lock:
                at = next(times, None)
            if at is None:
                return
            # It releases the requests that have arrived, at the ticks of its own timer.
            clock.wait_until(math.ceil(at / tick_s) * tick_s if tick_s else at)
            called = clock.now()
            serve()
            call = clock.now() - called
            compute(compute_s)
            if think_s:
                # Waits for another program's answer; only one request at a time waits for it.
                with shared:
                    time.sleep(think_s)
            took = clock.now() - at
            with lock:
                done.append((round(at, 6), round(took, 6), round(call, 6)))

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


def scan(options: Options, clock: Clock, seed: int) -> Requests:
    """Closed loop: `depth` direct I/Os in flight, one after the other through the file or at random, at most `mib_per_s`.

    `mode` is read, write, or mix (in turns). Latency is from the call.
    """
    size, path, mode = options.count("bytes", MIB), options.text("file"), options.text("mode", "read")
    begin, end = options.number("from", 3), options.number("to", 14)
    pace = options.number("mib_per_s", 0) * MIB
    counter, lock, done = itertools.count(), threading.Lock(), []

    def work(worker: int) -> None:
        memory, chance = buffer_of(size), random.Random(seed * 1000 + worker)
        file = os.open(path, os.O_RDWR | os.O_DIRECT)
        blocks = os.fstat(file).st_size // size
        clock.wait_until(begin)
        while (at := clock.now()) < end:
            with lock:
                n = next(counter)
            if pace:
                clock.wait_until(begin + n * size / pace)
            block = chance.randrange(blocks) if options.count("random", 0) else n % blocks
            if mode == "write" or (mode == "mix" and n % 2):
                os.pwritev(file, [memory], block * size)
            else:
                os.preadv(file, [memory], block * size)
            with lock:
                took = round(clock.now() - at, 6)
                done.append((round(at, 6), took, took))

    in_threads(work, options.count("depth", 1))
    return done


def play(options: Options, clock: Clock, _: int) -> Requests:
    """Reads through the page cache, `mib_per_s`, in pieces, with kernel readahead. Latency is from the call."""
    size, path, pace = options.count("bytes", 64 << 10), options.text("file"), options.number("mib_per_s", 2) * MIB
    memory, done = buffer_of(size), []
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    begin = options.number("from", 3)
    for n in itertools.count():
        clock.wait_until(begin + n * size / pace)
        called = clock.now()
        if called >= options.number("to", 14) or not os.readv(file, [memory]):
            return done
        took = round(clock.now() - called, 6)
        done.append((round(called, 6), took, took))
    return done


def syncs(options: Options, clock: Clock, seed: int) -> None:
    """`threads` threads append `bytes` each to a file of their own and sync it, one after the other.

    With `direct` they write in place past the page cache, and each write is durable when it returns.
    """
    memory = buffer_of(options.count("bytes", BLOCK))
    end = options.number("to", 14)

    def work(thread: int) -> None:
        if options.count("direct", 0):
            file = os.open(options.text("file"), os.O_RDWR | os.O_DIRECT | os.O_DSYNC)
        else:
            file = os.open(f"{options.text('file')}.{thread}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        clock.wait_until(options.number("from", 3))
        chance = random.Random(seed * 1000 + thread)
        while clock.now() < end:
            if options.count("direct", 0):
                os.pwritev(file, [memory], chance.randrange(os.fstat(file).st_size // BLOCK) * BLOCK)
            else:
                os.write(file, memory)
                os.fsync(file)

    in_threads(work, options.count("threads", 8))


def engine(options: Options, clock: Clock, seed: int) -> Requests:
    """Requests, and with `mib` also data that the same program writes to the page cache and flushes."""
    flusher = threading.Thread(target=flush, args=(options, clock, seed))
    if options.count("mib", 0):
        flusher.start()
        done = requests(options, clock, seed)
        flusher.join()
        return done
    return requests(options, clock, seed)


def trim(options: Options, clock: Clock, seed: int) -> None:
    """Twice, delete every other file below `file` and discard the free blocks."""
    directory = Path(options.text("file"))
    place = os.open(directory, os.O_RDONLY)
    for at, odd in ((options.number("from", 5), 1), (options.number("from", 5) + 4, 0)):
        clock.wait_until(at)
        for path in sorted(directory.glob("old-*"))[odd::2]:
            path.unlink()
        os.fsync(place)
        fcntl.ioctl(place, FITRIM, struct.pack("<QQQ", 0, (1 << 64) - 1, 0))


def copy(options: Options, clock: Clock, seed: int) -> None:
    """Copy the file in parts of `mib` MiB, each to a file of its own that is synced."""
    part = options.count("mib", 24) * MIB
    clock.wait_until(options.number("from", 5))
    with Path(options.text("file")).open("rb") as source:
        os.posix_fadvise(source.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for n in itertools.count():
            data = source.read(part)
            if not data or clock.now() > options.number("to", 14):
                return
            with Path(f"{options.text('file')}.copy{n}").open("wb") as target:
                target.write(data)
                target.flush()
                os.fsync(target.fileno())


def burn(options: Options, clock: Clock, seed: int) -> None:
    """`threads` processes that only compute."""
    clock.wait_until(options.number("from", 3))
    children = []
    for _ in range(options.count("threads", 4)):
        child = os.fork()
        if child == 0:
            while clock.now() < options.number("to", 14):
                pass
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


ROLES = {role.__name__: role for role in (requests, flush, scan, play, syncs, engine, trim, copy, burn)}


def stop_self(at: float, seconds: float, clock: Clock) -> None:
    """A child stops this process for a while: CPUs are not scarce and no I/O is slow."""
    own = os.getpid()
    if os.fork() == 0:
        clock.wait_until(at)
        os.kill(own, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(own, signal.SIGCONT)
        os._exit(0)


def main() -> None:
    """Do the work that the command line describes."""
    name, role, begin, log, *words = sys.argv[1:]
    # Before there are threads, which inherit its name.
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)
    options, clock = Options(words), Clock(float(begin))
    for at in filter(float, options.text("stops").split()):
        stop_self(float(at), 0.6, clock)
    done = ROLES[role](options, clock, options.count("seed", 1))
    result = {"name": name, "ended_s": clock.now(), "requests": sorted(done or [])}
    Path(log).write_text(json.dumps(result))


main()
