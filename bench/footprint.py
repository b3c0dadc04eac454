#!/usr/bin/env python3
"""The recorder's resource use: CPU per recorded I/O, memory, bytes on disk per I/O (compared with the blk tracer's), idle cost.

  bench/footprint.py [--seconds 15]
"""
import argparse, json, os, re, shutil, signal, subprocess, tempfile, time

PROGRAM = os.environ.get("IOLENS", "target/release/iolens")
TRACING = "/sys/kernel/tracing"
HZ = os.sysconf("SC_CLK_TCK")


def sh(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


class Recorder:
    """iolens record, with its resource use so far."""

    def __init__(self, directory, *arguments):
        self.directory = directory
        self.p = subprocess.Popen([PROGRAM, "record", "-q", "-o", directory, *arguments])
        while not os.path.exists(directory + "/meta.json"):
            time.sleep(0.01)
        time.sleep(0.5)

    def cpu_s(self):
        f = open(f"/proc/{self.p.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(f[11]) + int(f[12])) / HZ

    def rss(self):
        status = open(f"/proc/{self.p.pid}/status").read()
        return {k: int(re.search(k + r":\s+(\d+)", status)[1]) / 1024 for k in ("VmHWM", "VmRSS", "RssAnon")}

    def stop(self):
        self.p.send_signal(signal.SIGINT)
        self.p.wait()
        return json.loads(sh(PROGRAM, "report", self.directory, "--json"))["recording"]


def fio(device_or_dir, seconds, *words):
    out = sh("fio", "--output-format=json", "--time_based", f"--runtime={seconds}", *words)
    return json.loads(out[out.index("{"):])


def fastest(directory, seconds):
    """4 KiB random reads at the highest rate a loop device over tmpfs gives."""
    backing = "/dev/shm/iolens-bench"
    with open(backing, "wb") as f:
        f.truncate(1 << 30)
    device = sh("losetup", "--find", "--show", backing)
    try:
        r = Recorder(directory + "/fast.iolens", "-d", os.path.basename(device))
        before, rss = r.cpu_s(), []
        load = subprocess.Popen(
            ["fio", "--name=x", f"--filename={device}", "--direct=1", "--rw=randread", "--bs=4k", "--iodepth=32",
             "--ioengine=libaio", "--time_based", f"--runtime={seconds}", "--minimal"], stdout=subprocess.DEVNULL)
        while load.poll() is None:
            rss.append(r.rss()["VmRSS"])
            time.sleep(0.25)
        time.sleep(0.5)
        used, peak = r.cpu_s() - before, r.rss()
        rec = r.stop()
        print(f"fastest device: {rec['ios'] / seconds:,.0f} I/O/s, {used * 1e9 / rec['ios']:.0f} ns of recorder CPU per I/O, "
              f"{rec['lost_ios']} lost, resident {max(rss):.0f} MiB at most under load (peak at start {peak['VmHWM']:.0f} MiB), "
              f"{rec['recorder']['bytes_per_io']:.2f} bytes per I/O on disk")
    finally:
        subprocess.run(["losetup", "-d", device])
        os.remove(backing)


def mixed(directory, seconds):
    """ext4 on a loop device: random direct reads, buffered sequential writes, small synchronous appends, a metadata storm."""
    backing, mount = directory + "/ext4.img", directory + "/mnt"
    with open(backing, "wb") as f:
        f.truncate(4 << 30)
    sh("mkfs.ext4", "-q", "-F", backing)
    device = sh("losetup", "--find", "--show", backing)
    name, tracing = os.path.basename(device), True
    os.mkdir(mount)
    sh("mount", device, mount)
    cat = None
    try:
        if not os.path.exists(TRACING + "/current_tracer"):
            subprocess.run(["mount", "-t", "tracefs", "tracefs", TRACING])
        put = lambda path, v: open(path, "w").write(v)
        put(TRACING + "/current_tracer", "blk")
        put(TRACING + "/trace_options", "bin")
        put(TRACING + "/trace_options", "nocontext-info")
        put(f"/sys/block/{name}/trace/enable", "1")
        cat = subprocess.Popen(f"cat {TRACING}/trace_pipe > {directory}/blk", shell=True, preexec_fn=os.setsid)
        r = Recorder(directory + "/mixed.iolens", "-d", name)
        fio(mount, seconds, f"--directory={mount}", "--size=512m",
            "--name=read", "--rw=randread", "--bs=4k", "--direct=1", "--iodepth=4", "--ioengine=libaio", "--rate_iops=4000",
            "--name=write", "--rw=write", "--bs=64k", "--rate=40m", "--fsync=256",
            "--name=log", "--rw=write", "--bs=8k", "--fdatasync=1", "--rate_iops=300",
            "--name=mix", "--rw=randrw", "--bsrange=4k-64k", "--direct=1", "--ioengine=io_uring", "--iodepth=8", "--rate_iops=500",
            "--name=files", "--rw=write", "--bs=4k", "--nrfiles=500", "--filesize=16k", "--size=8m", "--fsync=8", "--rate_iops=200")
        time.sleep(1)
        rec = r.stop()
    finally:
        put(f"/sys/block/{name}/trace/enable", "0")
        put(TRACING + "/current_tracer", "nop")
        if cat:
            os.killpg(cat.pid, signal.SIGTERM)
        subprocess.run(["umount", mount])
        subprocess.run(["losetup", "-d", device])
    blk = os.path.getsize(directory + "/blk") / rec["ios"]
    print(f"mixed load: {rec['ios']:,} I/Os, {rec['lost_ios']} lost, {rec['recorder']['bytes_per_io']:.2f} bytes per I/O on disk "
          f"(blk tracer on the same run: {blk:.0f})")


def idle(directory, seconds):
    r = Recorder(directory + "/idle.iolens")
    before = r.cpu_s()
    time.sleep(seconds)
    used, rss = r.cpu_s() - before, r.rss()
    rec = r.stop()
    print(f"idle: {used / seconds * 100:.3f} % of one CPU over {seconds:g} s, resident {rss['VmRSS']:.0f} MiB, "
          f"{rec['recorder']['disk_bytes']:,} bytes on disk")


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--seconds", type=float, default=15)
    o = a.parse_args()
    directory = tempfile.mkdtemp(prefix="footprint-", dir="target")
    try:
        fastest(directory, o.seconds)
        mixed(directory, o.seconds)
        idle(directory, max(o.seconds * 2, 30))
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
