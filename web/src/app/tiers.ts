/** Heat maps as stored in a file: counts of one byte, row by row, in chunks of columns, at several resolutions. */

export interface Tier {
  column_s: number;
  /** Number of columns of the whole time. */
  column_count: number;
  columns_of_chunk: number;
  /** Number of the file's latency rows that are merged into one row of this tier. */
  rows_together: number;
}

export interface Cells {
  from_unix_s: number;
  column_s: number;
  latency_us: number[];
  counts: number[][];
}

/** Counts below this are exact; above it, each code is an eighth of an octave. */
const EXACT = 16;
const CODES_PER_OCTAVE = 8;
const COUNTS = Float64Array.from({ length: 256 }, (_, code) => (code < EXACT ? code : Math.round(EXACT * 2 ** ((code - EXACT) / CODES_PER_OCTAVE))));

/** The coarsest tier whose columns are at most `wanted` seconds long, else the finest. Tiers are ordered from fine to coarse. */
export function tierFor(tiers: readonly Tier[], wanted: number): number {
  let level = 0;
  tiers.forEach((t, i) => {
    if (t.column_s <= wanted) level = i;
  });
  return level;
}

/**
 * The sum of chunks from `from` to `to` in columns of `together` of theirs. A chunk begins with its first row and the number of its
 * rows; then come the rows, each with a byte for each column.
 */
export function cellsOf(parts: readonly { chunk: number; bytes: Uint8Array }[], tier: Tier, begin: number, from: number, to: number, together: number, edges_us: readonly number[]): Cells {
  const step = tier.column_s * together;
  const all = Math.ceil(tier.column_count / together);
  const first = Math.min(all - 1, Math.max(0, Math.floor((from - begin) / step)));
  const end = Math.max(first + 1, Math.min(all, Math.ceil((to - begin) / step)));
  let [low, high] = [Infinity, 0];
  for (const { bytes } of parts) {
    low = Math.min(low, bytes[0] ?? 0);
    high = Math.max(high, (bytes[0] ?? 0) + (bytes[1] ?? 0));
  }
  if (high === 0) [low, high] = [0, 1];
  const rows = high - low;
  const counts = Array.from({ length: end - first }, () => new Array<number>(rows).fill(0));
  for (const { chunk, bytes } of parts) {
    const [row0, n] = [bytes[0] ?? 0, bytes[1] ?? 0];
    const at = chunk * tier.columns_of_chunk;
    const width = Math.min(tier.columns_of_chunk, tier.column_count - at);
    const [a, b] = [Math.max(0, first * together - at), Math.min(width, end * together - at)];
    for (let r = 0; r < n; r++) {
      for (let i = a; i < b; i++) {
        const code = bytes[2 + r * width + i] ?? 0;
        if (code === 0) continue;
        const column = counts[Math.floor((at + i) / together) - first];
        const row = row0 - low + r;
        if (column) column[row] = (column[row] ?? 0) + (COUNTS[code] ?? 0);
      }
    }
  }
  const latency_us = Array.from({ length: rows + 1 }, (_, i) => edges_us[Math.min(edges_us.length - 1, (low + i) * tier.rows_together)] ?? 1);
  return { from_unix_s: begin + first * step, column_s: step, latency_us, counts };
}

/**
 * I/Os by latency in the columns whose centres are in a time range; if columns are longer than the range, those of
 * the column around it.
 */
export function cellsBetween(cells: Cells, from: number, to: number): number[] | null {
  const { from_unix_s: begin, column_s: length, counts } = cells;
  let first = Math.ceil((from - begin) / length - 0.5);
  let end = Math.ceil((to - begin) / length - 0.5);
  if (end <= first) {
    first = Math.floor(((from + to) / 2 - begin) / length);
    end = first + 1;
  }
  const seen = counts.slice(Math.max(0, first), Math.max(0, end));
  const [one, ...others] = seen;
  if (!one) return null;
  const sums = [...one];
  for (const column of others) column.forEach((n, row) => (sums[row] = (sums[row] ?? 0) + n));
  return sums;
}

/** The latency quantile `q`; `null` without I/Os. */
export function quantileOf(sums: ArrayLike<number>, edges_us: readonly number[], q: number): number | null {
  let total = 0;
  for (let row = 0; row < sums.length; row++) total += sums[row] ?? 0;
  if (total === 0) return null;
  const rank = q * total;
  let below = 0;
  for (let row = 0; row < sums.length; row++) {
    const n = sums[row] ?? 0;
    if (n > 0 && below + n >= rank) {
      const [low, high] = [edges_us[row] ?? 0, edges_us[row + 1] ?? 0];
      // Ranks within a cell are spread evenly on a logarithmic scale.
      return low * (high / low) ** ((rank - below) / n);
    }
    below += n;
  }
  return null;
}
