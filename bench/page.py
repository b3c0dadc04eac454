#!/usr/bin/env python3
"""Performance of the application in Chromium: first paint, frames, memory, report files. Requests: `bench/serve.py zoom`.

  bench/page.py [--store DIR] [--minutes 5] [--runs 10] [answer paint frames memory hour file]

`answer` and `paint` need root and fio for a disk that is recorded. DIR is a store that examples/root_store made (made here otherwise,
1 GB); each named part runs, all by default. Without Chromium or node only `answer` runs, and what a report file takes is its size.
"""
import argparse, contextlib, gzip, os, pathlib, re, shutil, statistics, subprocess, time

from disk import loop_device
from serve import ADDRESS, ask, fio, run_parts, serve, spans, store_of

HERE = pathlib.Path(__file__).resolve().parent.parent
REPORT = os.environ.get("HTML_REPORT", "target/release/examples/html_report")
HAS_BROWSER = os.access(os.environ.get("CHROMIUM", "/usr/bin/chromium"), os.X_OK) and shutil.which("node") is not None
URL = "http://{}:{}/".format(*ADDRESS)


def figures(*words: object) -> None:
    if HAS_BROWSER:
        subprocess.run(["node", HERE / "web/test/figures.mjs", *map(str, words)], check=True)
    else:
        print(f"SKIP: no Chromium or no node: {words[0]}")


@contextlib.contextmanager
def recorded(work: pathlib.Path, name: str, seconds: float):
    """A service that records a disk under load."""
    with loop_device(512) as device:
        service = serve(work / name, "-d", os.path.basename(device))
        load = fio(device, seconds, "--rate_iops=10000")
        time.sleep(3)
        try:
            yield service
        finally:
            load.kill()
            load.wait()
            service.end()


@contextlib.contextmanager
def all_cpus_busy(loops: int):
    running = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(loops)]
    try:
        yield
    finally:
        for loop in running:
            loop.kill()
            loop.wait()


def answer_times(what: str, n: int = 200) -> None:
    took = []
    for _ in range(n):
        began = time.perf_counter()
        ask("/", "text/html")
        took.append((time.perf_counter() - began) * 1e3)
    took.sort()
    print(f"`/` of serve, {what}: p50 {statistics.median(took):.1f} ms, p99 {took[n * 99 // 100]:.1f} ms of {n} (target: 30 ms)", flush=True)


def answer(work: pathlib.Path, options) -> None:
    with recorded(work, "answer", 120):
        script = re.search(r"<script>(.*?)</script>", ask("/", "text/html")[1].decode(), re.S)
        print(f"script: {len(gzip.compress((script and script[1] or '').encode())) / 1024:.1f} KiB gzip (target: 140 KiB)")
        answer_times("while it records 10,000 I/Os a second")
        with all_cpus_busy(8):
            answer_times("all CPUs busy with 8 loops")


def paint(work: pathlib.Path, options) -> None:
    with recorded(work, "paint", 600):
        print("while it records 10,000 I/Os a second:", end=" ", flush=True)
        figures("paint", URL, options.runs)
        with all_cpus_busy(8):
            print("all CPUs busy with 8 loops:", end=" ", flush=True)
            figures("paint", URL, options.runs)


def frames(work: pathlib.Path, options) -> None:
    service = serve(store_of(work, options) / "ios", "--no-record")
    low, high = spans()
    middle = (low + high) / 2
    for name, span in (("ten minutes", 600), ("a second", 1), ("single I/Os of 40 ms", 0.04)):
        figures("frames", f"{URL}?from={middle:.6f}&to={middle + span:.6f}", 5, name)
    service.end()


def memory(work: pathlib.Path, options) -> None:
    with recorded(work, "memory", options.minutes * 60 + 120):
        figures("memory", URL, options.minutes)


def hour(work: pathlib.Path, options) -> None:
    figures("hour", options.minutes)


def file(work: pathlib.Path, options) -> None:
    for name, target, words in (("an hour at 10,000 I/Os a second", 4, ("3600",)), ("a day at 1,000 I/Os a second", 10, ("86400", "0.1"))):
        path = work / "report.html"
        subprocess.run([REPORT, path, *words], check=True, stdout=subprocess.DEVNULL)
        print(f"report file of {name}: {path.stat().st_size / 2**20:.2f} MiB (target: {target} MiB);", end=" ", flush=True)
        figures("drawn", path, options.runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int, default=5, help="of memory and hour")
    parser.add_argument("--runs", type=int, default=10)
    run_parts(parser, (answer, paint, frames, memory, hour, file))


if __name__ == "__main__":
    main()
