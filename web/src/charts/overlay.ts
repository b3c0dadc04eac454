// Draws behind the report's charts over time: hatching where data is missing, the chosen finding, and marks.

import { theme } from "../theme";
import type { Store } from "../store";

/** Position of a chart's plotting area on its canvas, and how times map onto it; all in canvas pixels. */
export interface Plot {
  ctx: CanvasRenderingContext2D;
  left: number;
  top: number;
  width: number;
  height: number;
  x(t: number): number;
}

/** Draws under the data: time without data (hatched), the chosen finding (tinted), marks (dotted lines). */
export function drawUnderlay(plot: Plot, store: Store): void {
  const { ctx } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(plot.left, plot.top, plot.width, plot.height);
  ctx.clip();
  drawFinding(plot, store);
  const devices = store.scope?.device_names ?? [];
  for (const l of store.data.lost_intervals) {
    if (l.is_marked && (l.device === null || devices.includes(l.device))) hatch(plot, plot.x(l.start_s), plot.x(l.end_s));
  }
  ctx.strokeStyle = theme().muted;
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.lineWidth = devicePixelRatio;
  for (const m of store.data.marks) {
    ctx.beginPath();
    ctx.moveTo(plot.x(m.at_s), plot.top);
    ctx.lineTo(plot.x(m.at_s), plot.top + plot.height);
    ctx.stroke();
  }
  ctx.restore();
}

function drawFinding(plot: Plot, store: Store): void {
  const f = store.finding;
  if (!f) return;
  const { ctx } = plot;
  const a = plot.x(f.start_s);
  const b = Math.max(plot.x(f.end_s), a + 2 * devicePixelRatio);
  ctx.globalAlpha = 0.12;
  ctx.fillStyle = theme().mark;
  ctx.fillRect(a, plot.top, b - a, plot.height);
  ctx.globalAlpha = 0.9;
  ctx.fillRect(a, plot.top, b - a, 2 * devicePixelRatio);
  ctx.globalAlpha = 1;
}

/**
 * Diagonal hatching from `a` to `b`: data is missing here. It is at least two pixels wide, so that every loss is
 * visible. `strength`: 1 or less.
 */
export function hatch(plot: Plot, a: number, b: number, colour = theme().lossy, strength = 1): void {
  const { ctx } = plot;
  const right = Math.min(Math.max(b, a + 2 * devicePixelRatio), plot.left + plot.width);
  const left = Math.max(a, plot.left);
  if (right <= left) return;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, plot.top, right - left, plot.height);
  ctx.clip();
  ctx.globalAlpha = 0.1 * strength;
  ctx.fillStyle = colour;
  ctx.fillRect(left, plot.top, right - left, plot.height);
  ctx.globalAlpha = 0.4 * strength;
  ctx.strokeStyle = colour;
  ctx.lineWidth = devicePixelRatio;
  ctx.beginPath();
  const gap = 6 * devicePixelRatio;
  for (let x = Math.floor((left - plot.height) / gap) * gap; x < right; x += gap) {
    ctx.moveTo(x, plot.top + plot.height);
    ctx.lineTo(x + plot.height, plot.top);
  }
  ctx.stroke();
  ctx.restore();
}
