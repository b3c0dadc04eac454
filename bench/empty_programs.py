#!/usr/bin/env python3
"""Attaches programs that do nothing to tracepoints (bpf(2)) until it is interrupted: what they leave of a load's speed,
no tracer that looks at these tracepoints can better. With --clock they read the clock: what is left then, no tracer can
better that records when these three events happen.

  bench/empty_programs.py [--clock] TRACEPOINT...
"""
import ctypes, os, platform, signal, struct, sys


def main():
    libc = ctypes.CDLL(None, use_errno=True)
    number = {"x86_64": 321, "aarch64": 280}[platform.machine()]
    kept = []

    def address(data):
        kept.append(ctypes.create_string_buffer(data))
        return ctypes.addressof(kept[-1])

    def bpf(command, attributes):
        fd = libc.syscall(number, command, ctypes.c_void_p(address(attributes)), len(attributes))
        if fd < 0:
            sys.exit(os.strerror(ctypes.get_errno()))
        return fd

    prog_load, raw_tracepoint_open, raw_tracepoint = 5, 17, 17
    names = sys.argv[1:]
    code = struct.pack("=BBhiBBhi", 0xB7, 0, 0, 0, 0x95, 0, 0, 0)  # return 0
    if names[:1] == ["--clock"]:
        code = struct.pack("=BBhi", 0x85, 0, 0, 5) + code  # bpf_ktime_get_ns()
        del names[0]
    program = bpf(prog_load, struct.pack("=IIQQ", raw_tracepoint, len(code) // 8, address(code), address(b"GPL")))
    for name in names:
        bpf(raw_tracepoint_open, struct.pack("=QII", address(name.encode()), program, 0))
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
