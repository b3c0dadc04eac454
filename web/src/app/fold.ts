// The heat map's layouts "Seconds" and "Every …", which show what recurs: a column per period, a row per offset.

import type { Heat } from "./data";
import type { Fold } from "./view";

/** The second-offset layout (FlameScope): what recurs with the period of the columns appears as a line. */

/** Maximum number of cells requested. */
const MAX_CELLS = 24_000;
const MAX_ROWS = 60;
const MIN_ROWS = 8;
/** Maximum number of columns in a response of the server. */
const MAX_WIDTH = 4096;

export interface FoldPlan {
  /** Start of the first column. */
  from: number;
  columns: number;
  rows: number;
  /** The stretches to request, with the number of columns of each. */
  parts: { from: number; to: number; width: number }[];
}

/** What to request for a time range; `null` if its periods are narrower than two pixels. */
export function foldPlan(fold: Fold, from: number, to: number, plotPixels: number, viewSpan: number): FoldPlan | null {
  if (viewSpan / fold.periodS > plotPixels / 2) return null;
  const first = Math.floor((from - fold.anchorS) / fold.periodS);
  const columns = Math.floor((to - fold.anchorS) / fold.periodS) - first + 1;
  const rows = Math.min(MAX_ROWS, Math.floor(MAX_CELLS / columns));
  if (rows < MIN_ROWS) return null;
  const start = fold.anchorS + first * fold.periodS;
  const each = Math.max(1, Math.floor(MAX_WIDTH / rows));
  const parts = [];
  for (let c = 0; c < columns; c += each) {
    const n = Math.min(each, columns - c);
    parts.push({ from: start + c * fold.periodS, to: start + (c + n) * fold.periodS, width: n * rows });
  }
  return { from: start, columns, rows, parts };
}

/** Arranges I/Os by period and offset, as a heat map whose rows are offsets. */
export function folded(fold: Fold, plan: FoldPlan, answers: Heat[]): Heat {
  const counts = Array.from({ length: plan.columns }, () => new Array<number>(plan.rows).fill(0));
  for (const heat of answers) {
    heat.counts.forEach((cells, i) => {
      const n = cells.reduce((a, b) => a + b, 0);
      if (n === 0) return;
      const periods = (heat.from_unix_s + (i + 0.5) * heat.column_s - plan.from) / fold.periodS;
      const row = Math.floor((periods - Math.floor(periods)) * plan.rows);
      const column = counts[Math.floor(periods)];
      if (column) column[row] = (column[row] ?? 0) + n;
    });
  }
  const edges = Array.from({ length: plan.rows + 1 }, (_, row) => (row / plan.rows) * fold.periodS);
  return { from_unix_s: plan.from, column_s: fold.periodS, latency_us: edges, counts, notes: [] };
}
