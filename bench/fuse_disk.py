#!/usr/bin/env python3
"""A disk whose service time is programmed: one file on a FUSE file system, to be put under a loop device.

    fuse_disk.py MOUNTPOINT SIZE_MIB BACKING_FILE BASE_US MB_PER_S [CHANNELS [JITTER]]

Each of its CHANNELS [1] serves one request at a time, in the order of arrival: it takes BASE_US + bytes / MB_PER_S, counted
from the end of the one before on that channel or from its arrival, whichever is later. With a JITTER of 0.5 the base is
uniform between half and one and a half of BASE_US (seeded). What each read really took here, from its arrival to its
answer, is a line of "BYTES SECONDS" in the file that FUSE_DISK_TIMES names. Speaks the kernel's FUSE protocol itself (include/uapi/linux/fuse.h), so that it needs no
library; needs root to mount. Ends when it is unmounted.
"""
import ctypes
import heapq
import mmap
import os
import random
import select
import struct
import sys
import time

(LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC) = (1, 2, 3, 4, 14, 15, 16, 17, 18, 20)
(FLUSH, INIT, OPENDIR, RELEASEDIR, ACCESS, DESTROY, INTERRUPT, BATCH_FORGET) = (25, 26, 27, 29, 34, 38, 36, 42)
IN, OUT = struct.Struct("<IIQQIIII"), struct.Struct("<IiQ")
MAX_WRITE = 1 << 20
ENOENT, ENOSYS = 2, 38


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


def main():
    point, mib, backing, base_us, rate = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4]), float(sys.argv[5])
    size = mib << 20
    file = os.open(backing, os.O_RDWR | os.O_CREAT, 0o600)
    os.ftruncate(file, size)
    data = memoryview(mmap.mmap(file, size))
    fd = mount(point)
    # A disk does not wait for a processor.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    channels, jitter = int((sys.argv[6:] or [1])[0]), float((sys.argv[7:] or [0])[0])
    # When each channel becomes free; and what is in service: (when it is done, order of arrival, reply, when it arrived).
    free_at, serving, arrivals, chance = [0.0] * channels, [], 0, random.Random(1)
    os.set_blocking(fd, False)
    times = open(os.environ["FUSE_DISK_TIMES"], "w", buffering=1) if "FUSE_DISK_TIMES" in os.environ else None

    def answer(reply):
        try:
            os.writev(fd, reply)
        except OSError:
            # The request was interrupted: no process waits for the reply.
            pass

    def serve(length, reply):
        nonlocal arrivals
        arrivals += 1
        base = base_us / 1e6 * (1 + jitter * (2 * chance.random() - 1))
        arrived = time.monotonic()
        done = max(heapq.heappop(free_at), arrived) + base + length / (rate * 1e6)
        heapq.heappush(free_at, done)
        heapq.heappush(serving, (done, arrivals, reply, arrived))

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
            serve(length, [OUT.pack(OUT.size + len(part), 0, unique), part])
            continue
        elif op == WRITE:
            _, offset, length = struct.unpack_from("<QQI", body)
            data[offset:offset + length] = body[40:40 + length]
            serve(length, [OUT.pack(OUT.size + 8, 0, unique), struct.pack("<II", length, 0)])
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
