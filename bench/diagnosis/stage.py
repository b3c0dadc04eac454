"""The environment of a scenario: a programmed disk under a loop device with a file system, control groups, a recorder."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
DISK_PROGRAM = HERE.parent / "fuse_disk.py"
LOAD_PROGRAM = HERE / "load.py"
BLKIO, UNIFIED, MEMORY = (Path("/sys/fs/cgroup") / name for name in ("blkio", "unified", "memory"))
PATIENCE_S = 30
MIB = 1 << 20
MAKE = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
}
GUEST_MIB = 320
# How the recorder loses I/Os: it is stopped this long, this often, while another device does this many I/Os per second.
STOP_S, STOP_EVERY_S, NOISE_IOPS = 0.06, 1.0, 15_000


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
        """From now on requests take their programmed time."""
        self.process.send_signal(signal.SIGUSR1)

    def stop(self) -> None:
        """From now on requests take no time."""
        self.process.send_signal(signal.SIGUSR2)


def run(*words: str) -> str:
    """The output of a command; its standard error is the exception's text."""
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise StageError(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


def wait_for(what: str, path: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until `path` exists, as long as the `process` that creates it is running."""
    until = time.monotonic() + PATIENCE_S
    while not path.exists():
        if process.poll() is not None or time.monotonic() > until:
            raise StageError(f"{what} did not start")
        time.sleep(0.01)


def end(process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> int:
    """Send SIGTERM to a process and wait; kill it if it does not exit."""
    with suppress(ProcessLookupError):
        process.send_signal(number)
    try:
        return process.wait(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def unmount(path: Path) -> None:
    """Unmount; I/O in flight keeps a file system busy for a moment."""
    for _ in range(40):
        if subprocess.run(["umount", path], check=False, capture_output=True).returncode == 0:
            return
        time.sleep(0.25)
    subprocess.run(["umount", "-l", path], check=False)


@contextmanager
def loop_device(path: Path) -> Iterator[str]:
    """A loop device over a file."""
    device = run("losetup", "--find", "--show", "--direct-io=on", "--sector-size=4096", str(path))
    try:
        yield device
    finally:
        subprocess.run(["losetup", "-d", device], check=False)


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
        device = undo.enter_context(loop_device(fuse / "disk"))
        disk = Disk(process, device, directory)
        for key, value in spec.queue:
            Path(f"/sys/block/{disk.name}/queue/{key}").write_text(str(value))
        undo.callback(disk.stop)
        yield disk


@dataclass
class Stage:
    """File systems that are mounted: that of the disk, and what the layout adds, which may be the same."""

    disks: list[Disk]
    directory: Path
    elsewhere: Path
    guest: str | None = None

    @property
    def devices(self) -> list[str]:
        """The recorded devices: the disks, and the device of a guest."""
        return [disk.name for disk in self.disks] + ([self.guest] if self.guest else [])

    def start(self) -> None:
        """From now on requests take their programmed time."""
        for disk in self.disks:
            disk.start()

    def stop(self) -> None:
        """From now on requests take no time."""
        for disk in self.disks:
            disk.stop()


@contextmanager
def mounted(device: str, directory: Path, options: str) -> Iterator[None]:
    """A device mounted."""
    run("mount", "-o", options, device, str(directory))
    try:
        yield
    finally:
        unmount(directory)


@contextmanager
def staged(spec: DiskSpec, faults: tuple[str, ...], file_system: str, options: str, layout: str) -> Iterator[Stage]:
    """The disk with a file system, and the devices that `layout` adds.

    `beside`: a second disk with an own file system; `mirror`: a second disk, which has the faults, in the same btrfs;
    `guest`: a file system in a file on the disk.
    """
    with ExitStack() as undo:
        is_mirror = layout == "mirror"
        disk = undo.enter_context(raw_disk(spec if is_mirror else spec.with_options(faults)))
        stage = Stage([disk], disk.directory, disk.directory)
        if is_mirror:
            mirror = undo.enter_context(raw_disk(spec.with_options(faults)))
            run(*MAKE[file_system], "-d", "raid1", "-m", "raid1", disk.device, mirror.device)
            run("btrfs", "device", "scan", disk.device, mirror.device)
            stage.disks.append(mirror)
        else:
            run(*MAKE[file_system], disk.device)
        undo.enter_context(mounted(disk.device, disk.directory, options))
        if layout == "beside":
            second = undo.enter_context(raw_disk(spec))
            run(*MAKE[file_system], second.device)
            undo.enter_context(mounted(second.device, second.directory, options))
            stage.disks.append(second)
            stage.elsewhere = second.directory
        if layout == "guest":
            image = disk.directory / "guest.img"
            fill(image, GUEST_MIB)
            device = undo.enter_context(loop_device(image))
            stage.guest = Path(device).name
            run(*MAKE[file_system], device)
            stage.elsewhere = disk.directory.parent / "guest"
            stage.elsewhere.mkdir()
            undo.enter_context(mounted(device, stage.elsewhere, "defaults"))
        # Before anything is unmounted, requests take no time again.
        undo.callback(stage.stop)
        yield stage


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
    """A control group with limits: the directories that a process is put in.

    Keys are those of `blkio.throttle.*_device`, for this disk, or `memory`: its limit in bytes.
    """
    if not (BLKIO / "blkio.throttle.read_iops_device").exists():
        raise StageError("no control groups of version 1 with limits of I/O")
    if "memory" in limits and not (MEMORY / "memory.limit_in_bytes").exists():
        raise StageError("no control groups of version 1 with limits of memory")
    places = [top / f"iolens-{name}-{os.getpid()}" for top in (BLKIO, UNIFIED, MEMORY) if (top / "cgroup.procs").exists()]
    for place in places:
        place.mkdir()
    try:
        for key, value in limits.items():
            if key == "memory":
                (places[-1] / "memory.limit_in_bytes").write_text(str(value))
            else:
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
def recording(program: Path, target: Path, devices: list[str], *, losses: bool = False) -> Iterator[None]:
    """A recording of these devices while the body runs; with `losses` some I/Os are lost."""
    shutil.rmtree(target, ignore_errors=True)
    with ExitStack() as undo:
        noise = undo.enter_context(noise_device()) if losses else None
        chosen = [word for device in [*devices, *([noise] if noise else [])] for word in ("-d", device)]
        small_rings = ["--ring", "128K"] if losses else []
        words = [program, "record", "-q", "-o", target, *chosen, *small_rings]
        process = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        undo.callback(end, process, signal.SIGINT)
        wait_for("the recorder", target / "meta.json", process)
        if noise:
            undo.enter_context(stopped_at_times(process))
        yield


@contextmanager
def noise_device() -> Iterator[str]:
    """A device in memory that is read at random, so that the rings of a stopped recorder fill."""
    fio = shutil.which("fio")
    if fio is None:
        raise StageError("fio is missing")
    with tempfile.NamedTemporaryFile(prefix="iolens-noise-", dir="/dev/shm") as file, ExitStack() as undo:
        file.truncate(64 * MIB)
        device = undo.enter_context(loop_device(Path(file.name)))
        job = f"--name=noise --filename={device} --rw=randread --bs=4k --direct=1 --rate_iops={NOISE_IOPS}"
        process = subprocess.Popen(
            [fio, *job.split(), "--time_based", "--runtime=600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        undo.callback(end, process)
        yield Path(device).name


@contextmanager
def stopped_at_times(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """`process` is stopped for a moment again and again while the body runs."""
    is_over = threading.Event()

    def stop_and_go() -> None:
        while not is_over.wait(STOP_EVERY_S):
            process.send_signal(signal.SIGSTOP)
            is_over.wait(STOP_S)
            process.send_signal(signal.SIGCONT)

    thread = threading.Thread(target=stop_and_go)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


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
