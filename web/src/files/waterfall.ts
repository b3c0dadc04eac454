// The bars of "Slowest requests" and "Slowest syncs": when each open, read, write, close or sync took its time.

import { ticks } from "../charts/svg";
import { h, s, term } from "../dom";
import * as format from "../format";
import type { SlowIo, SlowRequest } from "../generated/page";

/** A part of a request's time, in microseconds after its opening. */
export interface Stretch {
  from: number;
  to: number;
  kind: "open" | "device" | "memory" | "moved" | "rest" | "close" | "sync";
  text: string;
}

const NAMES: Record<Stretch["kind"], string> = {
  open: "open",
  device: "read that waited",
  memory: "read from memory",
  moved: "write, or through io_uring",
  rest: "I/Os not kept one by one, and gaps",
  close: "close",
  sync: "sync",
};

/** Known parts of a request's time, sorted by time, with gaps between them. */
export function stretches(r: SlowRequest): Stretch[] {
  if (r.class === "sync") return [{ from: 0, to: r.total_us, kind: "sync", text: `sync: ${format.micros(r.total_us)}` }];
  const out: Stretch[] = [];
  if (r.open_us !== null) out.push({ from: 0, to: r.open_us, kind: "open", text: `open: ${format.micros(r.open_us)}` });
  const slowest = r.slowest_io;
  const known = [...r.first_ios];
  if (slowest && !known.some((io) => io.after_us === slowest.after_us)) known.push(slowest);
  known.sort((a, b) => a.after_us - b.after_us);
  // Drawn behind the others: I/Os of which only the sum is known.
  if (r.data_ios > known.length) {
    const last = r.first_ios.at(-1);
    const from = last ? last.after_us + last.us : (r.open_us ?? 0);
    const text = `${format.count(r.data_ios - known.length)} more I/Os, and gaps`;
    if (from < r.total_us) out.push({ from, to: r.total_us, kind: "rest", text });
  }
  known.forEach((io, i) => out.push(ioStretch(io, i)));
  if (r.close_us !== null && r.close_us > 0) {
    out.push({ from: r.end_us - r.close_us, to: r.end_us, kind: "close", text: `close: ${format.micros(r.close_us)}, ${format.micros(r.end_us - r.close_us)} after the opening` });
  }
  return out;
}

function ioStretch(io: SlowIo, i: number): Stretch {
  const kind = io.cache_hit === null ? "moved" : io.cache_hit ? "memory" : "device";
  const text = `${i === 0 ? "first I/O" : `I/O after ${format.micros(io.after_us)}`}: ${format.micros(io.us)}, ${format.binaryBytes(io.bytes)}, ${NAMES[kind]}`;
  return { from: io.after_us, to: io.after_us + io.us, kind, text };
}

/** Length of a bar: up to the close if it follows soon, else up to the last I/O. */
export function shownUntil(r: SlowRequest): number {
  return r.class === "sync" || r.end_us > 1.5 * r.total_us ? r.total_us : r.end_us;
}

/** The slowest requests: a bar for each, with a common scale or a scale of its own. */
export function slowList(requests: SlowRequest[], width: number, at: (s: number) => string, common: boolean): HTMLElement {
  const longest = Math.max(...requests.map(shownUntil), 1e-3);
  const used = new Set<Stretch["kind"]>();
  const rows = requests.map((r) => row(r, width, at, common ? longest : shownUntil(r), used));
  const legend = (Object.keys(NAMES) as Stretch["kind"][])
    .filter((k) => used.has(k))
    .map((k) => h("li", {}, h("i", { class: `swatch stretch ${k}` }), h("span", { text: NAMES[k] })));
  const gaps = requests.some((r) => r.class !== "sync") ? h("li", {}, term("empty: think time", "fileSlow")) : null;
  return h("div", {}, h("ul", { class: "legend flat" }, ...legend, gaps), h("ol", { class: "slow" }, ...rows));
}

function row(r: SlowRequest, width: number, at: (s: number) => string, scale: number, used: Set<Stretch["kind"]>): HTMLElement {
  const height = 22;
  const wide = Math.max(200, width);
  const svg = s("svg", { viewBox: `0 0 ${wide} ${height + 16}`, width: "100%", role: "img", "aria-label": `Waterfall of ${r.file ?? "a file without a known name"}` });
  const x = (us: number) => (Math.min(us, scale) / scale) * (wide - 2) + 1;
  svg.append(s("rect", { x: 1, y: 4, width: Math.max(x(shownUntil(r)) - 1, 1), height: height - 8, class: "stretch gap" }));
  for (const t of stretches(r)) {
    if (t.from >= scale) continue;
    used.add(t.kind);
    // At least one pixel wide, or short requests would be invisible.
    const w = Math.max(x(t.to) - x(t.from), 1.2);
    const low = t.kind === "rest" ? 5 : 0;
    svg.append(s("rect", { x: Math.min(x(t.from), wide - 2), y: low, width: w, height: height - 2 * low, rx: 1, class: `stretch ${t.kind}` }, s("title", { text: t.text })));
  }
  for (const t of ticks(scale, 4)) {
    svg.append(s("text", { x: x(t), y: height + 13, class: "tick", "text-anchor": t === 0 ? "start" : x(t) > wide - 40 ? "end" : "middle", text: format.micros(t) }));
  }
  const later = r.close_us !== null && r.end_us > scale ? `closed ${format.micros(r.end_us)} after the opening` : "";
  const facts = [
    r.class,
    `at ${at(r.start_s)}`,
    r.class === "sync" ? "" : `${format.count(r.data_ios)} ${r.data_ios === 1 ? "I/O" : "I/Os"}, ${format.binaryBytes(r.bytes)}`,
    r.total_us > 1.05 * r.call_us ? `response ${format.micros(r.total_us)}, of it gaps ${format.micros(r.gaps_us)}` : "",
    later,
    ...r.flags.filter((f) => f !== "creates"),
  ];
  const who = `${r.process ?? "?"}${r.pid === null ? "" : ` (${r.pid})`}`;
  return h(
    "li",
    {},
    h("p", {}, h("b", { text: format.micros(r.call_us) }), h("span", { class: "path", text: r.file ?? "(name not known)" }), h("span", { class: "note", text: [who, ...facts].filter(Boolean).join(" · ") })),
    svg,
  );
}
