#!/usr/bin/env python3
"""Writes a blktrace file (version 7, little endian) of generated I/Os: random reads and sequential writes on one device.

    bench/blktrace_load.py IOS OUT        makes OUT.blktrace.0
"""
import random
import struct
import sys

MAGIC = 0x65617407
RECORD = struct.Struct("<IIQQIIIIIHH")
READ, WRITE, SYNC, QUEUE, ISSUE, COMPLETE, NOTIFY = (1 << (16 + bit) for bit in (0, 1, 3, 4, 6, 7, 10))
PIDS = range(1000, 1006)
DEVICE = 8 << 20


def main():
    ios, out = int(sys.argv[1]), sys.argv[2]
    rng = random.Random(1)
    now, log, events = 1_000_000, 1 << 20, []
    for _ in range(ios):
        now += 3_000 + rng.randrange(30_000)
        write = rng.randrange(3) == 0
        log += 8
        sector = log if write else rng.randrange(1 << 28) * 8
        kind = WRITE if write else READ | SYNC
        issue = now + 1_500 + rng.randrange(700)
        done = issue + 20_000 + rng.randrange(250_000)
        pid = rng.choice(PIDS)
        events += [
            (now, sector, 1 | QUEUE | kind, pid),  # Q
            (now + 300, sector, 4 | kind, pid),  # G
            (now + 700, sector, 12 | kind, pid),  # I
            (issue, sector, 7 | ISSUE | kind, pid),  # D
            (done, sector, 8 | COMPLETE | kind, 0),  # C
        ]
    events.sort()
    with open(f"{out}.blktrace.0", "wb") as file:
        # Names of processes come first, as from the kernel, because btt looks them up.
        for pid in (0, *PIDS):
            name = f"load{pid}".encode().ljust(16, b"\0")
            file.write(RECORD.pack(MAGIC, 0, 0, 0, 0, NOTIFY, pid, DEVICE, 0, 0, len(name)) + name)
        for number, (time, sector, action, pid) in enumerate(events, 1):
            file.write(RECORD.pack(MAGIC, number, time, sector, 4096, action, pid, DEVICE, 0, 0, 0))


main()
