// The report's values over time at several resolutions: which one is drawn, and the sums over the visible range.

import { fromLogCode, unpackColumn, unpackList } from "./codec";
import type { LevelBlock, ScopeBlock } from "./generated/page";
import type { Range } from "./zoom";

/** The columns that a level may have. */
export type ColumnName =
  | "r_ios" | "r_sec" | "r_mean" | "r_p50" | "r_p90" | "r_p99" | "r_max"
  | "w_ios" | "w_sec" | "w_mean" | "w_p50" | "w_p90" | "w_p99" | "w_max"
  | "d_ios" | "d_sec" | "f_ios" | "f_max"
  | "busy" | "busy_r" | "busy_w" | "q_mean" | "q_max";

const LOG_COLUMNS = new Set<ColumnName>([
  "r_mean", "r_p50", "r_p90", "r_p99", "r_max", "w_mean", "w_p50", "w_p90", "w_p99", "w_max", "f_max", "q_mean",
]);

/** A level whose columns are unpacked on first use. */
export class Slots {
  readonly from: number;
  readonly step: number;
  readonly n: number;
  readonly to: number;
  readonly #level: LevelBlock;
  readonly #columns = new Map<ColumnName, Float64Array | null>();

  constructor(level: LevelBlock) {
    this.#level = level;
    this.from = level.from_ns / 1e9;
    this.step = level.step_ns / 1e9;
    this.n = level.slot_count;
    this.to = level.to_ns / 1e9;
  }

  /**
   * A column in its own unit (counts, sectors, ns, thousandths), absent values as NaN; `null` if the report lacks
   * it.
   */
  column(name: ColumnName): Float64Array | null {
    let column = this.#columns.get(name);
    if (column === undefined) {
      const packed = this.#level.cols[name];
      column = packed === undefined ? null : unpackColumn(packed, this.n);
      if (column && LOG_COLUMNS.has(name)) column.forEach((v, i, a) => (a[i] = Number.isNaN(v) ? v : fromLogCode(v)));
      this.#columns.set(name, column);
    }
    return column;
  }

  /** Start of slot `i`, computed in whole nanoseconds so that edges of different levels are equal. */
  at(i: number): number {
    return Math.min(this.#level.from_ns + this.#level.step_ns * i, this.#level.to_ns) / 1e9;
  }

  /** Length of slot `i` in seconds. */
  seconds(i: number): number {
    return this.at(i + 1) - this.at(i) || this.step;
  }

  /** Whether slot `i` is shortened by the end of the recording. */
  isCut(i: number): boolean {
    return this.seconds(i) < this.step * 0.999;
  }

  /** First and last + 1 slot that overlap `range`. */
  within(range: Range): [number, number] {
    const lo = Math.floor((range.from - this.from) / this.step + 1e-6);
    const hi = Math.ceil((range.to - this.from) / this.step - 1e-6);
    const a = Math.min(Math.max(lo, 0), this.n);
    return [a, Math.min(Math.max(hi, a), this.n)];
  }
}

/** The levels of a scope, the coarsest (whole recording) first. */
export function openLevels(scope: ScopeBlock): Slots[] {
  return scope.levels.map((l) => new Slots(l)).sort((a, b) => b.step - a.step || b.n - a.n);
}

/**
 * The finest level that covers all of `range` with at most `maxSlots` slots (more would be drawn on top of each
 * other); else the coarsest. Levels must be sorted as by [openLevels].
 */
export function pick(levels: Slots[], range: Range, maxSlots: number): Slots | undefined {
  let best = levels[0];
  for (const level of levels) {
    const slack = level.step * 1.001;
    const covers = level.from <= range.from + slack && level.to >= range.to - slack;
    const fits = (range.to - range.from) / level.step <= maxSlots;
    if (covers && fits && best && level.step <= best.step) best = level;
  }
  return best;
}

/** Ranges with finer detail than `step`, merged and sorted by time. */
export function finerThan(levels: Slots[], step: number): Range[] {
  const out: Range[] = [];
  const finer = levels.filter((l) => l.step < step * 0.999).sort((a, b) => a.from - b.from);
  for (const l of finer) {
    const last = out[out.length - 1];
    if (last && l.from <= last.to) last.to = Math.max(last.to, l.to);
    else out.push({ from: l.from, to: l.to });
  }
  return out;
}

/** The maximum of the slots of `fine` within each slot `[a, b)` of `level`; absent where there is none. */
export function peaks(level: Slots, fine: Slots, name: ColumnName, a: number, b: number): Float64Array {
  const out = new Float64Array(b - a).fill(NaN);
  const column = fine.column(name);
  if (!column) return out;
  for (let i = a; i < b; i++) {
    const [lo, hi] = fine.within({ from: level.at(i), to: level.at(i + 1) });
    for (let k = lo; k < hi; k++) {
      const v = column[k] ?? NaN;
      if (!(v <= (out[i - a] ?? NaN))) out[i - a] = Number.isNaN(v) ? (out[i - a] ?? NaN) : v;
    }
  }
  return out;
}

/**
 * The value to draw for a last slot that is shortened by the end of the recording: at most that of the slots before
 * it, unless its sum over the whole step is higher.
 */
export function cutValue(overItsLength: number, overItsStep: number, before: readonly (number | null)[]): number {
  let highest = overItsStep;
  for (const value of before) highest = Math.max(highest, value ?? 0);
  return Math.min(overItsLength, highest);
}

/** The activity within a range of slots, as sums and counts, so that no mean is a mean of means. */
export interface Totals {
  seconds: number;
  reads: number;
  writes: number;
  readBytes: number;
  writeBytes: number;
  /**
   * Maximum over slots of reads and writes together, as a rate over a whole slot. Counters read at the end of the
   * recording are in a last slot of almost no length.
   */
  peakIops: number;
  peakBytesPerS: number;
  /** Mean latency, weighted by I/Os; `null` without I/Os. */
  readMeanUs: number | null;
  writeMeanUs: number | null;
  readMaxUs: number | null;
  writeMaxUs: number | null;
  busyPercent: number | null;
  inflightMean: number | null;
  inflightMax: number | null;
}

/** Sums slots `[a, b)`. */
export function totals(level: Slots, a: number, b: number): Totals {
  const rIos = level.column("r_ios");
  const wIos = level.column("w_ios");
  const rSec = level.column("r_sec");
  const wSec = level.column("w_sec");
  let peakIops = 0;
  let peakSecPerS = 0;
  for (let i = a; i < b; i++) {
    peakIops = Math.max(peakIops, ((rIos?.[i] ?? 0) + (wIos?.[i] ?? 0)) / level.step);
    peakSecPerS = Math.max(peakSecPerS, ((rSec?.[i] ?? 0) + (wSec?.[i] ?? 0)) / level.step);
  }
  const busy = mean(level, "busy", a, b);
  const inflight = mean(level, "q_mean", a, b);
  return {
    seconds: level.at(b) - level.at(a),
    reads: sum(rIos, a, b),
    writes: sum(wIos, a, b),
    readBytes: sum(rSec, a, b) * 512,
    writeBytes: sum(wSec, a, b) * 512,
    peakIops,
    peakBytesPerS: peakSecPerS * 512,
    readMeanUs: weightedMean(level.column("r_mean"), rIos, a, b),
    writeMeanUs: weightedMean(level.column("w_mean"), wIos, a, b),
    readMaxUs: maximum(level.column("r_max"), a, b, 1e-3),
    writeMaxUs: maximum(level.column("w_max"), a, b, 1e-3),
    busyPercent: busy === null ? null : busy / 10,
    inflightMean: inflight === null ? null : inflight / 1000,
    inflightMax: maximum(level.column("q_max"), a, b, 1),
  };
}

function sum(c: Float64Array | null, a: number, b: number): number {
  let s = 0;
  if (c) for (let i = a; i < b; i++) s += Number.isNaN(c[i]) ? 0 : (c[i] ?? 0);
  return s;
}

/** Mean over time, weighted by the length of the slots. */
function mean(level: Slots, name: ColumnName, a: number, b: number): number | null {
  const c = level.column(name);
  let s = 0;
  let time = 0;
  if (c) {
    for (let i = a; i < b; i++) {
      const v = c[i] ?? NaN;
      if (Number.isNaN(v)) continue;
      s += v * level.seconds(i);
      time += level.seconds(i);
    }
  }
  return time > 0 ? s / time : null;
}

function maximum(c: Float64Array | null, a: number, b: number, unit: number): number | null {
  let m = -Infinity;
  if (c) for (let i = a; i < b; i++) if ((c[i] ?? NaN) > m) m = c[i] ?? m;
  return m === -Infinity ? null : m * unit;
}

/** Mean of nanoseconds, weighted by counts, in microseconds. */
function weightedMean(c: Float64Array | null, n: Float64Array | null, a: number, b: number): number | null {
  let s = 0;
  let total = 0;
  if (c && n) {
    for (let i = a; i < b; i++) {
      const v = c[i] ?? NaN;
      if (Number.isNaN(v)) continue;
      s += v * (n[i] ?? 0);
      total += n[i] ?? 0;
    }
  }
  return total > 0 ? s / total / 1e3 : null;
}

/** One point of latency versus load: a window of time. */
export interface LoadPoint {
  inflight: number;
  iops: number;
  meanUs: number;
  ios: number;
}

/** Windows of about 1 s (more if the level is coarser or there would be more than 1500) with at least 30 I/Os. */
export function loadPoints(level: Slots): LoadPoint[] {
  const rn = level.column("r_ios");
  const wn = level.column("w_ios");
  const rm = level.column("r_mean");
  const wm = level.column("w_mean");
  const q = level.column("q_mean");
  if (!rn || !wn || !rm || !wm || !q) return [];
  const whole = level.n * level.step;
  const width = Math.max(level.step, whole / 1500, whole < 60 ? whole / 200 : 1);
  const merge = Math.max(1, Math.round(width / level.step));
  const out: LoadPoint[] = [];
  for (let a = 0; a + merge <= level.n; a += merge) {
    let ios = 0;
    let ns = 0;
    let inflight = 0;
    for (let i = a; i < a + merge; i++) {
      const r = rn[i] ?? 0;
      const w = wn[i] ?? 0;
      ios += r + w;
      ns += (r > 0 ? r * (rm[i] ?? 0) : 0) + (w > 0 ? w * (wm[i] ?? 0) : 0);
      inflight += Number.isNaN(q[i]) ? 0 : (q[i] ?? 0);
    }
    if (ios < 30) continue;
    out.push({ inflight: inflight / merge / 1000, iops: ios / (merge * level.step), meanUs: ns / ios / 1e3, ios });
  }
  return out;
}

/** The non-empty buckets of a histogram as `[bucket, ...values]`. */
export function openBuckets(packed: string | undefined, values: number): number[][] {
  if (!packed) return [];
  const list = unpackList(packed);
  const out: number[][] = [];
  let bucket = 0;
  for (let i = 0; i + values < list.length; i += values + 1) {
    bucket += list[i] ?? 0;
    out.push([bucket, ...list.slice(i + 1, i + 1 + values)]);
  }
  return out;
}
