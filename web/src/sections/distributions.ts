// The report's small charts: latency distribution, request size, concurrency, latency versus load.

import { Frame, decades, logTicks, ticks } from "../charts/svg";
import type { Class, ScopeBlock } from "../generated/page";
import { fill, h, s, term } from "../dom";
import * as format from "../format";
import { loadPoints, openBuckets, type LoadPoint } from "../levels";
import type { Store } from "../store";
import { card, emptyText, legendRow } from "./card";
import { attributionCard, rhythmCard } from "./depth";
import { setCard } from "./sets";
import { stagesCard } from "./stages";

const CLASSES: Class[] = ["read", "write", "discard", "flush"];
const HEIGHT = 230;
const PER_OCTAVE = 8;

type Stage = "total" | "queue" | "device";
type SizeWeight = "ios" | "bytes";

/** Small charts over the whole recording: latencies, sizes, concurrency, latency against load, attribution, rhythm, stages or devices together. */
export class Distributions {
  readonly root = h("div", { class: "grid" });
  #stage: Stage = "total";
  #weight: SizeWeight = "ios";
  #width = 0;
  #drawn: unknown[] = [];

  constructor(readonly store: Store) {}

  /** Redraws if scope, classes or width changed. Zooming does not affect these charts. */
  update(force = false): void {
    const width = this.#columnWidth();
    const now = [this.store.scope, this.store.show.read, this.store.show.write, width];
    if (!force && now.every((v, i) => v === this.#drawn[i])) return;
    this.#drawn = now;
    this.#width = width;
    const scope = this.store.scope;
    if (!scope) {
      fill(this.root);
      return;
    }
    fill(this.root, this.#latency(scope), this.#size(scope), this.#concurrency(scope), this.#load(scope), attributionCard(this.store, width), rhythmCard(this.store, width), setCard(this.store) ?? stagesCard(this.store));
  }

  #columnWidth(): number {
    const all = this.root.clientWidth || 1100;
    const columns = getComputedStyle(this.root).gridTemplateColumns.split(" ").length;
    return Math.max(240, Math.floor((all - 20 * (columns - 1)) / columns) - 34);
  }

  #classes(): Class[] {
    const { read, write } = this.store.show;
    return CLASSES.filter((c) => (c === "read" ? read : c === "write" ? write : true));
  }

  #latency(scope: ScopeBlock): HTMLElement {
    const stages: [Stage, string][] = [["total", "Total"], ["queue", "Queue"], ["device", "Device"]];
    const controls = segmented("Stage of the latency", stages, this.#stage, (v) => {
      this.#stage = v;
      this.update(true);
    });
    const curves = this.#classes()
      .map((c) => ({ c, buckets: openBuckets(scope.distributions.latency[c]?.[this.#stage], 1) }))
      .filter(({ buckets }) => buckets.length > 0);
    const title = "Latency distribution";
    if (curves.length === 0) return card("latency-dist", title, "latencyDistribution", controls, emptyText("This time is not known for any I/O."));
    const frame = new Frame(this.#width, HEIGHT, title);
    const lo = Math.min(...curves.map(({ buckets }) => buckets[0]?.[0] ?? 0));
    const hi = Math.max(...curves.map(({ buckets }) => (buckets.at(-1)?.[0] ?? 0) + 1), lo + 3 * PER_OCTAVE);
    const shares = curves.map(({ c, buckets }) => {
      const n = buckets.reduce((sum, b) => sum + (b[1] ?? 0), 0);
      return { c, n, bars: buckets.map(([k, v]) => [k ?? 0, (v ?? 0) / n] as [number, number]) };
    });
    const top = Math.max(...shares.flatMap(({ bars }) => bars.map((b) => b[1]))) * 1.08;
    for (const t of ticks(top, 4)) frame.yTick(t / top, format.percent(t * 100));
    const us = (k: number) => 2 ** (k / PER_OCTAVE) / 1e3;
    const place = (k: number) => (k - lo) / (hi - lo);
    for (const d of decades(us(lo), us(hi), Math.max(3, this.#width / 80))) {
      frame.xTick(place(PER_OCTAVE * Math.log2(d * 1e3)), format.micros(d));
    }
    for (const { c, bars } of shares) frame.add(...outline(frame, bars, place, top, c));
    const rows = shares.map(({ c, n }) => {
      const [p50, p90, p99] = scope.distributions.percentiles_us[c]?.[this.#stage] ?? [];
      return legendRow(c, plural(c), `p50 ${format.micros(p50)} · p90 ${format.micros(p90)} · p99 ${format.micros(p99)} · n = ${format.count(n)}`);
    });
    return card("latency-dist", title, "latencyDistribution", controls, frame.svg, h("ul", { class: "legend" }, ...rows));
  }

  #size(scope: ScopeBlock): HTMLElement {
    const weights: [SizeWeight, string][] = [["ios", "I/Os"], ["bytes", "Bytes"]];
    const controls = segmented("Weight of the sizes", weights, this.#weight, (v) => {
      this.#weight = v;
      this.update(true);
    });
    const at = this.#weight === "ios" ? 1 : 2;
    const sets = this.#classes()
      .map((c) => ({ c, buckets: openBuckets(scope.distributions.size[c], 2) }))
      .filter(({ c, buckets }) => c !== "flush" && buckets.length > 0);
    if (sets.length === 0) return card("size-dist", "Request size", "size", controls, emptyText("No I/O that moved data."));
    const frame = new Frame(this.#width, HEIGHT, "Distribution of request sizes");
    const lo = Math.min(...sets.map(({ buckets }) => buckets[0]?.[0] ?? 9));
    const hi = Math.max(...sets.map(({ buckets }) => (buckets.at(-1)?.[0] ?? 9) + 1));
    const slots = Math.max(hi - lo, 4);
    const totals = sets.map(({ buckets }) => Math.max(1, buckets.reduce((sum, b) => sum + (b[at] ?? 0), 0)));
    const top = Math.max(...sets.flatMap(({ buckets }, i) => buckets.map((b) => (b[at] ?? 0) / (totals[i] ?? 1)))) * 1.08;
    for (const t of ticks(top, 4)) frame.yTick(t / top, format.percent(t * 100));
    const every = Math.ceil((slots * 52) / frame.innerWidth);
    for (let k = 0; k < slots; k++) {
      if (k % every === 0) frame.xTick((k + 0.5) / slots, format.binaryBytes(2 ** (lo + k)));
    }
    const wide = frame.innerWidth / slots;
    const bar = Math.min(26, (wide * 0.8) / sets.length);
    sets.forEach(({ c, buckets }, i) => {
      for (const b of buckets) {
        const share = (b[at] ?? 0) / (totals[i] ?? 1);
        const x = frame.x(((b[0] ?? 0) - lo + 0.5) / slots) + (i - sets.length / 2) * bar;
        const y = frame.y(share / top);
        const title = `${c}s of ${format.binaryBytes(2 ** (b[0] ?? 0))} up to ${format.binaryBytes(2 ** ((b[0] ?? 0) + 1))}: ${format.percent(share * 100)}`;
        const rect = s("rect", { x: x + 0.5, y, width: Math.max(bar - 1, 1), height: Math.max(frame.y(0) - y, share > 0 ? 1 : 0), rx: 1.5, class: `bar ${c}` }, s("title", { text: title }));
        frame.add(rect);
      }
    });
    const rows = sets.map(({ c, buckets }) => {
      const n = buckets.reduce((sum, b) => sum + (b[1] ?? 0), 0);
      const moved = buckets.reduce((sum, b) => sum + (b[2] ?? 0), 0) * 512;
      return legendRow(c, plural(c), `mean ${format.binaryBytes(n > 0 ? moved / n : null)} · ${format.bytes(moved)} in ${format.count(n)} I/Os`);
    });
    return card("size-dist", "Request size", "size", controls, frame.svg, h("ul", { class: "legend" }, ...rows));
  }

  #concurrency(scope: ScopeBlock): HTMLElement {
    const { all, read, write } = scope.distributions.concurrency_shares;
    const show = this.store.show;
    const sets = [
      { c: "any", label: "all I/Os", buckets: openBuckets(all, 1) },
      { c: "read", label: "reads", buckets: show.read ? openBuckets(read, 1) : [] },
      { c: "write", label: "writes", buckets: show.write ? openBuckets(write, 1) : [] },
    ].filter(({ buckets }) => buckets.length > 0);
    const title = "Concurrency";
    if (sets.length === 0) return card("concurrency-dist", title, "concurrency", null, emptyText("Not known from this source."));
    const frame = new Frame(this.#width, HEIGHT, "Share of time at or above each number of I/Os in flight");
    const highest = Math.max(1, ...sets.map(({ buckets }) => buckets.at(-1)?.[0] ?? 0));
    const place = (k: number) => Math.log2(k) / Math.log2(highest + 1);
    for (const t of [0, 0.25, 0.5, 0.75, 1]) frame.yTick(t / 1.02, format.percent(t * 100));
    for (let k = 1, last = -1; k <= highest; k *= 2) {
      if (place(k) - last < 44 / frame.innerWidth) continue;
      last = place(k);
      frame.xTick(last, `≥ ${k}`);
    }
    frame.xTitle("I/Os in flight");
    for (const { c, buckets } of sets) frame.add(survival(frame, buckets, place, highest, c));
    const rows = sets.map(({ c, label, buckets }) => {
      const total = buckets.reduce((sum, b) => sum + (b[1] ?? 0), 0) || 1;
      const idle = buckets.find((b) => b[0] === 0)?.[1] ?? 0;
      const mean = buckets.reduce((sum, b) => sum + (b[0] ?? 0) * (b[1] ?? 0), 0) / total;
      return legendRow(c, label, `mean ${format.number(mean)} · none in flight ${format.percent((100 * idle) / total)} of the time`);
    });
    return card("concurrency-dist", title, "concurrency", null, frame.svg, h("ul", { class: "legend" }, ...rows));
  }

  #load(scope: ScopeBlock): HTMLElement {
    const level = this.store.base;
    const points = level ? loadPoints(level) : [];
    const title = "Latency versus load";
    if (points.length < 5) {
      return card("load", title, "load", null, emptyText("Too few stretches with at least 30 I/Os to draw a curve."), capacityText(scope));
    }
    const frame = new Frame(this.#width, HEIGHT, title);
    drawLoad(frame, points, scope.capacity?.knee_in_flight ?? null);
    return card("load", title, "load", null, frame.svg, capacityText(scope));
  }
}

function plural(c: Class): string {
  return c === "flush" ? "flushes" : `${c}s`;
}

/** A row of buttons, one of which is pressed. */
export function segmented<T extends string>(label: string, options: [T, string][], chosen: T, choose: (v: T) => void): HTMLElement {
  const buttons = options.map(([v, text]) =>
    h("button", { type: "button", text, "aria-pressed": String(v === chosen), onclick: () => choose(v) }),
  );
  return h("div", { class: "segmented", role: "group", "aria-label": label }, ...buttons);
}

/** A histogram as a filled step line. */
function outline(frame: Frame, bars: [number, number][], place: (k: number) => number, top: number, cls: string): SVGElement[] {
  let line = "";
  let last = -Infinity;
  for (const [k, share] of bars) {
    const x0 = frame.x(place(k)).toFixed(1);
    const x1 = frame.x(place(k + 1)).toFixed(1);
    const y = frame.y(share / top).toFixed(1);
    const floor = frame.y(0).toFixed(1);
    if (k !== last) line += `${line ? `V${floor}` : ""}M${x0},${floor}`;
    line += `L${x0},${y}H${x1}`;
    last = k + 1;
  }
  line += `V${frame.y(0).toFixed(1)}`;
  return [s("path", { d: line, class: `curve ${cls}` })];
}

/** Share of time with at least k in flight, for k = 1, 2, ... */
function survival(frame: Frame, buckets: number[][], place: (k: number) => number, highest: number, cls: string): SVGElement {
  const total = buckets.reduce((sum, b) => sum + (b[1] ?? 0), 0) || 1;
  let above = total - (buckets[0]?.[0] === 0 ? (buckets[0][1] ?? 0) : 0);
  const from = buckets.filter((b) => (b[0] ?? 0) > 0);
  let line = `M${frame.x(0).toFixed(1)},${frame.y(above / total / 1.02).toFixed(1)}`;
  for (const [k, t] of from) {
    line += `H${frame.x(place(Math.min((k ?? 0) + 1, highest + 1))).toFixed(1)}`;
    above -= t ?? 0;
    line += `V${frame.y(Math.max(above, 0) / total / 1.02).toFixed(1)}`;
  }
  return s("path", { d: line, class: `line ${cls}` });
}

/** Dots on log axes, with a dashed line at the knee. */
function drawLoad(frame: Frame, points: LoadPoint[], knee: number | null): void {
  const spread = (values: number[]) => {
    const sorted = values.filter((v) => v > 0).sort((a, b) => a - b);
    const lo = (sorted[0] ?? 1) / 1.3;
    const hi = (sorted.at(-1) ?? 10) * 1.3;
    return hi / lo < 10 ? ([lo / 2, hi * 2] as const) : ([lo, hi] as const);
  };
  const [x0, x1] = spread([...points.map((p) => p.inflight), ...(knee ? [knee] : [])]);
  const [y0, y1] = spread(points.map((p) => p.meanUs));
  const px = (v: number) => Math.log(v / x0) / Math.log(x1 / x0);
  const py = (v: number) => Math.log(v / y0) / Math.log(y1 / y0);
  for (const d of logTicks(y0, y1)) frame.yTick(py(d), format.micros(d));
  for (const d of logTicks(x0, x1)) frame.xTick(px(d), format.number(d));
  frame.xTitle("mean I/Os in flight");
  let path = "";
  for (const p of points) if (p.inflight > 0) path += `M${frame.x(px(p.inflight)).toFixed(1)},${frame.y(py(p.meanUs)).toFixed(1)}h0`;
  frame.add(s("path", { d: path, class: points.length < 200 ? "cloud few" : "cloud" }));
  if (knee && knee > 0) {
    const x = frame.x(px(knee));
    frame.add(
      s("line", { x1: x, x2: x, y1: frame.y(0), y2: frame.y(1), class: "knee" }),
      s("text", { x: x - 5, y: frame.top + 10, class: "tick knee-label", "text-anchor": "end", text: `knee ${format.number(knee)}` }),
    );
  }
}

function capacityText(scope: ScopeBlock): HTMLElement {
  const c = scope.capacity;
  if (!c) return h("p", { class: "note", text: "Capacity is a property of one device: choose one to see its knee and headroom." });
  const fact = (name: string, definition: string, value: string) => h("div", {}, h("dt", {}, term(name, definition)), h("dd", { text: value, "data-def": definition }));
  return h(
    "div",
    { class: "capacity" },
    h("p", { class: "note" }, h("b", { text: c.state.replaceAll("-", " ") }), `: ${c.summary}`),
    h(
      "dl",
      { class: "facts" },
      fact("Highest throughput", "highest", c.max_ios_per_s === null ? format.ABSENT : `${format.number(c.max_ios_per_s)}/s`),
      fact("Light-load latency", "light", format.micros(c.unloaded_us)),
      fact("Knee", "knee", format.number(c.knee_in_flight)),
      fact("Headroom", "headroom", format.percent(c.headroom_percent)),
    ),
  );
}
