#!/usr/bin/env python3
"""Hours of `iolens serve` under a mixed load with viewers: memory, descriptors and threads stay flat, the budget holds.

  bench/soak.py [--minutes 120] [--keep-mib 64]

Needs root, fio and e2fsprogs. Fails if the recording root is ever larger than its budget, if the median of the resident
memory or the most descriptors or threads grow from the second third of the time to the last, or if I/Os are lost.
"""
import argparse, collections, json, os, pathlib, random, re, shutil, signal, statistics, subprocess, sys, tempfile, threading, time
import urllib.error, urllib.parse, urllib.request

from disk import loop_device

PROGRAM = os.environ.get("IOLENS", "target/release/iolens")
ADDRESS = "127.0.0.1:19951"
# Tolerance: an allocator keeps more or less memory from one minute to the next.
MAX_GROWTH_MIB = 8


def loads(raw: str, mount: pathlib.Path, seconds: int) -> list[subprocess.Popen]:
    """Steady random reads, bursts of writes, buffered appends that are synced, and many small files."""
    jobs = {
        "steady": ["--filename=" + raw, "--direct=1", "--rw=randread", "--bs=4k", "--rate_iops=500", "--rate_process=poisson"],
        "bursts": ["--filename=" + raw, "--direct=1", "--rw=randwrite", "--bs=16k", "--ioengine=libaio", "--iodepth=8",
                   "--thinktime=17s", "--thinktime_blocks=12000"],
        "log": [f"--directory={mount}", "--rw=write", "--bs=32k", "--size=64m", "--fsync=8", "--rate_iops=60"],
        "small": [f"--directory={mount}", "--rw=randwrite", "--bs=8k", "--nrfiles=200", "--filesize=64k",
                  "--file_service_type=random", "--fsync=32", "--rate_iops=80"],
    }
    common = ["--time_based", f"--runtime={seconds}", "--minimal"]
    return [subprocess.Popen(["fio", f"--name={name}", *job, *common], stdout=subprocess.DEVNULL) for name, job in jobs.items()]


def disk_bytes(root: pathlib.Path) -> int:
    total = 0
    for directory, _, files in os.walk(root):
        for name in [directory, *(os.path.join(directory, f) for f in files)]:
            try:
                total += os.lstat(name).st_blocks * 512
            except FileNotFoundError:
                pass
    return total


def usage(pid: int) -> dict[str, float]:
    status = open(f"/proc/{pid}/status").read()
    number = lambda key: int(re.search(key + r":\s+(\d+)", status)[1])
    return {"rss_mib": number("VmRSS") / 1024, "threads": number("Threads"), "fds": len(os.listdir(f"/proc/{pid}/fd"))}


class Viewers:
    """Viewers: one follows `live`, the other queries random ranges recorded so far."""

    def __init__(self, begin: float) -> None:
        self.answers: collections.Counter = collections.Counter()
        # Duration of the requests by path, in seconds, and the number of answers other than 200.
        self.took: dict[str, list[float]] = collections.defaultdict(list)
        self.refused: collections.Counter = collections.Counter()
        self.live_lines, self.begin = 0, begin
        for work in (self.follow, self.ask):
            threading.Thread(target=work, daemon=True).start()

    def follow(self) -> None:
        while True:
            try:
                for _ in urllib.request.urlopen(f"http://{ADDRESS}/api/v1/live", timeout=60):
                    self.live_lines += 1
            except OSError:
                time.sleep(1)

    def ask(self) -> None:
        while True:
            now = time.time()
            to = random.uniform(self.begin, now)
            span = {"from": f"{max(self.begin, to - 10 ** random.uniform(0, 3)):.3f}", "to": f"{to:.3f}"}
            path, more = random.choice([
                ("series", {"by": random.choice(["all", "device", "process", "file"])}), ("heatmap", {"width": "200", "height": "40"}),
                ("findings", {}), ("actors", {"by": "process"}), ("ios", {"limit": "1000"}), ("report", {}), ("recordings", None)])
            query = "?" + urllib.parse.urlencode(span | more) if more is not None else ""
            for name, url in ((path, f"/api/v1/{path}{query}"), ("metrics", "/metrics")):
                begin = time.monotonic()
                try:
                    with urllib.request.urlopen(f"http://{ADDRESS}{url}", timeout=30) as answer:
                        answer.read()
                        status: int | str = answer.status
                except urllib.error.HTTPError as refusal:
                    status = refusal.code
                except OSError:
                    status = "none"
                self.took[name].append(time.monotonic() - begin)
                self.answers[status] += 1
                self.refused[name] += status != 200
            time.sleep(2)

    def print_times(self) -> None:
        """For each path the median and the longest time of an answer."""
        for name, took in sorted(self.took.items()):
            median, longest = statistics.median(took) * 1e3, max(took) * 1e3
            print(f"/{name}: p50 {median:.0f} ms, at most {longest:.0f} ms, {len(took)} asked, {self.refused[name]} refused")


def health() -> dict:
    try:
        with urllib.request.urlopen(f"http://{ADDRESS}/healthz", timeout=20) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as unhealthy:
        return json.load(unhealthy)


def measure(pid: int, root: pathlib.Path, seconds: int) -> tuple[list[dict], int, collections.Counter, set]:
    samples, most, unwell, recordings = [], 0, collections.Counter(), set()
    end, next_sample = time.monotonic() + seconds, 0.0
    while (now := time.monotonic()) < end:
        most = max(most, disk_bytes(root))
        if now >= next_sample:
            samples.append(usage(pid))
            recordings.update(root.glob("host=*/start_ns=*"))
            now_health = health()
            unwell.update(re.sub(r"\d+", "N", text) for text in now_health["reasons"] + now_health["degraded"])
            next_sample = now + 10
        time.sleep(1)
    return samples, most, unwell, recordings


def verdict(samples: list[dict], most: int, keep: int) -> list[str]:
    third = len(samples) // 3
    middle, last = samples[third:2 * third], samples[2 * third:]
    faults = [] if most <= keep else [f"{most} bytes on disk, the budget is {keep}"]
    median = lambda part: statistics.median(s["rss_mib"] for s in part)
    if median(last) > median(middle) + MAX_GROWTH_MIB:
        faults.append(f"resident memory grows: {median(middle):.0f} MiB, then {median(last):.0f} MiB")
    for what in ("fds", "threads"):
        before, after = (max(s[what] for s in part) for part in (middle, last))
        # One connection more or less may be open.
        if after > before + 3:
            faults.append(f"{what} grow: {before}, then {after}")
    return faults


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--keep-mib", type=int, default=64)
    options = parser.parse_args()
    if os.geteuid() != 0 or not all(map(shutil.which, ("fio", "mkfs.ext4", "losetup"))):
        sys.exit("SKIP: root, fio, losetup and mkfs.ext4 are needed")
    seconds, keep = int(options.minutes * 60), options.keep_mib << 20
    with tempfile.TemporaryDirectory(prefix="iolens-soak.") as name, loop_device(512) as raw, loop_device(1024) as formatted:
        place, root = pathlib.Path(name), pathlib.Path(name) / "root"
        mount = place / "mount"
        mount.mkdir()
        recorder, running = None, []
        try:
            subprocess.run(["mkfs.ext4", "-q", "-F", formatted], check=True)
            subprocess.run(["mount", formatted, mount], check=True)
            devices = [word for d in (raw, formatted) for word in ("-d", os.path.basename(d))]
            words = [PROGRAM, "serve", "--rec", root, "--keep", f"{options.keep_mib}M", "--listen", ADDRESS, "--public-names", *devices]
            said = open(place / "stderr", "w+")
            recorder = subprocess.Popen(words, stderr=said)
            while not list(root.glob("host=*/start_ns=*/meta.json")):
                if recorder.poll() is not None:
                    sys.exit((place / "stderr").read_text())
                time.sleep(0.1)
            viewers = Viewers(time.time())
            running = loads(raw, mount, seconds + 60)
            samples, most, unwell, recordings = measure(recorder.pid, root, seconds)
            recorder.send_signal(signal.SIGTERM)
            recorder.wait()
            left = len(list(root.glob("host=*/start_ns=*")))
            lines = (place / "stderr").read_text().splitlines()
            last_line = next((line for line in lines if "ended after" in line), "none")
        finally:
            for p in running + ([recorder] if recorder else []):
                p.kill()
                p.wait()
            subprocess.run(["umount", "-l", mount], check=False)
    thirds = [samples[i * len(samples) // 3:(i + 1) * len(samples) // 3] for i in range(3)]
    for what in ("rss_mib", "fds", "threads"):
        values = ["/".join(f"{f(s[what] for s in part):.0f}" for f in (statistics.median, max)) for part in thirds]
        print(f"{what}: {', '.join(values)} (median/most in each third)")
    print(f"on disk: at most {most / 2**20:.1f} of {options.keep_mib} MiB; {len(recordings)} recordings, {left} left")
    print(f"viewers: {dict(viewers.answers)} answers by status, {viewers.live_lines} lines of live")
    viewers.print_times()
    print(f"unhealthy at samples of 10 s: {dict(unwell) or 'never'}")
    print(f"end: {last_line}")
    faults = verdict(samples, most, keep)
    print("\n".join(faults) if faults else "flat, and within its budget")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
