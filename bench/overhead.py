#!/usr/bin/env python3
"""The slowdown of a recorded load: iolens compared with similar tools, in one run.

A loop device over tmpfs is the fastest disk a machine has, so its IOPS show every nanosecond that a probe takes; where the
kernel has null_blk, --disk null takes that. Each round runs, in shuffled order, (nothing, contender, nothing), so that slow
drifts of the machine touch both alike.
Printed per contender: IOPS recorded / IOPS unrecorded and CPU time of the whole machine per I/O (load, recorder and
kernel threads), each as the median over rounds with its interquartile range, and cycles and instructions per I/O where the
machine counts them. --idle prints the CPU time and memory of each contender's own processes without any load instead, --probes the time in its BPF programs per I/O by the kernel's
own statistics, less what an empty program costs there: of all figures the one that other work on the machine disturbs least.

Rezolus is represented by the BPF programs of its two block I/O samplers, compiled from its crate: its agent reads their maps
only when it is asked, so these are what an I/O costs there. The crate is looked for where cargo unpacks crates (`cargo info
rezolus` puts it there) or in $REZOLUS. "kernel stamps" is bench/kernel_stamps.bpf.c: a histogram of what the kernel noted.

  bench/overhead.py [--rounds 5] [--seconds 3] [--jobs 1,2] [--only iolens,biolatency] [--disk loop|null] [--idle|--probes]
"""
import argparse, glob, json, os, random, shutil, signal, statistics, subprocess, sys, tempfile, time

PROGRAM = os.environ.get("IOLENS", "target/release/iolens")
TRACING = "/sys/kernel/tracing"
PAIR = """
tracepoint:block:block_rq_issue { @start[args->dev, args->sector] = nsecs; @who[args->dev, args->sector] = comm; }
tracepoint:block:block_rq_complete /@start[args->dev, args->sector]/ {
  printf("%llu %s %d %llu %u %llu\\n", nsecs, @who[args->dev, args->sector], args->dev, args->sector,
         args->nr_sector, nsecs - @start[args->dev, args->sector]);
  delete(@start[args->dev, args->sector]); delete(@who[args->dev, args->sector]);
}
"""

HERE = os.path.dirname(os.path.abspath(__file__))
# Lower bound for any program on these tracepoints.
PROGRAMS = [sys.executable, os.path.join(HERE, "empty_programs.py")]
ATTACH = [sys.executable, os.path.join(HERE, "attach_programs.py")]
STAMPS = os.path.join(HERE, "kernel_stamps.bpf.c")
COUNTERS = ["cycles", "instructions"]
STATISTICS = "/proc/sys/kernel/bpf_stats_enabled"
EMPTY = "empty programs there"
PLACES = ["block_io_start", "block_rq_issue", "block_rq_complete"]


def sh(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def cpu_ticks():
    """user, nice, system, irq, softirq of all CPUs, in 1/100 s."""
    f = [int(x) for x in open("/proc/stat").readline().split()[1:]]
    return f[0] + f[1] + f[2] + f[5] + f[6]


def counts():
    """Whether this machine has the hardware counters COUNTERS; most virtual machines do not."""
    if not shutil.which("perf"):
        return False
    words = ["perf", "stat", "-x,", "-a", "-e", ",".join(COUNTERS), "true"]
    out = subprocess.run(words, capture_output=True, text=True)
    return out.returncode == 0 and "<not" not in out.stderr


def load(device, seconds, jobs, counted=False):
    """fio's IOPS; per I/O the machine's CPU nanoseconds and, if available, COUNTERS."""
    words = ["fio", "--name=x", f"--filename={device}", "--direct=1", "--rw=randread", "--bs=4k", "--iodepth=32",
             "--ioengine=libaio", f"--numjobs={jobs}", "--group_reporting", "--time_based", f"--runtime={seconds}",
             "--output-format=json"]
    if counted:
        words = ["perf", "stat", "-x,", "-a", "-e", ",".join(COUNTERS), "--"] + words
    before = cpu_ticks()
    run = subprocess.run(words, check=True, capture_output=True, text=True)
    ticks = cpu_ticks() - before
    read = json.loads(run.stdout[run.stdout.index("{"):])["jobs"][0]["read"]
    lines = [line.split(",") for line in run.stderr.splitlines()] if counted else []
    counters = [int(line[0]) for name in COUNTERS for line in lines if len(line) > 2 and line[2].startswith(name)]
    return [read["iops"]] + [x / read["total_ios"] for x in [ticks * 1e7] + counters]


def family(pid):
    """A process and all its descendants."""
    pids = [pid]
    for p in pids:
        for children in glob.glob(f"/proc/{p}/task/*/children"):
            pids += map(int, open(children).read().split())
    return pids


def rezolus():
    """Arguments of attach_programs.py for the block I/O samplers of Rezolus; nothing if its crate is not here."""
    cargo = os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo"))
    root = os.environ.get("REZOLUS") or max(glob.glob(f"{cargo}/registry/src/*/rezolus-*"), default="")
    sources = sorted(glob.glob(f"{root}/src/agent/samplers/blockio/linux/*/mod.bpf.c")) if root else []
    machine = {"x86_64": "x86_64", "aarch64": "aarch64"}.get(os.uname().machine, "")
    if not sources:
        print("Rezolus is left out: no crate (cargo info rezolus) and no $REZOLUS", file=sys.stderr)
        return []
    print(f"Rezolus: {len(sources)} programs of {os.path.basename(root)}", file=sys.stderr)
    return ["-I", f"{root}/src/agent/bpf/{machine}"] + sources


class Contender:
    def __init__(self, name, words, needs, ready=0.5):
        self.name, self.words, self.needs, self.ready = name, words, needs, ready

    def available(self):
        return shutil.which(self.needs, path=os.environ["PATH"] + ":/usr/sbin") is not None

    def __enter__(self):
        self.dir = tempfile.mkdtemp(dir="target")
        words = [w.replace("DIR", self.dir) for w in self.words]
        self.log = open(self.dir + "/log", "wb")
        self.p = subprocess.Popen(words, stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while self.ready is None and self.p.poll() is None and time.monotonic() < end:
            if b"ready" in open(self.dir + "/log", "rb").read():
                break
            time.sleep(0.05)
        time.sleep(self.ready or 0)
        if self.p.poll() is not None:
            raise RuntimeError(open(self.dir + "/log").read().strip().splitlines()[-1:] or "ended at once")
        return self

    def cost(self):
        """CPU nanoseconds and resident bytes of its processes so far."""
        ns, pages = 0, 0
        for p in family(self.p.pid):
            for schedstat in glob.glob(f"/proc/{p}/task/*/schedstat"):
                ns += int(open(schedstat).read().split()[0])
            pages += int(open(f"/proc/{p}/statm").read().split()[1])
        return ns, pages * os.sysconf("SC_PAGE_SIZE")

    def __exit__(self, *_):
        self.p.send_signal(signal.SIGINT)
        try:
            self.p.wait(20)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()
        self.log.close()
        shutil.rmtree(self.dir)


class BlkTracer(Contender):
    """The kernel's own block tracer, which blktrace uses; without debugfs through the tracing pipe."""

    def available(self):
        return os.path.exists(TRACING + "/current_tracer")

    def put(self, path, value):
        with open(path, "w") as f:
            f.write(value)

    def __enter__(self):
        self.put(TRACING + "/current_tracer", "blk")
        self.put(TRACING + "/trace_options", "bin")
        self.put(TRACING + "/trace_options", "nocontext-info")
        self.put(f"/sys/block/{os.path.basename(self.needs)}/trace/enable", "1")
        return super().__enter__()

    def __exit__(self, *_):
        super().__exit__()
        self.put(f"/sys/block/{os.path.basename(self.needs)}/trace/enable", "0")
        self.put(TRACING + "/current_tracer", "nop")


class Disk:
    """The fastest disk of a kind that this kernel has."""

    def __init__(self, kind):
        self.kind, self.backing = kind, None

    def __enter__(self):
        if self.kind == "null":
            options = ["null_blk", "nr_devices=1", "queue_mode=2", "irqmode=0", "gb=1"]
            if subprocess.run(["modprobe"] + options, capture_output=True).returncode:
                sys.exit("this kernel has no null_blk module: nothing measured on it")
            self.device = "/dev/nullb0"
        else:
            self.backing = "/dev/shm/iolens-bench"
            with open(self.backing, "wb") as f:
                for _ in range(1024):
                    f.write(os.urandom(1 << 20))
            self.device = sh("losetup", "--find", "--show", self.backing)
        return self

    def __exit__(self, *_):
        if self.backing:
            subprocess.run(["losetup", "-d", self.device])
            os.remove(self.backing)
        else:
            subprocess.run(["modprobe", "-r", "null_blk"])


def contenders_on(device):
    name = os.path.basename(device)
    record = [PROGRAM, "record", "-q", "-o", "DIR/r.iolens", "-d", name]
    found = [
        Contender("iolens", record, PROGRAM),
        Contender("iolens --no-attribution", record + ["--no-attribution"], PROGRAM),
        Contender(EMPTY, PROGRAMS + PLACES, "python3", None),
        Contender("reading the clock there", PROGRAMS + ["--clock"] + PLACES, "python3", None),
        Contender("kernel stamps (histogram only)", ATTACH + [STAMPS], "clang", None),
        Contender("biolatency (histogram only)", ["/usr/sbin/biolatency", "1000"], "biolatency", 1.5),
        Contender("bpftrace hash pair, printing", ["bpftrace", "-o", "DIR/out", "-e", PAIR], "bpftrace", 3),
        Contender("perf record -e block:*", ["perf", "record", "-q", "-a", "-e", "block:*", "-o", "DIR/perf"], "perf", 1),
        BlkTracer("blk tracer", ["sh", "-c", f"exec cat {TRACING}/trace_pipe > DIR/out"], device, 0.5),
    ]
    programs = rezolus()
    if programs:
        found.append(Contender("Rezolus (histograms only)", ATTACH + programs, "clang", None))
    return found


def measure(contenders, device, o, jobs, counted):
    """Rows of each contender: unrecorded IOPS, ratio of IOPS, then the added cost per I/O."""
    results = {c.name: [] for c in contenders}
    for _ in range(o.rounds):
        random.shuffle(contenders)
        for c in contenders:
            if not c.available():
                continue
            try:
                bare = load(device, o.seconds, jobs, counted)
                with c:
                    seen = load(device, o.seconds, jobs, counted)
                again = load(device, o.seconds, jobs, counted)
            except (RuntimeError, OSError) as e:
                print(f"{c.name}: cannot run here: {e}", file=sys.stderr)
                continue
            mean = [(x + y) / 2 for x, y in zip(bare, again)]
            added = [x - y for x, y in zip(seen[1:], mean[1:])]
            results[c.name].append([mean[0], seen[0] / mean[0]] + added)
    return results


def idle(contenders, seconds):
    print(f"{'':32} {'CPU of its processes':>22} {'resident':>12}, {seconds:g} s without a load")
    for c in contenders:
        if not c.available():
            print(f"{c.name:32} {'did not run here':>22}")
            continue
        try:
            with c:
                time.sleep(1)
                before = c.cost()[0]
                time.sleep(seconds)
                ns, resident = c.cost()
        except (RuntimeError, OSError) as e:
            print(f"{c.name:32} cannot run here: {e}")
            continue
        print(f"{c.name:32} {(ns - before) / seconds / 1e7:>20.3f} % {resident / 2**20:>8.1f} MiB", flush=True)


def programs_now():
    """Time in each loaded BPF program and its number of runs, by its ID."""
    shown = json.loads(sh("bpftool", "-j", "prog", "show"))
    return {p["id"]: (p.get("run_time_ns", 0), p.get("run_cnt", 0)) for p in shown}


def ios_of_machine():
    """I/Os that all disks have completed: most contenders observe every disk."""
    return sum(sum(int(x) for x in open(stat).read().split()[0:5:4]) for stat in glob.glob("/sys/block/*/stat"))


def probes(contenders, device, o):
    """Time in the BPF programs of each contender per I/O that the machine's disks completed, with one job."""
    if not shutil.which("bpftool"):
        sys.exit("overhead.py: --probes reads the kernel's statistics with bpftool, which is not installed (ci/setup.sh bench)")
    results = {c.name: [] for c in contenders}
    with open(STATISTICS) as f:
        before = f.read()
    with open(STATISTICS, "w") as f:
        f.write("1")
    try:
        for _ in range(o.rounds):
            random.shuffle(contenders)
            for c in contenders:
                others = set(programs_now())
                if not c.available():
                    continue
                try:
                    with c:
                        end = time.monotonic() + 10
                        while not set(programs_now()) - others and c.ready and time.monotonic() < end:
                            time.sleep(0.1)
                        time.sleep(c.ready or 0)
                        at_start = programs_now()
                        ios = ios_of_machine()
                        load(device, o.seconds, 1)
                        ended = programs_now()
                        ios = ios_of_machine() - ios
                except (RuntimeError, OSError) as e:
                    print(f"{c.name}: cannot run here: {e}", file=sys.stderr)
                    continue
                own = [(ended[i][0] - at_start[i][0], ended[i][1] - at_start[i][1]) for i in ended if i in at_start and i not in others]
                results[c.name].append((sum(ns for ns, _ in own), sum(runs for _, runs in own), ios))
    finally:
        with open(STATISTICS, "w") as f:
            f.write(before)
    empty = [ns / runs for ns, runs, _ in results.get(EMPTY, []) if runs]
    empty = statistics.median(empty) if empty else 62
    print(f"{'':32} {'ns in BPF programs per I/O':>26} {'runs':>6}, less {empty:.0f} ns for each run, one job")
    for c, rows in sorted(results.items()):
        rows = [r for r in rows if r[1]]
        if rows:
            net = [(ns - runs * empty) / ios for ns, runs, ios in rows]
            print(f"{c:32} {spread(net, '.0f'):>26} {statistics.median(runs / ios for _, runs, ios in rows):>6.2f}")


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--seconds", type=float, default=3)
    a.add_argument("--jobs", default="1,2")
    a.add_argument("--only")
    a.add_argument("--disk", choices=["loop", "null"], default="loop")
    a.add_argument("--idle", action="store_true")
    a.add_argument("--probes", action="store_true")
    o = a.parse_args()

    if not os.path.exists(TRACING + "/current_tracer"):
        subprocess.run(["mount", "-t", "tracefs", "tracefs", TRACING])
    with Disk(o.disk) as disk:
        contenders = contenders_on(disk.device)
        if o.only:
            contenders = [c for c in contenders if any(w in c.name for w in o.only.split(","))]
        if o.probes:
            return probes(contenders, disk.device, o)
        if o.idle:
            return idle(contenders, o.seconds)
        counted = counts()
        print(f"{disk.device}, direct 4 KiB random reads, queue depth 32, {o.rounds} rounds of {o.seconds:g} s; "
              + ("cycles and instructions of the whole machine" if counted else "cycles and instructions are not counted here"))
        heads = ["CPU ns"] + (COUNTERS if counted else [])
        print(f"{'':32} {'jobs':>4} {'unrecorded':>11} {'ratio of IOPS':>24}"
              + "".join(f" {'added ' + h + ' per I/O':>26}" for h in heads))
        for jobs in map(int, o.jobs.split(",")):
            load(disk.device, 1, jobs)
            for c, rows in sorted(measure(contenders, disk.device, o, jobs, counted).items()):
                if not rows:
                    print(f"{c:32} {jobs:>4} {'did not run here':>24}")
                    continue
                iops, ratio, *added = zip(*rows)
                print(f"{c:32} {jobs:>4} {statistics.median(iops):>11,.0f} {spread(ratio, '.3f'):>24}"
                      + "".join(f" {spread(x, '.0f'):>26}" for x in added))
            sys.stdout.flush()


def spread(values, form):
    """median (first quartile..third quartile)"""
    values = sorted(values)
    q = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return f"{statistics.median(values):{form}} ({q[0]:{form}}..{q[2]:{form}})"


if __name__ == "__main__":
    main()
