// Heat maps: which answers are drawn, and their cells as pixels of the screen.

import type { Heat } from "./data";
import type { Class } from "./view";

/** Number of shades of a cell, on a logarithmic scale of its count. */
export const SHADES = 64;

/** What was requested: a time range, and a column length. */
export interface Question {
  from: number;
  to: number;
  columnS: number;
}

/** One heat map. */
export interface Layer {
  cls: Class | "found" | "all";
  heat: Heat;
  asked: Question | null;
  from: number;
  to: number;
  max: number;
  /** Whether it is the newest part of a live view, newer than all other layers. */
  isNewest: boolean;
  cells: Cells | null;
}

/** The cells with I/Os; those of column `c` are `first[c]` to `first[c + 1]`. */
interface Cells {
  first: Uint32Array;
  row: Uint16Array;
  /** From 1 to `SHADES`. */
  shade: Uint8Array;
}

/** The raster on which heat maps are drawn. */
export interface Frame {
  width: number;
  height: number;
  /** Minimum width and height of a cell in pixels. */
  least: number;
  x(t: number): number;
  /** y of a row's edge, in pixels from the top. */
  y(edge: number): number;
}

/** Merges each `n` columns of the heat map. */
export function joined(heat: Heat, n: number): Heat {
  if (!(n > 1)) return heat;
  const counts: number[][] = [];
  const recorded: number[] = [];
  heat.counts.forEach((column, i) => {
    const sum = counts[Math.floor(i / n)];
    const part = heat.recorded_s?.[i] ?? heat.column_s;
    recorded[Math.floor(i / n)] = (recorded[Math.floor(i / n)] ?? 0) + part;
    if (sum) column.forEach((count, row) => (sum[row] = (sum[row] ?? 0) + count));
    else counts.push([...column]);
  });
  return { ...heat, column_s: heat.column_s * n, counts, recorded_s: recorded };
}

/** Moves a heat map to the rows of another one with these `edges`, extended as needed. A cell is assigned by its centre. */
export function regridded(heat: Heat, edges: number[]): Heat {
  const first = edges[0] ?? 1;
  const factor = ((edges.at(-1) ?? 1) / first) ** (1 / Math.max(1, edges.length - 1));
  const rowOf = (us: number) => Math.floor(Math.log(us / first) / Math.log(factor) + 1e-9);
  const rows = heat.latency_us.slice(1).map((edge, i) => rowOf(Math.sqrt(edge * (heat.latency_us[i] ?? edge))));
  const [low, high] = [Math.min(...rows), Math.max(...rows)];
  if (!(factor > 1) || !Number.isFinite(high - low)) return heat;
  const counts = heat.counts.map((column) => {
    const cells = new Array<number>(high - low + 1).fill(0);
    column.forEach((n, i) => (cells[(rows[i] ?? low) - low]! += n));
    return cells;
  });
  return { ...heat, latency_us: Array.from({ length: high - low + 2 }, (_, i) => first * factor ** (low + i)), counts };
}

/** Recorded share of a column; its shades represent the rate of that part. */
export const recordedShare = (heat: Heat, column: number): number => Math.min(1, (heat.recorded_s?.[column] ?? heat.column_s) / heat.column_s);

export function layerOf(cls: Layer["cls"], heat: Heat, asked: Question | null = null): Layer {
  let max = 0;
  heat.counts.forEach((column, i) => {
    // A single I/O in a very short part is not a meaningful rate.
    const share = recordedShare(heat, i);
    if (share < 0.5) return;
    for (const n of column) max = Math.max(max, n / share);
  });
  for (const n of max > 0 ? [] : heat.counts.flat()) max = Math.max(max, n);
  const to = heat.from_unix_s + heat.column_s * heat.counts.length;
  return { cls, heat, asked, from: heat.from_unix_s, to, max, isNewest: false, cells: null };
}

/** Whether a layer has no I/O. */
export const isEmpty = (layer: Layer): boolean => layer.max === 0;

/** The range of latencies of the layers; `null` without I/Os. Answers without I/Os have rows too, but they do not count. */
export function latencyRange(layers: readonly Layer[]): [number, number] | null {
  const filled = layers.filter((layer) => !isEmpty(layer));
  if (filled.length === 0) return null;
  const edges = filled.flatMap(({ heat }) => [heat.latency_us[0] ?? 1, heat.latency_us.at(-1) ?? 1]);
  return [Math.min(...edges), Math.max(...edges)];
}

/** Column lengths within this factor of the request count as equal: the requested length depends on the width of the chart. */
const SAME_COLUMN = 1.5;
/** Columns narrower than this share of a pixel are not worth drawing. */
const MIN_COLUMN_PX = 0.2;
/** Width of a column in pixels. */
const COLUMN_PX = 2;

/**
 * The layers of one class to draw for a view, lowest first. Once the view's own query is answered, its layer is drawn
 * alone, because layers of other views would add their own latencies and columns. Until then, all layers that overlap
 * the view are drawn.
 */
export function shownLayers(layers: readonly Layer[], view: Question, isLive: boolean): Layer[] {
  const own = layers.filter((l) => answers(l, view, isLive)).at(-1);
  if (!own) return substitutes(layers, view);
  return isLive ? [own, ...layers.filter((l) => l.isNewest)] : [own];
}

/** Whether a layer answers the query of a view. A live view continues after its answer: the newest layer has the rest. */
function answers({ asked, isNewest }: Layer, view: Question, isLive: boolean): boolean {
  if (asked === null || isNewest) return false;
  const ratio = asked.columnS / view.columnS;
  if (ratio > SAME_COLUMN || ratio < 1 / SAME_COLUMN) return false;
  // Queries have a resolution of microseconds.
  return asked.from <= view.from + 1e-6 && (isLive ? asked.to > view.from : asked.to >= view.to - 1e-6);
}

/** The layers that overlap a view, coarsest first, without those that would not be visible. */
function substitutes(layers: readonly Layer[], { from, to, columnS }: Question): Layer[] {
  const shortest = (columnS / COLUMN_PX) * MIN_COLUMN_PX;
  const seen = layers.filter((l) => l.to > from && l.from < to && l.heat.column_s > shortest);
  // Of layers with about the same resolution, the newer one comes later, because it was added later.
  const coarseness = (l: Layer) => Math.round(2 * Math.log2(l.heat.column_s));
  seen.sort((a, b) => Number(a.isNewest) - Number(b.isNewest) || coarseness(b) - coarseness(a));
  return seen.filter((layer, i) => {
    const above = seen.slice(i + 1);
    return !above.some((l) => l.from <= Math.max(layer.from, from) && l.to >= Math.min(layer.to, to));
  });
}

/**
 * Rasterises heat maps: 0 for no I/O, else the shade. Each cell with I/Os gets at least one pixel; of several cells
 * on one pixel the darkest is shown. Later layers hide earlier ones of the same time, but search results of several
 * kinds are combined.
 */
export function rasterOf(layers: readonly Layer[], frame: Frame): Uint8Array {
  const raster = new Uint8Array(frame.width * frame.height);
  for (const layer of layers) {
    // The empty cells of a layer mean that there was no I/O, so they hide the layers below.
    if (layer.cls !== "found") clear(raster, frame, layer.from, layer.to);
    drawCells(raster, frame, layer);
  }
  return raster;
}

function clear(raster: Uint8Array, { width, height, x }: Frame, from: number, to: number): void {
  const start = Math.max(0, Math.round(x(from)));
  const end = Math.min(width, Math.round(x(to)));
  if (end <= start) return;
  for (let y = 0; y < height; y++) raster.fill(0, y * width + start, y * width + end);
}

function drawCells(raster: Uint8Array, { width, height, least, x, y }: Frame, layer: Layer): void {
  const { heat } = layer;
  const { first, row, shade } = (layer.cells ??= cellsOf(layer));
  const edges = heat.latency_us.map(y);
  const rows = edges.slice(1).map((top, r) => pixelsOf(top, edges[r] ?? top, least, height));
  for (let c = 0; c < heat.counts.length; c++) {
    if (first[c] === first[c + 1]) continue;
    const left = x(layer.from + c * heat.column_s);
    const right = x(layer.from + (c + 1) * heat.column_s);
    if (right <= 0 || left >= width) continue;
    const [x0, x1] = pixelsOf(left, right, least, width);
    for (let i = first[c]!; i < first[c + 1]!; i++) {
      const [y0, y1] = rows[row[i]!]!;
      const dark = shade[i]!;
      for (let line = y0 * width; line < y1 * width; line += width) {
        for (let at = line + x0; at < line + x1; at++) if (raster[at]! < dark) raster[at] = dark;
      }
    }
  }
}

/** The pixels from `start` to `end` that a stretch covers: at least `least`, within `size`. Adjacent stretches have no gap. */
function pixelsOf(start: number, end: number, least: number, size: number): [number, number] {
  const first = Math.max(0, Math.min(Math.round(start), size - least));
  return [first, Math.min(size, Math.max(Math.round(end), first + least))];
}

/** The cells with I/Os. The shade is of the rate in the recorded part of the column. */
function cellsOf({ heat, max }: Layer): Cells {
  const count = heat.counts.reduce((sum, column) => sum + column.filter((n) => n > 0).length, 0);
  const cells: Cells = { first: new Uint32Array(heat.counts.length + 1), row: new Uint16Array(count), shade: new Uint8Array(count) };
  const scale = (SHADES - 1) / Math.max(Math.log(max), 1e-9);
  let at = 0;
  heat.counts.forEach((column, c) => {
    const share = Math.max(1e-3, recordedShare(heat, c));
    column.forEach((n, r) => {
      if (n <= 0) return;
      cells.row[at] = r;
      cells.shade[at] = 1 + (max <= 1 ? SHADES >> 1 : Math.min(SHADES - 1, Math.round(Math.log(n / share) * scale)));
      at++;
    });
    cells.first[c + 1] = at;
  });
  return cells;
}
