/** Lanes for intervals that overlap: each takes the first lane that is free at its start. `from` and `to` in order of `from`. */
export function lanes(from: ArrayLike<number>, to: ArrayLike<number>): { lane: Int32Array; count: number } {
  const lane = new Int32Array(from.length);
  const free: number[] = [];
  for (let i = 0; i < from.length; i++) {
    const start = from[i] ?? 0;
    let l = free.findIndex((end) => end <= start);
    if (l < 0) l = free.length;
    free[l] = to[i] ?? start;
    lane[i] = l;
  }
  return { lane, count: free.length };
}
