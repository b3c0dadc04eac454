#!/usr/bin/env python3
"""The metrics of `iolens serve`, judged by the programs they are for: Debian's node exporter shows the same values, a real
Prometheus scrapes them, each panel of the dashboard gets data, and alerts fire on events that really happen.

    packaging/metrics_test.py PROGRAM

Needs root, FUSE, prometheus, prometheus-node-exporter and fio; says SKIP without them.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "bench" / "diagnosis"))
from stage import DiskSpec, StageError, raw_disk

IOLENS, NODE, PROMETHEUS = "127.0.0.1:19950", "127.0.0.1:19100", "127.0.0.1:19090"
# The same with native histograms, scraped by Prometheus' own protocol.
NATIVE = "127.0.0.1:19091"
# Metrics of node_exporter that iolens does not have.
NODE_ONLY = {"node_disk_info", "node_disk_filesystem_info", "node_disk_device_mapper_info", "node_disk_ata_rotation_rate_rpm",
             "node_disk_ata_write_cache", "node_disk_ata_write_cache_enabled"}
# node_exporter's default since 1.6; Debian's older one shows zram, too.
EXCLUDED = r"^(z?ram|loop|fd|(h|s|v|xv)d[a-z]|nvme\d+n\d+p)\d+$"


def get(address: str, path: str, **query: str) -> str:
    url = f"http://{address}{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read().decode()


def wait_for(what: str, done, seconds: float = 60):
    """The first true result of `done`, which is retried until then, also after errors."""
    end = time.monotonic() + seconds
    last = None
    while time.monotonic() < end:
        try:
            if found := done():
                return found
        except OSError as error:
            last = error
        time.sleep(0.3)
    sys.exit(f"FAIL: {what} after {seconds:.0f} s ({last})")


def node_disk(address: str) -> dict[str, float]:
    """Series of the diskstats collector, by name and labels."""
    lines = get(address, "/metrics").splitlines()
    split = (line.rsplit(" ", 1) for line in lines if line.startswith("node_disk_"))
    return {name: float(value) for name, value in split if name.split("{")[0] not in NODE_ONLY}


def compare_with_node() -> None:
    """Each value of the node exporter is between those of iolens before and after it, because counters only increase."""
    before, theirs, after = node_disk(IOLENS), node_disk(NODE), node_disk(IOLENS)
    if before.keys() != theirs.keys():
        sys.exit(f"FAIL: only iolens: {sorted(before.keys() - theirs)[:5]}; only node_exporter: {sorted(theirs.keys() - before)[:5]}")
    gauges = "node_disk_io_now"
    wrong = [
        f"{name}: {before[name]} .. {theirs[name]} .. {after[name]}"
        for name in theirs
        # Milliseconds of the kernel, in seconds.
        if not name.startswith(gauges) and not before[name] - 1e-6 <= theirs[name] <= after[name] + 1e-6
    ]
    if wrong:
        sys.exit("FAIL: differs from node_exporter: " + "; ".join(wrong[:5]))
    print(f"node_exporter: {len(theirs)} series of {len({n.split('{')[0] for n in theirs})} metrics agree")


def query(expression: str, prometheus: str = PROMETHEUS) -> list:
    answer = json.loads(get(prometheus, "/api/v1/query", query=expression))
    return answer["data"]["result"]


def is_value(result: dict) -> bool:
    return "histogram" in result or result["value"][1] != "NaN"


def check_panels(prometheus: str) -> None:
    board = json.loads((HERE / "grafana/iolens.json").read_text())
    empty = []
    for panel in board["panels"]:
        for target in panel["targets"]:
            expression = target["expr"].replace("$__rate_interval", "10s").replace("$__range", "20s")
            expression = expression.replace("$device", ".*").replace("$instance", ".*")
            results = query(expression, prometheus)
            if not any(is_value(r) for r in results):
                empty.append(f"{panel['title']}: {expression}")
    if empty:
        sys.exit("FAIL: panels without data: " + "; ".join(empty))
    print(f"dashboard in {prometheus}: {sum(len(p['targets']) for p in board['panels'])} queries of {len(board['panels'])} panels have data")


def compare_quantiles() -> None:
    """The same p90 from classic and from native buckets, within the width of a classic one."""
    classic = "histogram_quantile(0.9, sum by (le) (rate(iolens_io_total_seconds_bucket[20s])))"
    native = "histogram_quantile(0.9, sum(rate(iolens_io_total_seconds[20s])))"
    values = [float(query(q, p)[0]["value"][1]) for q, p in ((classic, PROMETHEUS), (native, NATIVE))]
    if not 1 / 1.5 < values[0] / values[1] < 1.5:
        sys.exit(f"FAIL: p90 is {values[0]} s by classic buckets and {values[1]} s by native ones")
    print(f"p90: {values[0]:.6f} s by classic buckets, {values[1]:.6f} s by native ones")


def firing() -> set[str]:
    alerts = json.loads(get(PROMETHEUS, "/api/v1/alerts"))["data"]["alerts"]
    return {a["labels"]["alertname"] for a in alerts if a["state"] == "firing"}


def fires(name: str) -> None:
    wait_for(f"{name} does not fire", lambda: name in firing())
    print(f"alert: {name} fires")


def short(rules: str) -> str:
    """The shipped rules, with seconds instead of minutes."""
    rules = re.sub(r"(iolens_ship_lag_seconds) > \d+", r"\1 > 5", rules)
    return re.sub(r"offset \d+m", "offset 8s", re.sub(r"\[\d+m\]", "[8s]", re.sub(r"for: \d+m", "for: 1s", rules)))


class Processes:
    """Processes started here, which end with this program."""

    def __init__(self) -> None:
        self.running: list[subprocess.Popen] = []

    def start(self, *words: object, **more) -> subprocess.Popen:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | more
        self.running.append(subprocess.Popen([str(w) for w in words], **quiet))
        return self.running[-1]

    def end(self) -> None:
        for process in reversed(self.running):
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def load(processes: Processes, device: str, depth: int, seconds: int, block: str = "16k") -> subprocess.Popen:
    return processes.start(
        "fio", "--name=load", f"--filename={device}", "--rw=randrw", f"--bs={block}", "--direct=1", "--ioengine=libaio",
        f"--iodepth={depth}", "--numjobs=2", f"--runtime={seconds}", "--time_based", "--minimal")


@contextmanager
def a_program_that_waits(processes: Processes) -> Iterator[None]:
    """Small reads on a programmed disk that are alone at first, and then wait for a program that reads all of it."""
    with raw_disk(DiskSpec(base_us=1000)) as disk:
        disk.start()
        readers = [processes.start(
            "fio", "--name=small", f"--filename={disk.device}", "--rw=randread", "--bs=4k", "--direct=1", "--rate_iops=50",
            "--runtime=120", "--time_based", "--minimal")]
        time.sleep(5)
        readers.append(processes.start(
            "fio", "--name=scan", f"--filename={disk.device}", "--rw=read", "--bs=1M", "--direct=1", "--ioengine=libaio",
            "--iodepth=3", "--runtime=120", "--time_based", "--minimal"))
        try:
            yield
        finally:
            for reader in readers:
                reader.terminate()
                reader.wait()
            disk.stop()


def failing_device(work: Path) -> str:
    """A loop device whose file has no space: writes fail."""
    return loop_device(memory(work / "small", "1m") / "disk")


def memory(directory: Path, size: str) -> Path:
    """A file system of this size in memory, mounted there; `main` unmounts it."""
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", directory], check=True)
    return directory


def fill(directory: Path) -> Path:
    """A file that takes all free space."""
    path = directory / "filling"
    free = os.statvfs(directory)
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize)
    return path


def loop_device(path: Path) -> str:
    with path.open("wb") as file:
        file.truncate(64 << 20)
    made = subprocess.run(["losetup", "--find", "--show", path], check=True, capture_output=True, text=True)
    return made.stdout.strip()


def run(program: Path, work: Path, processes: Processes, loops: list[str]) -> None:
    target = memory(work / "lake", "512m")
    service = processes.start(program, "serve", "--rec", work / "root", "--keep", "256M", "--listen", IOLENS, "--compat", "node",
                              "--ship", target)
    processes.start("prometheus-node-exporter", "--collector.disable-defaults", "--collector.diskstats",
                    f"--collector.diskstats.device-exclude={EXCLUDED}", f"--web.listen-address={NODE}")
    rules = work / "rules.yml"
    rules.write_text(short((HERE / "prometheus/alerts.yml").read_text()))
    config = work / "prometheus.yml"
    config.write_text(json.dumps({
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [{"job_name": "iolens", "static_configs": [{"targets": [IOLENS]}]}],
    }))
    for address, more in ((PROMETHEUS, []), (NATIVE, ["--enable-feature=native-histograms"])):
        storage = f"--storage.tsdb.path={work}/tsdb-{address}"
        processes.start("prometheus", f"--config.file={config}", storage, f"--web.listen-address={address}", *more)
    wait_for("serve does not answer", lambda: get(IOLENS, "/healthz"))
    wait_for("node_exporter does not answer", lambda: get(NODE, "/metrics"))
    for address in (PROMETHEUS, NATIVE):
        wait_for("Prometheus does not scrape", lambda: any(r["value"][1] == "1" for r in query("up", address)))

    loops.append(loop_device(work / "disk"))
    busy = load(processes, loops[-1], 64, 150, "64k")
    wait_for("no I/O is seen", lambda: query("rate(iolens_io_total_seconds_count[8s]) > 0"))
    compare_with_node()
    fires("IolensDeviceSaturated")
    with a_program_that_waits(processes):
        wait_for("no program is seen to wait", lambda: query("rate(iolens_story_seconds_total[10s]) > 0"))
        check_panels(PROMETHEUS)
        compare_quantiles()
        check_panels(NATIVE)
    busy.terminate()
    busy.wait()

    loops.append(failing_device(work))
    write = ["dd", "if=/dev/zero", f"of={loops[-1]}", "oflag=direct"]
    subprocess.run([*write, "bs=1M", "count=16"], stderr=subprocess.DEVNULL, check=False)
    fires("IolensIoErrors")

    # The target is full for some seconds.
    steady = load(processes, loops[0], 64, 60, "4k")
    wait_for("nothing is shipped", lambda: query("increase(iolens_ship_files_total[8s]) > 0"))
    if "IolensShippingBehind" in firing():
        sys.exit("FAIL: shipping does not keep up with a target that is there")
    filling = fill(target)
    fires("IolensShippingBehind")
    filling.unlink()
    wait_for("shipping does not go on", lambda: query("iolens_ship_lag_seconds < 5"))
    wait_for("IolensShippingBehind goes on firing", lambda: "IolensShippingBehind" not in firing())
    steady.terminate()
    steady.wait()

    # The rings overflow while they are not emptied. The rule looks back 8 s, so it must also see the time before.
    flood = load(processes, loops[0], 64, 20, "4k")
    time.sleep(2)
    service.send_signal(signal.SIGSTOP)
    time.sleep(4)
    service.send_signal(signal.SIGCONT)
    fires("IolensLosesIos")
    flood.wait()

    service.terminate()
    service.wait(30)
    fires("IolensDown")


def main() -> None:
    program = Path(sys.argv[1]).resolve()
    missing = [p for p in ("prometheus", "promtool", "prometheus-node-exporter", "fio", "losetup") if not shutil.which(p)]
    if missing or os.geteuid() != 0:
        print(f"SKIP: {', '.join(missing) or 'root'} is missing")
        return
    subprocess.run(["promtool", "check", "rules", HERE / "prometheus/alerts.yml"], check=True)
    processes, loops = Processes(), []
    with tempfile.TemporaryDirectory() as work:
        try:
            run(program, Path(work), processes, loops)
        except StageError as error:
            print(f"SKIP: {error}")
            return
        finally:
            processes.end()
            for device in loops:
                subprocess.run(["losetup", "-d", device], check=False)
            for name in ("small", "lake"):
                subprocess.run(["umount", f"{work}/{name}"], check=False, stderr=subprocess.DEVNULL)
    print("metrics: all as it should be")


if __name__ == "__main__":
    main()
