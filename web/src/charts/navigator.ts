// The strip of the whole recording in the report's toolbar, in which the visible range is selected, moved and
// resized.

import type { Severity } from "../generated/page";
import { h, onFrame } from "../dom";
import { finerThan } from "../levels";
import type { Store } from "../store";
import { theme } from "../theme";
import type { Range } from "../zoom";
import { AXIS_LEFT, AXIS_RIGHT, keys } from "./base";
import { hatch } from "./overlay";

const HEIGHT = 64;
const MARKERS = 12;
const STRIP = 5;
const GRIP = 7;

type Grab = { kind: "new" | "move" | "from" | "to"; at: number; range: Range };

/**
 * The whole recording in one strip: throughput, findings (above), ranges with finer detail (below), and the visible
 * range, which can be redrawn, moved and resized with mouse, finger or keys.
 */
export class Navigator {
  readonly root: HTMLElement;
  readonly #canvas = h("canvas");
  readonly #redraw = onFrame(() => this.#draw());
  #grab: Grab | null = null;
  #pending: Range | null = null;

  constructor(readonly store: Store) {
    this.root = h(
      "div",
      {
        class: "navigator",
        tabindex: "0",
        role: "group",
        "aria-label": "Whole recording. Drag to choose a stretch; arrow keys pan, plus and minus zoom, Escape shows everything.",
        onkeydown: keys(store),
      },
      this.#canvas,
    );
    this.#canvas.addEventListener("pointerdown", (e) => this.#down(e));
    this.#canvas.addEventListener("pointermove", (e) => this.#move(e));
    this.#canvas.addEventListener("pointerup", (e) => this.#up(e));
    this.#canvas.addEventListener("pointercancel", () => this.#drop());
    this.#canvas.addEventListener("dblclick", () => store.reset());
  }

  update(): void {
    this.#redraw();
  }

  get #left(): number {
    return this.#canvas.clientWidth < 500 ? 8 : AXIS_LEFT;
  }

  get #width(): number {
    return Math.max(1, this.#canvas.clientWidth - this.#left - AXIS_RIGHT);
  }

  get #span(): number {
    return this.store.bounds.to - this.store.bounds.from;
  }

  #x(t: number): number {
    return this.#left + ((t - this.store.bounds.from) / this.#span) * this.#width;
  }

  #time(e: PointerEvent): number {
    const x = e.clientX - this.#canvas.getBoundingClientRect().left;
    return this.store.bounds.from + Math.min(Math.max((x - this.#left) / this.#width, 0), 1) * this.#span;
  }

  #kind(e: PointerEvent): Grab["kind"] {
    if (this.store.whole) return "new";
    const x = e.clientX - this.#canvas.getBoundingClientRect().left;
    const a = this.#x(this.store.range.from);
    const b = this.#x(this.store.range.to);
    if (Math.abs(x - a) <= GRIP && x < (a + b) / 2) return "from";
    if (Math.abs(x - b) <= GRIP) return "to";
    return x > a && x < b ? "move" : "new";
  }

  #down(e: PointerEvent): void {
    if (e.button !== 0) return;
    this.#canvas.setPointerCapture(e.pointerId);
    this.#grab = { kind: this.#kind(e), at: this.#time(e), range: this.store.range };
  }

  #move(e: PointerEvent): void {
    const grab = this.#grab;
    if (!grab) {
      const kind = this.#kind(e);
      this.#canvas.style.cursor = kind === "new" ? "crosshair" : kind === "move" ? "grab" : "ew-resize";
      return;
    }
    const t = this.#time(e);
    const { from, to } = grab.range;
    const d = t - grab.at;
    const next: Record<Grab["kind"], Range> = {
      new: { from: Math.min(grab.at, t), to: Math.max(grab.at, t) },
      move: { from: from + d, to: to + d },
      from: { from: Math.min(t, to), to },
      to: { from, to: Math.max(t, from) },
    };
    this.#pending = next[grab.kind];
    if (grab.kind === "new") this.#redraw();
    else this.store.look(this.#pending, false);
  }

  #up(e: PointerEvent): void {
    const grab = this.#grab;
    const range = this.#pending;
    this.#drop();
    if (!grab || !range) return;
    const wide = ((range.to - range.from) / this.#span) * this.#width;
    if (grab.kind === "new" && wide >= 3) this.store.look(range);
    if (this.#canvas.hasPointerCapture(e.pointerId)) this.#canvas.releasePointerCapture(e.pointerId);
  }

  #drop(): void {
    this.#grab = null;
    this.#pending = null;
    this.#redraw();
  }

  #draw(): void {
    const width = this.#canvas.clientWidth;
    const ctx = this.#canvas.getContext("2d");
    if (!ctx || width === 0) return;
    const ratio = devicePixelRatio;
    this.#canvas.width = Math.round(width * ratio);
    this.#canvas.height = HEIGHT * ratio;
    ctx.scale(ratio, ratio);
    this.#drawLoad(ctx);
    this.#drawLosses(ctx);
    this.#drawFindings(ctx);
    this.#drawDetail(ctx);
    this.#drawWindow(ctx);
  }

  /** Bytes per second, the maximum slot of each pixel, reads below and writes stacked on them. */
  #drawLoad(ctx: CanvasRenderingContext2D): void {
    const level = this.store.base;
    const read = level?.column("r_sec");
    const write = level?.column("w_sec");
    const bottom = HEIGHT - STRIP - 3;
    ctx.fillStyle = theme().grid;
    ctx.fillRect(this.#left, bottom, this.#width, 1);
    if (!level || !read || !write) return;
    const pixels = Math.ceil(this.#width);
    const r = new Float64Array(pixels);
    const w = new Float64Array(pixels);
    for (let i = 0; i < level.n; i++) {
      const p = Math.max(0, Math.min(pixels - 1, Math.floor(this.#x(level.at(i)) - this.#left)));
      const last = Math.min(pixels - 1, Math.max(p, Math.ceil(this.#x(level.at(i + 1)) - this.#left) - 1));
      for (let k = p; k <= last; k++) {
        if ((read[i] ?? 0) + (write[i] ?? 0) > (r[k] ?? 0) + (w[k] ?? 0)) {
          r[k] = read[i] ?? 0;
          w[k] = write[i] ?? 0;
        }
      }
    }
    const top = r.reduce((m, v, i) => Math.max(m, v + (w[i] ?? 0)), 0);
    if (top === 0) return;
    const unit = (bottom - MARKERS - 2) / top;
    for (let k = 0; k < pixels; k++) {
      const a = (r[k] ?? 0) * unit;
      const b = (w[k] ?? 0) * unit;
      ctx.fillStyle = theme().read;
      ctx.fillRect(this.#left + k, bottom - a, 1, a);
      ctx.fillStyle = theme().write;
      ctx.fillRect(this.#left + k, bottom - a - b, 1, b);
    }
  }

  #drawLosses(ctx: CanvasRenderingContext2D): void {
    const plot = { ctx, left: this.#left, top: MARKERS, width: this.#width, height: HEIGHT - STRIP - MARKERS - 3, x: (t: number) => this.#x(t) };
    for (const l of this.store.data.lost_intervals) if (l.is_marked) hatch(plot, this.#x(l.start_s), this.#x(l.end_s));
  }

  #drawFindings(ctx: CanvasRenderingContext2D): void {
    const style = getComputedStyle(document.documentElement);
    const colour = (s: Severity) => style.getPropertyValue(`--${s}`);
    for (const f of [...this.store.data.findings].reverse()) {
      const a = this.#x(f.start_s);
      const b = this.#x(f.end_s);
      if (b - a > this.#width * 0.9) continue;
      ctx.fillStyle = colour(f.severity);
      ctx.beginPath();
      const middle = (a + b) / 2;
      ctx.moveTo(middle - 4, 2);
      ctx.lineTo(middle + 4, 2);
      ctx.lineTo(middle, 9);
      ctx.fill();
    }
  }

  #drawDetail(ctx: CanvasRenderingContext2D): void {
    const levels = this.store.levels;
    const base = this.store.base;
    if (!base) return;
    const shades = [...new Set(levels.map((l) => l.step).filter((step) => step <= base.step))].sort((a, b) => b - a);
    shades.forEach((step, i) => {
      ctx.globalAlpha = i === 0 ? 0.15 : 0.3 + (0.6 * i) / Math.max(1, shades.length - 1);
      ctx.fillStyle = theme().busy;
      for (const r of i === 0 ? [this.store.bounds] : finerThan(levels, step * 1.01)) {
        const a = this.#x(r.from);
        ctx.fillRect(a, HEIGHT - STRIP, Math.max(1.5, this.#x(r.to) - a), STRIP);
      }
    });
    ctx.globalAlpha = 1;
  }

  #drawWindow(ctx: CanvasRenderingContext2D): void {
    const range = this.#grab?.kind === "new" && this.#pending ? this.#pending : this.store.range;
    if (range === this.store.range && this.store.whole) return;
    const a = this.#x(range.from);
    const b = Math.max(this.#x(range.to), a + 2);
    ctx.fillStyle = theme().paper;
    ctx.globalAlpha = 0.72;
    ctx.fillRect(this.#left, MARKERS, a - this.#left, HEIGHT - MARKERS - STRIP);
    ctx.fillRect(b, MARKERS, this.#left + this.#width - b, HEIGHT - MARKERS - STRIP);
    ctx.globalAlpha = 1;
    ctx.strokeStyle = theme().text;
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    ctx.roundRect(a, MARKERS - 1, b - a, HEIGHT - MARKERS - STRIP + 1, 3);
    ctx.stroke();
  }
}
