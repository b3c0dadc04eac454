"""`iolens.signal`: results and lookups equal to the Rust library's, and sets of disks that change while threads read them."""

from __future__ import annotations

import json
import math
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from iolens import signal
from iolens.signal.counters import parse
from iolens.signal.events import Events
from iolens.signal.topology import Machine

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures/signal"


def intervals() -> list[dict[str, Any]]:
    return list(json.loads((FIXTURES / "figures.json").read_text())["intervals"])


def sample(case: dict[str, Any], which: str) -> signal.Sample:
    out = parse(case[which]["stat"].encode(), case[which]["at_ns"])
    out.not_accounted = case["iostats"] is False
    return out


def test_figures_are_those_of_the_rust_library_to_the_last_digit() -> None:
    known = 0
    cases = intervals()
    assert len(cases) >= 60
    for case in cases:
        estimator = signal.Estimator(case["release"], case["hz"])
        rate = signal.between(sample(case, "before"), sample(case, "after"), estimator)
        want = case["figures"]
        for name in ("read", "write", "discard", "flush"):
            got = getattr(rate, name)
            assert {k: getattr(got, k) for k in want[name]} == want[name], (case["what"], name)
            known += sum(v is not None for v in want[name].values())
        for name in ("await_ms", "request_bytes", "in_flight_mean", "in_flight"):
            assert getattr(rate, name) == want[name], (case["what"], name)
        busy = want["busy"]
        got_busy = rate.busy
        assert (got_busy.ticks_percent, got_busy.sigma_percent) == (busy["io_ticks_percent"], busy["sigma_percent"])
        assert got_busy.method == busy["method"], case["what"]
        if busy["method"] == "io-ticks-corrected":
            # Each language has its own exp, right to a unit in the last place.
            assert got_busy.percent is not None
            assert math.isclose(got_busy.percent, busy["percent"], rel_tol=1e-12)
        else:
            assert got_busy.percent == busy["percent"], case["what"]
        assert rate.reset == (want["state"] == "restarted")
        assert rate.not_accounted == (want["state"] == "not-accounted")
    assert known > 500


def test_disks_together_are_those_of_the_rust_library() -> None:
    for case in json.loads((FIXTURES / "figures.json").read_text())["combined"]:
        want = case["combined"]
        expected = want and (want["mean_percent"], want["max_percent"], want["any_percent"])
        assert signal.combine(case["busy_percent"]) == expected


def plant(root: Path, tree: dict[str, Any]) -> None:
    for path, value in tree.items():
        at = root / path.lstrip("/")
        if value is None:
            at.mkdir(parents=True, exist_ok=True)
            continue
        at.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(value, str):
            at.write_text(value)
        else:
            at.symlink_to(root / value["link"].lstrip("/"))


TREES = sorted((FIXTURES / "trees").glob("*.json"))


@pytest.mark.parametrize("file", TREES, ids=lambda f: str(f.stem))
def test_paths_have_the_disks_that_the_rust_library_finds(file: Path, tmp_path: Path) -> None:
    for i, case in enumerate(json.loads(file.read_text())):
        root = tmp_path.resolve() / str(i)
        plant(root, case["tree"])
        machine = Machine(str(root))
        machine.read_mounts()
        place = machine.place(case["path"])
        # The second lookup is that of a set that watches the path.
        for literal in (False, True):
            machine.literal = literal
            bottoms, why = machine.disks_of(place)
            got = [{"name": b.name, "dev": b.dev, "stats": [s.removeprefix(str(root)) for s in b.stats]} for b in bottoms]
            assert got == case["disks"], (case["path"], literal)
            assert (None if bottoms else why) == case["no_disk"]


class Tree:
    """A machine of sda under /data, and md0 over sda and sdb under /raid."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.put("proc/sys/kernel/osrelease", "6.12.0\n")
        self.put("boot/config-6.12.0", "CONFIG_HZ=250\n")
        self.put("proc/partitions", "two disks\n")
        self.put("proc/1/mountinfo", "20 1 8:0 / / rw - ext4 /dev/sda rw\n22 20 9:0 / /raid rw - ext4 /dev/md0 rw\n")
        for name, dev in (("sda", "8:0"), ("sdb", "8:16"), ("md0", "9:0")):
            self.disk(name, dev)
        for leg in ("sda", "sdb"):
            self.link(f"sys/devices/block/md0/slaves/{leg}", f"sys/devices/block/{leg}")
        self.put("data/file", "")
        self.put("raid/file", "")

    def put(self, path: str, text: str) -> None:
        at = self.root / path
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(text)

    def link(self, path: str, target: str) -> None:
        at = self.root / path
        at.parent.mkdir(parents=True, exist_ok=True)
        at.symlink_to(self.root / target)

    def disk(self, name: str, dev: str) -> None:
        base = f"sys/devices/block/{name}"
        for file, text in (("dev", dev), ("size", "2048"), ("queue/iostats", "1"), ("queue/rotational", "1")):
            self.put(f"{base}/{file}", text + "\n")
        self.stat(name, 10, 1000)
        for at in (f"sys/block/{name}", f"sys/class/block/{name}", f"sys/dev/block/{dev}"):
            self.link(at, base)

    def stat(self, name: str, reads: int, busy_ms: int) -> None:
        self.put(f"sys/devices/block/{name}/stat", f"{reads} 0 {reads * 8} {reads} 0 0 0 0 3 {busy_ms} {reads}\n")

    def remove(self, name: str, dev: str) -> None:
        shutil.rmtree(self.root / f"sys/devices/block/{name}")
        for at in (f"sys/block/{name}", f"sys/class/block/{name}", f"sys/dev/block/{dev}"):
            (self.root / at).unlink()

    def set(self, **options: Any) -> signal.Set:
        return signal.Set(root=str(self.root), **options)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path.resolve())


def wait() -> None:
    """Busy time has the resolution of two jiffies."""
    time.sleep(0.02)


def look_again(disks: signal.Set) -> signal.View:
    """The set checks for changes, as it does by itself every second."""
    disks._watched_ns = 0
    return disks.refresh()


@pytest.mark.parametrize("by", ["max", "mean"])
def test_a_path_is_the_busiest_disk_or_the_mean_and_says_which(tree: Tree, by: signal.watch.GroupBy) -> None:
    with tree.set(by=by) as disks:
        disks.add_path("/raid/file")
        with pytest.raises(signal.SignalError, match="no interval"):
            disks.now().group("/raid/file")
        wait()
        tree.stat("sda", 30, 1006)
        tree.stat("sdb", 40, 1002)
        view = disks.refresh()
        group = view.group("/raid/file")
        busy = [view.disk(n).rate.busy.percent or 0.0 for n in ("sda", "sdb")]
        assert group.max_percent == busy[0] > busy[1] > 0
        assert group.mean_percent == sum(busy) / 2
        assert (group.by, group.percent) == (by, group.mean_percent if by == "mean" else group.max_percent)
        assert (group.read.ios, group.read.request_bytes, group.read.await_ms, group.in_flight) == (50, 4096, 1, 6)
        assert disks.percent("/raid/file") == group.percent
        span_s = view.disk("sda").rate.span_ns / 1e9
        assert view.disk("sda").rate.read.per_s == 20 / span_s


def test_a_lost_disk_is_an_error_and_never_idle(tree: Tree) -> None:
    with tree.set() as disks:
        disks.add_path("/raid/file")
        disks.add("sdb")
        wait()
        disks.refresh().group("/raid/file")
        tree.remove("sdb", "8:16")
        view = disks.refresh()
        for question in (lambda: view.disk("sdb"), lambda: view.group("/raid/file"), lambda: disks.percent("/raid/file")):
            with pytest.raises(signal.DiskLostError, match="sdb"):
                question()
        assert view.disks["sdb"].rate.busy.percent is None
        assert view.groups["/raid/file"].percent is None
        assert view.errors
        tree.disk("sdb", "8:16")
        disks.refresh()
        wait()
        assert disks.refresh().disk("sdb").rate.busy.percent == 0


def test_a_disk_that_comes_back_is_a_reset(tree: Tree) -> None:
    with signal.Disk("/dev/sdb", str(tree.root)) as disk:
        before = disk.read()
        tree.remove("sdb", "8:16")
        tree.disk("sdb", "8:16")
        tree.stat("sdb", 500, 5000)
        rate = signal.between(before, disk.read())
        assert rate.reset
        assert rate.read.per_s is None


def test_disks_that_come_and_go_are_followed(tree: Tree) -> None:
    with tree.set() as disks:
        disks.add_all()
        disks.add_path("/raid/file")
        assert list(disks.now().disks) == ["sda", "sdb"]
        tree.disk("sdc", "8:32")
        tree.put("proc/partitions", "three disks\n")
        assert list(look_again(disks).disks) == ["sda", "sdb", "sdc"]
        (tree.root / "sys/devices/block/md0/slaves/sdb").unlink()
        tree.remove("sdb", "8:16")
        disks.refresh()
        wait()
        assert look_again(disks).group("/raid/file").disks == ("sda",)
        tree.put("proc/1/mountinfo", "20 1 8:32 / / rw - ext4 /dev/sdc rw\n")
        view = look_again(disks)
        assert view.groups["/raid/file"].disks == ("sdc",)
        assert list(view.disks) == ["sda", "sdc"]
        assert disks.remove("/raid/file")
        assert not disks.remove("/raid/file")


def test_paths_without_a_disk_are_errors_that_say_why(tree: Tree) -> None:
    tree.put("proc/1/mountinfo", "20 1 8:0 / / rw - ext4 /dev/sda rw\n21 20 0:24 / /data rw - tmpfs tmpfs rw\n")
    with tree.set() as disks:
        with pytest.raises(signal.SignalError, match="tmpfs has no block device"):
            disks.add_path("/data/file")
        with pytest.raises(signal.SignalError, match="/missing: No such file"):
            disks.add_path("/missing")
        with pytest.raises(signal.DiskLostError):
            disks.add("sdz")
        tree.put("sys/devices/block/sda/queue/iostats", "0\n")
        disks.add("sda")
        wait()
        view = disks.refresh()
        with pytest.raises(signal.SignalError, match="does not count"):
            view.disk("sda")


def test_threads_read_whole_views_while_the_set_changes(tree: Tree, request: pytest.FixtureRequest) -> None:
    wrong: list[object] = []
    done = threading.Event()
    # Threads switch 50 times as often as usual, so that more of them collide and the one that changes the set waits less.
    usual = sys.getswitchinterval()
    request.addfinalizer(lambda: sys.setswitchinterval(usual))
    sys.setswitchinterval(usual / 50)
    with tree.set(idle=0.001, busy=0.001) as disks:
        disks.add_path("/raid/file")

        def read() -> None:
            while not done.is_set():
                view = disks.now()
                if any(r.end_ns > view.at_ns for r in view.disks.values() if not r.error):
                    wrong.append(view)

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for i in range(30):
            tree.stat("sda", 10 + i, 1000 + i)
            disks.add("sdb")
            if not disks.remove("sdb"):
                wrong.append(i)
        done.set()
        for reader in readers:
            reader.join()
    assert not wrong


def test_own_io_is_told_from_others_by_the_control_group(tree: Tree) -> None:
    mounts = "20 1 8:0 / / rw - ext4 /dev/sda rw\n30 20 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    tree.put("proc/1/mountinfo", mounts)
    tree.put("proc/self/cgroup", "0::/pod\n")
    tree.put("sys/fs/cgroup/pod/cgroup.type", "domain\n")
    line = "8:0 rbytes={} wbytes=0 rios={} wios=0 dbytes=0 dios=0\n"
    tree.put("sys/fs/cgroup/pod/io.stat", line.format(409600, 100))
    with tree.set(own=True) as disks:
        disks.add("sda")
        wait()
        tree.stat("sda", 40, 1010)
        tree.put("sys/fs/cgroup/pod/io.stat", line.format(450560, 110))
        reading = disks.refresh().disk("sda")
        span_s = reading.rate.span_ns / 1e9
        assert reading.own.reads_per_s == 10 / span_s
        assert reading.own.others_read_bytes_per_s == pytest.approx(20 * 4096 / span_s)
    (tree.root / "sys/fs/cgroup/pod/cgroup.type").unlink()
    with tree.set(own=True) as disks:
        disks.add("sda")
        assert any("root control group" in str(e) for e in disks.now().errors)


class Service:
    """Sends these bytes on a unix socket, in pieces of a size."""

    def __init__(self, path: Path, raw: bytes, piece: int) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.raw, self.piece = raw, piece
        self.connections: list[socket.socket] = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            assert connection.recv(4096).startswith(b"GET /api/v1/live HTTP/1.1\r\n")
            for at in range(0, len(self.raw), self.piece):
                connection.sendall(self.raw[at : at + self.piece])


@pytest.mark.parametrize("piece", [1, 997, 1 << 20])
def test_slots_of_a_running_service_add_up(piece: int, tmp_path: Path) -> None:
    raw = (FIXTURES / "live.http").read_bytes()
    rows = [json.loads(line[6:]) for line in raw.split(b"\n") if line.startswith(b"data: ")]
    service = Service(tmp_path / "s", raw, piece)
    events = Events(str(tmp_path / "s"))
    deadline = time.monotonic() + 60
    while "vda" not in events.devices or events.devices["vda"].end_unix_s != rows[-1]["time_s"]:
        events.poll(time.monotonic_ns())
        assert events.error is None
        assert time.monotonic() < deadline
        time.sleep(0.001)
    taken = events.take("vda", signal.Rate(1))
    assert taken
    rate = taken[0]
    span_s = len(rows) / 10
    reads = sum(r["r_per_s"] for r in rows) / 10
    assert reads > 300
    assert rate.span_ns == len(rows) * 100_000_000
    assert rate.read.per_s == pytest.approx(reads / span_s)
    assert rate.read.await_ms == pytest.approx(sum(r["r_per_s"] * (r["r_us"] or 0) for r in rows) / 10 / reads / 1e3)
    assert rate.write.bytes_per_s == pytest.approx(sum(r["w_kib_per_s"] for r in rows) * 102.4 / span_s)
    assert rate.busy.percent == pytest.approx(sum(r["busy_percent"] for r in rows) / len(rows))
    assert rate.busy.method == "events"
    assert events.take("vda", signal.Rate(1)) is None
    events.close()
    service.listener.close()


def test_a_service_that_is_not_there_is_an_error_and_counters_go_on(tree: Tree, tmp_path: Path) -> None:
    with tree.set(serve=str(tmp_path / "none")) as disks:
        disks.add("sda")
        wait()
        view = disks.refresh()
        assert view.disk("sda").source == "counters"
        assert ["none" in str(e) for e in view.errors] == [True]


def test_the_signal_needs_no_compiled_package() -> None:
    source = ROOT / "python/src"
    code = (
        "import sys\nfrom iolens import signal\nsignal.Set().close()\n"
        "print(sorted({m.partition('.')[0] for m in sys.modules} & {'duckdb', 'pyarrow', 'numpy', 'pandas'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(source)}
    )
    assert done.stdout == "[]\n"


def test_lake_and_read_any_stay_functions_whatever_is_imported_first() -> None:
    code = "import iolens.cli, iolens.read_any, iolens; assert callable(iolens.lake) and callable(iolens.read_any)"
    env = {"PYTHONPATH": str(ROOT / "python/src")}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)


def test_this_machines_disks_are_read(tmp_path: Path) -> None:
    with signal.Set() as disks:
        try:
            disks.add_path(str(tmp_path))
        except signal.SignalError as e:
            pytest.skip(f"SKIP: {e}")
        time.sleep(0.05)
        group = disks.refresh().group(str(tmp_path))
        assert group.disks
        assert group.percent is not None
        assert 0 <= group.percent <= 100
