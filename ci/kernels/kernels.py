#!/usr/bin/env python3
"""Boots kernels of Debian's suites and one of Ubuntu's in QEMU and compares what iolens records there with what the kernel counts.

    kernels.py [--short] [--arch ARCH] [--binary FILE] [--docs FILE] [KERNEL...]

Without KERNEL the whole matrix of the machine, amd64 unless --arch says arm64. Kernel packages and disks' images are kept in ~/.cache/iolens/kernels (or IOLENS_KERNELS).
"""

import argparse
import dataclasses
import datetime
import gzip
import lzma
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

import named
import origins
import serve
import table

HERE = pathlib.Path(__file__).parent
CACHE = pathlib.Path(os.environ.get("IOLENS_KERNELS", "~/.cache/iolens/kernels")).expanduser()
MIRROR = "http://deb.debian.org/debian"
SECURITY = "http://security.debian.org/debian-security"
SUITES = [(MIRROR, s) for s in ("bullseye", "bookworm", "bookworm-backports", "trixie", "trixie-backports", "sid")]
SUITES += [(SECURITY, f"{s}-security") for s in ("bullseye", "bookworm", "trixie")]
# Its keys come from Debian, so that what they sign can be trusted.
UBUNTU = "http://archive.ubuntu.com/ubuntu jammy-updates main"
# The name on the command line, and the packages among which the newest is taken.
MATRIX = {
    "5.10": r"linux-image-5\.10\.[0-9-]+-amd64",
    "5.15": r"linux-image-unsigned-5\.15\.0-[0-9]+-generic",
    "6.1": r"linux-image-6\.1\.[0-9-]+-amd64",
    "6.1-rt": r"linux-image-6\.1\.[0-9-]+-rt-amd64",
    "6.12": r"linux-image-6\.12\.[0-9]+\+deb13-amd64",
    "6.16": r"linux-image-6\.16\.[0-9]+\+deb13-amd64",
    "6.18": r"linux-image-6\.18\.[0-9]+\+deb13-amd64",
    "7.2": r"linux-image-7\.2\.[0-9]+\+deb13-amd64",
    "7.3": r"linux-image-7\.3\.[0-9]+\+deb13-amd64",
    "6.1-arm64": r"linux-image-6\.1\.[0-9-]+-arm64",
    "6.12-arm64": r"linux-image-6\.12\.[0-9]+\+deb13-arm64",
}


@dataclasses.dataclass(frozen=True)
class Machine:
    """What differs between the machines of guests."""

    arch: str  # as Debian names it
    qemu: str
    prefix: str  # of the compiler and its tools
    console: str
    append: str
    options: tuple


MACHINES = {
    "amd64": Machine("amd64", "qemu-system-x86_64", "", "ttyS0", "no_timer_check possible_cpus=64", ()),
    # Neoverse N1, as Graviton 2 and Ampere Altra: with LSE atomics, without what the translator is slow at.
    "arm64": Machine("arm64", "qemu-system-aarch64", "aarch64-linux-gnu-", "ttyAMA0", "", ("-machine", "virt,gic-version=3", "-cpu", "neoverse-n1")),
}


def machine_of(name):
    return MACHINES["arm64" if name.endswith("-arm64") else "amd64"]


# Long-term kernels, newest first: what the shortest form boots if it is there.
LONG_TERM = ["6.12", "6.1", "5.10"]
MODULES = """virtio_pci virtio_blk nvme virtio_scsi sd_mod loop null_blk brd zram dm_mod dm_crypt dm_multipath
    dm_round_robin raid0 raid1 raid456 bfq kyber_iosched mq_deadline ext4 crc32c_generic crc32c_intel libcrc32c xts ecb
    aes_generic aesni_intel cryptd crypto_simd lzo lzo_rle zstd zsmalloc dm_service_time dm_delay xfs f2fs crc32_generic crc32""".split()
TOOLS = "/usr/sbin/dmsetup /usr/sbin/mdadm /usr/sbin/lvm /usr/sbin/mkfs.ext4 /usr/sbin/mkfs.xfs /usr/sbin/mkfs.f2fs".split()
DISK_BYTES = 128 << 20
STOPPED_S = 10
END_S = 10


def run(*command, **options):
    return subprocess.run([str(c) for c in command], check=True, text=True, stdout=subprocess.PIPE, **options).stdout


class Failure(Exception):
    """What went wrong, in one line."""


class TooSlow(Failure):
    """The guest was not done in time."""


def apt(arch, *arguments, **options):
    """apt for packages of a machine, with a configuration of its own, apart from this machine's."""
    root = CACHE / ("apt" if arch == "amd64" else f"apt-{arch}")
    if not (root / "apt.conf").exists():
        for d in ("lists/partial", "archives/partial", "deb"):
            (root / d).mkdir(parents=True, exist_ok=True)
        (root / "status").touch()
        (root / "sources.list").write_text("".join(f"deb [arch={arch}] {url} {suite} main\n" for url, suite in SUITES))
        (root / "apt.conf").write_text(
            f'Dir::State "{root}"; Dir::State::status "{root}/status"; Dir::Cache "{root}";\n'
            f'Dir::Etc::SourceList "{root}/sources.list"; Dir::Etc::SourceParts "/dev/null";\n'
            'Acquire::Languages "none"; APT::Sandbox::User "root"; APT::Architecture "' f'{arch}"; APT::Architectures "{arch}";\n'
            'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";\n')
        apt(arch, "apt-get", "update", "-qq")
        if arch == "amd64":  # Ubuntu has other machines elsewhere
            apt(arch, "apt-get", "download", "-qq", "ubuntu-keyring", cwd=root)
            run("dpkg-deb", "-x", next(root.glob("ubuntu-keyring*.deb")), root / "keyring")
            keys = root / "keyring/usr/share/keyrings/ubuntu-archive-keyring.gpg"
            with (root / "sources.list").open("a") as f:
                f.write(f"deb [arch=amd64 signed-by={keys}] {UBUNTU}\n")
    return run(*arguments, env={**os.environ, "APT_CONFIG": str(root / "apt.conf")}, **options)


def fetched(name, may_fetch):
    """The directory of a kernel's unpacked package, the newest of its line."""
    mark = CACHE / f"{name}.release"
    if mark.exists() and (CACHE / mark.read_text() / "complete").exists():
        return CACHE / mark.read_text()
    if not may_fetch:
        return None
    arch = machine_of(name).arch
    apt(arch, "apt-get", "update", "-qq")
    names = [l.split()[0] for l in apt(arch, "apt-cache", "search", "--names-only", f"^{MATRIX[name]}$").splitlines()]
    if not names:
        raise Failure(f"no package matches {MATRIX[name]} in Debian's suites")
    numbers = lambda package: [int(n) for n in re.findall(r"\d+", package)]
    package = max(names, key=numbers)
    release = package.removeprefix("linux-image-").removeprefix("unsigned-")
    # Many packages are split; of some the image's own is empty.
    depends = apt(arch, "apt-cache", "depends", package)
    parts = [package, *re.findall(r"Depends: <?(linux-(?:binary|modules)-\S+?)>?$", depends, re.M)]
    if "unsigned" in package:
        parts.append(f"linux-modules-extra-{release}")
    target = CACHE / release
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as downloads:
        print(f"{name}: downloading {' '.join(parts)}", flush=True)
        apt(arch, "apt-get", "download", "-qq", *parts, cwd=downloads)
        for deb in sorted(pathlib.Path(downloads).glob("*.deb")):
            run("dpkg-deb", "-x", deb, target)
            if deb.name.startswith((package + "_", "linux-binary")):
                (target / "version").write_text(run("dpkg-deb", "-f", deb, "Version").strip())
    (target / "complete").touch()
    mark.write_text(release)
    return target


def busybox(machine):
    """The shell and tools of a guest, static."""
    if machine.arch == "amd64":
        return pathlib.Path("/bin/busybox")
    place = CACHE / f"busybox-{machine.arch}"
    found = place / "bin/busybox"
    if not (found.exists() or (place / "usr/bin/busybox").exists()):
        with tempfile.TemporaryDirectory() as downloads:
            apt(machine.arch, "apt-get", "download", "-qq", "busybox-static", cwd=downloads)
            run("dpkg-deb", "-x", next(pathlib.Path(downloads).glob("*.deb")), place)
    return found if found.exists() else place / "usr/bin/busybox"


def bootable(vmlinuz, work):
    """What QEMU can load: the kernel itself, where it is packed for EFI (Documentation/admin-guide/efi-stub.rst)."""
    head = vmlinuz.read_bytes()
    if head[4:8] != b"zimg":
        return vmlinuz
    at, size = (int.from_bytes(head[i : i + 4], "little") for i in (8, 12))
    plain = work / "vmlinux"
    plain.write_bytes(gzip.decompress(head[at : at + size]))
    return plain


def module_files(root, release):
    """The files of MODULES and of all they depend on, by their names."""
    base = next(d for d in (root / "usr/lib/modules" / release, root / "lib/modules" / release) if d.exists())
    if not (base / "modules.dep").exists():
        run("/sbin/depmod", "-b", base.parents[2], release)
    needs = {}
    for line in (base / "modules.dep").read_text().splitlines():
        path, deps = line.split(":")
        needs[path] = deps.split()
    stem = lambda path: path.rsplit("/", 1)[1].split(".ko")[0].replace("-", "_")
    selected, todo = set(), [p for p in needs if stem(p) in MODULES]
    while todo:
        path = todo.pop()
        if path not in selected:
            selected.add(path)
            todo += needs[path]
    return base, selected


def library_files(program):
    """None for a statically linked program."""
    listed = subprocess.run(["ldd", program], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return [w for line in listed.splitlines() for w in line.split() if w.startswith("/")]


def image(machine, kernel, release, binary, work):
    """An initramfs with busybox, the modules, the program and the tools."""
    root = work / "root"
    base, modules = module_files(kernel, release)
    into = root / "lib/modules" / release
    for path in modules:
        source, target = base / path, into / path.removesuffix(".xz")
        target.parent.mkdir(parents=True, exist_ok=True)
        data = source.read_bytes()
        target.write_bytes(lzma.decompress(data) if path.endswith(".xz") else data)
    for f in ("modules.order", "modules.builtin"):
        if (base / f).exists():
            shutil.copy(base / f, into / f)
    run("/sbin/depmod", "-b", root, release, stderr=subprocess.DEVNULL)
    shutil.copy(HERE / "guest.sh", root / "init")
    shutil.copy(HERE / "serve.sh", root)
    (root / "init").chmod(0o755)
    # Those of this machine.
    tools = [t for t in TOOLS if os.path.exists(t)] if machine.arch == "amd64" else []
    box = busybox(machine)
    for program in [binary, box, *tools]:
        name = "/usr/bin/iolens" if program == binary else "/bin/busybox" if program == box else str(program)
        for source, target in [(program, name)] + [(l, l) for l in ([] if name.endswith("busybox") else library_files(program))]:
            target = root / target.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                shutil.copy(source, target)
                target.chmod(0o755)
    run(f"{machine.prefix}gcc", "-static", "-O2", "-pthread", HERE / "load.c", "-o", root / "usr/bin/load")
    run(f"{machine.prefix}strip", root / "usr/bin/iolens")
    with (work / "initrd").open("wb") as out:
        find = subprocess.Popen(["find", "."], cwd=root, stdout=subprocess.PIPE)
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, stdin=find.stdout, stdout=out, check=True)
    shutil.rmtree(root)


def accelerator(vmlinuz, steady):
    """KVM if a kernel boots with it, else QEMU's own translator. `steady`: the guest's time is that of its instructions, so
    that it sees no jumps on a machine that is busy with other work; it has one CPU, because 6.1 never sees a second one
    start with such a clock."""
    if steady:
        return ["-accel", "tcg,thread=single", "-icount", "shift=2", "-cpu", "max"]
    translator = ["-accel", "tcg,thread=multi", "-cpu", "max"]
    if not os.access("/dev/kvm", os.W_OK):
        return translator
    kvm = ["-accel", "kvm", "-cpu", "host"]
    try:
        command = ["qemu-system-x86_64", *kvm, "-m", "512", "-display", "none", "-serial", "stdio", "-no-reboot",
                   "-kernel", str(vmlinuz), "-append", "console=ttyS0 panic=-1"]
        text = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=15).stdout
        return kvm if b"Linux version" in text else translator
    except subprocess.TimeoutExpired:
        return translator


def attend(guest, work, until):
    """Waits for the guest's end, and stops it for a while when it asks for that. Some do not find their end once they are done:
    poweroff waits for CPUs that came and went."""
    may_stop = True
    while guest.poll() is None:
        if time.time() > until:
            raise TimeoutError
        time.sleep(0.3)
        console = (work / "console").read_bytes()
        if b"guest: done" in console:
            try:
                guest.wait(END_S)
            except subprocess.TimeoutExpired:
                return
        if may_stop and b"guest: stop me" in console:
            may_stop = False
            with socket.socket(socket.AF_UNIX) as monitor:
                monitor.connect(str(work / "monitor"))
                monitor.sendall(b"stop\n")
                time.sleep(STOPPED_S)
                monitor.sendall(b"cont\n")
                time.sleep(0.3)


def boot(machine, kernel, release, mode, only, steady, work, seconds):
    """Runs the guest to its end; the results are in the directory that is returned."""
    for name in ("nvme", "shared", "virtio", "scsi", "scsi2", "twice", "results"):
        with (work / name).open("wb") as f:
            f.truncate(256 << 20 if name == "results" else DISK_BYTES)
    vmlinuz = next(p for d in ("boot", "usr/lib/modules") for p in (kernel / d).rglob("vmlinuz*"))
    vmlinuz = bootable(vmlinuz, work)
    # The translator, whatever this machine is: what is tested is the kernel's machine.
    options = machine.options + ("-accel", "tcg,thread=multi") if machine.options else accelerator(vmlinuz, steady)
    cpus = 1 if steady else 2
    node = lambda name: f"driver=raw,node-name={name},discard=unmap,cache.no-flush=on,file.driver=file,file.filename={work}/{name}"
    command = ["nice", "-n", "10", machine.qemu, *options, "-smp", f"{cpus},maxcpus=64", "-m", "1536",
               "-display", "none", "-serial", "stdio", "-monitor", f"unix:{work}/monitor,server,nowait", "-no-reboot", "-nic", "none",
               "-kernel", vmlinuz, "-initrd", work / "initrd",
               "-append", f"console={machine.console} quiet panic=-1 {machine.append} iolens.mode={mode} iolens.only={only}"]
    for name in ("nvme", "shared", "virtio", "scsi", "scsi2", "twice", "results"):
        command += ["-blockdev", node(name)]
    command += ["-device", "nvme,serial=nvme,drive=nvme"]
    command += ["-device", "nvme-subsys,id=group", "-device", "nvme,serial=shared,subsys=group,id=path0",
                "-device", "nvme,serial=shared,subsys=group,id=path1",
                "-device", "nvme-ns,drive=shared,bus=path0,shared=on"]
    for name in ("virtio", "results"):
        command += ["-device", f"virtio-blk-pci,drive={name},serial={name},discard=on"]
    command += ["-device", "virtio-scsi-pci,id=hba"]
    command += ["-device", "scsi-hd,bus=hba.0,drive=scsi,serial=scsi", "-device", "scsi-hd,bus=hba.0,drive=scsi2,serial=scsi2"]
    for _ in range(2):
        command += ["-device", "scsi-hd,bus=hba.0,drive=twice,serial=twice,share-rw=on"]
    with (work / "console").open("w") as console:
        guest = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT)
    try:
        attend(guest, work, time.time() + seconds)
    except TimeoutError:
        raise TooSlow(f"{release}: the guest did not end within {seconds} s; its console: {work}/console")
    finally:
        guest.kill()
        guest.wait()
    found = work / "found"
    try:
        with tarfile.open(work / "results") as archive:
            archive.extractall(found)
    except tarfile.TarError:
        pass
    if not (found / "release").exists():
        raise Failure(f"{release}: the guest left no results; its console: {work}/console")
    return found


def commit():
    try:
        dirty = run("git", "-C", HERE, "status", "--porcelain", "--untracked-files=no", "--", ":(top,exclude)docs/kernels.md").strip()
        return run("git", "-C", HERE, "rev-parse", "--short=7", "HEAD").strip() + ("+" if dirty else "")
    except (subprocess.CalledProcessError, FileNotFoundError):
        return "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"of {', '.join(MATRIX)}; all if none is given")
    parser.add_argument("--short", action="store_true", help="the newest long-term kernel in the cache, one load")
    parser.add_argument("--arch", choices=MACHINES, default="amd64", help="the machine whose kernels are meant if none is given")
    parser.add_argument("--serve", action="store_true", help="what `iolens serve` does when the machine sleeps, its clock is set, its disk turns read-only")
    parser.add_argument("--binary", default="target/release/iolens", help="the program that runs in the guests")
    parser.add_argument("--docs", type=pathlib.Path, help="put the results into this file")
    parser.add_argument("--keep", type=pathlib.Path, help="keep what the guests left in this directory")
    parser.add_argument("--only", default="", help="these devices only, e.g. scsi-bfq,virtio")
    parser.add_argument("--steady", action="store_true", help="for a machine that is busy with other work")
    parser.add_argument("--seconds", type=int, default=900, help="how long a guest may take")
    options = parser.parse_args()
    if options.short:
        options.steady, options.seconds = True, min(options.seconds, 400)
    of_arch = [n for n in MATRIX if machine_of(n).arch == options.arch]
    names = options.kernels or (LONG_TERM[:1] if options.serve else of_arch)
    machines = {machine_of(n) for n in names}
    for tool in ("cpio", "busybox", *(m.qemu for m in machines), *(f"{m.prefix}gcc" for m in machines)):
        if not shutil.which(tool):
            print(f"SKIP: {tool} is missing; install qemu-system-x86 (qemu-system-arm, gcc-aarch64-linux-gnu), cpio, busybox-static, gcc, dmsetup, mdadm, lvm2, e2fsprogs, xfsprogs, f2fs-tools")
            return 0 if options.short else 2
    if options.short:
        names = [n for n in names if n in LONG_TERM and fetched(n, False)]
        names = sorted(names, key=LONG_TERM.index)[:1]
        if not names:
            print(f"SKIP: no long-term kernel in {CACHE}; `make kernels` fetches them")
            return 0
    unknown = [n for n in names if n not in MATRIX]
    if unknown:
        print(f"kernels.py: no kernel {unknown[0]} in the matrix; one of {', '.join(MATRIX)}", file=sys.stderr)
        return 2
    CACHE.mkdir(parents=True, exist_ok=True)
    status = 0
    for name in names:
        began = time.time()
        mode = os.environ.get("IOLENS_MODE") or ("serve" if options.serve else "short" if options.short else "full")
        machine = machine_of(name)
        if mode == "full" and machine.arch != "amd64":
            mode = "devices"  # the tools that make stacks are this machine's
        work = pathlib.Path(tempfile.mkdtemp(prefix=f"iolens-{name}-"))
        try:
            kernel = fetched(name, True)
            release = kernel.name
            image(machine, kernel, release, pathlib.Path(options.binary).resolve(), work)
            found = boot(machine, kernel, release, mode, options.only, options.steady, work, options.seconds)
            if mode == "serve":
                wrong, seen = serve.faults(pathlib.Path(options.binary).resolve(), found)
                print("\n".join([f"{name}: {release}", *seen, *(f"WRONG: {w}" for w in wrong)]), flush=True)
                status |= bool(wrong)
                continue
            result = table.compare(found)
            if mode == "full" and result.cells:
                result.notes += named.notes(pathlib.Path(options.binary).resolve(), found)
            if mode == "full":
                lines, wrong = origins.compare(found)
                result.notes += lines
                result.differences += wrong
                result.failed |= bool(wrong)
        except TooSlow as e:
            print(f"SKIP: {e}" if options.short else f"{name}: {e}")
            status |= not options.short
            continue
        except (Failure, subprocess.CalledProcessError) as e:
            print(f"{name}: {e}", file=sys.stderr)
            status = 1
            continue
        result.about(name, release, (kernel / "version").read_text(), datetime.date.today().isoformat(), commit())
        print(result.text(), flush=True)
        print(f"{name}: {time.time() - began:.0f} s", flush=True)
        status |= result.failed
        if options.docs:
            table.write(options.docs, list(MATRIX), result)
        if options.keep:
            shutil.rmtree(options.keep / name, ignore_errors=True)
            shutil.copytree(found, options.keep / name)
            shutil.copy(work / "console", options.keep / name)
        shutil.rmtree(work, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
