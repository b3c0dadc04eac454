// How lines of charts over time are drawn: as steps with gaps where the value is unknown, or as dots.

import uPlot from "uplot";

/**
 * A stepped line: each value holds for its whole slot, a slot without a value is a gap, and a single slot is still a
 * visible dash. `area` fills down to the x axis.
 */
export function steps(area: boolean): uPlot.Series.PathBuilder {
  return (u, seriesIdx, idx0, idx1) => {
    const xs = u.data[0];
    const ys = u.data[seriesIdx] ?? [];
    const scaleKey = u.series[seriesIdx]?.scale ?? "y";
    const base = u.bbox.top + u.bbox.height;
    const stroke = new Path2D();
    const fill = new Path2D();
    let open = false;
    for (let i = idx0; i <= Math.min(idx1, xs.length - 2); i++) {
      const v = ys[i];
      const a = u.valToPos(xs[i] ?? 0, "x", true);
      if (v === null || v === undefined) {
        if (open && area) fill.lineTo(a, base);
        open = false;
        continue;
      }
      const b = u.valToPos(xs[i + 1] ?? 0, "x", true);
      const y = u.valToPos(v, scaleKey, true);
      if (open) stroke.lineTo(a, y);
      else stroke.moveTo(a, y);
      stroke.lineTo(b, y);
      if (area) {
        if (!open) fill.moveTo(a, base);
        fill.lineTo(a, y);
        fill.lineTo(b, y);
        if (i === Math.min(idx1, xs.length - 2)) fill.lineTo(b, base);
      }
      open = true;
    }
    return { stroke, fill: area ? fill : null, clip: null, band: null, flags: 3 };
  };
}

/** A dot in the middle of each slot that has a value. */
export function dots(): uPlot.Series.PathBuilder {
  return (u, seriesIdx, idx0, idx1) => {
    const xs = u.data[0];
    const ys = u.data[seriesIdx] ?? [];
    const scaleKey = u.series[seriesIdx]?.scale ?? "y";
    const r = 1.1 * devicePixelRatio;
    const fill = new Path2D();
    for (let i = idx0; i <= Math.min(idx1, xs.length - 2); i++) {
      const v = ys[i];
      if (v === null || v === undefined) continue;
      const x = u.valToPos(((xs[i] ?? 0) + (xs[i + 1] ?? 0)) / 2, "x", true);
      fill.rect(x - r, u.valToPos(v, scaleKey, true) - r, 2 * r, 2 * r);
    }
    return { stroke: null, fill, clip: null, band: null, flags: 2 };
  };
}
