// Fixed data with the shape of a real hour: reads of a database, and a backup whose write-back delays them every five minutes.
import { random } from "../dist/test/synth.js";
import { NOW_S } from "./stub_server.mjs";

export const FROM_S = NOW_S - 3600;
const PERIOD_S = 300;
const FLUSH_S = 40;

const isFlush = (s) => (((s - FROM_S) % PERIOD_S) + PERIOD_S) % PERIOD_S < FLUSH_S;
const postgres = { process: "postgres", pid: 991, cgroup: "/system.slice/postgresql.service", class: "read", origin: "direct" };
const backup = { process: "backup", pid: 812, cgroup: "/backup.slice", class: "write", origin: "writeback" };
const sync = { process: "postgres", pid: 991, cgroup: "/system.slice/postgresql.service", class: "write", origin: "sync" };
const amount = (ios, bytes, mean) => ({ ios, bytes, mean_us: ios > 0 ? mean : null });
const none = amount(0, 0, null);
const actor = (name, read, write, flush, seconds, percent) => ({ name, read, write, discard: none, flush, io_time_s: seconds, io_time_percent: percent });

export const SCENE = {
  devices: () => ({ devices: [{ name: "nvme0n1", model: "Example NVMe 2 TB", size_bytes: 2e12 }, { name: "sda", model: null, size_bytes: 1e12 }] }),
  stories: () => ({
    stories: [
      {
        id: "a", kind: "writeback-flush", device: "nvme0n1", start_unix_s: FROM_S, end_unix_s: NOW_S - 260, recording_start_unix_s: FROM_S,
        summary: "Every 5.00 min backup (812) writes back 12 GB of /srv/backup on nvme0n1. Reads of postgres (991) wait for it: up to 48.1 ms instead of 87 us. They lost 104 s of 152 s of I/O time (68 %), in 12 flushes.",
        victim: postgres, culprits: [backup], harm: { seconds: 104, lost_time_percent: 68, worst_at_s: 1512.25, worst_us: 48100 }, times: 12,
        episodes: Array.from({ length: 12 }, (_, i) => ({ start_s: i * PERIOD_S, end_s: i * PERIOD_S + FLUSH_S })), advice: [{ text: "vm.dirty_background_bytes=16M", now: "10 % = 2.4 GB" }],
      },
      { id: "b", kind: "own-queue", device: "sda", start_unix_s: FROM_S + 900, end_unix_s: FROM_S + 1500, recording_start_unix_s: FROM_S, summary: "analytics keeps 128 reads in flight; sda serves 8 at once.", victim: { ...postgres, process: "analytics", pid: 40 }, culprits: [], harm: { seconds: 12.5, lost_time_percent: 31, worst_at_s: 1000, worst_us: 32000 }, times: 1, episodes: [], advice: [] },
    ],
    notes: [],
  }),
  waits: () => ({
    waits: [
      { device: "nvme0n1", victim: postgres, ios: 812_345, io_time_s: 152, undisturbed_s: 31, own_s: 9, held_s: 2, device_s: 6, unknown_s: 0, behind: [{ ...backup, seconds: 104, ios: 51_000 }] },
      { device: "nvme0n1", victim: sync, ios: 41_000, io_time_s: 18, undisturbed_s: 9, own_s: 1, held_s: 1, device_s: 2, unknown_s: 0, behind: [{ ...backup, seconds: 5, ios: 900 }] },
      { device: "nvme0n1", victim: backup, ios: 140_000, io_time_s: 960, undisturbed_s: 210, own_s: 700, held_s: 40, device_s: 10, unknown_s: 0, behind: [] },
    ],
    notes: [],
  }),
  heatmap: ({ from, to, width, height, class: cls }) => {
    const next = random(cls === "write" ? 7 : 11);
    const rows = height > 0 ? Number(height) : 60;
    const edges = Array.from({ length: rows + 1 }, (_, i) => 40 * (80_000 / 40) ** (i / rows));
    const column = (to - from) / width;
    const counts = Array.from({ length: width }, (_, i) => {
      const flush = isFlush(from + (i + 0.5) * column);
      const [middle, spread, most] = cls === "write" ? [flush ? 9_000 : 300, 0.5, flush ? 90 : 6] : [flush ? 2_500 : 95, flush ? 0.9 : 0.3, 60];
      return edges.slice(1).map((edge, r) => {
        const off = Math.log(Math.sqrt(edge * edges[r]) / middle) / spread;
        return Math.floor(most * Math.exp(-0.5 * off * off) * (0.7 + 0.6 * next()) + (next() < 0.002 ? 1 : 0));
      });
    });
    return { from_unix_s: from, column_s: column, latency_us: edges, counts, recorded_s: counts.map(() => column), notes: [] };
  },
  series: ({ from, to, step }) => {
    const step_s = Number.parseFloat(step) / (step.endsWith("ms") ? 1000 : 1);
    const n = Math.round((to - from) / step_s);
    const at = Array.from({ length: n }, (_, i) => from + (i + 1) * step_s);
    const flush = at.map((s) => isFlush(s - step_s / 2));
    const wave = (i) => 1 + 0.2 * Math.sin(i / 9);
    return {
      step_s, notes: [],
      columns: {
        time_unix_s: at, slot_s: at.map(() => step_s), r_kib_per_s: at.map((_, i) => (flush[i] ? 40_000 : 110_000) * wave(i)), w_kib_per_s: at.map((_, i) => (flush[i] ? 290_000 : 6_000) * wave(i)),
        inflight_mean: at.map((_, i) => (flush[i] ? 24 : 2) * wave(i)), inflight_max: at.map((_, i) => (flush[i] ? 64 : 9)), lossy: at.map(() => false), process: [],
      },
    };
  },
  ios: ({ from, to }) => {
    const next = random(3);
    const since = Math.floor(from);
    const n = 160;
    const rows = Array.from({ length: n }, (_, i) => {
      const write = i % 3 === 0;
      const start = Math.round((from - since + ((Math.min(to, from + 0.075) - from) * i) / n) * 1e9);
      const total = Math.round((write ? 4e6 : 1e5 + (i % 5 ? 0 : 3e6)) * (0.5 + next()));
      const queue = Math.round(total * (write ? 0.5 : 0.2));
      const who = write ? backup : i % 7 === 0 ? sync : postgres;
      return { start, total, queue, who, behind: total > 1e6 ? Math.round(total * 0.8) : 0, sector: Math.round(write ? 5e6 + i * 2048 : next() * 2e7), bytes: write ? 1 << 19 : 8192 };
    }).sort((a, b) => a.start + a.total - b.start - b.total);
    const of = (get) => rows.map(get);
    const zero = of(() => 0);
    const isOwn = (r) => r.who === backup;
    return {
      ios: n, since_unix_s: since, notes: [],
      columns: {
        start_ns: of((r) => r.start), done_ns: of((r) => r.start + r.total), device: of(() => "nvme0n1"), class: of((r) => r.who.class), flags: of(() => 8), sector: of((r) => r.sector), bytes: of((r) => r.bytes),
        queue_us: of((r) => r.queue / 1e3), device_us: of((r) => (r.total - r.queue) / 1e3), total_us: of((r) => r.total / 1e3), error: zero, pid: of((r) => r.who.pid), process: of((r) => r.who.process),
        cgroup: of((r) => r.who.cgroup), file: of((r) => (isOwn(r) ? "/srv/backup/disk.img" : "/var/lib/postgresql/base/1/2619")), origin: of((r) => r.who.origin),
        undisturbed_us: of((r) => (r.total - r.behind) / 1e3), wait_others_us: of((r) => (isOwn(r) ? 0 : r.behind / 1e3)), wait_own_us: of((r) => (isOwn(r) ? r.behind / 1e3 : 0)), wait_held_us: zero, wait_device_us: zero, wait_unknown_us: zero,
        wait_behind_us: of((r) => (isOwn(r) ? 0 : r.behind / 1e3)), wait_behind_pid: of(() => 812), wait_behind_process: of(() => "backup"), wait_behind_class: of(() => "write"), wait_behind_origin: of(() => "writeback"),
      },
    };
  },
  findings: () => ({ findings: [{ kind: "periodicity", severity: "info", device: "nvme0n1", start_unix_s: FROM_S, end_unix_s: FROM_S + 3600, summary: "writes come every 5 min", evidence: { period_s: PERIOD_S, class: "write" } }], notes: [] }),
  actors: ({ by }) => ({
    by, notes: [],
    actors: [
      actor("backup[812]", none, amount(140_000, 73e9, 6857), none, 960, 84.9),
      actor("postgres[991]", amount(812_345, 6.6e9, 187), amount(41_000, 336e6, 440), amount(1200, 0, 900), 171, 15.1),
      actor("analytics[40]", amount(9_100, 1.2e9, 1374), none, none, 12.5, 1.1),
    ],
    others: { ...actor(null, amount(120, 2e6, 90), none, none, 0.01, 0) },
  }),
};
