// One chart over time of an imported log (iostat, sar): a switch for each line, values at the cursor, and the plot.

import uPlot from "uplot";
import { axes, keys, timeLabel, timeOptions } from "../charts/base";
import { steps } from "../charts/paths";
import { fill, h, term } from "../dom";
import { ABSENT } from "../format";
import type { Store } from "../store";

/** A line of a plot: values that hold from `from` to `to`, absent as NaN. */
export interface PlotLine {
  label: string;
  from: Float64Array;
  to: Float64Array;
  values: Float64Array;
  /** The maximum of the rows behind each value, drawn as a thin line above it. */
  peaks: Float64Array | null;
  color(): string;
  fill?: (() => string) | undefined;
  cls?: "read" | "write" | undefined;
  quiet?: boolean | undefined;
}

export interface PlotSpec {
  id: string;
  title: string;
  definition: string;
  log: boolean;
  axis(v: number): string;
  full(v: number): string;
  lines: PlotLine[];
}

const HEIGHT = 150;

/** A chart of a log's own rows over time, with a chip per line that shows its value at the cursor and switches it. */
export class PlotChart {
  readonly root: HTMLElement;
  readonly #box = h("div", { class: "plot" });
  readonly #readout = h("div", { class: "float" });
  readonly #chips: HTMLButtonElement[];
  readonly #on: boolean[];
  #plot: uPlot | null = null;

  constructor(readonly spec: PlotSpec, readonly store: Store) {
    this.#on = spec.lines.map((l) => !l.quiet);
    this.#chips = spec.lines.map((l, i) => h(
      "button",
      { class: "chip style-line", type: "button", onclick: () => this.#toggle(i) },
      h("i", { class: "swatch", "data-series": l.label }),
      h("span", { text: l.label }),
    ));
    this.root = h(
      "section",
      { class: "panel", tabindex: "0", role: "group", "data-panel": spec.id, "aria-label": `${spec.title} over time. Arrow keys pan, plus and minus zoom, Escape shows everything.`, onkeydown: keys(store) },
      h("header", {}, h("h3", {}, term(spec.title, spec.definition)), h("div", { class: "chips" }, ...this.#chips)),
      this.#box,
    );
  }

  #toggle(i: number): void {
    this.#on[i] = !this.#on[i];
    this.update();
  }

  #visible(i: number): boolean {
    const cls = this.spec.lines[i]?.cls;
    return this.#on[i] === true && (!cls || this.store.show[cls]);
  }

  /** Draws the visible range of the store. */
  update(): void {
    const { spec, store } = this;
    spec.lines.forEach((l, i) => {
      const chip = this.#chips[i];
      if (!chip) return;
      chip.hidden = l.cls !== undefined && !store.show[l.cls];
      chip.setAttribute("aria-pressed", String(this.#on[i]));
      chip.style.setProperty("--swatch", l.color());
    });
    const plot = (this.#plot ??= this.#create());
    const data = this.#data();
    plot.batch(() => {
      for (let k = 1; k < plot.series.length; k++) plot.setSeries(k, { show: this.#visible((k - 1) >> 1) }, false);
      plot.setData(data, false);
      plot.setScale("x", { min: store.range.from, max: store.range.to });
      plot.setScale("y", this.#extent(data));
    });
    this.#readout.hidden = true;
  }

  /** Every visible edge of a row; and for each line its peaks and its values from each edge to the next. */
  #data(): uPlot.AlignedData {
    const { from, to } = this.store.range;
    const edges = new Set<number>();
    const spans = this.spec.lines.map((l) => inSight(l, from, to));
    this.spec.lines.forEach((l, k) => {
      const [a, b] = spans[k] ?? [0, 0];
      for (let i = a; i < b; i++) {
        edges.add(l.from[i] ?? 0);
        edges.add(l.to[i] ?? 0);
      }
    });
    const xs = [...edges].sort((a, b) => a - b);
    const columns: (number | null)[][] = [];
    this.spec.lines.forEach((l, k) => {
      const span = spans[k] ?? [0, 0];
      columns.push(l.peaks ? held(l, l.peaks, xs, span, this.spec.log) : new Array(xs.length).fill(null));
      columns.push(held(l, l.values, xs, span, this.spec.log));
    });
    return [xs, ...columns];
  }

  /** Lowest and highest visible value with a margin; linear axes begin at 0. */
  #extent(data: uPlot.AlignedData): { min: number; max: number } {
    let lo = Infinity;
    let hi = 0;
    for (let k = 1; k < data.length; k++) {
      if (!this.#visible((k - 1) >> 1)) continue;
      for (const v of data[k] ?? []) {
        if (v === null || v === undefined) continue;
        lo = Math.min(lo, v);
        hi = Math.max(hi, v);
      }
    }
    if (!this.spec.log) return { min: 0, max: hi > 0 ? hi * 1.08 : 1 };
    if (!(lo > 0) || lo > hi) return { min: 1, max: 1000 };
    return hi / lo < 5 ? { min: lo / 3, max: hi * 3 } : { min: lo / 1.3, max: hi * 1.3 };
  }

  #create(): uPlot {
    const { spec, store } = this;
    const options: uPlot.Options = {
      width: Math.max(this.#box.clientWidth, 200),
      height: HEIGHT,
      ...timeOptions(store, (u) => this.#onCursor(u)),
      scales: {
        x: { time: false, auto: false },
        y: { distr: spec.log ? 3 : 1, auto: false, range: (_u, lo, hi) => [lo, hi] },
      },
      axes: axes(store, spec.axis, spec.log),
      series: [{}, ...spec.lines.flatMap((l): uPlot.Series[] => [peakSeries(l), lineSeries(l)])],
    };
    const plot = new uPlot(options, [[], ...spec.lines.flatMap(() => [[], []])], this.#box);
    this.#box.append(this.#readout);
    return plot;
  }

  #onCursor(u: uPlot): void {
    const left = u.cursor.left ?? -1;
    const idx = u.cursor.idxs?.[1];
    this.#readout.hidden = left < 0 || idx === null || idx === undefined;
    if (this.#readout.hidden || idx === null || idx === undefined) return;
    const at = u.data[0][idx] ?? 0;
    const step = (u.data[0][idx + 1] ?? at + 1) - at;
    fill(this.#readout, h("b", { text: timeLabel(this.store, at, Math.min(step, 1)) }), ...this.spec.lines.map((l, i) => this.#reading(l, i, u, idx)));
    const { offsetLeft, clientWidth } = u.over;
    const onTheRight = left < clientWidth / 2;
    this.#readout.style.left = onTheRight ? `${offsetLeft + left + 12}px` : "auto";
    this.#readout.style.right = onTheRight ? "auto" : `${u.width - offsetLeft - left + 12}px`;
  }

  #reading(l: PlotLine, i: number, u: uPlot, idx: number): HTMLElement | null {
    if (!this.#visible(i)) return null;
    const value = u.data[2 * i + 2]?.[idx] ?? null;
    const peak = u.data[2 * i + 1]?.[idx] ?? null;
    const swatch = h("i", { class: "swatch" });
    swatch.style.setProperty("--swatch", l.color());
    const higher = peak !== null && value !== null && peak > value;
    return h("div", {}, swatch, h("span", { text: l.label }), h("span", { class: "value", text: value === null ? ABSENT : this.spec.full(value) }), higher && h("small", { text: `peak ${this.spec.full(peak)}` }));
  }

  resize(): void {
    const width = this.#box.clientWidth;
    if (this.#plot && width > 0 && width !== this.#plot.width) this.#plot.setSize({ width, height: HEIGHT });
  }

  /** Discards the plot: colours changed, or the chart is removed. */
  drop(): void {
    if (this.#plot) fill(this.#box);
    this.#plot?.destroy();
    this.#plot = null;
  }
}

function peakSeries(l: PlotLine): uPlot.Series {
  return { label: l.label, paths: steps(false), points: { show: false }, stroke: l.color, width: 0.6, alpha: 0.6 };
}

function lineSeries(l: PlotLine): uPlot.Series {
  const area = l.fill ? { fill: l.fill } : {};
  return { label: l.label, paths: steps(l.fill !== undefined), points: { show: false }, stroke: l.color, width: 1.5, ...area };
}

/** First and last + 1 row of a line that overlap the time from `from` to `to`. */
function inSight(l: PlotLine, from: number, to: number): [number, number] {
  const a = firstAtLeast(l.to, from);
  return [a, Math.max(a, firstAtLeast(l.from, to))];
}

/** Index of the first value of an ascending list that is greater than `least`. */
function firstAtLeast(list: Float64Array, least: number): number {
  let lo = 0;
  let hi = list.length;
  while (lo < hi) {
    const middle = (lo + hi) >> 1;
    if ((list[middle] ?? 0) > least) hi = middle;
    else lo = middle + 1;
  }
  return lo;
}

/** The value that holds from each edge to the next; `null` where the log has none. */
function held(l: PlotLine, values: Float64Array, xs: number[], [a, b]: [number, number], log: boolean): (number | null)[] {
  let i = a;
  return xs.map((x) => {
    while (i < b && (l.to[i] ?? 0) <= x) i++;
    const v = i < b && (l.from[i] ?? 0) <= x ? (values[i] ?? NaN) : NaN;
    return Number.isNaN(v) || (log && v <= 0) ? null : v;
  });
}
