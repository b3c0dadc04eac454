// The charts "Latency by completion and by arrival" and "Rhythm" (periods in the load) of one device.

import { timeLabel } from "../charts/base";
import { Frame, logTicks, ticks } from "../charts/svg";
import { fromLogCode, unpackColumn } from "../codec";
import type { DepthBlock, Rhythm } from "../generated/page";
import { h, s } from "../dom";
import * as format from "../format";
import { autocorrelation, logSeries } from "../rhythm";
import type { Store } from "../store";
import { card, emptyText, legendRow } from "./card";

const HEIGHT = 230;
export const ONE_DEVICE = "Shown for one device: choose one above.";

/** The analyses' results for the selected device, if it is a single one. */
export function depthOf(store: Store): DepthBlock | undefined {
  const devices = store.scope?.device_names ?? [];
  return devices.length === 1 ? store.data.depth?.find((d) => d.device === devices[0]) : undefined;
}

/**
 * Mean latency by completion and by arrival. Where they differ, the completion curve shows a stall later than it
 * began.
 */
export function attributionCard(store: Store, width: number): HTMLElement {
  const title = "Latency by completion and by arrival";
  const depth = depthOf(store);
  const show = (...body: Node[]) => card("attribution", title, "attribution", null, ...body);
  if (!depth) return show(emptyText(ONE_DEVICE));
  const { from_ns, bin_ns, bins, differ_percent } = depth.attribution;
  const means = (packed: string) => unpackColumn(packed, bins).map((v) => (Number.isNaN(v) ? v : fromLogCode(v) / 1e3));
  const curves = [
    { cls: "any", label: "by completion", us: means(depth.attribution.completed) },
    { cls: "arrived", label: "by arrival", us: means(depth.attribution.arrived) },
  ];
  const seen = curves.flatMap(({ us }) => [...us].filter((v) => v > 0));
  if (seen.length === 0) return show(emptyText("Not known for any I/O."));
  const frame = new Frame(width, HEIGHT, title);
  const [lo, hi] = roomy(Math.min(...seen), Math.max(...seen));
  const py = (us: number) => Math.log(us / lo) / Math.log(hi / lo);
  for (const t of logTicks(lo, hi)) frame.yTick(py(t), format.micros(t));
  const seconds = (bins * bin_ns) / 1e9;
  for (const t of ticks(seconds, Math.max(2, width / 90))) frame.xTick(t / seconds, timeLabel(store, from_ns / 1e9 + t, Math.max(1, seconds / 100)));
  for (const { cls, us } of curves) frame.add(s("path", { d: steps(frame, us, py), class: `line ${cls}` }));
  const apart = differ_percent === null ? "" : `in ${format.percent(differ_percent)} of the bins with I/O the two differ by more than 10 %`;
  const whole = seconds >= 0.95 * (store.bounds.to - store.bounds.from);
  const bin = `bins of ${format.span(bin_ns / 1e9)}${whole ? "" : `, the ${format.span(seconds)} in which they differ most`}`;
  return show(frame.svg, h("ul", { class: "legend" }, legendRow("any", "by completion", bin), legendRow("arrived", "by arrival", apart)));
}

/** The axis range: at least one decade, with a margin. */
function roomy(lo: number, hi: number): [number, number] {
  const wide = Math.max(1.3, Math.sqrt(Math.max(1, 10 / (hi / lo))));
  return [lo / wide, hi * wide];
}

/** A step line with gaps where the value is unknown. */
function steps(frame: Frame, values: ArrayLike<number>, place: (v: number) => number): string {
  let line = "";
  let drawing = false;
  for (let i = 0; i < values.length; i++) {
    const v = values[i] ?? NaN;
    if (!(v > 0)) {
      drawing = false;
      continue;
    }
    const [x0, x1, y] = [frame.x(i / values.length), frame.x((i + 1) / values.length), frame.y(place(v))].map((p) => p.toFixed(1));
    line += drawing ? `V${y}H${x1}` : `M${x0},${y}H${x1}`;
    drawing = true;
  }
  return line;
}

/** The autocorrelation of the load, and the period that the analysis tested. */
export function rhythmCard(store: Store, width: number): HTMLElement {
  const title = "Rhythm";
  const show = (...body: Node[]) => card("rhythm", title, "rhythm", null, ...body);
  const depth = depthOf(store);
  const level = store.base;
  if (!depth || !level) return show(emptyText(ONE_DEVICE));
  const classes = (["read", "write"] as const).filter((c) => store.show[c]);
  const rhythms = classes.flatMap((c) => depth.rhythm.filter((r) => r.class === c));
  const legend = h("ul", { class: "legend" }, ...rhythms.map((r) => legendRow(r.class, `${r.class}s`, inWords(r))));
  const periods = rhythms.map((r) => (isPeriodic(r) ? r.periodicity.period_s : null)).filter((p) => p !== null);
  // The slot length must suit the period: a slot shorter than the jitter smears the peak.
  const merge = Math.max(1, Math.floor(Math.min(...periods, (level.to - level.from) / 40) / 25 / level.step), Math.ceil(level.n / 4096));
  const dt = level.step * merge;
  const curves = classes.flatMap((c) => {
    const sectors = level.column(c === "read" ? "r_sec" : "w_sec");
    const series = logSeries(sectors ?? [], merge);
    return series.some((v) => v > 0) ? [{ c, acf: autocorrelation(series, Math.floor(series.length / 3)) }] : [];
  });
  const most = Math.max(0, ...curves.map(({ acf }) => acf.length - 1));
  if (most < 10) return show(emptyText("Too short, or too little I/O, to look for a rhythm."), legend);
  const lags = periods.length > 0 ? Math.min(most, Math.ceil((4.4 * Math.max(...periods)) / dt)) : most;
  const frame = new Frame(width, HEIGHT, "Autocorrelation of the load");
  const low = Math.min(-0.2, ...curves.map(({ acf }) => Math.min(...acf.subarray(1, lags + 1))));
  const py = (v: number) => (v - low) / (1.05 - low);
  for (const t of [-0.5, 0, 0.5, 1].filter((t) => t >= low)) frame.yTick(py(t), format.number(t));
  for (const t of ticks(lags * dt, Math.max(2, width / 90))) frame.xTick(t / (lags * dt), t === 0 ? "0" : format.span(t));
  frame.xTitle("lag");
  for (const { c, acf } of curves) {
    let line = "";
    for (let k = 0; k <= lags && k < acf.length; k++) line += `${k ? "L" : "M"}${frame.x(k / lags).toFixed(1)},${frame.y(py(acf[k] ?? 0)).toFixed(1)}`;
    frame.add(s("path", { d: line, class: `line ${c}` }));
  }
  for (const r of rhythms.filter(isPeriodic)) frame.add(...periodMark(frame, r, lags * dt));
  return show(frame.svg, legend);
}

function isPeriodic(r: Rhythm): boolean {
  return r.periodicity.verdict === "periodic" || r.periodicity.verdict === "tentative";
}

function periodMark(frame: Frame, r: Rhythm, longest: number): SVGElement[] {
  const period = r.periodicity.period_s;
  if (period === null || period > longest) return [];
  const x = frame.x(period / longest);
  return [
    s("line", { x1: x, x2: x, y1: frame.y(0), y2: frame.y(1), class: "knee" }),
    s("text", { x: x + 5, y: frame.top + 10, class: "tick knee-label", text: format.span(period) }),
  ];
}

/** `= 0.02`, or the text itself if it already contains the comparison. */
const equals = (text: string): string => (text.startsWith("<") ? text : `= ${text}`);

function inWords(r: Rhythm): string {
  const p = r.periodicity;
  if (p.verdict === "insufficient-data") return `insufficient data: ${p.onsets} onsets`;
  if (!isPeriodic(r)) return `no periodicity detected, ${p.onsets} onsets`;
  const range = p.period_low_s !== null && p.period_high_s !== null ? ` (${format.number(p.period_low_s, 4)} to ${format.number(p.period_high_s, 4)})` : "";
  const sure = p.verdict === "tentative" ? ", tentative" : "";
  return `every ${format.number(p.period_s, 4)} s${range}, ${p.onsets_in_step} onsets in step over ${format.number(p.cycles)} periods, p ${equals(format.probability(p.p_value))}${sure}`;
}

