import uPlot from "uplot";
import { fill, h, term } from "../dom";
import { count, micros } from "../format";
import { heatRowUs, openHeat, type HeatGrid, type Slots } from "../levels";
import type { Store } from "../store";
import { ramp, theme } from "../theme";
import { axes, keys, timeLabel, timeOptions } from "./base";

const RAMP_SIZE = 256;

/** Time by latency, colour by count: one class. */
export class HeatChart {
  readonly root: HTMLElement;
  readonly #plotBox = h("div", { class: "plot" });
  readonly #empty = h("p", { class: "empty" });
  readonly #readout = h("span", { class: "readout" });
  readonly #legend = h("span", { class: "heat-legend" });
  readonly #grids = new Map<Slots, HeatGrid | null>();
  readonly #images = new Map<HeatGrid, HTMLCanvasElement>();
  #plot: uPlot | null = null;
  #grid: HeatGrid | null = null;

  constructor(readonly cls: "read" | "write", readonly store: Store) {
    const title = cls === "read" ? "Read latency heat map" : "Write latency heat map";
    const known = store.base?.column(cls === "read" ? "r_p50" : "w_p50") != null;
    this.#empty.textContent = known ? `No ${cls}s in this recording.` : "This source has no single latencies.";
    this.root = h(
      "section",
      { class: `panel heat ${cls}`, tabindex: "0", role: "group", "data-panel": `heat-${cls}`, onkeydown: keys(store) },
      h("header", {}, h("h3", {}, term(title, "heat")), this.#readout, this.#legend),
      this.#plotBox,
      this.#empty,
    );
    this.root.setAttribute("aria-label", `${title}. Arrow keys pan, plus and minus zoom, Escape shows everything.`);
  }

  update(): void {
    this.root.hidden = !this.store.show[this.cls];
    if (this.root.hidden) return;
    this.#grid = this.#gridFor(this.store.heatLevel);
    const grid = this.#grid;
    this.#plotBox.hidden = grid === null;
    this.#empty.hidden = grid !== null;
    if (!grid) {
      fill(this.#legend);
      return;
    }
    this.#showLegend(grid);
    const { from, to } = this.store.range;
    const plot = (this.#plot ??= this.#create());
    const lo = heatRowUs(grid.lowRow);
    const hi = heatRowUs(grid.lowRow + Math.max(grid.rows, 4));
    plot.batch(() => {
      plot.setData([[from, to], [lo, hi]], false);
      plot.setScale("x", { min: from, max: to });
      plot.setScale("y", { min: lo, max: hi });
    });
  }

  #gridFor(level: Slots | undefined): HeatGrid | null {
    if (!level) return null;
    let grid = this.#grids.get(level);
    if (grid === undefined) {
      grid = openHeat(level, this.cls);
      this.#grids.set(level, grid);
    }
    return grid;
  }

  #showLegend(grid: HeatGrid): void {
    const bar = h("i", { class: "ramp" });
    bar.style.background = `linear-gradient(90deg, ${theme().heat[this.cls].join(", ")})`;
    fill(this.#legend, h("span", { text: "1" }), bar, h("span", { text: `${count(grid.max)} I/Os` }));
  }

  #create(): uPlot {
    const options = timeOptions(this.store, (u) => this.#onCursor(u));
    options.hooks?.drawClear?.push((u) => this.#draw(u));
    return new uPlot(
      {
        width: Math.max(this.#plotBox.clientWidth, 200),
        height: 180,
        ...options,
        cursor: { ...options.cursor, y: true },
        scales: { x: { time: false, auto: false }, y: { distr: 3, auto: false, range: (_u, lo, hi) => [lo, hi] } },
        axes: axes(this.store, micros, true, false),
        series: [{}, { paths: () => null, points: { show: false } }],
      },
      [[], []],
      this.#plotBox,
    );
  }

  /** One image pixel per cell, stretched onto the plot. */
  #draw(u: uPlot): void {
    const grid = this.#grid;
    if (!grid) return;
    const image = this.#image(grid);
    const end = grid.from + grid.columns * grid.columnSeconds;
    const x0 = u.valToPos(grid.from, "x", true);
    const x1 = u.valToPos(end, "x", true);
    const y0 = u.valToPos(heatRowUs(grid.lowRow), "y", true);
    const y1 = u.valToPos(heatRowUs(grid.lowRow + grid.rows), "y", true);
    u.ctx.save();
    u.ctx.beginPath();
    u.ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    u.ctx.clip();
    u.ctx.imageSmoothingEnabled = (x1 - x0) / grid.columns < 1;
    u.ctx.drawImage(image, x0, y1, x1 - x0, y0 - y1);
    u.ctx.restore();
  }

  #image(grid: HeatGrid): HTMLCanvasElement {
    const known = this.#images.get(grid);
    if (known) return known;
    const canvas = h("canvas");
    canvas.width = grid.columns;
    canvas.height = grid.rows;
    const ctx = canvas.getContext("2d");
    if (ctx) {
      const image = ctx.createImageData(grid.columns, grid.rows);
      paint(grid, image.data, ramp(theme().heat[this.cls], RAMP_SIZE));
      ctx.putImageData(image, 0, 0);
    }
    this.#images.set(grid, canvas);
    return canvas;
  }

  #onCursor(u: uPlot): void {
    const grid = this.#grid;
    const { left, top } = u.cursor;
    if (!grid || left === undefined || left < 0 || top === undefined || top < 0 || !u.cursor.event) {
      this.#readout.textContent = "";
      return;
    }
    const t = u.posToVal(left, "x");
    const us = u.posToVal(top, "y");
    const column = Math.floor((t - grid.from) / grid.columnSeconds);
    const row = Math.floor(4 * Math.log2(us * 1e3)) - grid.lowRow;
    const inside = column >= 0 && column < grid.columns && row >= 0 && row < grid.rows;
    const n = inside ? (grid.cells[row * grid.columns + column] ?? 0) : 0;
    const range = `${micros(heatRowUs(row + grid.lowRow))} – ${micros(heatRowUs(row + grid.lowRow + 1))}`;
    const at = timeLabel(this.store, grid.from + column * grid.columnSeconds, grid.columnSeconds);
    this.#readout.textContent = `${at}, ${range}: ${count(n)} ${n === 1 ? "I/O" : "I/Os"}`;
  }

  resize(): void {
    const width = this.#plotBox.clientWidth;
    if (this.#plot && width > 0 && width !== this.#plot.width) this.#plot.setSize({ width, height: 180 });
  }

  recolour(): void {
    this.#images.clear();
    this.#plot?.destroy();
    this.#plot = null;
    fill(this.#plotBox);
    this.update();
  }
}

/** Colours of all cells, the highest row on top, by the logarithm of the count; empty cells stay transparent. */
export function paint(grid: HeatGrid, pixels: Uint8ClampedArray, colours: Uint8ClampedArray): void {
  const scale = (RAMP_SIZE - 1) / Math.max(Math.log(grid.max), 1e-9);
  for (let r = 0; r < grid.rows; r++) {
    for (let c = 0; c < grid.columns; c++) {
      const n = grid.cells[r * grid.columns + c] ?? 0;
      if (n <= 0) continue;
      const shade = grid.max <= 1 ? RAMP_SIZE - 1 : Math.round(Math.log(n) * scale);
      const to = ((grid.rows - 1 - r) * grid.columns + c) * 4;
      for (let k = 0; k < 4; k++) pixels[to + k] = colours[shade * 4 + k] ?? 0;
    }
  }
}
