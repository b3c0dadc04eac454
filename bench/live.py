#!/usr/bin/env python3
"""Cost of the screen of `iolens live`, compared with `iolens record` on the same load: CPU time, memory, bytes to the terminal,
time per frame, time to the first picture, and losses.

  bench/live.py [--rates 10000,100000] [--seconds 15] [--rounds 2] [--minutes 0]

The load is 4 KiB random reads of fio at the rates, on a loop device over tmpfs. The terminal has 80x24 characters and accepts
all output immediately. `--minutes` continues with the last rate for that long, for the memory of a whole history.
"""
import argparse, fcntl, os, pty, re, select, shutil, signal, statistics, struct, subprocess, tempfile, termios, threading, time

PROGRAM = os.environ.get("IOLENS", "target/release/iolens")
BACKING = "/dev/shm/iolens-bench-live"
HZ = os.sysconf("SC_CLK_TCK")
FRAMES_PER_S = 4
GOALS = {10_000: 1.0, 100_000: 2.0}


def sh(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def cpu_s(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / HZ


def thread_cpu_s(pid):
    """CPU time of the main thread, which draws."""
    return int(open(f"/proc/{pid}/task/{pid}/schedstat").read().split()[0]) / 1e9


def rss_mib(pid):
    status = open(f"/proc/{pid}/status").read()
    return {k: int(re.search(k + r":\s+(\d+)", status)[1]) / 1024 for k in ("VmHWM", "VmRSS")}


def reads(device):
    return int(open(f"/sys/block/{device}/stat").read().split()[0])


class Load:
    def __init__(self, device, rate, seconds):
        jobs = 2 if rate > 20_000 else 1
        self.p = subprocess.Popen(
            ["fio", f"--filename=/dev/{device}", "--direct=1", "--rw=randread", "--bs=4k", "--ioengine=libaio", "--iodepth=16",
             f"--rate_iops={rate // jobs}", f"--numjobs={jobs}", "--group_reporting", "--time_based", f"--runtime={seconds}",
             "--name=x", "--minimal"], stdout=subprocess.DEVNULL)
        time.sleep(2)

    def stop(self):
        self.p.terminate()
        self.p.wait()


class Record:
    """`iolens record`, until it is stopped."""

    def __init__(self, directory, device):
        self.place = directory + "/record.iolens"
        self.p = subprocess.Popen([PROGRAM, "record", "-q", "-o", self.place, "-d", device])
        while not os.path.exists(self.place + "/meta.json"):
            time.sleep(0.01)

    def stop(self):
        self.p.send_signal(signal.SIGINT)
        self.p.wait()
        shutil.rmtree(self.place)


class Screen:
    """`iolens live` on a pseudo-terminal, whose output is read continuously."""

    def __init__(self, device):
        self.bytes, self.text, self.first, self.attached = 0, b"", None, None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", LC_ALL="C.UTF-8")
            os.environ.pop("NO_COLOR", None)
            os.execv(PROGRAM, [PROGRAM, "live", "--no-serve", "-d", device])
        self.resize(24, 80)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        links = 0
        # The last probe is attached when no further one follows until the first picture.
        while self.first is None:
            found = sum(self.is_probe(fd) for fd in self.descriptors())
            if found > links:
                links, self.attached = found, time.monotonic()
            time.sleep(0.002)

    def descriptors(self):
        try:
            return os.listdir(f"/proc/{self.pid}/fd")
        except FileNotFoundError:
            raise SystemExit("live has ended: " + self.text.decode(errors="replace"))

    def is_probe(self, fd):
        try:
            return re.search("bpf_link|perf_event|bpf-tracepoint|bpf-raw", os.readlink(f"/proc/{self.pid}/fd/{fd}")) is not None
        except OSError:
            return False

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        while True:
            try:
                data = os.read(self.fd, 1 << 16)
            except OSError:
                return
            if not data:
                return
            self.bytes += len(data)
            self.text = (self.text + data)[-(1 << 18):]
            if self.first is None and b"IOPS" in self.text:
                self.first = time.monotonic()

    def lost(self):
        """Time of a frame that is drawn completely, because the terminal size changed."""
        self.text = b""
        self.resize(30, 100)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            plain = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", self.text).decode(errors="replace")
            found = re.search(r"(\S+) lost", plain)
            if found:
                more = re.search(r"(\S+) not shown", plain)
                return found[1] + (f", {more[1]} not shown" if more else "")
            time.sleep(0.05)
        return "?"

    def stop(self):
        os.write(self.fd, b"q")
        os.waitpid(self.pid, 0)
        os.close(self.fd)
        self.reader.join()


def record_percent(directory, device, rate, seconds):
    recorder = Record(directory, device)
    load = Load(device, rate, seconds + 60)
    before, began = cpu_s(recorder.p.pid), time.monotonic()
    time.sleep(seconds)
    percent = 100 * (cpu_s(recorder.p.pid) - before) / (time.monotonic() - began)
    load.stop()
    recorder.stop()
    return percent


def screen_figures(device, rate, seconds):
    screen = Screen(device)
    load = Load(device, rate, seconds + 60)
    # The first seconds fill the picture.
    time.sleep(3)
    cpu, own, sent, done, began = cpu_s(screen.pid), thread_cpu_s(screen.pid), screen.bytes, reads(device), time.monotonic()
    resident = 0
    while time.monotonic() - began < seconds:
        time.sleep(0.25)
        resident = max(resident, rss_mib(screen.pid)["VmRSS"])
    took = time.monotonic() - began
    figures = {
        "percent": 100 * (cpu_s(screen.pid) - cpu) / took,
        "frame_ms": 1000 * (thread_cpu_s(screen.pid) - own) / (took * FRAMES_PER_S),
        "kb_per_s": (screen.bytes - sent) / took / 1000,
        "iops": (reads(device) - done) / took,
        "rss": resident,
        "first_ms": 1000 * (screen.first - screen.attached) if screen.attached else float("nan"),
    }
    load.stop()
    figures["lost"] = screen.lost()
    screen.stop()
    return figures


def long_run(device, rate, minutes):
    screen = Screen(device)
    load = Load(device, rate, minutes * 60 + 60)
    done, began = reads(device), time.monotonic()
    while time.monotonic() - began < minutes * 60:
        time.sleep(5)
    iops = (reads(device) - done) / (time.monotonic() - began)
    rss = rss_mib(screen.pid)
    load.stop()
    print(f"after {minutes} minutes at {iops:,.0f} I/O/s: resident {rss['VmRSS']:.0f} MiB, at most {rss['VmHWM']:.0f} (goal 96), "
          f"{screen.lost()} lost")
    screen.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rates", default="10000,100000")
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--minutes", type=int, default=0)
    args = parser.parse_args()
    if os.geteuid():
        print("SKIP: a loop device needs root")
        return
    rates = [int(r) for r in args.rates.split(",")]
    with open(BACKING, "wb") as backing:
        backing.truncate(256 << 20)
    path = sh("losetup", "--find", "--show", BACKING)
    device = os.path.basename(path)
    try:
        sh("dd", "if=/dev/urandom", f"of={path}", "bs=1M", "count=256", "status=none")
        with tempfile.TemporaryDirectory(prefix="iolens-bench-") as directory:
            for rate in rates:
                print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
                recorded, shown = [], []
                for _ in range(args.rounds):
                    recorded.append(record_percent(directory, device, rate, args.seconds))
                    shown.append(screen_figures(device, rate, args.seconds))
                of = lambda key: statistics.median(s[key] for s in shown)
                more = statistics.median(s["percent"] - r for s, r in zip(shown, recorded))
                goal = f" (goal {GOALS[rate]:+.0f})" if rate in GOALS else ""
                print(f"{of('iops'):,.0f} I/O/s: record {statistics.median(recorded):.1f} % of a CPU, live {of('percent'):.1f} %, "
                      f"difference {more:+.1f}{goal}; {of('frame_ms'):.2f} ms of CPU for a frame (goal 4), "
                      f"{of('kb_per_s'):.1f} kB/s to the terminal (goal 10), resident {max(s['rss'] for s in shown):.0f} MiB (goal 96), "
                      f"first picture {of('first_ms'):.0f} ms after the probes (goal 300), lost {', '.join(s['lost'] for s in shown)}")
        if args.minutes:
            long_run(device, rates[-1], args.minutes)
    finally:
        subprocess.run(["losetup", "-d", path])
        os.remove(BACKING)


if __name__ == "__main__":
    main()
