// Visible time ranges: shifts and scales them, and limits them to the available data.

/** A visible time range, in seconds since the recording's start. */
export interface Range {
  from: number;
  to: number;
}

/** `range` shifted and extended as little as possible to fit within `bounds` and be at least `minSpan` long. */
export function clamp(range: Range, bounds: Range, minSpan: number): Range {
  const whole = bounds.to - bounds.from;
  const span = Math.min(whole, Math.max(minSpan, range.to - range.from));
  const middle = (range.from + range.to) / 2;
  const kept = range.to - range.from >= span ? range.from : middle - span / 2;
  const from = Math.min(Math.max(kept, bounds.from), bounds.to - span);
  return { from, to: from + span };
}

/** `range` shifted by a share of its own length. */
export function pan(range: Range, share: number): Range {
  const d = (range.to - range.from) * share;
  return { from: range.from + d, to: range.to + d };
}

/** `range` scaled around `centre` (its middle if not given); a factor below 1 zooms in. */
export function scale(range: Range, factor: number, centre = (range.from + range.to) / 2): Range {
  return { from: centre - (centre - range.from) * factor, to: centre + (range.to - centre) * factor };
}

/** The window in which to show an event from `from` to `to`: with a margin of its own length on both sides. */
export function around(from: number, to: number, least: number): Range {
  const margin = Math.max((to - from) * 0.75, least / 2);
  return { from: from - margin, to: to + margin };
}

/** Both ends rounded outwards to slots of `step` seconds. */
export function snap(range: Range, step: number): Range {
  const e = 1e-6;
  return { from: Math.floor(range.from / step + e) * step, to: Math.ceil(range.to / step - e) * step };
}
