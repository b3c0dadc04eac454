#!/usr/bin/env python3
"""Loads BPF objects with libbpf, attaches all their programs, prints "ready" and keeps them until it is interrupted.

A source file is compiled with clang first. With --histogram NAME, the sum of that map of numbers (the number of counted events)
is printed at the end.

  bench/attach_programs.py [-I FOLDER] [--histogram NAME] FILE.bpf.o|FILE.bpf.c...
"""
import argparse, ctypes, ctypes.util, os, platform, signal, subprocess, sys, tempfile


def library():
    found = ctypes.util.find_library("bpf") or sys.exit("libbpf is not installed")
    bpf = ctypes.CDLL(found, use_errno=True)
    for name in ("bpf_object__open_file", "bpf_object__next_program", "bpf_program__attach"):
        getattr(bpf, name).restype = ctypes.c_void_p
    return bpf


def compiled(source, include, folder):
    target = os.path.join(folder, f"{len(os.listdir(folder))}.bpf.o")
    arch = {"x86_64": "x86", "aarch64": "arm64"}[platform.machine()]
    words = ["clang", "-g", "-O2", "-target", "bpf", f"-D__TARGET_ARCH_{arch}", "-c", source, "-o", target]
    words += [f"-I{i}" for i in include]
    if subprocess.run(words).returncode:
        sys.exit(f"clang cannot compile {source}")
    return target


def attach(bpf, path):
    """The loaded object, with every program attached."""
    def check(value, what):
        # libbpf 1.x returns NULL or a negative number, and sets errno.
        if value is None or (what == "load" and value < 0):
            sys.exit(f"cannot {what} {path}: {os.strerror(ctypes.get_errno())}")
        return value

    object_ = ctypes.c_void_p(check(bpf.bpf_object__open_file(path.encode(), None), "open"))
    check(bpf.bpf_object__load(object_), "load")
    program = bpf.bpf_object__next_program(object_, None)
    while program:
        check(bpf.bpf_program__attach(ctypes.c_void_p(program)), "attach")
        program = bpf.bpf_object__next_program(object_, ctypes.c_void_p(program))
    return object_


def sum_of(bpf, object_, name):
    """Sum of an array map of 64-bit numbers, over all its entries and, if it is per CPU, over CPUs."""
    fd = bpf.bpf_object__find_map_fd_by_name(object_, name.encode())
    if fd < 0:
        return None
    cpus = bpf.libbpf_num_possible_cpus()
    total, key, value = 0, ctypes.c_uint32(0), (ctypes.c_uint64 * cpus)()
    while bpf.bpf_map_lookup_elem(fd, ctypes.byref(key), value) == 0:
        total += sum(value)
        key.value += 1
    return total


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("files", nargs="+")
    a.add_argument("-I", dest="include", action="append", default=[])
    a.add_argument("--histogram")
    o = a.parse_args()
    bpf = library()
    with tempfile.TemporaryDirectory() as folder:
        paths = [compiled(f, o.include, folder) if f.endswith(".c") else f for f in o.files]
        objects = [attach(bpf, p) for p in paths]
    signal.signal(signal.SIGINT, lambda *_: None)
    print("ready", flush=True)
    signal.pause()
    if o.histogram:
        for total in filter(None, (sum_of(bpf, x, o.histogram) for x in objects)):
            print(f"counted {total}", flush=True)


if __name__ == "__main__":
    main()
