// Tests whether bytes over time are periodic: autocorrelation, for the chart of a period.

/** The biased autocorrelation of `x` (mean removed) at lags 0 to `most`, 1 at lag 0; zeros for a constant. */
export function autocorrelation(x: ArrayLike<number>, most: number): Float64Array {
  const n = x.length;
  const mean = n > 0 ? Array.prototype.reduce.call(x, (sum: unknown, v: unknown) => (sum as number) + (v as number), 0) as number / n : 0;
  const centred = Float64Array.from(x, (v) => v - mean);
  const at = (lag: number) => {
    let sum = 0;
    for (let i = 0; i + lag < n; i++) sum += (centred[i] ?? 0) * (centred[i + lag] ?? 0);
    return sum;
  };
  const power = at(0);
  const lags = Math.max(0, Math.min(most, n - 1));
  return Float64Array.from({ length: lags + 1 }, (_, lag) => (power > 1e-9 * n ? at(lag) / power : 0));
}

/** ln(1 + KiB) of groups of `merge` slots. Absent values count as 0, an incomplete last group is excluded. */
export function logSeries(sectors: ArrayLike<number>, merge: number): Float64Array {
  const groups = Math.floor(sectors.length / merge);
  return Float64Array.from({ length: groups }, (_, g) => {
    let sum = 0;
    for (let i = g * merge; i < (g + 1) * merge; i++) sum += sectors[i] || 0;
    return Math.log1p(sum / 2);
  });
}
