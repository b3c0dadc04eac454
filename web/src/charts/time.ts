// One chart over time of the report, such as IOPS: a switch for each line, values at the cursor, and the plot.

import uPlot from "uplot";
import { fill, h, term } from "../dom";
import { ABSENT } from "../format";
import type { Store } from "../store";
import { cutValue, peaks, type Slots } from "../levels";
import { axes, keys, timeLabel, timeOptions } from "./base";
import { dots, steps } from "./paths";
import { hasData, type PanelSpec, type SeriesSpec } from "./panels";

/** What is drawn of a series: its values, or above them the maximum of the finer slots within each slot. */
interface Line {
  spec: SeriesSpec;
  /** Position of the series in its panel. */
  at: number;
  peak: boolean;
}

const STYLES: Record<SeriesSpec["style"], { paths: uPlot.Series.PathBuilder; width: number }> = {
  area: { paths: steps(true), width: 1.4 },
  line: { paths: steps(false), width: 1.8 },
  thin: { paths: steps(false), width: 1 },
  dots: { paths: dots(), width: 0 },
};

/** A chart over time: title, a chip per line that shows its value at the cursor and switches it, the plot. */
export class TimeChart {
  readonly root: HTMLElement;
  readonly #plotBox = h("div", { class: "plot" });
  readonly #empty = h("p", { class: "empty" });
  readonly #readout = h("div", { class: "float" });
  readonly #chips: HTMLButtonElement[] = [];
  readonly #on: boolean[];
  /** Peaks come first, so that they are drawn behind. */
  readonly #lines: Line[];
  #plot: uPlot | null = null;
  #level: Slots | undefined;
  #first = 0;

  constructor(readonly spec: PanelSpec, readonly store: Store) {
    this.#on = spec.series.map((s) => !s.quiet || (s.insteadOf !== undefined && !store.base?.column(s.insteadOf)));
    const all = spec.series.map((s, at) => ({ spec: s, at, peak: false }));
    this.#lines = [...all.filter(({ spec: s }) => s.style === "area").map((l) => ({ ...l, peak: true })), ...all];
    const chips = h("div", { class: "chips" }, ...spec.series.map((s, i) => this.#chip(s, i)));
    this.root = h(
      "section",
      { class: "panel", tabindex: "0", role: "group", "data-panel": spec.id, onkeydown: keys(store) },
      h("header", {}, h("h3", {}, term(spec.title, spec.definition)), chips),
      this.#plotBox,
      this.#empty,
    );
  }

  #chip(s: SeriesSpec, i: number): HTMLElement {
    const chip = h(
      "button",
      { class: `chip ${s.cls ?? ""} style-${s.style}`, type: "button", onclick: () => this.#toggle(i) },
      h("i", { class: "swatch", "data-series": s.label }),
      h("span", { text: s.label }),
    );
    this.#chips.push(chip);
    return chip;
  }

  #toggle(i: number): void {
    this.#on[i] = !this.#on[i];
    this.update();
  }

  #visible(s: SeriesSpec, i: number): boolean {
    return this.#on[i] === true && (!s.cls || this.store.show[s.cls]);
  }

  /** Draws the visible range of the store. */
  update(): void {
    const level = this.store.level;
    this.#level = level;
    const known = hasData(level, this.spec);
    this.#plotBox.hidden = !known;
    this.#empty.hidden = known;
    const several = (this.store.scope?.device_names.length ?? 0) > 1;
    this.#empty.textContent = several ? "Not known of several devices together: choose one." : "This recording does not hold these numbers.";
    this.spec.series.forEach((s, i) => {
      const chip = this.#chips[i];
      if (!chip) return;
      chip.hidden = !level?.column(s.column) || (s.quiet === true && isNothing(level, s)) || (s.cls ? !this.store.show[s.cls] : false);
      chip.setAttribute("aria-pressed", String(this.#on[i]));
      chip.style.setProperty("--swatch", s.color());
    });
    if (!known || !level) return;
    const { from, to } = this.store.range;
    this.root.setAttribute("aria-label", `${this.spec.title} over time. Arrow keys pan, plus and minus zoom, Escape shows everything.`);
    const plot = (this.#plot ??= this.#create());
    plot.batch(() => {
      this.#lines.forEach((l, i) => plot.setSeries(i + 1, { show: this.#visible(l.spec, l.at) }, false));
      const data = this.#slice(level);
      plot.setData(data, false);
      plot.setScale("x", { min: from, max: to });
      plot.setScale("y", this.#extent(data));
    });
    this.#readout.hidden = true;
  }

  #slice(level: Slots): uPlot.AlignedData {
    const [a, b] = level.within(this.store.range);
    this.#first = a;
    const xs: number[] = [];
    for (let i = a; i <= b; i++) xs.push(level.at(i));
    const fine = this.store.finest;
    return [xs, ...this.#lines.map((l) => this.#column(l, level, fine, a, b))];
  }

  /** Values of slots `[a, b)`, and one more for the end of the last. */
  #column(line: Line, level: Slots, fine: Slots | undefined, a: number, b: number): (number | null)[] {
    const out: (number | null)[] = new Array(b - a + 1).fill(null);
    const column = line.spec.column;
    const finer = fine !== undefined && fine.step < level.step * 0.999;
    if (line.peak && !finer) return out;
    const raw = line.peak && fine ? peaks(level, fine, column, a, b) : level.column(column)?.subarray(a, b);
    const seconds = (i: number) => (line.peak && fine ? fine.step : level.seconds(a + i));
    raw?.forEach((v, i) => {
      // Counters round short latencies to 0, which a logarithmic axis cannot show.
      const hidden = Number.isNaN(v) || (this.spec.log === true && v <= 0);
      out[i] = hidden ? null : line.spec.value(v, seconds(i));
    });
    const last = b - a - 1;
    const value = out[last] ?? null;
    const held = raw?.[last];
    if (!line.peak && value !== null && held !== undefined && level.isCut(b - 1)) {
      out[last] = cutValue(value, line.spec.value(held, level.step), out.slice(0, last));
    }
    return out;
  }

  /** Lowest and highest drawn value, with a margin; linear axes begin at 0. */
  #extent(data: uPlot.AlignedData): { min: number; max: number } {
    const { spec } = this;
    if (spec.top !== undefined) return { min: 0, max: spec.top };
    let lo = Infinity;
    let hi = 0;
    this.#lines.forEach((l, i) => {
      if (!this.#visible(l.spec, l.at)) return;
      for (const v of data[i + 1] ?? []) {
        if (v === null || v === undefined) continue;
        lo = Math.min(lo, v);
        hi = Math.max(hi, v);
      }
    });
    if (spec.log) return logExtent(lo, hi);
    return { min: 0, max: hi > 0 ? hi * 1.08 : 1 };
  }

  #create(): uPlot {
    const { spec, store } = this;
    const log = spec.log === true;
    const options: uPlot.Options = {
      width: Math.max(this.#plotBox.clientWidth, 200),
      height: spec.height,
      ...timeOptions(store, (u) => this.#onCursor(u)),
      scales: {
        x: { time: false, auto: false },
        y: {
          distr: log ? 3 : 1,
          auto: false,
          range: (_u, lo, hi) => [lo, hi],
        },
      },
      axes: axes(store, spec.axis, log),
      series: [
        {},
        ...this.#lines.map(drawn),
      ],
    };
    const plot = new uPlot(options, [[], ...this.#lines.map(() => [])], this.#plotBox);
    this.#plotBox.append(this.#readout);
    return plot;
  }

  #onCursor(u: uPlot): void {
    const left = u.cursor.left ?? -1;
    const idx = u.cursor.idxs?.[1];
    const level = this.#level;
    this.#readout.hidden = left < 0 || idx === null || idx === undefined || !level || idx >= (u.data[0].length || 1) - 1;
    if (this.#readout.hidden || idx === null || idx === undefined || !level) return;
    const rows = this.spec.series.map((s, i) => this.#reading(s, i, idx));
    const when = timeLabel(this.store, u.data[0][idx] ?? 0, level.step);
    fill(this.#readout, h("b", { text: when }), ...rows);
    placeBeside(this.#readout, u, left);
  }

  /** A line's value at the cursor, the peak within the slot, and a warning if it is based on few I/Os. */
  #reading(s: SeriesSpec, at: number, idx: number): HTMLElement | null {
    if (!this.#visible(s, at) || this.#chips[at]?.hidden) return null;
    const valueOf = (peak: boolean) => {
      const line = this.#lines.findIndex((l) => l.at === at && l.peak === peak);
      return line < 0 ? null : (this.#plot?.data[line + 1]?.[idx] ?? null);
    };
    const v = valueOf(false);
    const top = valueOf(true);
    const n = s.count ? this.#level?.column(s.count)?.[this.#first + idx] : undefined;
    const notes = [
      top !== null && v !== null && top > v ? `peak ${this.spec.full(top)}` : "",
      n !== undefined && n > 0 && n < 30 ? `n = ${n}` : "",
    ].filter(Boolean);
    const swatch = h("i", { class: "swatch" });
    swatch.style.setProperty("--swatch", s.color());
    return h(
      "div",
      {},
      swatch,
      h("span", { text: s.label }),
      h("span", { class: "value", text: v === null ? ABSENT : this.spec.full(v) }),
      notes.length > 0 && h("small", { text: notes.join(", ") }),
    );
  }

  resize(): void {
    const width = this.#plotBox.clientWidth;
    if (this.#plot && width > 0 && width !== this.#plot.width) this.#plot.setSize({ width, height: this.spec.height });
  }

  /** Redraws after a change of colours. */
  recolour(): void {
    if (this.#plot) fill(this.#plotBox);
    this.#plot?.destroy();
    this.#plot = null;
    this.update();
  }
}

/** Places a readout beside the cursor, on the side with enough space. */
function placeBeside(e: HTMLElement, u: uPlot, cursor: number): void {
  const { offsetLeft, clientWidth } = u.over;
  const right = cursor < clientWidth / 2;
  e.style.left = right ? `${offsetLeft + cursor + 12}px` : "auto";
  e.style.right = right ? "auto" : `${u.width - offsetLeft - cursor + 12}px`;
}

/** Options with which uPlot draws a line. */
function drawn(line: Line): uPlot.Series {
  const s = line.spec;
  const style = STYLES[s.style];
  const look = { label: s.label, paths: style.paths, points: { show: false } };
  if (line.peak) return { ...look, stroke: s.color, width: 0.6, alpha: 0.6, ...(s.fill ? { fill: s.fill } : {}) };
  if (s.style === "dots") return { ...look, width: 0, fill: s.color, alpha: 0.55 };
  const fillStyle = s.fill && s.style === "area" ? { fill: s.fill } : {};
  return { ...look, stroke: s.color, width: style.width, alpha: s.style === "thin" ? 0.85 : 1, ...fillStyle };
}

/** Discards and flushes that never happened need no chip. */
function isNothing(level: Slots, s: SeriesSpec): boolean {
  return level.column(s.column)?.every((v) => v === 0 || Number.isNaN(v)) ?? true;
}

/** At least one decade, with a margin. */
function logExtent(lo: number, hi: number): { min: number; max: number } {
  if (!(lo > 0) || !(hi > 0) || lo > hi) return { min: 1, max: 1000 };
  const min = lo / 1.3;
  const max = hi * 1.3;
  return max / min < 10 ? { min: min / 2, max: max * 2 } : { min, max };
}
