#!/usr/bin/env python3
"""Cost of `iolens serve` compared with `record` on the same load, and its response times: the values of docs/serve.md.

  bench/serve.py [--seconds 15] [--rounds 3] [--store DIR] [cost ship idle answers zoom clients metrics incidents]

`ship` needs `moto_server` (of the environment variable MOTO_SERVER, or on the PATH) for its part with S3, which is left out without it.
Needs root and fio. DIR is a store that examples/root_store made (made here otherwise, 1 GB); each named part runs, all by default.
Waiting depends on what else runs; CPU time per answer is printed beside it.
"""
import argparse, contextlib, datetime, http.client, json, math, os, pathlib, random, shutil, signal, statistics, subprocess, sys, tempfile, threading, time
import urllib.parse

from disk import loop_device

PROGRAM = os.environ.get("IOLENS", "target/release/iolens")
MAKER = os.environ.get("ROOT_STORE", "target/release/examples/root_store")
ADDRESS = ("127.0.0.1", 19952)
HZ = os.sysconf("SC_CLK_TCK")
DEVICES = 100
S3_PORT = 19953
S3 = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{S3_PORT}", "AWS_REGION": "eu-central-1"}
S3 |= {"AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "secret"}


def fio(device: str, seconds: float, *more: str) -> subprocess.Popen:
    words = ["--name=x", f"--filename={device}", "--direct=1", "--rw=randread", "--bs=4k", "--ioengine=libaio", "--iodepth=16"]
    # A thread instead of a child process, which could outlive it.
    return subprocess.Popen(["fio", *words, "--thread", "--time_based", f"--runtime={seconds}", "--minimal", *more], stdout=subprocess.DEVNULL)


class Service:
    """`iolens serve`, or `record`, and its resource use."""

    def __init__(self, *arguments: str):
        self.p = subprocess.Popen([PROGRAM, *arguments], stderr=subprocess.DEVNULL, env={**os.environ, **S3})

    def ready(self, made) -> "Service":
        while not made():
            if self.p.poll() is not None:
                sys.exit(f"{self.p.args}: exit {self.p.returncode}")
            time.sleep(0.05)
        time.sleep(0.5)
        return self

    def cpu_s(self) -> float:
        f = open(f"/proc/{self.p.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(f[11]) + int(f[12])) / HZ

    def rss_mib(self, key: str = "VmRSS") -> float:
        line = next(l for l in open(f"/proc/{self.p.pid}/status") if l.startswith(key))
        return int(line.split()[1]) / 1024

    def end(self) -> None:
        self.p.send_signal(signal.SIGTERM)
        self.p.wait()


def serve(root: pathlib.Path, *more: str) -> Service:
    listen = "{}:{}".format(*ADDRESS)
    answers = lambda: ask("/healthz")[0] in (200, 503)
    return Service("serve", "--rec", str(root), "--listen", listen, "--public-names", *more).ready(answers)


def ask(path: str, accept: str = "*/*") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(*ADDRESS, timeout=30)
    try:
        connection.request("GET", path, headers={"Accept": accept})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except OSError:
        return 0, b""
    finally:
        connection.close()


def follow(stop: threading.Event) -> None:
    """An open page: it follows `live`, and reloads as often as it requests that."""
    connection = http.client.HTTPConnection(*ADDRESS, timeout=5)
    connection.request("GET", "/api/v1/live")
    stream, next_page = connection.getresponse(), 0.0
    while not stop.is_set():
        stream.readline()
        if time.monotonic() >= next_page:
            page = ask("/report", "text/html")[1]
            data = page[page.find(b'"refresh_s":') + 12:][:8].split(b",")[0].split(b"}")[0]
            next_page = time.monotonic() + max(5.0, float(data or 5))


def cost(work: pathlib.Path, options) -> None:
    out = {"record": [], "serve": [], "serve, a live page": []}
    with loop_device(512) as device:
        name = os.path.basename(device)
        for i in range(options.rounds):
            for kind, values in out.items():
                root, stop = work / f"{kind}-{i}".replace(" ", ""), threading.Event()
                if kind == "record":
                    made = lambda: (root / "meta.json").exists()
                    service = Service("record", "-q", "-o", str(root), "-d", name).ready(made)
                else:
                    service = serve(root, "-d", name)
                if "page" in kind:
                    threading.Thread(target=follow, args=(stop,), daemon=True).start()
                before, began = service.cpu_s(), time.monotonic()
                fio(device, options.seconds, "--rate_iops=20000").wait()
                values.append((service.cpu_s() - before) / (time.monotonic() - began) * 100)
                stop.set()
                service.end()
                shutil.rmtree(root)
    base = statistics.median(out["record"])
    for kind, values in out.items():
        m = statistics.median(values)
        print(f"{kind}: {m:.2f} % of a core at 20,000 I/O/s ({min(values):.2f} to {max(values):.2f}), {m / base:.2f} times record")


@contextlib.contextmanager
def bucket():
    """An S3 server on loopback in a separate process, with a bucket `lake`; nothing without moto."""
    moto = shutil.which(os.environ.get("MOTO_SERVER", "moto_server"))
    if moto is None:
        print("without S3: moto_server is missing")
        yield None
        return
    server = subprocess.Popen([moto, "-H", "127.0.0.1", "-p", str(S3_PORT)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", S3_PORT, timeout=30)
            try:
                connection.request("PUT", "/lake", body=f"<CreateBucketConfiguration><LocationConstraint>{S3['AWS_REGION']}"
                                   "</LocationConstraint></CreateBucketConfiguration>",
                                   headers={"Authorization": f"AWS4-HMAC-SHA256 Credential=someone/20260101/{S3['AWS_REGION']}/s3/aws4_request"})
                if connection.getresponse().status == 200:
                    break
                sys.exit("moto makes no bucket")
            except ConnectionRefusedError:
                if server.poll() is not None:
                    sys.exit("moto_server does not start")
                time.sleep(0.1)
            finally:
                connection.close()
        yield "s3://lake"
    finally:
        server.terminate()
        server.wait()


def samples(name: str) -> dict[str, float]:
    """The samples of a metric, by their labels as printed."""
    lines = ask("/metrics", "text/plain")[1].decode().splitlines()
    found = (line.rpartition(" ") for line in lines if line.startswith((name + " ", name + "{")))
    return {sample.removeprefix(name): float(value) for sample, _, value in found}


def shown(name: str) -> float:
    """The value of a metric without labels."""
    return samples(name).get("", 0.0)


def losses() -> dict[str, int]:
    """I/Os known to be missing, by reason."""
    return {labels.split('"')[1]: int(n) for labels, n in samples("iolens_lost_ios_total").items() if n}


def ship(work: pathlib.Path, options) -> None:
    lost: dict[str, list] = {}
    out = {"not shipping": [], "into a directory": []}
    with loop_device(512) as device, bucket() as s3:
        out |= {"into S3": []} if s3 else {}
        for i in range(options.rounds):
            for kind in random.sample(list(out), len(out)):
                root, target = work / "ship", work / "lake"
                target.mkdir()
                to = {"into a directory": str(target), "into S3": f"{s3}/{i}"}.get(kind)
                service = serve(root, "-d", os.path.basename(device), *(("--ship", to) if to else ()))
                before, began = service.cpu_s(), time.monotonic()
                fio(device, options.seconds, "--rate_iops=20000").wait()
                took = time.monotonic() - began
                cpu, mib = service.cpu_s() - before, shown("iolens_ship_bytes_total") / 2**20
                health = json.loads(ask("/healthz")[1])
                lost.setdefault(kind, []).append(losses() or health["lost_ios"])
                out[kind].append({
                    "% of a core": cpu / took * 100, "MiB/s shipped": mib / took, "MiB resident at most": service.rss_mib("VmHWM"),
                    "IOPS": health["ios"] / took, "files waiting": shown("iolens_ship_waiting_files"),
                    "attempts failed": shown("iolens_ship_failures_total"),
                })
                service.end()
                shutil.rmtree(root)
                shutil.rmtree(target)
    base = statistics.median(run["% of a core"] for run in out["not shipping"])
    for kind, runs in out.items():
        medians = [f"{statistics.median(run[name] for run in runs):,.2f} {name}" for name in runs[0]]
        cpu = [run["% of a core"] for run in runs]
        print(f"serve, {kind}: {', '.join(medians)}; lost in each run: {lost[kind]}; "
              f"{min(cpu):.2f} to {max(cpu):.2f} %, {statistics.median(cpu) / base:.2f} times that without, {len(runs)} runs of {options.seconds} s")


def idle(work: pathlib.Path, options) -> None:
    service = serve(work / "idle")
    time.sleep(5)
    before = service.cpu_s()
    time.sleep(options.seconds * 2)
    print(f"idle: {(service.cpu_s() - before) / options.seconds / 2 * 100:.2f} % of a core, {service.rss_mib():.0f} MiB resident, "
          f"{service.rss_mib('VmHWM'):.0f} at most")
    service.end()


def store_of(work: pathlib.Path, options) -> pathlib.Path:
    """The store from the command line, created if it does not exist."""
    store = options.store or work / "store"
    if not store.exists():
        subprocess.run([MAKER, str(store)], check=True)
    return store


def spans() -> tuple[float, float]:
    recordings = json.loads(ask("/api/v1/recordings")[1])["recordings"]
    seconds = lambda t: time.mktime(time.strptime(t[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
    return min(seconds(r["from"]) for r in recordings), max(seconds(r["to"]) for r in recordings)


def timed(service: Service, what: str, paths: list[str]) -> None:
    took, cpu, refused = [], [], 0
    for path in paths:
        before, began = service.cpu_s(), time.perf_counter()
        status, _ = ask(path)
        took.append((time.perf_counter() - began) * 1e3)
        cpu.append((service.cpu_s() - before) * 1e3)
        refused += status != 200
    took.sort()
    cpu.sort()
    print(f"{what}: p50 {took[len(took) // 2]:.0f} ms, p99 {took[len(took) * 99 // 100]:.0f} ms; CPU {statistics.mean(cpu):.0f} ms each, "
          f"p99 {cpu[len(cpu) * 99 // 100]:.0f} ms "
          f"({len(paths)} questions, {refused} refused), {service.rss_mib('VmHWM'):.0f} MiB at most", flush=True)


def answers(work: pathlib.Path, options) -> None:
    store = store_of(work, options)
    random.seed(1)
    query = lambda **q: urllib.parse.urlencode(q)
    service = serve(store / "rollups", "--no-record")
    low, high = spans()
    all_time = {"from": low, "to": high}
    disks = lambda: {"device": f"disk{random.randrange(DEVICES)}"}
    n = options.questions
    timed(service, "series of 30 days, all", [f"/api/v1/series?{query(**all_time)}"] * n)
    timed(service, "series of 30 days, one device", [f"/api/v1/series?{query(**all_time, **disks())}" for _ in range(n)])
    timed(service, "series of 30 days, one device, extended", [f"/api/v1/series?{query(**all_time, **disks(), extended='true')}" for _ in range(n)])
    timed(service, "heatmap of 30 days, one device", [f"/api/v1/heatmap?{query(**all_time, **disks())}" for _ in range(n)])
    timed(service, "heatmap of 30 days, all", [f"/api/v1/heatmap?{query(**all_time)}"] * n)
    service.end()
    service = serve(store / "ios", "--no-record")
    low, high = spans()

    def anywhere(longest: float) -> dict:
        length = 10 ** random.uniform(-2, longest)
        begin = random.uniform(low, high - length)
        return {"from": f"{begin:.6f}", "to": f"{begin + length:.6f}"}

    timed(service, "series at random in 100 M I/Os", [f"/api/v1/series?{query(**anywhere(3.4))}" for _ in range(n)])
    timed(service, "heatmap at random in 100 M I/Os", [f"/api/v1/heatmap?{query(**anywhere(3.4))}" for _ in range(n)])
    timed(service, "ios at random in 100 M I/Os", [f"/api/v1/ios?{query(**anywhere(-0.6))}" for _ in range(n)])
    service.end()


# Pixels of the application's chart in a window of 1400 x 900: columns of two, rows of four.
PLOT_WIDTH, HEAT_HEIGHT = 1290, 190
# From view.ts: steps of the series, and the width below which single I/Os are shown.
STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)
IO_SPAN_S = 0.05
# State of the store that the application knows after its first step.
IOS_PER_S = 30_000


def zoom_step(begin: float, span: float) -> dict[str, list[str]]:
    """The application's requests at a zoom step, by path."""
    margin, column = span / 4, 2 * span / PLOT_WIDTH
    low, high = begin - margin, begin + span + margin
    if column >= 0.5:
        column = math.ceil(column / 60) * 60 if column >= 30 else math.ceil(column)
        low, high = column * math.floor(low / column), column * math.ceil(high / column)
    around = {"from": f"{low:.6f}", "to": f"{high:.6f}"}
    exact = {"from": f"{begin:.6f}", "to": f"{begin + span:.6f}"}
    width, height = min(2048, round((high - low) / column)), min(96, round(HEAT_HEIGHT / 4))
    step = next((s for s in STEPS if (high - low) / s <= width), 86400)
    step = 1 if step == 0.5 or (step < 1 and IOS_PER_S * (high - low) > 1e6) else step
    asked: dict[str, list[dict]] = {"stories": [exact], "waits": [exact | {"by": "process"}], "actors": [exact | {"by": "process"}], "findings": [exact]}
    if span < IO_SPAN_S:
        asked["ios"] = [around | {"to": f"{begin + span + margin + 1:.6f}", "limit": 100_000}]
    else:
        asked["heatmap"] = [around | {"class": c, "width": width, "height": height} for c in ("write", "read")]
        asked["series"] = [around | {"step": f"{step}s", "extended": "true"}]
    return {path: [f"/api/v1/{path}?{urllib.parse.urlencode(q)}" for q in questions] for path, questions in asked.items()}


def zoom(work: pathlib.Path, options) -> None:
    store = store_of(work, options)
    random.seed(2)
    service = serve(store / "ios", "--no-record")
    low, high = spans()
    steps = []
    for _ in range(options.questions):
        span = 10 ** random.uniform(-2, 3.3)
        steps.append(zoom_step(random.uniform(low + span, high - 2 * span), span))
    for path in ("heatmap", "series", "ios", "actors", "waits", "stories", "findings"):
        timed(service, f"{path} at a zoom step in 100 M I/Os", [url for step in steps for url in step.get(path, [])])
    service.end()


def clients(work: pathlib.Path, options) -> None:
    with loop_device(512) as device:
        service, stop, statuses = serve(work / "clients", "-d", os.path.basename(device)), threading.Event(), {}

        def one() -> None:
            while not stop.is_set():
                status, _ = ask(random.choice(["/api/v1/series?from=-1m", "/api/v1/heatmap?from=-1m", "/metrics", "/api/v1/findings?from=-1m"]))
                statuses[status] = statuses.get(status, 0) + 1

        for _ in range(32):
            threading.Thread(target=one, daemon=True).start()
        fio(device, options.seconds, "--iodepth=32").wait()
        stop.set()
        health = json.loads(ask("/healthz")[1])
        print(f"32 clients: {health['ios'] / options.seconds:,.0f} I/O/s recorded, {health['lost_ios']} lost, answers by status {statuses}")
        service.end()


def metrics(work: pathlib.Path, options) -> None:
    with contextlib.ExitStack() as stack:
        devices = [stack.enter_context(loop_device(4)) for _ in range(options.devices)]
        service = serve(work / "metrics", *(word for d in devices for word in ("-d", os.path.basename(d))))
        job = ["--name=x", "--direct=1", "--rw=randrw", "--bs=4k", "--ioengine=libaio", "--iodepth=4", "--number_ios=400"]
        subprocess.run(["fio", *job, "--filename=" + ":".join(devices), "--minimal"], stdout=subprocess.DEVNULL, check=True)
        for d in devices:
            subprocess.run(["fio", *job, "--filename=" + d, "--minimal"], stdout=subprocess.DEVNULL, check=True)
        time.sleep(3)
        protocol = "application/vnd.google.protobuf"
        for what, accept in (("text", "text/plain"), ("protobuf", protocol)):
            size = len(ask("/metrics", accept)[1])
            before, n = service.cpu_s(), 50
            took = []
            for _ in range(n):
                began = time.perf_counter()
                ask("/metrics", accept)
                took.append((time.perf_counter() - began) * 1e3)
            cpu = (service.cpu_s() - before) * 1e3 / n
            print(f"/metrics of {options.devices} devices that read and write, {what}: {size / 1024:.0f} KiB, {statistics.median(took):.1f} ms, {cpu:.1f} ms of CPU")
        service.end()


def incidents(work: pathlib.Path, options) -> None:
    """Bursts of large writes beside more reads than the search for stories can process."""
    with loop_device(512) as device:
        root = work / "incidents"
        said = root / "said"
        service = serve(root, "-d", os.path.basename(device), "--on-story", f"cat >> {said}")
        pause_s, n = 70, 4
        reads = fio(device, (n + 1.5) * (pause_s + 5), "--iodepth=4")
        bursts = []
        for _ in range(n):
            time.sleep(pause_s)
            began = time.time()
            fio(device, 5, "--rw=write", "--bs=1M", "--iodepth=64").wait()
            bursts.append((began, time.time()))
        reads.wait()
        ios = json.loads(ask("/healthz")[1])["ios"]
        service.end()
        stories = [json.loads(line) for line in said.read_text().splitlines()] if said.exists() else []
        unix_s = lambda text: datetime.datetime.fromisoformat(text).timestamp()
        found = sum(any(unix_s(s["start"]) <= end and unix_s(s["end"]) >= began for s in stories) for began, end in bursts)
        print(f"incidents beside {ios / (n + 1.5) / (pause_s + 5):,.0f} I/O/s: stories of {found} of {n}")


def run_parts(parser: argparse.ArgumentParser, functions: tuple) -> None:
    """Run the parts from the command line, all by default, each with a working directory."""
    parts = {f.__name__: f for f in functions}
    parser.add_argument("parts", nargs="*", metavar="PART", help=" ".join(parts))
    parser.add_argument("--store", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="iolens-bench-") as work:
        for part in options.parts or parts:
            parts[part](pathlib.Path(work), options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--devices", type=int, default=DEVICES, help="of metrics")
    run_parts(parser, (cost, ship, idle, answers, zoom, clients, metrics, incidents))


if __name__ == "__main__":
    main()
