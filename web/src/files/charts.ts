// Draws one chart of the section "File-level requests": lines, bands, and a legend with the values at the pointer.

import { Frame, logTicks, ticks } from "../charts/svg";
import { h, s, term } from "../dom";
import { ABSENT } from "../format";

/** A value per interval; `null` where there is none. */
export type Series = (number | null)[];

export const HEIGHT = 210;

/** One line of a chart. */
export interface Line {
  label: string;
  /** CSS class of its colour. */
  cls: string;
  values: Series;
  /** Text beside its name in the legend. */
  about?: string;
  thin?: boolean;
  /** A band around it. */
  band?: [Series, Series];
}

export interface ChartSpec {
  id: string;
  title: string;
  definition: string;
  /** Positions of the values on the x axis, from 0 to 1: `n + 1` edges for steps, `n` for points. */
  xs: number[];
  /** Steps from edge to edge, or a line from point to point. */
  steps: boolean;
  xTicks: [number, string][];
  xTitle?: string;
  /** Label of a value's position, for the readout. */
  at(i: number): string;
  log?: boolean;
  /** Fixed maximum of the axis. */
  top?: number;
  axis(v: number): string;
  full(v: number): string;
  lines: Line[];
}

/** A card with a title and controls. */
export function card(id: string, title: string, definition: string, controls: HTMLElement | null, ...body: Node[]): HTMLElement {
  return h("section", { class: "panel dist", "data-panel": id }, h("header", {}, h("h3", {}, term(title, definition)), controls), ...body);
}

/** Lines over a common axis, and a legend with their values at the pointer. */
export function chart(spec: ChartSpec, width: number, controls: HTMLElement | null = null, ...more: Node[]): HTMLElement {
  const lines = spec.lines.filter((l) => l.values.some((v) => v !== null));
  if (lines.length === 0) {
    return card(spec.id, spec.title, spec.definition, controls, h("p", { class: "empty", text: "None in this recording." }), ...more);
  }
  const frame = new Frame(width, HEIGHT, spec.title);
  const y = scale(spec, lines);
  for (const t of y.ticks) frame.yTick(y.at(t), spec.axis(t));
  for (const [at, text] of spec.xTicks) frame.xTick(at, text);
  if (spec.xTitle) frame.xTitle(spec.xTitle);
  for (const l of lines) {
    if (l.band) frame.add(s("path", { d: band(frame, spec, y.at, l.band), class: `fband ${l.cls}` }));
    frame.add(s("path", { d: path(frame, spec, y.at, l.values), class: `fline ${l.cls}${l.thin ? " thin" : ""}` }));
    for (const [i, v] of l.values.entries()) {
      if (v !== null && !spec.steps) frame.add(s("circle", { cx: frame.x(spec.xs[i] ?? 0), cy: frame.y(y.at(v)), r: 2.4, class: `fdot ${l.cls}` }));
    }
  }
  const { legend, read } = legendOf(spec, lines);
  const cursor = s("line", { y1: frame.y(0), y2: frame.y(1), class: "fcursor", visibility: "hidden" });
  frame.add(cursor);
  follow(frame, spec, cursor, read);
  return card(spec.id, spec.title, spec.definition, controls, frame.svg, legend, ...more);
}

interface Scale {
  at(v: number): number;
  ticks: number[];
}

function scale(spec: ChartSpec, lines: Line[]): Scale {
  const all = lines.flatMap((l) => [...l.values, ...(l.band?.[1] ?? [])]).filter((v): v is number => v !== null);
  const most = Math.max(...all);
  if (spec.log) {
    const lo = Math.min(...all.filter((v) => v > 0)) / 1.15;
    const hi = Math.max(most * 1.15, lo * 4);
    const marks = logTicks(lo, hi);
    return { at: (v) => Math.log(Math.max(v, lo) / lo) / Math.log(hi / lo), ticks: marks };
  }
  const top = spec.top ?? (most > 0 ? most * 1.08 : 1);
  return { at: (v) => Math.min(v / top, 1), ticks: ticks(top, 4) };
}

/** Absent values leave gaps. */
function path(frame: Frame, spec: ChartSpec, at: (v: number) => number, values: Series): string {
  let d = "";
  let pen = false;
  for (const [i, v] of values.entries()) {
    if (v === null) {
      pen = false;
      continue;
    }
    const y = frame.y(at(v)).toFixed(1);
    const x = (k: number) => frame.x(spec.xs[k] ?? 1).toFixed(1);
    d += `${pen ? "L" : "M"}${x(i)} ${y}`;
    if (spec.steps) d += `L${x(i + 1)} ${y}`;
    pen = true;
  }
  return d;
}

function band(frame: Frame, spec: ChartSpec, at: (v: number) => number, [low, high]: [Series, Series]): string {
  const x = (k: number) => frame.x(spec.xs[k] ?? 1).toFixed(1);
  return low
    .map((l, i) => {
      const hi = high[i];
      if (l === null || hi === null || hi === undefined) return "";
      const [a, b] = [frame.y(at(l)).toFixed(1), frame.y(at(hi)).toFixed(1)];
      return `M${x(i)} ${a}L${x(i)} ${b}L${x(i + 1)} ${b}L${x(i + 1)} ${a}Z`;
    })
    .join("");
}

function legendOf(spec: ChartSpec, lines: Line[]): { legend: HTMLElement; read: (i: number | null) => void } {
  const spots = lines.map(() => h("span"));
  const where = h("span", { class: "fwhere" });
  const rows = lines.map((l, k) => h("li", {}, h("i", { class: `swatch ${l.cls}` }), h("b", { text: l.label }), spots[k]));
  const read = (i: number | null) => {
    where.textContent = i === null ? "" : spec.at(i);
    lines.forEach((l, k) => {
      const spot = spots[k];
      const v = i === null ? undefined : l.values[i];
      if (spot) spot.textContent = v === undefined ? (l.about ?? "") : v === null ? ABSENT : spec.full(v);
    });
  };
  read(null);
  return { legend: h("ul", { class: "legend" }, ...rows, h("li", {}, where)), read };
}

function follow(frame: Frame, spec: ChartSpec, cursor: SVGElement, read: (i: number | null) => void): void {
  const n = spec.lines[0]?.values.length ?? 0;
  frame.svg.addEventListener("pointermove", (e) => {
    const box = frame.svg.getBoundingClientRect();
    const share = (((e.clientX - box.left) / box.width) * frame.width - frame.left) / frame.innerWidth;
    if (share < 0 || share > 1 || n === 0) return;
    const i = nearest(spec, share, n);
    const x = frame.x(spec.steps ? ((spec.xs[i] ?? 0) + (spec.xs[i + 1] ?? 1)) / 2 : (spec.xs[i] ?? 0));
    cursor.setAttribute("x1", String(x));
    cursor.setAttribute("x2", String(x));
    cursor.setAttribute("visibility", "visible");
    read(i);
  });
  frame.svg.addEventListener("pointerleave", () => {
    cursor.setAttribute("visibility", "hidden");
    read(null);
  });
}

/** The value at the pointer's position. */
export function nearest(spec: Pick<ChartSpec, "xs" | "steps">, share: number, n: number): number {
  if (spec.steps) {
    const i = spec.xs.findIndex((x, k) => k > 0 && share <= x) - 1;
    return Math.min(Math.max(i, 0), n - 1);
  }
  let best = 0;
  for (let k = 1; k < n; k++) if (Math.abs((spec.xs[k] ?? 0) - share) < Math.abs((spec.xs[best] ?? 0) - share)) best = k;
  return best;
}
