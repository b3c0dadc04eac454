// The statistics of Compare: how I/Os per second and latency quantiles of two boxes differ, with 95 % intervals.

import { random } from "../random";
import { type Heat, type Ios, type Who, doneOf, nameOf, spoken } from "./data";
import { quantileOf } from "./tiers";
import { type Box, OPEN_US, type Subject } from "./view";

/**
 * Compares the latencies of two stretches of time, as `iolens diff` does (A31 in docs/analyses.md). I/Os close in
 * time are correlated, so they are not independent observations. Therefore each stretch is divided into blocks of
 * time, and whole blocks are resampled.
 */

/** Maximum number of blocks, and the minimum length of a block. */
const MAX_BLOCKS = 40;
const MIN_BLOCK_S = 0.25;
/** Minimum number of blocks per side for an interval. */
export const MIN_BLOCKS = 8;
const RESAMPLES = 1000;
const SEED = 0x1015;

/** Number of blocks of a stretch of `seconds`. */
export function blocksOf(seconds: number): number {
  return Math.min(MAX_BLOCKS, Math.max(1, Math.floor(seconds / MIN_BLOCK_S)));
}

/** I/Os of a stretch by block and latency. */
export interface Blocks {
  /** Recorded seconds of each block. */
  recordedS: number[];
  /** Edges of the latency cells; one more than there are cells. */
  edgesUs: number[];
  /** Counts by block, then by cell. */
  counts: number[][];
}

/** Converts a heat map to blocks, restricted to a range of latencies. A cell is assigned by its centre. */
export function blocksIn(heat: Heat, lowUs: number, highUs: number): Blocks {
  const edgesUs = heat.latency_us;
  const inside = edgesUs.slice(1).map((edge, row) => {
    const middle = Math.sqrt(edge * (edgesUs[row] ?? edge));
    return middle >= lowUs && middle <= highUs;
  });
  return { recordedS: heat.recorded_s ?? heat.counts.map(() => heat.column_s), edgesUs, counts: heat.counts.map((column) => column.map((n, row) => (inside[row] ? n : 0))) };
}

/** Recorded seconds of all blocks. */
export const recordedOf = (of: Blocks | undefined): number => of?.recordedS.reduce((a, b) => a + b, 0) ?? 0;

/** I/Os by latency cell, with each block weighted by `times`. */
function summed(of: Blocks, times: Uint32Array): Float64Array {
  const sums = new Float64Array(of.edgesUs.length - 1);
  of.counts.forEach((block, b) => {
    const n = times[b] ?? 0;
    if (n > 0) block.forEach((count, cell) => (sums[cell] = (sums[cell] ?? 0) + n * count));
  });
  return sums;
}

/** I/Os by cell of latency. */
export const latenciesOf = (of: Blocks): Float64Array => summed(of, new Uint32Array(of.counts.length).fill(1));

/** The latency quantile `q`; `null` with fewer than ten I/Os beyond it. */
export function quantile(sums: Float64Array, edgesUs: number[], q: number): number | null {
  const total = sums.reduce((a, b) => a + b, 0);
  if (total < Math.round(10 / (1 - q))) return null;
  return quantileOf(sums, edgesUs, q);
}

/** The change of a measure. */
export interface Shift {
  /** The quantile; `null`: I/Os per second. */
  q: number | null;
  before: number | null;
  after: number | null;
  /** Change in percent of the value before. */
  percent: number | null;
  /** The 95 % interval of `percent`; `null` if a side is too short or has too few I/Os. */
  interval: [number, number] | null;
}

export const QUANTILES = [0.5, 0.9, 0.99, 0.999];

/** I/Os per second and quantiles of latency before and after, with intervals by the percentile bootstrap. */
export function shifts(before: Blocks, after: Blocks): Shift[] {
  const measures = [null, ...QUANTILES];
  const valuesOf = (of: Blocks, times: Uint32Array) => {
    const sums = summed(of, times);
    const seconds = of.recordedS.reduce((sum, s, block) => sum + s * (times[block] ?? 0), 0);
    return measures.map((q) => (q === null ? (seconds > 0 ? sums.reduce((a, b) => a + b, 0) / seconds : null) : quantile(sums, of.edgesUs, q)));
  };
  const once = (of: Blocks) => new Uint32Array(of.counts.length).fill(1);
  const [first, second] = [valuesOf(before, once(before)), valuesOf(after, once(after))];
  const drawn: number[][] = measures.map(() => []);
  if (Math.min(before.counts.length, after.counts.length) >= MIN_BLOCKS) {
    const next = random(SEED);
    const draw = (of: Blocks) => {
      const times = new Uint32Array(of.counts.length);
      for (let i = 0; i < times.length; i++) times[Math.floor(next() * times.length)]!++;
      return times;
    };
    for (let i = 0; i < RESAMPLES; i++) {
      const [a, b] = [valuesOf(before, draw(before)), valuesOf(after, draw(after))];
      measures.forEach((_, m) => {
        const percent = percentMore(a[m] ?? null, b[m] ?? null);
        if (percent !== null) drawn[m]?.push(percent);
      });
    }
  }
  return measures.map((q, m) => {
    const percent = percentMore(first[m] ?? null, second[m] ?? null);
    const percents = (drawn[m] ?? []).sort((a, b) => a - b);
    // If many resamples yield no value, a side has hardly enough I/Os, so there is no interval.
    const enough = percent !== null && percents.length >= RESAMPLES * 0.9;
    const at = (i: number) => percents[Math.floor(i)] ?? NaN;
    return {
      q, before: first[m] ?? null, after: second[m] ?? null, percent,
      interval: enough ? [at((percents.length * 25) / 1000), at((percents.length * 975) / 1000 - 1)] : null,
    };
  });
}

function percentMore(before: number | null, after: number | null): number | null {
  return before === null || after === null || before <= 0 ? null : (after / before - 1) * 100;
}

/** Growth of the time taken by something, in seconds per second of each stretch. */
export interface Growth {
  name: string;
  before: number;
  after: number;
}

/** A name and its time in seconds per second of a stretch. */
export interface Rate {
  name: string;
  rate: number;
}

/** Time by actor, and by victim and culprit, in a box. */
export interface Rates {
  actors: Rate[];
  waits: Rate[];
}

/** Whether a box excludes some latencies. */
export const isBounded = (box: Box): boolean => box.lowUs > 0 || box.highUs < OPEN_US;

/** The rates of the I/Os in a box with `seconds` recorded. Of each I/O's waits, only the longest counts. */
export function ratesIn(ios: Ios, box: Box, by: Subject, seconds: number): Rates {
  const c = ios.columns;
  const rates: Rates = { actors: [], waits: [] };
  c.total_us.forEach((us, i) => {
    const at = doneOf(ios, i);
    if (at < box.from || at > box.to || us < box.lowUs || us > box.highUs) return;
    const who: Who = { process: c.process[i] ?? null, pid: c.pid[i] ?? null, cgroup: c.cgroup[i] ?? null, file: c.file[i] ?? null, class: c.class[i] ?? null, origin: c.origin[i] ?? null };
    rates.actors.push({ name: nameOf(who, by), rate: us / 1e6 / seconds });
    const waited = c.wait_behind_us?.[i] ?? 0;
    if (waited <= 0) return;
    const culprit: Who = { process: c.wait_behind_process?.[i] ?? null, pid: c.wait_behind_pid?.[i] ?? null, class: c.wait_behind_class?.[i] ?? null, origin: c.wait_behind_origin?.[i] ?? null };
    rates.waits.push({ name: `${spoken(who, by)} behind ${spoken(culprit)}`, rate: waited / 1e6 / seconds });
  });
  return rates;
}

/** Names that take more time after than before, largest growth first. Names that occur several times are summed. */
export function grown(before: Rate[], after: Rate[]): Growth[] {
  const all = new Map<string, Growth>();
  const add = (list: Rate[], side: "before" | "after") => {
    for (const { name, rate } of list) {
      const growth = all.get(name) ?? { name, before: 0, after: 0 };
      growth[side] += rate;
      all.set(name, growth);
    }
  };
  add(before, "before");
  add(after, "after");
  // Growth of less than 1 ms/s or 5 % is an effect of the boxes' edges.
  const rows = [...all.values()].filter((g) => g.after - g.before > Math.max(0.001, 0.05 * g.before));
  return rows.sort((a, b) => b.after - b.before - (a.after - a.before));
}
