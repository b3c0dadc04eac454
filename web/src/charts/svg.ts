// The frame of small SVG charts, and the round numbers on their linear and logarithmic axes.

import { s } from "../dom";

interface Margins {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

const MARGINS: Margins = { left: 52, right: 12, top: 10, bottom: 34 };

/** The plotting area of a small SVG chart: inside the margins, y upwards from 0 to 1. */
export class Frame {
  readonly svg: SVGSVGElement;
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;

  constructor(readonly width: number, readonly height: number, label: string, margins: Partial<Margins> = {}) {
    const m = { ...MARGINS, ...margins };
    this.left = m.left;
    this.right = m.right;
    this.top = m.top;
    this.bottom = m.bottom;
    this.svg = s("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": label });
  }

  get innerWidth(): number {
    return this.width - this.left - this.right;
  }

  get innerHeight(): number {
    return this.height - this.top - this.bottom;
  }

  /** From 0..1 of the x axis to pixels. */
  x(share: number): number {
    return this.left + share * this.innerWidth;
  }

  /** From 0..1 of the y axis to pixels. */
  y(share: number): number {
    return this.top + (1 - share) * this.innerHeight;
  }

  xTick(share: number, text: string): void {
    this.svg.append(s("text", { x: this.x(share), y: this.height - this.bottom + 16, class: "tick", "text-anchor": "middle", text }));
  }

  yTick(share: number, text: string): void {
    const y = this.y(share);
    this.svg.append(
      s("line", { x1: this.left, x2: this.width - this.right, y1: y, y2: y, class: "gridline" }),
      s("text", { x: this.left - 6, y: y + 4, class: "tick", "text-anchor": "end", text }),
    );
  }

  xTitle(text: string): void {
    this.svg.append(s("text", { x: this.x(0.5), y: this.height - 3, class: "tick", "text-anchor": "middle", text }));
  }

  add(...nodes: SVGElement[]): void {
    this.svg.append(...nodes);
  }
}

/** Round numbers from 0 to at most `max`, about `n` of them. */
export function ticks(max: number, n: number): number[] {
  if (!(max > 0)) return [0];
  const raw = max / n;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((m) => m * unit >= raw) ?? 10) * unit;
  const out: number[] = [];
  for (let i = 0; i * step <= max * 1.0001; i++) out.push(i * step);
  return out;
}

/** Powers of ten within `[lo, hi]`, thinned to about `n`. */
export function decades(lo: number, hi: number, n: number): number[] {
  const a = Math.ceil(Math.log10(lo) - 1e-9);
  const b = Math.floor(Math.log10(hi) + 1e-9);
  const every = Math.max(1, Math.ceil((b - a + 1) / n));
  const out: number[] = [];
  for (let e = a; e <= b; e += every) out.push(10 ** e);
  return out;
}

/** Multiples of `step`, counted from `from`, within `[low, high]`. */
export function even(low: number, high: number, step: number, from = 0): number[] {
  const out: number[] = [];
  for (let i = Math.ceil((low - from) / step); from + i * step <= high; i++) out.push(from + i * step);
  return out;
}

/** Powers of ten within `[lo, hi]`, with 2 and 5 between them if there are few; if these are still few, even steps. */
export function logTicks(lo: number, hi: number): number[] {
  const whole = decades(lo, hi, 8);
  const span = Math.log10(hi / lo);
  if (whole.length >= 3 && span >= 2.2) return whole;
  const finer: number[] = [];
  for (let e = Math.floor(Math.log10(lo)); e <= Math.log10(hi); e++) for (const m of [1, 2, 5]) finer.push(m * 10 ** e);
  const seen = finer.filter((v) => v >= lo && v <= hi);
  return seen.length >= 3 ? seen : even(lo, hi, ticks(hi - lo, 5)[1] ?? 1);
}
