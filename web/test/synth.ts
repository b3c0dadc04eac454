/**
 * A generated but plausible recording for tests and for viewing the page: steady random reads, and a burst of
 * sequential writes every five seconds, during which the reads wait.
 */
import type { FleetDocument } from "../src/generated/fleet";
import type { LabPage } from "../src/generated/lab";
import { packColumn, packList, toLogCode } from "../src/codec";
import { random } from "../src/random";
import type { ActorBlock, BurstBlock, CapacityBlock, ClassSummary, DepthBlock, DistributionsBlock, FindingBlock, LevelBlock, MicroburstEvidence, PageData, PeriodicityEvidence, PeriodicityVerdict, ScopeBlock, SlotGroupBlock, StallEvidence, UtilDisagreementEvidence } from "../src/generated/page";

export { random };

class Dice {
  readonly uniform: () => number;
  constructor(seed: number) {
    this.uniform = random(seed);
  }
  normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.uniform())) * Math.cos(2 * Math.PI * this.uniform());
  }
  poisson(mean: number): number {
    if (mean > 30) return Math.max(0, Math.round(mean + Math.sqrt(mean) * this.normal()));
    const limit = Math.exp(-mean);
    let n = 0;
    for (let p = this.uniform(); p > limit; p *= this.uniform()) n++;
    return n;
  }
}

const PERIOD = 5;
const READS_PER_S = 8500;
const WRITES_IN_BURST = 14_000;
const WRITE_BYTES = 128 * 1024;
const READ_BYTES = 8 * 1024;

function burstLength(k: number): number {
  return k % 12 === 7 ? 0.9 : 0.35 + 0.15 * Math.sin(k * 1.7);
}

/** Share of `[from, to)` that is within a write burst. */
function burstShare(from: number, to: number): number {
  let on = 0;
  for (let k = Math.floor(from / PERIOD) - 1; k * PERIOD < to; k++) {
    const a = k * PERIOD + 3;
    on += Math.max(0, Math.min(to, a + burstLength(k)) - Math.max(from, a));
  }
  return on / (to - from);
}

/** Latency quantile in ns: two lognormals, the second one during a burst. */
function latency(q: number, median: number, spread: number): number {
  const z = q <= 0.5 ? 0 : q >= 0.999 ? 3.1 : q >= 0.99 ? 2.33 : q >= 0.9 ? 1.28 : 0.5;
  return median * Math.exp(spread * z);
}

interface SlotNumbers {
  values: Record<string, number | null>;
}

function slot(from: number, step: number, dice: Dice): SlotNumbers {
  const burst = burstShare(from, from + step);
  const drift = 1 + 0.25 * Math.sin(from / 700);
  const reads = dice.poisson(READS_PER_S * drift * step * (1 - 0.55 * burst));
  const writes = dice.poisson((WRITES_IN_BURST * burst + 25) * step);
  const readMedian = 95_000 * drift * (burst > 0.5 ? 60 : 1) * Math.exp(0.04 * dice.normal());
  const writeMedian = (burst > 0.2 ? 9e6 : 60_000) * Math.exp(0.05 * dice.normal());
  const tail = burst > 0.02 ? 60 : 1;
  const r = (q: number) => (reads === 0 ? null : toLogCode(latency(q, readMedian, 0.35) * (q > 0.98 ? tail : 1) * Math.exp(0.1 * dice.normal())));
  const w = (q: number) => (writes === 0 ? null : toLogCode(latency(q, writeMedian, 0.5) * Math.exp(0.1 * dice.normal())));
  const busyRead = Math.min(1, (reads / step) * 105e-6 * 0.35);
  const busyWrite = Math.min(1, burst + 0.003);
  const inflight = ((reads * readMedian + writes * writeMedian) / 1e9 / step) * 1.1;
  return {
    values: {
      r_ios: reads, r_sec: reads * (READ_BYTES / 512), r_mean: r(0.6), r_p50: r(0.5), r_p90: r(0.9), r_p99: r(0.99), r_max: r(1),
      w_ios: writes, w_sec: writes * (WRITE_BYTES / 512), w_mean: w(0.6), w_p50: w(0.5), w_p90: w(0.9), w_p99: w(0.99), w_max: w(1),
      d_ios: 0, d_sec: 0, f_ios: burst > 0 && step >= 1 ? 2 : 0, f_max: null,
      busy: Math.round(1000 * (1 - (1 - busyRead) * (1 - busyWrite))),
      busy_r: Math.round(1000 * busyRead), busy_w: Math.round(1000 * busyWrite),
      q_mean: toLogCode(inflight * 1000), q_max: Math.ceil(inflight * 1.8 + 3 * burst * 40),
    },
  };
}

function level(fromS: number, stepMs: number, slots: number, dice: Dice): LevelBlock {
  const columns: Record<string, (number | null)[]> = {};
  for (let i = 0; i < slots; i++) {
    for (const [name, v] of Object.entries(slot(fromS + (i * stepMs) / 1000, stepMs / 1000, dice).values)) (columns[name] ??= []).push(v);
  }
  const cols: LevelBlock["cols"] = {};
  for (const [name, c] of Object.entries(columns)) cols[name as keyof LevelBlock["cols"]] = packColumn(c);
  return { from_ns: Math.round(fromS * 1e9), step_ns: stepMs * 1e6, to_ns: Math.round(fromS * 1e9) + stepMs * 1e6 * slots, slot_count: slots, cols };
}

function buckets(pairs: number[][]): string {
  let last = 0;
  return packList(pairs.flatMap(([k, ...v]) => {
    const d = (k ?? 0) - last;
    last = k ?? 0;
    return [d, ...v];
  }));
}

function bell(median: number, sigma: number, n: number, slow = 0, slowMedian = 1): number[][] {
  const out: number[][] = [];
  for (let k = 60; k < 260; k++) {
    const x = Math.log(2 ** ((k + 0.5) / 8));
    const p = (m: number, s: number) => Math.exp(-(((x - Math.log(m)) / s) ** 2) / 2) / s;
    const c = Math.round(n * 0.0346 * ((1 - slow) * p(median, sigma) + slow * p(slowMedian, 0.6)));
    if (c > 0) out.push([k, c]);
  }
  return out;
}

function billionths(perMillion: number[][]): string {
  return buckets(perMillion.map(([k, ppm]) => [k ?? 0, (ppm ?? 0) * 1000]));
}

function distributions(seconds: number): DistributionsBlock {
  const reads = READS_PER_S * seconds;
  const writes = WRITES_IN_BURST * 0.08 * seconds;
  const concurrency: number[][] = [[0, 552_000], [1, 210_000], [2, 84_000], [3, 36_000], [4, 18_000], [5, 9000]];
  for (let k = 20; k < 140; k += 3) concurrency.push([k, Math.round(91_000 * Math.exp(-(((k - 75) / 22) ** 2) / 2) / 18)]);
  return {
    latency: {
      read: { total: buckets(bell(95_000, 0.35, reads, 0.04, 6e6)), queue: buckets(bell(4000, 0.5, reads)), device: buckets(bell(90_000, 0.35, reads, 0.04, 6e6)) },
      write: { total: buckets(bell(9e6, 0.5, writes)), queue: buckets(bell(30_000, 0.9, writes)), device: buckets(bell(8.8e6, 0.5, writes)) },
      flush: { total: buckets(bell(2.1e6, 0.3, 700)) },
    },
    percentiles_us: {
      read: { total: [95, 146, 6100], queue: [4, 7.6, 12.8], device: [90, 141, 6000] },
      write: { total: [9000, 17_100, 28_800], queue: [30, 95, 240], device: [8800, 16_700, 28_100] },
      flush: { total: [2100, 3080, 4210] },
    },
    size: {
      read: buckets([[12, reads * 0.3, reads * 0.3 * 8], [13, reads * 0.62, reads * 0.62 * 16], [14, reads * 0.08, reads * 0.08 * 32]].map((r) => r.map(Math.round))),
      write: buckets([[12, writes * 0.05, writes * 0.4], [17, writes * 0.8, writes * 0.8 * 256], [18, writes * 0.15, writes * 0.15 * 512]].map((r) => r.map(Math.round))),
    },
    concurrency_shares: { all: billionths(concurrency), read: billionths(concurrency.slice(0, 6)), write: billionths([[0, 910_000], ...concurrency.slice(6)]) },
  };
}

const NO_STATS = {
  errors: 0, merges: 0, low_n: false, p75_us: null, p95_us: null, p50_ci_us: null, p90_ci_us: null, p99_ci_us: null, p999_ci_us: null,
};

function stats(ios: number, bytes: number, median: number, tail: number): ClassSummary {
  if (ios === 0) {
    return { ...NO_STATS, ios: 0, bytes: 0, mean_us: null, p50_us: null, p90_us: null, p99_us: null, p999_us: null, max_us: null, queue_mean_us: null, device_mean_us: null, sequential_percent: null };
  }
  return {
    ...NO_STATS, ios, bytes, mean_us: median * 1.4, p50_us: median, p90_us: median * 1.7, p99_us: median * tail, p999_us: median * tail * 1.9,
    max_us: median * tail * 4.1, queue_mean_us: median * 0.05, device_mean_us: median * 1.35, sequential_percent: bytes / ios > 65536 ? 96.2 : 3.1,
  };
}

/** A file name that would change a terminal's colour, break lines, and reverse the text after it. */
export const UNSEEN = "/srv/\u001b[31mred\r\n\u202e\u{e0041}gpj.exe";

export { filesData } from "./files";
export { fleet } from "./fleet";
export { experiment } from "./lab";
export { inside, FILE_START_S, MOMENT_S } from "./inside";

export const HOSTILE = `</script><img src=x onerror="document.title='owned'">`;

function actors(seconds: number): ActorBlock[] {
  const row = (by: ActorBlock["by"], name: string, identity: string | null, origin: string | null, r: number, w: number, time: number): ActorBlock => ({
    by, name, identity, device: "nvme0n1", origin, io_time_percent: time,
    read: { ios: Math.round(r * seconds), bytes: Math.round(r * seconds) * READ_BYTES, mean_us: r > 0 ? 132.4 : null, p99_us: r > 0 ? 6120 : null, max_us: r > 0 ? 31_200 : null },
    write: { ios: Math.round(w * seconds), bytes: Math.round(w * seconds) * WRITE_BYTES, mean_us: w > 0 ? 9230 : null, p99_us: w > 0 ? 28_400 : null, max_us: w > 0 ? 61_000 : null },
  });
  return [
    row("process", "postgres", "41 processes, first pid 2114", "direct", 7300, 0, 8.2),
    row("process", "checkpointer", "pid 812", "writeback", 0, 1090, 89.3),
    row("process", HOSTILE, "pid 6666", "direct", 900, 0, 1.1),
    row("process", "jbd2/nvme0n1p2-8", "pid 431", "metadata", 0, 24, 0.9),
    row("process", "restic", "pid 90311", "direct", 300, 2, 0.4),
    row("process", "iolens", "pid 91002, this recorder", "direct", 0, 1.2, 0.1),
    row("cgroup", "/system.slice/postgresql.service", "id 4711", null, 7300, 1040, 93.1),
    row("cgroup", "/system.slice/backup.service", "id 5120", null, 300, 2, 0.4),
    row("cgroup", "/", "id 1", null, 900, 74, 6.5),
    row("file", UNSEEN, "inode 77 on sda1", null, 5, 3, 0.1),
    row("file", "/var/lib/postgresql/16/main/base/16384/24601", "inode 1180214 on nvme0n1p2", "direct", 6100, 610, 55.2),
    row("file", "/var/lib/postgresql/16/main/pg_wal/0000000100000A2C000000F1", "inode 1180991 on nvme0n1p2", "writeback", 0, 480, 33.9),
    row("file", "(journal)", "nvme0n1p2", "metadata", 0, 24, 0.9),
  ];
}

const START_UNIX_S = 1_795_238_400;

/** A time of the recording as RFC 3339. */
function rfc3339(atS: number): string {
  return new Date((START_UNIX_S + atS) * 1000).toISOString();
}

function findings(seconds: number): FindingBlock[] {
  const bursts = [7, 19, 31, 103, 311, 499].filter((k) => k * PERIOD + 4 < seconds);
  const out: Omit<FindingBlock, "start" | "end">[] = [
    {
      kind: "stall", device: "nvme0n1", start_s: 0, end_s: seconds, severity: "critical",
      summary: "Nothing completed for 613 ms, while 28 I/Os were in the device.",
      evidence: { duration_s: 0.613, expected_s: 0.002, in_flight: 28, completed_before: "write", completed_after: "read" } satisfies Partial<StallEvidence> as StallEvidence,
    },
    {
      kind: "periodicity", device: "nvme0n1", start_s: 0, end_s: seconds, severity: "warning",
      summary: "Writes come back every 5.00 s: the flusher's dirty_writeback interval.",
      evidence: { period_s: 5.0, confidence: 0.997, cycles: Math.floor(seconds / PERIOD), autocorrelation: 0.91, p_value: 0.0033, cause: "writeback" } satisfies Partial<PeriodicityEvidence> as PeriodicityEvidence,
    },
  ];
  for (const k of bursts) {
    const start = k * PERIOD + 3;
    const length = burstLength(k);
    out.push({
      kind: "microburst", device: "nvme0n1", start_s: start, end_s: start + length, severity: k % 12 === 7 ? "warning" : "info",
      summary: `${Math.round(length * 1835)} MB of writes within ${Math.round(length * 1000)} ms: 1.84 GB/s, where one-second sampling would have shown ${Math.round(length * 1835)} MB/s.`,
      evidence: { bytes: length * 1.835e9, ios: Math.round(length * WRITES_IN_BURST), peak_bytes_per_s: 2.214e9, peak_iops: 16_900, mean_1s_bytes_per_s: length * 1.835e9, hidden_factor: 2.2 / (length * 1.835) } satisfies Partial<MicroburstEvidence> as MicroburstEvidence,
    });
  }
  out.push({
    kind: "util-disagreement", device: "nvme0n1", start_s: 0, end_s: seconds, severity: "info",
    summary: "The kernel's %util says 61.9 %, but the device was busy 44.8 % of the time: io_ticks counts whole jiffies on this kernel.",
    evidence: { busy_percent: 44.8, util_io_ticks_percent: 61.9, expected_percent: 61.2, sigma_pp: 0.4 } satisfies Partial<UtilDisagreementEvidence> as UtilDisagreementEvidence,
  });
  return out.map((f) => ({ ...f, start: rfc3339(f.start_s), end: rfc3339(f.end_s) }));
}

/** A recording of `seconds` with about 10 000 I/Os per second. */
export function periodicLoad(seconds: number, seed = 1): PageData {
  const dice = new Dice(seed);
  const base = seconds > 600 ? 1000 : seconds > 60 ? 100 : 10;
  const slots = Math.round((seconds * 1000) / base);
  const levels = [1, 5, 20].map((k) => level(0, base * k, Math.ceil(slots / k), dice));
  const list = findings(seconds);
  for (const f of list.filter((x) => x.kind === "microburst")) {
    const middle = (f.start_s + f.end_s) / 2;
    const wide = Math.max(0, Math.floor(middle - 30));
    if (base > 20 && seconds > 60) levels.push(level(wide, 20, 3000, dice), level(wide, 100, 600, dice));
    levels.push(level(Math.max(0, Math.floor((f.start_s - 1) * 1000) / 1000), 1, 3000, dice), level(Math.max(0, Math.floor((f.start_s - 1) * 1000) / 1000), 5, 600, dice));
  }
  const ios = Math.round(seconds * (READS_PER_S + WRITES_IN_BURST * 0.08));
  const device: PageData["devices"][number] = {
    name: "nvme0n1", major: 259, minor: 0,
    read: stats(Math.round(READS_PER_S * seconds), READS_PER_S * seconds * READ_BYTES, 96.2, 60),
    write: stats(Math.round(WRITES_IN_BURST * 0.08 * seconds), WRITES_IN_BURST * 0.08 * seconds * WRITE_BYTES, 9020, 3.1),
    discard: { ...stats(12, 12 << 20, 800, 2), low_n: true }, flush: stats(720, 0, 2100, 2),
    busy_percent: 44.8, busy_read_percent: 36.1, busy_write_percent: 8.9, util_io_ticks_percent: 61.9, busy_both_percent: 0.2, busy_device_percent: 44.1, lost_ios: 0,
    concurrency: { mean: 6.91, p50: 0, p75: 1, p99: 97, max: 139 },
  };
  const idle: PageData["devices"][number] = {
    ...device, name: "sda", major: 8, minor: 0, read: stats(0, 0, 0, 0), write: stats(0, 0, 0, 0), flush: stats(0, 0, 0, 0),
    busy_percent: 0, busy_read_percent: 0, busy_write_percent: 0, util_io_ticks_percent: null, concurrency: { mean: 0, p50: 0, p75: 0, p99: 0, max: 0 },
  };
  const scope: ScopeBlock = {
    label: "nvme0n1", device_names: ["nvme0n1"], levels, distributions: distributions(seconds),
    capacity: { max_ios_per_s: 14_600, unloaded_us: 96, knee_in_flight: 31.5, headroom_percent: 34, state: "near-knee", summary: "during bursts the device is driven beyond its knee; between them two thirds of it are free." },
  };
  const second: ScopeBlock = { ...scope, label: "sdb", device_names: ["sdb"], levels: [level(0, base * 5, Math.ceil(slots / 5), dice)], capacity: null };
  return {
    format: 1,
    writer: "iolens 0.1.0",
    recording: {
      path: "db3.iolens", host: "db3.example.net", kernel: "6.18.44", start_unix_s: START_UNIX_S, duration_s: seconds, from_s: 0, to_s: seconds, source: "ebpf", ios, lost_ios: 4120,
      layers: { counted_on: "bottom", ios, bytes: null, left_out: [] }, losses: [], busy_time_cut_ios: 0, busy_time_cut_s: 0, censored_ios: 0, limits: [],
      recorder: { cpu_s: null, probe_cpu_s: null, startup_cpu_s: null, cpu_percent: 1.7, max_rss_bytes: 41_200_000, disk_bytes: Math.round(ios * 11.2), bytes_per_io: 11.2 },
    },
    depth: scope.capacity ? [depth(seconds, "nvme0n1", scope.capacity)] : [],
    devices: [device, idle], findings: list, scopes: [scope, second], actors: actors(seconds),
    lost_intervals: [{ start_s: seconds * 0.62, end_s: seconds * 0.63, reason: "ring-full", ios: 4120, is_marked: true, device: null }],
    quality: [
      { topic: "Kernel regime", level: "info", text: "6.18 with HZ 250: io_ticks adds the time since the last stamp only while I/O is in flight; %util is unbiased, with a standard error of about 0.6 points over 5 s." },
      { topic: "Attribution", level: "ok", text: "98.7 % of the I/O time is attributed to a process, 94.1 % to a file." },
    ],
    marks: [], sets: [],
  };
}

/** A recording without any I/O. */
export function empty(): PageData {
  const data = periodicLoad(60);
  data.recording = { ...data.recording, ios: 0, lost_ios: 0, recorder: { ...data.recording.recorder, cpu_percent: 0.2, max_rss_bytes: 38_000_000, disk_bytes: 2048, bytes_per_io: null } };
  return { ...data, depth: [], findings: [], devices: [], actors: [], lost_intervals: [], scopes: [], quality: [] };
}

/** The same load recorded on a machine that does not allow tracing: only counters. */
export function counters(seconds: number): PageData {
  const data = periodicLoad(seconds);
  const kept: (keyof LevelBlock["cols"])[] = ["r_ios", "w_ios", "r_sec", "w_sec", "d_ios", "d_sec", "f_ios", "r_mean", "w_mean", "busy", "q_mean"];
  const levels = (data.scopes[0]?.levels ?? []).slice(0, 3).map((l) => ({
    ...l,
    cols: Object.fromEntries(Object.entries(l.cols).filter(([name]) => kept.includes(name as keyof LevelBlock["cols"]))),
  }));
  const none: DistributionsBlock = { latency: {}, percentiles_us: {}, size: {}, concurrency_shares: {} };
  const scopes: ScopeBlock[] = [{ label: "nvme0n1", device_names: ["nvme0n1"], levels, distributions: none, capacity: null }];
  const recording = { ...data.recording, source: "counters", ios: 0, lost_ios: 0 };
  return { ...data, depth: [], recording, scopes, devices: [], findings: [], actors: [], lost_intervals: [] };
}

/** A log of iostat of two disks, one report per second, with CPU shares. */
export function tables(seconds: number): PageData {
  const data = counters(seconds);
  const each = (of: (second: number) => number | null) => packColumn(Array.from({ length: seconds }, (_, i) => {
    const v = of(i);
    return v === null ? null : Math.round(v * 100);
  }));
  const edges = { row_count: seconds, starts: packColumn(Array.from({ length: seconds }, (_, i) => i * 1000)), ends: packColumn(Array.from({ length: seconds }, (_, i) => (i + 1) * 1000)) };
  const table = (load: number) => ({
    ...edges,
    cols: {
      r_ios: each((i) => load * (100 + 40 * Math.sin(i / 5))), r_bytes: each((i) => load * 4096 * (100 + 40 * Math.sin(i / 5))),
      r_merges: each(() => 0), r_us: each((i) => 300 + 100 * Math.cos(i / 3)),
      w_ios: each((i) => (i % 10 === 7 ? 900 * load : 0)), w_bytes: each((i) => (i % 10 === 7 ? 900 * load * 65536 : 0)),
      w_merges: each((i) => (i % 10 === 7 ? 30 : 0)), w_us: each((i) => (i % 10 === 7 ? 9000 : null)),
      in_flight: each((i) => (i % 10 === 7 ? 12 : 0.04)), util: each((i) => (i % 10 === 7 ? 97 : 4 * load)),
    },
  });
  const cpu = { ...edges, cols: { user: each((i) => 20 + (i % 7)), system: each(() => 4), iowait: each((i) => (i % 10 === 7 ? 30 : 1)), steal: each(() => 0), idle: each((i) => 60 - (i % 7)) } };
  const scope = data.scopes[0] as ScopeBlock;
  const scopes = [{ ...scope, label: "All 2 devices", device_names: ["sda", "sdb"] }, { ...scope, label: "sda", device_names: ["sda"] }, { ...scope, label: "sdb", device_names: ["sdb"] }];
  const recording = { ...data.recording, source: "import:iostat", start_unix_s: 1_795_521_768 };
  return { ...data, recording, scopes, imported_tables: { merged: 1, devices: [{ device: "sda", table: table(1) }, { device: "sdb", table: table(3) }], cpu } };
}

/** A device in depth: three groups of 20 minutes, a rhythm of 5 s, latencies by arrival a second before those by completion. */
function depth(seconds: number, device: string, capacity: CapacityBlock): DepthBlock {
  const q = (p50: number, p75: number) => ({ p50, p75, mean: (p50 + p75) / 2, max: p75 * 9 });
  const groups = (scale: number): SlotGroupBlock[] => Array.from({ length: Math.ceil(seconds / 1200) }, (_, i) => ({
    start_s: i * 1200, end_s: Math.min(seconds, (i + 1) * 1200), slot_count: 600_000,
    touched: q(scale, 2 * scale), sampled: q(0, scale), slot_mean: q(0.4 * scale, 0.8 * scale), slot_max: q(scale, 2 * scale), touched_percent: 61.7 * scale,
  }));
  const stage = (mean: number, share: number) => ({ n: 9_000_000, mean_us: mean, p50_us: mean * 0.8, p99_us: mean * 6, max_us: mean * 80, share_percent: share });
  const wave = (shift: number) => Array.from({ length: Math.min(120, seconds) }, (_, i) => toLogCode((i + shift) % 5 === 3 ? 6e6 : 95_000));
  const bins = Math.min(120, seconds);
  const rhythm = (cls: "read" | "write", verdict: PeriodicityVerdict): DepthBlock["rhythm"][number] => ({
    class: cls, bursts_found: seconds / 5,
    periodicity: {
      verdict, slot_s: 0.1, period_s: verdict === "periodic" ? 5 : null, period_low_s: 4.99, period_high_s: 5.01, p_value: 0.0025, cycles: seconds / 5,
      onsets: seconds / 5, onsets_in_step: verdict === "periodic" ? seconds / 5 : 0,
      autocorrelation: null, gap_mean_s: null, gap_cv: null, gap_mad_s: null, clocks: [],
    },
  });
  return {
    device, capacity,
    slots: { width_s: 0.002, all: groups(1), read: groups(1), write: groups(0) },
    util: { busy_percent: 0.96, util_io_ticks_percent: 1.26, expected_percent: 1.1, estimator_agrees: true, sigma_pp: 0.31, regime: "sampled", verdict: "ok" },
    stages: { s2d: stage(4, 5), d2c: stage(95, 95), s2c: stage(99, 100), depth_at_issue: 2.4, seeks: 9_000_000, seek_p50_sectors: 80_000, seek_p90_sectors: 900_000, sequential_any_class_percent: 12, turn_percent: 4, bios: null, costs: [null, null] },
    rhythm: [rhythm("read", "not-periodic"), rhythm("write", "periodic")],
    attribution: { from_ns: 1e9 * Math.floor((seconds - bins) / 2), bin_ns: 1e9, bins, differ_percent: 38.5, completed: packColumn(wave(0)), arrived: packColumn(wave(1)) },
  };
}

/** Two disks behind a link, imported from a trace that shows the paths of bios. */
export function together(seconds: number): PageData {
  const data = periodicLoad(seconds);
  const [own] = data.depth ?? [];
  const [scope] = data.scopes;
  if (!own || !scope) throw new Error("the data have a device");
  const stage = (n: number, mean_us: number | null, share_percent: number | null) => ({ n, mean_us, p50_us: mean_us, p99_us: mean_us, max_us: mean_us, share_percent });
  const bios = {
    q2g: stage(8000, 1.5, 2), g2i: stage(0, null, null), i2d: stage(8000, 6, 8), q2m: stage(2000, 2, 1),
    m2d: stage(2000, 24, 9), d2c: stage(10_000, 60, 80), q2c: stage(10_000, 75, 100),
  };
  const names = ["nvme0n1", "sdb", HOSTILE];
  const burst: BurstBlock = {
    core_s: 0.2, ios: 920, mean_request_bytes: 131_072, peak_iops: 4400, exceeds_limit: true, hidden_factor: 4.9, p_value: 1e-9, baseline_per_s: 1e6,
    measure: "bytes", bucket_bytes: 40e6, censored: false, lossy: false,
    start_s: 12.5, end_s: 12.75, bytes: 120e6, peak_bytes_per_s: 580e6, percent_of_limit: 96.7, mean_1s_bytes_per_s: 119e6,
  };
  return {
    ...data,
    recording: { ...data.recording, source: "import:blktrace" },
    depth: [{ ...own, stages: { ...own.stages, bios } }],
    scopes: [{ ...scope, label: "All 3 devices", device_names: names, capacity: null }, ...data.scopes],
    sets: [
      {
        name: "all", device_names: names, left_out_names: ["dm-0"], busy_percent: 61.5, busy_read_percent: 40, busy_write_percent: 30, busy_both_percent: 8.5,
        mean_busy_percent: 33.25, max_busy_percent: 44.8, concurrency: { mean: 9.5, p50: 1, p75: 3, p99: 140, max: 201 }, slots: own.slots,
      },
      {
        name: "nvme0n1+sdb", device_names: ["nvme0n1", "sdb"], limit_bytes_per_s: 600e6, limit_source: "user",
        streams: [
          { class: "read", bytes: 9e9, slot_s: 0.01, bursts_found: 0, largest: null },
          { class: "write", bytes: 4e9, slot_s: 0.01, bursts_found: 7, largest: burst },
        ],
      },
    ],
  };
}

/** The page around `data`, as the program assembles it. */
export function page(template: string, data: PageData | LabPage | FleetDocument): string {
  const json = JSON.stringify(data).replaceAll("<", "\\u003c");
  return template.replace(/__(TITLE|DATA)__/g, (_, name: string) => (name === "TITLE" ? "iolens report" : json));
}
