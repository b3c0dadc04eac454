// Common parts of the report's charts over time: axes, time labels, cursor, zoom by dragging, and keys.

import uPlot from "uplot";
import { clock, date, elapsed, localOffset } from "../format";
import { drawUnderlay } from "./overlay";
import { logTicks } from "./svg";
import type { Store } from "../store";
import { theme } from "../theme";
import { pan, scale, type Range } from "../zoom";

/** Width of the labels of the y axis, the same in all charts so that their times align. */
export const AXIS_LEFT = 62;
/** Half the width of the last label of the time axis, with milliseconds. */
export const AXIS_RIGHT = 36;

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500].map((ms) => ms / 1000);
const INCREMENTS = [1e-4, 2e-4, 5e-4, ...STEPS, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];

/** A time in the reader's zone, in seconds since the epoch; `null` if times count from the start. */
function wallClock(store: Store, t: number): number | null {
  const start = store.startUnixS;
  if (start === null || store.clock === "elapsed") return null;
  return start + t + (store.clock === "local" ? localOffset(start + t) : 0);
}

/** A time in the clock that the reader chose. */
export function timeLabel(store: Store, t: number, step: number): string {
  const at = wallClock(store, t);
  return at === null ? elapsed(t, step) : clock(at, step);
}

/** The same with its date if that is not the day of `before`, or if there is none before it. */
export function datedLabel(store: Store, t: number, step: number, before: number | null = null): string {
  const at = wallClock(store, t);
  if (at === null) return elapsed(t, step);
  const last = before === null ? null : wallClock(store, before);
  const sameDay = last !== null && date(last) === date(at);
  return sameDay ? clock(at, step) : `${date(at)} ${clock(at, step)}`;
}

/** Labels of an axis: the date is on a line of its own under the first time of each day. */
export function axisLabels(store: Store, times: number[], step: number): string[] {
  let day = "";
  return times.map((t) => {
    const at = wallClock(store, t);
    if (at === null) return elapsed(t, step);
    const label = clock(at, step);
    if (date(at) === day) return label;
    day = date(at);
    return `${label}\n${day}`;
  });
}

function font(): string {
  return `11px ${getComputedStyle(document.body).fontFamily}`;
}

/** The axes of every chart over time: time below, values on the left. */
export function axes(store: Store, values: (v: number) => string, log: boolean, grid = true): uPlot.Axis[] {
  const look = {
    stroke: () => theme().muted,
    font: font(),
    ticks: { show: false },
  };
  const line = { stroke: () => theme().grid, width: 1 };
  return [
    {
      ...look,
      size: 40,
      gap: 6,
      space: 76,
      incrs: INCREMENTS,
      grid: { show: false },
      values: (_u, splits, _a, _s, incr) => axisLabels(store, splits, incr),
    },
    {
      ...look,
      size: AXIS_LEFT,
      gap: 6,
      space: 28,
      ...(log ? { splits: (_u: uPlot, _axis: number, lo: number, hi: number) => logTicks(lo, hi), filter: (_u: uPlot, s: number[]) => s } : {}),
      grid: grid ? line : { show: false },
      values: (_u, splits) => splits.map((v) => (v === null ? "" : values(v))),
    },
  ];
}

/** Common options of all charts over time: synced cursors, zooming by dragging, the underlay. */
export function timeOptions(store: Store, onCursor: (u: uPlot) => void): Pick<uPlot.Options, "cursor" | "legend" | "hooks" | "padding"> {
  return {
    padding: [8, AXIS_RIGHT, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      points: { show: false },
      drag: { x: true, y: false, setScale: false, dist: 3 },
      sync: { key: "time", scales: ["x", null], filters: { pub: passive, sub: passive } },
      dataIdx: (u, _series, closest, x) => slotAt(u, closest, x),
      bind: {
        dblclick: () => () => {
          store.reset();
          return null;
        },
      },
    },
    hooks: {
      drawClear: [(u) => drawUnderlay(plotOf(u), store)],
      setCursor: [onCursor],
      setSelect: [(u) => zoomToSelection(u, store)],
    },
  };
}

/** Only the cursor is synced between charts. A synced selection would zoom once per chart. */
function passive(type: string): boolean {
  return type === "mousemove" || type === "mouseleave";
}

/** The slot under the cursor begins at or before it. */
function slotAt(u: uPlot, closest: number, x: number): number {
  const xs = u.data[0];
  return closest > 0 && (xs[closest] ?? 0) > x ? closest - 1 : closest;
}

function plotOf(u: uPlot) {
  const { left, top, width, height } = u.bbox;
  return { ctx: u.ctx, left, top, width, height, x: (t: number) => u.valToPos(t, "x", true) };
}

function zoomToSelection(u: uPlot, store: Store): void {
  const { left, width } = u.select;
  if (width < 3) return;
  const range = { from: u.posToVal(left, "x"), to: u.posToVal(left + width, "x") };
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  store.look(range);
}

/** Keys on a focused chart: arrows pan, + and - zoom, Home and End go to the edges, Escape shows everything. */
export function keys(store: Store): (e: KeyboardEvent) => void {
  const moves: Record<string, (r: Range) => Range> = {
    ArrowLeft: (r) => pan(r, -0.2),
    ArrowRight: (r) => pan(r, 0.2),
    "+": (r) => scale(r, 0.5),
    "=": (r) => scale(r, 0.5),
    "-": (r) => scale(r, 2),
    Home: (r) => ({ from: store.bounds.from, to: store.bounds.from + r.to - r.from }),
    End: (r) => ({ from: store.bounds.to - (r.to - r.from), to: store.bounds.to }),
  };
  return (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const move = moves[e.key];
    if (move) store.look(move(store.range), false);
    else if (e.key === "Escape") store.reset();
    else if (e.key === "Backspace") store.back();
    else return;
    e.preventDefault();
  };
}
