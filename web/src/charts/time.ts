import uPlot from "uplot";
import { fill, h, term } from "../dom";
import { ABSENT } from "../format";
import type { Store } from "../store";
import type { Slots } from "../levels";
import { axes, keys, timeOptions } from "./base";
import { dots, steps } from "./paths";
import { hasData, type PanelSpec, type SeriesSpec } from "./panels";

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
  readonly #empty = h("p", { class: "empty", text: "This recording does not hold these numbers." });
  readonly #values: HTMLElement[] = [];
  readonly #chips: HTMLButtonElement[] = [];
  readonly #on: boolean[];
  #plot: uPlot | null = null;
  #level: Slots | undefined;
  #first = 0;

  constructor(readonly spec: PanelSpec, readonly store: Store) {
    this.#on = spec.series.map((s) => !s.quiet);
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
    const value = h("span", { class: "value", text: "" });
    const chip = h(
      "button",
      { class: `chip ${s.cls ?? ""} style-${s.style}`, type: "button", onclick: () => this.#toggle(i) },
      h("i", { class: "swatch", "data-series": s.label }),
      h("span", { text: s.label }),
      value,
    );
    this.#values.push(value);
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

  /** Draws what the store looks at. */
  update(): void {
    const level = this.store.level;
    this.#level = level;
    const known = hasData(level, this.spec);
    this.#plotBox.hidden = !known;
    this.#empty.hidden = known;
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
      this.spec.series.forEach((s, i) => plot.setSeries(i + 1, { show: this.#visible(s, i) }, false));
      plot.setData(this.#slice(level), false);
      plot.setScale("x", { min: from, max: to });
    });
    this.#showValues(null);
  }

  #slice(level: Slots): uPlot.AlignedData {
    const [a, b] = level.within(this.store.range);
    this.#first = a;
    const xs: number[] = [];
    for (let i = a; i <= b; i++) xs.push(level.at(i));
    const columns = this.spec.series.map((s) => {
      const c = level.column(s.column);
      const out: (number | null)[] = new Array(xs.length).fill(null);
      if (!c) return out;
      for (let i = a; i < b; i++) {
        const v = c[i] ?? NaN;
        out[i - a] = Number.isNaN(v) ? null : s.value(v, level.step);
      }
      return out;
    });
    return [xs, ...columns];
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
          range: (_u, lo, hi) => (log ? logRange(lo, hi) : [0, spec.top ?? ((hi ?? 0) > 0 ? hi * 1.08 : 1)]),
        },
      },
      axes: axes(store, spec.axis),
      series: [
        {},
        ...spec.series.map((s): uPlot.Series => {
          const style = STYLES[s.style];
          const dotted = s.style === "dots";
          return {
            label: s.label,
            stroke: s.color,
            width: style.width,
            paths: style.paths,
            points: { show: false },
            ...(dotted ? { fill: s.color } : s.fill && s.style === "area" ? { fill: s.fill } : {}),
            ...(s.style === "thin" ? { alpha: 0.85 } : dotted ? { alpha: 0.55 } : {}),
          };
        }),
      ],
    };
    return new uPlot(options, [[], ...spec.series.map(() => [])], this.#plotBox);
  }

  #onCursor(u: uPlot): void {
    const idx = u.cursor.idx;
    const off = (u.cursor.left ?? -1) < 0 || idx === null || idx === undefined;
    this.#showValues(off ? null : idx);
  }

  #showValues(idx: number | null): void {
    this.spec.series.forEach((s, i) => {
      const cell = this.#values[i];
      if (!cell) return;
      if (idx === null) {
        cell.textContent = "";
        return;
      }
      const v = this.#plot?.data[i + 1]?.[idx];
      const n = s.count ? this.#level?.column(s.count)?.[this.#first + idx] : undefined;
      const low = n !== undefined && n > 0 && n < 30 ? ` (n = ${n})` : "";
      cell.textContent = v === null || v === undefined ? ABSENT : this.spec.full(v) + low;
    });
  }

  resize(): void {
    const width = this.#plotBox.clientWidth;
    if (this.#plot && width > 0 && width !== this.#plot.width) this.#plot.setSize({ width, height: this.spec.height });
  }

  /** Colours changed. */
  recolour(): void {
    if (this.#plot) fill(this.#plotBox);
    this.#plot?.destroy();
    this.#plot = null;
    this.update();
  }
}

/** Discards and flushes that never happened need no chip. */
function isNothing(level: Slots, s: SeriesSpec): boolean {
  return level.column(s.column)?.every((v) => v === 0 || Number.isNaN(v)) ?? true;
}

/** At least one decade, and a little air. */
function logRange(lo: number | null, hi: number | null): [number, number] {
  if (lo === null || hi === null || !(lo > 0)) return [1, 1000];
  const a = lo / 1.3;
  const b = hi * 1.3;
  return b / a < 10 ? [a / 2, b * 2] : [a, b];
}
