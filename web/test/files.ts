// Generated file-level requests: a server that reads in 8 KiB steps, slower at noon, and a database that syncs.
import type { ClassReport, ClassTable, FilesBlock, CostPart, SlowRequest } from "../src/generated/page";

const HOSTILE_PATH = `/srv/</script><img src=x onerror="document.title='owned'">`;

const part = (p50_us: number): CostPart => ({ n: 5000, low_n: false, p50_us, p95_us: p50_us * 4 });

function table(io: number): ClassTable {
  return {
    requests: 60_000, per_s: 1000, total_p50_us: 58 + io, total_p95_us: 400, first_p50_us: 58 + io,
    classical: { block_bytes: 8192, one_block_n: 40_000, one_block_us: 58 + io, two_blocks_n: 9000, two_blocks_us: 58 + 2 * io, io_us: io, overhead_us: 58, io2_us: io },
    classical_verdict: { valid: true, why: "second I/Os took what was derived" },
    direct: {
      open_call: part(12), first_io: part(io + 46), second_io: part(io), later_ios: part(io), close_call: part(1), gaps: part(3), block_io: part(io),
      cache_hit_percent: 4, second_hit_percent: 2,
    },
    atomic: { n: 60_000, low_n: false, atomic_percent: 85, low_percent: 84.7, high_percent: 85.3, pipelining_bound_percent: 31 },
  };
}

function report(name: string): ClassReport {
  const sizes = Array.from({ length: 40 }, (_, k) => k + 1);
  return {
    class: name, all: table(12), peak: table(16),
    by_size: sizes.map((k) => ({
      over_bytes: (k - 1) * 1024, to_bytes: k * 1024, n: 900, low_n: false,
      total_p50_us: 58 + 12 * Math.ceil(k / 8), total_low_us: 55 + 12 * Math.ceil(k / 8), total_high_us: 61 + 12 * Math.ceil(k / 8), first_p50_us: 70,
    })),
    steps: { block_bytes: 8192, io_us: 12, overhead_us: 58, bic_gain: 200 },
    by_load: { n: 9000, deciles: [200, 600, 1000, 1500].map((per_s) => ({ per_s, n: 900, p50_us: 10 + per_s / 200 })), slope: 0.005, slope_low: 0.004, slope_high: 0.006, spearman: 0.4 },
  };
}

function slow(i: number): SlowRequest {
  const io = (after_us: number, us: number, hit: boolean | null) => ({ after_us, us, bytes: 8192, cache_hit: hit });
  return {
    start_s: i, class: "in", total_us: 5000, call_us: 3500, end_us: 5200, file: i === 0 ? HOSTILE_PATH : `/srv/${i}`, process: "server", pid: 77,
    data_ios: 9, bytes: 73_728, open_us: 400, first_ios: [io(400, 900, false), io(1500, 100, true), io(1800, 50, true), io(2000, 60, true)],
    slowest_io: io(3000, 1200, false), gaps_us: 1500, close_us: 30, flags: ["direct"],
  };
}

/** The file-level part of a report on a recording of `seconds`. */
export function filesData(seconds: number): FilesBlock {
  const groups = 60;
  const wave = (base: number, by: number) => Array.from({ length: groups }, (_, i) => base + by * Math.sin((Math.PI * i) / groups));
  const under = (set: string, p: number) => ({ set, p50: wave(0, 1).map(Math.round), p75: wave(1, 2).map(Math.round), under_way_percent: wave(p, 20), touched_percent: wave(p + 15, 20), whole_under_way_percent: p + 12, whole_touched_percent: p + 27 });
  const series = (name: string, rate: number) => ({ class: name, n: wave(rate, rate).map(Math.round), per_s: wave(rate, rate), p50_us: wave(70, 30).map((v, i) => (i === 5 ? null : v)), atomic_percent: wave(80, 8) });
  const group = (name: string) => ({ name, requests: 100, syncs: 2, data_ios: 250, bytes_in: 1e6, bytes_out: 2e5, block_io_bytes: 0, waited_ios: 0, sync: null, call_s: 1.25, block_io_s: 0.75, cache_hit_percent: 12.5, total_p50_us: 70 });
  const sync = (name: string) => ({ name, n: 500, low_n: false, failed: 0, mean_us: 900, p50_us: 700, p95_us: 2000, p99_us: 4000, max_us: 9000 });
  return {
    requests: 120_000, syncs: 500, lost_requests: 3, unknown_start: 12, one_in: 1, requests_by_flag: { mmap: 4 },
    peak_window: { start_s: seconds / 2, duration_s: seconds / 20, per_s: 2000, peak_to_mean: 1.6 },
    classes: [report("in"), report("out")],
    groups: [group("server (77)")], files: [group(HOSTILE_PATH)],
    over_time: { start_s: 0, end_s: seconds, step_s: seconds / groups, slot_s: 0.002, classes: [series("in", 700), series("out", 300), series("sync", 10)], under_way: [under("all", 30), under("in", 20), under("out", 10)] },
    slowest: [0, 1, 2].map(slow),
    slowest_syncs: [{ ...slow(3), class: "sync", first_ios: [], slowest_io: null, data_ios: 0, bytes: 0, open_us: null, close_us: null, gaps_us: null, total_us: 9000, call_us: 9000, end_us: 9000 }],
    syncs_by_process: [sync("db (9)")], syncs_by_path: [sync("/srv/db-wal")],
    calls: [{ name: HOSTILE_PATH, read: { n: 900, timed: 12, low_n: false, mean_us: 55, p50_us: 31.5, p99_us: 3160, max_us: 4100, quantile_error_percent: 3.2 }, write: { n: 60, timed: 5, low_n: false, mean_us: 12, p50_us: null, p99_us: null, max_us: 80, quantile_error_percent: null }, sync: { n: 500, timed: 500, low_n: false, mean_us: 900, p50_us: 700, p99_us: 4000, max_us: 9000, quantile_error_percent: 0 } }],
    while_syncing: [{ device: "nvme0n1", syncing_s: 0.45, writes: 1000, written_bytes: 5e6, flushes: 500, reads: 20 }],
    unattributed_percent: 17,
  };
}
