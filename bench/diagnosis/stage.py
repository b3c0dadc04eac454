"""What a scenario plays on: a programmed disk under a loop device with a file system, control groups, a recorder."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
DISK_PROGRAM = HERE.parent / "fuse_disk.py"
LOAD_PROGRAM = HERE / "load.py"
BLKIO, UNIFIED = Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup/unified")
PATIENCE_S = 30
MAKE = {"ext4": ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"), "btrfs": ("mkfs.btrfs", "-q", "-f")}


class StageError(Exception):
    """The machine lacks something that the scenario needs."""


@dataclass(frozen=True)
class DiskSpec:
    """A disk with a file system: service time, number of channels, more options of bench/fuse_disk.py."""

    base_us: int = 200
    mb_per_s: int = 100
    channels: int = 1
    options: tuple[str, ...] = ()
    mib: int = 1024
    queue: tuple[tuple[str, int], ...] = (("nr_requests", 64), ("max_sectors_kb", 512))

    def with_options(self, more: tuple[str, ...]) -> "DiskSpec":
        """The same with more options."""
        return replace(self, options=self.options + more)


@dataclass
class Disk:
    """A disk that is ready."""

    process: subprocess.Popen[bytes]
    device: str
    directory: Path

    @property
    def name(self) -> str:
        """The device without its directory."""
        return Path(self.device).name

    @property
    def number(self) -> str:
        """MAJOR:MINOR."""
        return Path(f"/sys/block/{self.name}/dev").read_text().strip()

    def start(self) -> None:
        """From now on requests take their time."""
        self.process.send_signal(signal.SIGUSR1)

    def stop(self) -> None:
        """From now on they take none."""
        self.process.send_signal(signal.SIGUSR2)


def run(*words: str) -> str:
    """What a command prints; its complaint is the error's text."""
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise StageError(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


def wait_for(what: str, path: Path, process: subprocess.Popen[bytes]) -> None:
    """Until `path` exists, as long as `process` is there to make it."""
    until = time.monotonic() + PATIENCE_S
    while not path.exists():
        if process.poll() is not None or time.monotonic() > until:
            raise StageError(f"{what} did not start")
        time.sleep(0.01)


def end(process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> int:
    """Ask a process to end and wait; kill it if it does not."""
    with suppress(ProcessLookupError):
        process.send_signal(number)
    try:
        return process.wait(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def unmount(path: Path) -> None:
    """Unmount; what is still in flight keeps a file system busy for a moment."""
    for _ in range(40):
        if subprocess.run(["umount", path], check=False, capture_output=True).returncode == 0:
            return
        time.sleep(0.25)
    subprocess.run(["umount", "-l", path], check=False)


@contextmanager
def raw_disk(spec: DiskSpec) -> Iterator[Disk]:
    """A loop device over a programmed disk, without a file system."""
    if not Path("/dev/fuse").exists() or os.geteuid() != 0:
        raise StageError("a programmed disk needs /dev/fuse and root")
    top = Path(tempfile.mkdtemp(prefix="iolens-diagnosis-", dir="/dev/shm"))
    fuse, directory = top / "fuse", top / "disk"
    fuse.mkdir()
    directory.mkdir()
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, top, ignore_errors=True)
        words = [fuse, spec.mib, top / "data", spec.base_us, spec.mb_per_s, spec.channels, 0.2, "--on-signal", *spec.options]
        process = subprocess.Popen([sys.executable, DISK_PROGRAM, *map(str, words)])
        undo.callback(end, process)
        undo.callback(unmount, fuse)
        wait_for("the programmed disk", fuse / "disk", process)
        device = run("losetup", "--find", "--show", "--direct-io=on", "--sector-size=4096", str(fuse / "disk"))
        undo.callback(subprocess.run, ["losetup", "-d", device], check=False)
        disk = Disk(process, device, directory)
        for key, value in spec.queue:
            Path(f"/sys/block/{disk.name}/queue/{key}").write_text(str(value))
        undo.callback(disk.stop)
        yield disk


@contextmanager
def mounted(spec: DiskSpec, file_system: str, options: str) -> Iterator[Disk]:
    """A disk with a file system of its own, mounted."""
    with raw_disk(spec) as disk:
        run(*MAKE[file_system], disk.device)
        run("mount", "-o", options, disk.device, str(disk.directory))
        try:
            yield disk
        finally:
            disk.stop()
            unmount(disk.directory)


def fill(path: Path, mib: int) -> None:
    """A file with blocks that are written and not in the page cache."""
    with path.open("wb") as file:
        for _ in range(mib):
            file.write(os.urandom(1 << 16) * 16)
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def control_group(name: str, disk: Disk, limits: dict[str, int]) -> Iterator[list[Path]]:
    """A control group with limits of this disk (keys of blkio.throttle.*_device): the directories that a process is put in."""
    if not (BLKIO / "blkio.throttle.read_iops_device").exists():
        raise StageError("no control groups of version 1 with limits of I/O")
    places = [top / f"iolens-{name}-{os.getpid()}" for top in (BLKIO, UNIFIED) if (top / "cgroup.procs").exists()]
    for place in places:
        place.mkdir()
    try:
        for key, value in limits.items():
            (places[0] / f"blkio.throttle.{key}_device").write_text(f"{disk.number} {value}")
        yield places
    finally:
        for place in places:
            for _ in range(40):
                with suppress(OSError):
                    place.rmdir()
                if not place.exists():
                    break
                time.sleep(0.1)


@contextmanager
def recording(program: Path, target: Path, devices: list[str]) -> Iterator[None]:
    """A recording of these devices while the body runs."""
    shutil.rmtree(target, ignore_errors=True)
    chosen = [word for device in devices for word in ("-d", device)]
    words = [program, "record", "-q", "-o", target, *chosen]
    process = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for("the recorder", target / "meta.json", process)
        yield
    finally:
        end(process, signal.SIGINT)


@dataclass
class Loads:
    """Programs that do I/O, each with a log."""

    begin: float
    directory: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, role: str, options: Mapping[str, object], groups: list[Path]) -> None:
        """Start one; `groups` are directories of control groups."""

        def enter() -> None:
            for group in groups:
                (group / "cgroup.procs").write_text(str(os.getpid()))

        words = [sys.executable, LOAD_PROGRAM, name, role, self.begin, self.directory / name]
        words += [f"{key}={value}" for key, value in options.items()]
        self.running[name] = subprocess.Popen(list(map(str, words)), preexec_fn=enter if groups else None)

    def finish(self, patience_s: float) -> dict[str, list[tuple[float, float, float]]]:
        """The requests of each program by its name; one that does not end, or fails, is an error."""
        until = time.monotonic() + patience_s
        done: dict[str, list[tuple[float, float, float]]] = {}
        try:
            for name, process in self.running.items():
                if process.wait(timeout=max(until - time.monotonic(), 1)) != 0:
                    raise StageError(f"{name} failed")
                done[name] = json.loads((self.directory / name).read_text())["requests"]
        except subprocess.TimeoutExpired as error:
            raise StageError(f"a program did not end: {error.cmd[2]}") from error
        finally:
            for process in self.running.values():
                if process.poll() is None:
                    process.kill()
                    process.wait()
        return done
