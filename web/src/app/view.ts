/** The state of the page and its URL: the URL contains the complete view. */

import { ALL_QUANTITIES, type Quantity } from "./quantities";

export type Class = "read" | "write" | "discard" | "flush";
/** The classes of the heat map: the one that is filtered to, or writes below reads. */
export const shownClasses = (cls: Class | null): readonly Class[] => (cls === null ? ["write", "read"] : [cls]);

/** The plural of a class as text. */
export const pluralOf = (cls: Class): string => (cls === "flush" ? "flushes" : `${cls}s`);

export type Subject = "process" | "cgroup" | "file";

/** I/Os of one process, cgroup or file. */
export interface Filter {
  by: Subject;
  name: string;
}

/** A box in time and latency. */
export interface Box {
  from: number;
  to: number;
  lowUs: number;
  highUs: number;
}

/** Longer than any I/O: a box with this bound has no upper end. */
export const OPEN_US = 1e9;

/** A selected story, and the query that found it: another time range may be too short or too long to find it. */
export interface ChosenStory {
  id: string;
  device: string;
  from: number;
  to: number;
}

export interface View {
  /** Seconds since the epoch; for a live view as of the time when it was set. */
  from: number;
  to: number;
  /** Whether the end follows the current time. */
  live: boolean;
  host: string | null;
  device: string | null;
  cls: Class | null;
  filter: Filter | null;
  /** The boxes: none, one that is explained, or two that are compared. */
  boxes: readonly Box[];
  /** The search text, whose times are marked. */
  find: string | null;
  story: ChosenStory | null;
  /** `null`: the heat map shows latency over time. */
  fold: Fold | null;
  /** The grouping that colours single I/Os. */
  colour: Colouring;
  /** The quantity of the chart below the heat map. */
  quantity: Quantity;
}

export type Colouring = "class" | "process" | "cause";

/** The second-offset layout: a column per period, the first starting at `anchorS`. */
export interface Fold {
  periodS: number;
  anchorS: number;
  /** The class whose period it is; `null`: any class. */
  cls: Class | null;
}

export const DEFAULT_SPAN_S = 900;
/** Minimum width of the view: shorter than most I/Os. */
export const MIN_SPAN_S = 0.0002;
export const MAX_SPAN_S = 400 * 86400;
/** In narrower views each I/O is a bar. */
export const IO_SPAN_S = 0.05;

const UNITS: Record<string, number> = { us: 1e-6, ms: 1e-3, s: 1, m: 60, min: 60, h: 3600, d: 86400 };
const CLASSES: readonly string[] = ["read", "write", "discard", "flush"];
export const COLOURINGS: readonly Colouring[] = ["class", "process", "cause"];
const SUBJECTS: readonly string[] = ["process", "cgroup", "file"];

/** An instant as the API takes it: RFC 3339, seconds since the epoch, `-5m` or `now`. */
export function instant(text: string, now: number): number | null {
  if (text === "now") return now;
  const ago = /^-(\d+(?:\.\d+)?)\s*(us|ms|s|min|m|h|d)$/.exec(text);
  if (ago) return now - Number(ago[1]) * (UNITS[ago[2] ?? "s"] ?? 1);
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text);
  // Dates in browsers have no microseconds.
  const fraction = /(:\d{2})(\.\d+)/.exec(text);
  const parsed = Date.parse(fraction ? text.replace(fraction[0], fraction[1] ?? "") : text);
  return Number.isFinite(parsed) ? parsed / 1000 + Number(fraction?.[2] ?? 0) : null;
}

/** Shorter views need times with microseconds. */
const MICROS_SPAN_S = 0.02;

/** The time as the page shows it: UTC, with milliseconds, or with microseconds if the view's `span` is short. */
export function wallClock(s: number, span = Infinity): string {
  if (span >= MICROS_SPAN_S) return new Date(s * 1000).toISOString().slice(0, 23).replace("T", " ");
  const us = Math.round(s * 1e6);
  const fraction = String(us % 1e6).padStart(6, "0");
  return `${new Date(Math.floor(us / 1e6) * 1000).toISOString().slice(0, 19).replace("T", " ")}.${fraction}`;
}

/** Parses a time as typed: in the page's format, abbreviated, or as accepted by the API. Without a zone it is UTC. */
export function typed(text: string, now: number): number | null {
  const parts = /^(\d{4}-\d{2}-\d{2})(?:[ T](\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?))?$/.exec(text.trim());
  if (!parts) return instant(text.trim(), now);
  const time = (parts[2] ?? "00:00").replace(",", ".").replace(/^(\d):/, "0$1:");
  return instant(`${parts[1]}T${time.length === 5 ? `${time}:00` : time}Z`, now);
}

/** Parses the view in a URL. `range` is `null` if the URL has no valid range. */
export function read(search: string, now: number): Omit<View, "from" | "to"> & { range: [number, number] | null } {
  const params = new URLSearchParams(search);
  const at = instant(params.get("at") ?? "", now);
  const toText = params.get("to") ?? (params.get("from") ? "now" : "");
  const to = at === null ? instant(toText, now) : at + 30;
  const from = at === null ? instant(params.get("from") ?? "", now) ?? (to === null ? null : to - DEFAULT_SPAN_S) : at - 30;
  const cls = params.get("class");
  const [by, ...name] = (params.get("filter") ?? "").split(":");
  const named = by !== undefined && SUBJECTS.includes(by) && name.length > 0;
  return {
    range: from !== null && to !== null && to > from ? [from, to] : null,
    live: at === null && toText === "now",
    host: params.get("host"),
    device: params.get("device"),
    cls: cls !== null && CLASSES.includes(cls) ? (cls as Class) : null,
    filter: named ? { by: by as Subject, name: name.join(":") } : null,
    boxes: params.getAll("box").map(readBox).filter((box) => box !== null).slice(0, 2),
    find: params.get("find"),
    story: readStory(params.get("story") ?? ""),
    fold: readFold(params.get("fold") ?? ""),
    colour: COLOURINGS.find((c) => c === params.get("colour")) ?? "class",
    quantity: ALL_QUANTITIES.find((q) => q === params.get("quantity")) ?? "throughput",
  };
}

function readBox(text: string): Box | null {
  const [from, to, lowUs, highUs] = text.split(",").map(Number);
  if (from === undefined || to === undefined || lowUs === undefined || highUs === undefined) return null;
  return Number.isFinite(from) && to > from && lowUs >= 0 && highUs > lowUs ? { from, to, lowUs, highUs } : null;
}

function readStory(text: string): ChosenStory | null {
  const [id, from, to, ...device] = text.split(",");
  const story = { id: id ?? "", from: Number(from), to: Number(to), device: device.join(",") };
  return story.id !== "" && story.device !== "" && story.to > story.from ? story : null;
}

function readFold(text: string): Fold | null {
  const [period, anchor, cls] = text.split(",");
  const [periodS, anchorS] = [Number(period), Number(anchor ?? 0)];
  if (!(periodS >= 0.001) || !Number.isFinite(periodS) || !Number.isFinite(anchorS)) return null;
  return { periodS, anchorS, cls: CLASSES.includes(cls ?? "") ? (cls as Class) : null };
}

/** The address of a view. */
export function write(view: View): string {
  const params = new URLSearchParams();
  if (view.host !== null) params.set("host", view.host);
  const span = view.to - view.from;
  if (view.live) {
    params.set("from", `-${Number(span.toFixed(3))}s`);
    params.set("to", "now");
  } else {
    params.set("from", view.from.toFixed(6));
    params.set("to", view.to.toFixed(6));
  }
  if (view.device !== null) params.set("device", view.device);
  if (view.cls !== null) params.set("class", view.cls);
  if (view.filter !== null) params.set("filter", `${view.filter.by}:${view.filter.name}`);
  if (view.find !== null) params.set("find", view.find);
  if (view.story !== null) params.set("story", [view.story.id, Number(view.story.from.toFixed(6)), Number(view.story.to.toFixed(6)), view.story.device].join(","));
  if (view.fold !== null) params.set("fold", [view.fold.periodS, Number(view.fold.anchorS.toFixed(3)), ...(view.fold.cls === null ? [] : [view.fold.cls])].join(","));
  if (view.colour !== "class") params.set("colour", view.colour);
  if (view.quantity !== "throughput") params.set("quantity", view.quantity);
  for (const b of view.boxes) params.append("box", [b.from.toFixed(6), b.to.toFixed(6), b.lowUs.toPrecision(6), b.highUs.toPrecision(6)].map(Number).join(","));
  return `?${params.toString()}`;
}

/** The range scaled about `centre` within the limits of what can be shown. */
export function zoomed(from: number, to: number, factor: number, centre = (from + to) / 2): [number, number] {
  const span = Math.min(MAX_SPAN_S, Math.max(MIN_SPAN_S, (to - from) * factor));
  const share = (centre - from) / (to - from);
  return [centre - share * span, centre + (1 - share) * span];
}

/** Intervals that divide a minute, an hour or a day, in seconds. */
const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400];

/** The shortest step with at most `most` intervals in `span` seconds. */
export function stepOf(span: number, most: number): number {
  return STEPS.find((s) => span / s <= most) ?? 86400;
}

/** The server has sums of seconds and of minutes. */
const SUMS_S = [1, 60];
/** From this share of a sum on, a column gets the width of the sum: at most twice as wide, and answered much faster. */
const SUM_SHARE = 0.5;

/** Length of a heat map column: at least `least` seconds, rounded up to whole sums if that is at least half of one. */
export function columnOf(least: number): number {
  const sum = SUMS_S.filter((s) => least >= s * SUM_SHARE).at(-1);
  return sum === undefined ? least : Math.ceil(least / sum) * sum;
}

/** The stretch extended to whole columns, if these are whole seconds. */
export function wholeColumns(from: number, to: number, column: number): [number, number] {
  return column < 1 ? [from, to] : [column * Math.floor(from / column), column * Math.ceil(to / column)];
}

/** Steps of an axis, which may be shorter or longer than the server's. */
export function tickOf(span: number, most: number): number {
  for (const unit of [1e-6, 1e-5, 1e-4]) for (const n of [1, 2, 5]) if (span / (n * unit) <= most) return n * unit;
  if (span / 86400 > most) return 86400 * ([2, 5, 10, 20, 50, 100, 200, 500].find((days) => span / 86400 / days <= most) ?? 1000);
  return stepOf(span, most);
}

/** The times of an axis: at most `most`, or more with a shorter step if fewer than two of them would have a label. */
export function timeTicks(from: number, to: number, most: number, labels: (step: number, ticks: number[]) => number): { step: number; ticks: number[] } {
  for (let n = most; ; n *= 1.5) {
    const step = tickOf(to - from, n);
    const first = Math.ceil(from / step);
    const ticks = Array.from({ length: Math.max(0, Math.floor(to / step) - first + 1) }, (_, i) => (first + i) * step);
    if (n > 8 * most || labels(step, ticks) >= 2) return { step, ticks };
  }
}

/** Labelled values within a decade, coarser sets first. */
const DECADES = [
  [1, 2, 5],
  [1, 2, 3, 4, 5, 6, 7, 8, 9],
  Array.from({ length: 45 }, (_, i) => 1 + i / 5),
];

/** The labels of a latency axis, at least two: powers of ten, or values in between if it covers less than two decades. */
export function latencyTicks(low: number, high: number): number[] {
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  const powers = Array.from({ length: last - first + 1 }, (_, i) => first + i);
  const within = (values: readonly number[]) => powers.flatMap((power) => values.map((v) => v * 10 ** power)).filter((us) => us >= low && us <= high);
  if (high / low >= 100) return within([1]);
  for (const values of DECADES) if (within(values).length >= 2) return within(values);
  return [low, high];
}

export const duration = (s: number): string => (s < 1 ? `${Math.round(s * 1000)}ms` : `${s}s`);
