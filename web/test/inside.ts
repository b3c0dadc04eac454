import { deflateSync } from "node:zlib";
import { packColumn, toLogCode } from "../src/codec";
import type { Block } from "../src/app/inside";
import { random } from "../src/random";

/** Start of the generated recording. */
export const FILE_START_S = 1_795_000_000;
const COLUMN_S = 0.1;
const CHUNK = 1024;
/** The worst time of the story, and the only one with single I/Os. */
export const MOMENT_S = FILE_START_S + 100;

const packed = (bytes: Uint8Array): string => Buffer.from(deflateSync(bytes)).toString("base64");
const document = (value: unknown): string => packed(Buffer.from(JSON.stringify(value)));

/** Counts of one class: `of` returns the count of a column and row. */
function chunks(columns: number, of: (column: number, row: number) => number): string[] {
  const out: string[] = [];
  const [first, rows] = [30, 20];
  for (let at = 0; at < columns; at += CHUNK) {
    const width = Math.min(CHUNK, columns - at);
    const bytes = new Uint8Array(2 + rows * width);
    bytes[0] = first;
    bytes[1] = rows;
    for (let r = 0; r < rows; r++) for (let i = 0; i < width; i++) bytes[2 + r * width + i] = of(at + i, r);
    out.push(packed(bytes));
  }
  return out;
}

const group = (process: string, cls: string) => ({ process, pid: 7, cgroup: "/", class: cls, origin: "direct" });
const amount = (ios: number) => ({ ios, bytes: ios * 4096, mean_us: ios > 0 ? 100 : null });
const NAME = "<img src=x onerror=alert(1)>";

/** The answers in a file of `seconds` on the device sda (and sdb, if there are two). */
export function inside(seconds: number, devices = 1): Block {
  const next = random(3);
  const columns = Math.round(seconds / COLUMN_S);
  const tier = (column_s: number) => {
    const n = Math.ceil(seconds / column_s);
    const count = (_: number, r: number) => (r > 15 ? (next() < 0.02 ? 1 : 0) : Math.min(15, Math.floor(next() * 16)));
    return { column_s, column_count: n, columns_of_chunk: CHUNK, rows_together: 1, read: chunks(n, count), write: chunks(n, count) };
  };
  const step = seconds / 10;
  const victim = (s: number) => ({ device: "sda", victim: group(NAME, "read"), ios: 10, io_time_s: 4 * s, undisturbed_s: s, own_s: 0, held_s: 0, device_s: s, unknown_s: 0, behind: [{ ...group("dd", "write"), seconds: 2 * s, ios: 5 }] });
  const waits = document({
    by: "process", waits: [victim(10)], step_s: step, notes: [],
    intervals: Array.from({ length: 10 }, (_, i) => ({ start_unix_s: FILE_START_S + i * step, waits: [victim(1)] })),
  });
  const actors = (n: number) => ({
    by: "process", notes: [],
    actors: [{ name: `${NAME}[7]`, read: amount(n), write: amount(0), discard: amount(0), flush: amount(0), io_time_s: n / 10, io_time_percent: 100 }],
    others: { name: null, read: amount(0), write: amount(0), discard: amount(0), flush: amount(0), io_time_s: 0, io_time_percent: 0 },
  });
  const stepped = (whole: unknown, answer: unknown) => document({
    whole,
    steps: Array.from({ length: 10 }, (_, i) => ({ from_unix_s: FILE_START_S + i * step, to_unix_s: FILE_START_S + (i + 1) * step, answer })),
  });
  const grouped = Object.fromEntries(["process", "cgroup", "file"].flatMap((by) => [[`waits/${by}`, waits], [`actors/${by}`, stepped(actors(100), actors(10))]]));
  const story = {
    id: "one", kind: "writeback-flush", device: "sda", summary: `Story of ${NAME}`, start_unix_s: FILE_START_S + 90, end_unix_s: FILE_START_S + 110,
    recording_start_unix_s: FILE_START_S, victim: group(NAME, "read"), culprits: [group("dd", "write")],
    harm: { seconds: 3, lost_time_percent: 50, worst_at_s: 100, worst_us: 9000 }, times: 3, episodes: [{ start_s: 90, end_s: 110 }], advice: [],
  };
  const rows = Math.round(seconds);
  const column = (of: (i: number) => number) => packColumn(Array.from({ length: rows }, (_, i) => of(i)));
  // For each class: bytes and I/Os per second, latencies in microseconds, and the share of time with one in flight.
  const cls = (bytes: number, ios: number, us: number, busy: number) => ({
    bytes: column((i) => toLogCode(bytes * (1 + (i % 7)))), ios: column((i) => toLogCode(1000 * ios * (1 + (i % 7)))),
    latency: column(() => toLogCode(1000 * us)), longest: column(() => toLogCode(9000 * us)), busy: column(() => 1000 * busy),
  });
  const series = document({
    classes: { read: cls(1e6, 250, 100, 0.2), write: cls(3e6, 100, 400, 0.3), discard: cls(0, 0, 0, 0), flush: cls(0, 2, 0, 0.01) },
    busy: column(() => 450), mean: column((i) => toLogCode(1000 * (1 + (i % 5)))), max: column((i) => i % 9), lossy: column(() => 0),
  });
  const ios = 40;
  const fill = (of: (i: number) => unknown) => Array.from({ length: ios }, (_, i) => of(i));
  const moment = document({
    ios, since_unix_s: MOMENT_S - 1, notes: [],
    columns: {
      start_ns: fill((i) => 980_000_000 + i * 500_000 - (i % 4 ? 100_000 : 5_000_000)), done_ns: fill((i) => 980_000_000 + i * 500_000), device: fill(() => "sda"), class: fill((i) => (i % 4 ? "read" : "write")), sector: fill((i) => i * 8), bytes: fill(() => 4096),
      queue_us: fill(() => 50), device_us: fill((i) => (i % 4 ? 50 : 4950)), total_us: fill((i) => (i % 4 ? 100 : 5000)), error: fill(() => 0), pid: fill(() => 7),
      process: fill((i) => (i % 4 ? NAME : "dd")), cgroup: fill(() => "/"), file: fill((i) => (i % 4 ? null : "/wal")), origin: fill(() => "direct"),
    },
  });
  const names = ["sda", "sdb"].slice(0, devices);
  const rowsOf = (device: string | null) => ({ device, from_unix_s: FILE_START_S, step_s: 1, row_count: rows, data: series });
  return {
    from_unix_s: FILE_START_S, to_unix_s: FILE_START_S + seconds,
    documents: { devices: document({ devices: names.map((name) => ({ name, model: null, size_bytes: 1e12 })) }), stories: document({ stories: [story], notes: [] }), ...grouped },
    heat: {
      latency_us: Array.from({ length: 117 }, (_, i) => 0.256 * 2 ** (i / 4)),
      scopes: names.map((device) => ({ device, is_in_sum: true, tiers: [tier(COLUMN_S), tier(10 * COLUMN_S), ...(columns > 20_000 ? [tier(100 * COLUMN_S)] : [])] })),
    },
    rows: [rowsOf(null), ...(devices > 1 ? names.map(rowsOf) : [])],
    moments: [{ from_unix_s: MOMENT_S - 0.06, to_unix_s: MOMENT_S + 0.05, ios, data: moment }],
  };
}
