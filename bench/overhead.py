#!/usr/bin/env python3
"""What recording costs the recorded: iolens beside its peers, in one run.

A loop device over tmpfs is the fastest disk a machine has, so its IOPS show every nanosecond that a probe takes.
Each round runs, in shuffled order, (nothing, contender) pairs, so that slow drifts of the machine touch both alike.
Printed per contender: IOPS recorded / IOPS unrecorded and CPU time of the whole machine per I/O (load, recorder and
kernel threads), each as the median over rounds with its interquartile range.

  bench/overhead.py [--rounds 5] [--seconds 3] [--jobs 1,2] [--only iolens,biolatency]
"""
import argparse, json, os, random, shutil, signal, statistics, subprocess, sys, tempfile, time

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

# Lower bound for any program on these tracepoints.
PROGRAMS = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "empty_programs.py")]
PLACES = ["block_io_start", "block_rq_issue", "block_rq_complete"]


def sh(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def cpu_ticks():
    """user, nice, system, irq, softirq of all CPUs, in 1/100 s."""
    f = [int(x) for x in open("/proc/stat").readline().split()[1:]]
    return f[0] + f[1] + f[2] + f[5] + f[6]


def load(device, seconds, jobs):
    """fio's IOPS, and the machine's CPU nanoseconds per I/O meanwhile."""
    before = cpu_ticks()
    out = sh("fio", "--name=x", f"--filename={device}", "--direct=1", "--rw=randread", "--bs=4k", "--iodepth=32",
             "--ioengine=libaio", f"--numjobs={jobs}", "--group_reporting", "--time_based", f"--runtime={seconds}",
             "--output-format=json")
    read = json.loads(out[out.index("{"):])["jobs"][0]["read"]
    return read["iops"], (cpu_ticks() - before) * 1e7 / read["total_ios"]


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
        time.sleep(self.ready)
        if self.p.poll() is not None:
            raise RuntimeError(open(self.dir + "/log").read().strip().splitlines()[-1:] or "ended at once")
        return self

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
    """The kernel's own block tracer, what blktrace reads; without debugfs through the tracing pipe."""

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


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--seconds", type=float, default=3)
    a.add_argument("--jobs", default="1,2")
    a.add_argument("--only")
    o = a.parse_args()

    backing = "/dev/shm/iolens-bench"
    with open(backing, "wb") as f:
        for _ in range(1024):
            f.write(os.urandom(1 << 20))
    device = sh("losetup", "--find", "--show", backing)
    if not os.path.exists(TRACING + "/current_tracer"):
        subprocess.run(["mount", "-t", "tracefs", "tracefs", TRACING])
    name = os.path.basename(device)
    record = [PROGRAM, "record", "-q", "-o", "DIR/r.iolens", "-d", name]
    contenders = [
        Contender("iolens", record, PROGRAM),
        Contender("iolens --no-attribution", record + ["--no-attribution"], PROGRAM),
        Contender("empty programs there", PROGRAMS + PLACES, "python3"),
        Contender("reading the clock there", PROGRAMS + ["--clock"] + PLACES, "python3"),
        Contender("biolatency (histogram only)", ["/usr/sbin/biolatency", "1000"], "biolatency", 1.5),
        Contender("bpftrace hash pair, printing", ["bpftrace", "-o", "DIR/out", "-e", PAIR], "bpftrace", 3),
        Contender("perf record -e block:*", ["perf", "record", "-q", "-a", "-e", "block:*", "-o", "DIR/perf"], "perf", 1),
        BlkTracer("blk tracer", ["sh", "-c", f"exec cat {TRACING}/trace_pipe > DIR/out"], device, 0.5),
    ]
    if o.only:
        contenders = [c for c in contenders if any(w in c.name for w in o.only.split(","))]
    try:
        print(f"{name} over tmpfs, direct 4 KiB random reads, queue depth 32, {o.rounds} rounds of {o.seconds:g} s")
        print(f"{'':32} {'jobs':>4} {'unrecorded':>11} {'ratio of IOPS':>24} {'added CPU ns per I/O':>26}")
        for jobs in map(int, o.jobs.split(",")):
            load(device, 1, jobs)
            results = {c.name: [] for c in contenders}
            for _ in range(o.rounds):
                random.shuffle(contenders)
                for c in contenders:
                    if not c.available():
                        continue
                    try:
                        bare = load(device, o.seconds, jobs)
                        with c:
                            seen = load(device, o.seconds, jobs)
                        again = load(device, o.seconds, jobs)
                    except (RuntimeError, OSError) as e:
                        print(f"{c.name}: cannot run here: {e}", file=sys.stderr)
                        continue
                    iops, cpu = ((bare[i] + again[i]) / 2 for i in (0, 1))
                    results[c.name].append((iops, seen[0] / iops, seen[1] - cpu))
            for c, rows in sorted(results.items()):
                if rows:
                    iops, ratio, cpu = zip(*rows)
                    print(f"{c:32} {jobs:>4} {statistics.median(iops):>11,.0f} {spread(ratio, '.3f'):>24} {spread(cpu, '.0f'):>26}")
                else:
                    print(f"{c:32} {jobs:>4} {'did not run here':>24}")
            sys.stdout.flush()
    finally:
        subprocess.run(["losetup", "-d", device])
        os.remove(backing)


def spread(values, form):
    """median (first quartile..third quartile)"""
    values = sorted(values)
    q = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return f"{statistics.median(values):{form}} ({q[0]:{form}}..{q[2]:{form}})"


if __name__ == "__main__":
    main()
