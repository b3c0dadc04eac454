#!/usr/bin/env python3
"""A disk whose service time is programmed: one file on a FUSE file system, to be put under a loop device.

    fuse_disk.py MOUNTPOINT SIZE_MIB BACKING_FILE BASE_US MB_PER_S [CHANNELS [JITTER]] [OPTION...]

Each of its CHANNELS [1] serves one request at a time, in the order of arrival: it takes BASE_US + bytes / MB_PER_S, counted
from the end of the one before on that channel or from its arrival, whichever is later. With a JITTER of 0.5 the base is
uniform between half and one and a half of BASE_US (seeded). What each read really took here, from its arrival to its
answer, is a line of "BYTES SECONDS" in the file that FUSE_DISK_TIMES names. Speaks the kernel's FUSE protocol itself (include/uapi/linux/fuse.h), so that it needs no
library; needs root to mount. Ends when it is unmounted.

Options change its service: --pause, --slow and --degraded-us add times, --limit a rate, --flush-us and --discard-us the cost of flushes
and discards, which take no time otherwise, --cache-mb-per-s a cache for writes, which flushes write out. With --on-signal requests take
no time at all until SIGUSR1 comes, and again after SIGUSR2. Times of options count from SIGUSR1, or from the start of the disk without --on-signal.
"""
import argparse
import ctypes
import heapq
import mmap
import os
import random
import select
import signal
import struct
import sys
import time

(LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC) = (1, 2, 3, 4, 14, 15, 16, 17, 18, 20)
(FLUSH, INIT, OPENDIR, RELEASEDIR, ACCESS, DESTROY, INTERRUPT, BATCH_FORGET) = (25, 26, 27, 29, 34, 38, 36, 42)
FALLOCATE, PUNCH_HOLE, ZERO_RANGE = 43, 2, 16
IN, OUT = struct.Struct("<IIQQIIII"), struct.Struct("<IiQ")
MAX_WRITE = 1 << 20
# Duration of a write to the cache.
CACHE_US = 100.0
ENOENT, ENOSYS, EOPNOTSUPP = 2, 38, 95


def mount(point):
    fd = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={fd},rootmode=40755,user_id=0,group_id=0,max_read={MAX_WRITE}".encode()
    if libc.mount(b"programmed", point.encode(), b"fuse.programmed", 0, options):
        sys.exit(f"fuse_disk: cannot mount on {point}: {os.strerror(ctypes.get_errno())}")
    return fd


def attributes(node, size):
    mode, links = (0o40755, 2) if node == 1 else (0o100644, 1)
    length = 0 if node == 1 else size
    return struct.pack("<QQQQQQIIIIIIIIII", node, length, length // 512, 0, 0, 0, 0, 0, 0, mode, links, 0, 0, 0, 4096, 0)


def span(text):
    """AT+LENGTH in seconds, as both numbers."""
    at, length = text.split("+")
    return float(at), float(length)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("point")
    parser.add_argument("mib", type=int)
    parser.add_argument("backing")
    parser.add_argument("base_us", type=float)
    parser.add_argument("mb_per_s", type=float)
    parser.add_argument("channels", type=int, nargs="?", default=1)
    parser.add_argument("jitter", type=float, nargs="?", default=0.0)
    parser.add_argument("--pause", type=span, action="append", default=[], metavar="AT+S", help="nothing is served for S seconds")
    parser.add_argument("--slow", type=span, action="append", default=[], metavar="AT+S", help="one request takes S seconds more")
    parser.add_argument("--degraded-us", type=float, default=0.0, help="each request takes so much longer")
    parser.add_argument("--limit", type=float, help="at most so many requests a second")
    parser.add_argument("--credit", type=float, default=0.0, help="so many requests pass before the limit holds")
    parser.add_argument("--flush-us", type=float, default=0.0, help="service time of a flush")
    parser.add_argument("--cache-mb-per-s", type=float, help="writes go to a cache, which a flush writes out at this rate")
    parser.add_argument("--discard-us", type=float, default=0.0, help="service time of a discard")
    parser.add_argument("--on-signal", action="store_true", help="take no time before SIGUSR1 and after SIGUSR2")
    return parser.parse_args()


class Service:
    """Completion time of each request: channels that serve one request at a time, pauses, slow requests and a limit."""

    def __init__(self, chosen):
        self.chosen = chosen
        self.chance = random.Random(1)
        # When each channel becomes free.
        self.free_at = [0.0] * chosen.channels
        self.begin = None
        if chosen.on_signal:
            signal.signal(signal.SIGUSR1, lambda *_: self.start())
            signal.signal(signal.SIGUSR2, lambda *_: self.stop())
        else:
            self.start()

    def start(self):
        self.begin = time.monotonic()
        self.slow = sorted(self.chosen.slow)
        # The generic cell rate algorithm: the time at which the next request conforms, reduced by the credit.
        self.conforms_at = self.begin - self.chosen.credit / (self.chosen.limit or 1.0)

    def stop(self):
        self.begin = None

    def done_at(self, arrived, base_us, length):
        """The completion time of a request of `length` bytes that arrives now."""
        if self.begin is None:
            return arrived
        since = arrived - self.begin
        base = base_us / 1e6 * (1 + self.chosen.jitter * (2 * self.chance.random() - 1))
        took = base + self.chosen.degraded_us / 1e6 + length / (self.chosen.mb_per_s * 1e6)
        if self.slow and since >= self.slow[0][0]:
            took += self.slow.pop(0)[1]
        start = max(heapq.heappop(self.free_at), arrived)
        if self.chosen.limit:
            start = max(start, self.conforms_at)
            # Credit never exceeds its initial value.
            oldest = start - self.chosen.credit / self.chosen.limit
            self.conforms_at = max(self.conforms_at, oldest) + 1 / self.chosen.limit
        done = start + took
        for at, seconds in self.chosen.pause:
            begin = self.begin + at
            if start < begin + seconds and done > begin:
                done = begin + seconds + min(took, done - begin)
        heapq.heappush(self.free_at, done)
        return done


def main():
    chosen = options()
    size = chosen.mib << 20
    file = os.open(chosen.backing, os.O_RDWR | os.O_CREAT, 0o600)
    os.ftruncate(file, size)
    data = memoryview(mmap.mmap(file, size))
    fd = mount(chosen.point)
    # A real disk does not wait for a CPU.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    # Requests in service: (completion time, order of arrival, reply, arrival time).
    serving, arrivals, service = [], 0, Service(chosen)
    os.set_blocking(fd, False)
    times = open(os.environ["FUSE_DISK_TIMES"], "w", buffering=1) if "FUSE_DISK_TIMES" in os.environ else None

    def answer(reply):
        try:
            os.writev(fd, reply)
        except OSError:
            # The request was interrupted: no process waits for the reply.
            pass

    def serve(base_us, length, reply):
        nonlocal arrivals
        arrivals += 1
        arrived = time.monotonic()
        heapq.heappush(serving, (service.done_at(arrived, base_us, length), arrivals, reply, arrived))

    cached = 0
    while True:
        now = time.monotonic()
        while serving and serving[0][0] <= now:
            _, _, reply, arrived = heapq.heappop(serving)
            answer(reply)
            if times and len(reply) == 2 and isinstance(reply[1], memoryview):
                print(len(reply[1]), time.monotonic() - arrived, file=times)
        left = max(serving[0][0] - time.monotonic(), 0.0) if serving else None
        if not select.select([fd], [], [], left)[0]:
            continue
        try:
            request = os.read(fd, MAX_WRITE + 4096)
        except BlockingIOError:
            continue
        except OSError:
            return
        _, op, unique, node, *_ = IN.unpack_from(request)
        body = memoryview(request)[IN.size:]
        error, reply = 0, b""
        if op == INIT:
            major, minor, ahead, flags = struct.unpack_from("<IIII", body)
            # Asynchronous reads (bit 0) and direct I/O (bit 15), or a write would keep all others from their channels; large
            # writes (bit 5) and more than 32 pages in a request (bit 22): one request above must be one here. Up
            # to 64 at once.
            granted = flags & (1 | 1 << 5 | 1 << 15 | 1 << 22)
            pages = MAX_WRITE // mmap.PAGESIZE
            reply = struct.pack("<IIIIHHIIHHII24x", 7, min(minor, 31), ahead, granted, 64, 48, MAX_WRITE, 1, pages, 0, 0, 0)
        elif op == LOOKUP:
            if bytes(body).rstrip(b"\0") == b"disk":
                reply = struct.pack("<QQQQII", 2, 0, 3600, 3600, 0, 0) + attributes(2, size)
            else:
                error = ENOENT
        elif op in (GETATTR, SETATTR):
            reply = struct.pack("<QII", 3600, 0, 0) + attributes(node, size)
        elif op in (OPEN, OPENDIR):
            reply = struct.pack("<QII", 0, 0, 0)
        elif op == READ:
            _, offset, length = struct.unpack_from("<QQI", body)
            part = data[offset:offset + length]
            serve(chosen.base_us, length, [OUT.pack(OUT.size + len(part), 0, unique), part])
            continue
        elif op == WRITE:
            _, offset, length = struct.unpack_from("<QQI", body)
            data[offset:offset + length] = body[40:40 + length]
            written = [OUT.pack(OUT.size + 8, 0, unique), struct.pack("<II", length, 0)]
            if chosen.cache_mb_per_s:
                cached += length
                serve(CACHE_US, 0, written)
            else:
                serve(chosen.base_us, length, written)
            continue
        elif op == FALLOCATE:
            _, offset, length, mode = struct.unpack_from("<QQQI", body)
            if mode & (PUNCH_HOLE | ZERO_RANGE):
                length = min(length, size - offset)
                data[offset:offset + length] = bytes(length)
                serve(chosen.discard_us, 0, [OUT.pack(OUT.size, 0, unique)])
                continue
            error = EOPNOTSUPP
        elif op == FSYNC and (chosen.flush_us or cached):
            # 1 MB/s is a byte in a microsecond.
            written_out_us = cached / chosen.cache_mb_per_s if cached else 0
            cached = 0
            serve(chosen.flush_us + written_out_us, 0, [OUT.pack(OUT.size, 0, unique)])
            continue
        elif op == STATFS:
            reply = struct.pack("<QQQQQIIII24x", size // 4096, 0, 0, 2, 0, 4096, 255, 4096, 0)
        elif op in (FORGET, BATCH_FORGET, INTERRUPT):
            continue
        elif op == DESTROY:
            return
        elif op not in (RELEASE, RELEASEDIR, FLUSH, FSYNC, ACCESS):
            error = ENOSYS
        answer([OUT.pack(OUT.size + len(reply), -error, unique), reply])


main()
