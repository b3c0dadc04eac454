// The panel "B compared with A": latency curves, the change of each measure, and what takes more time.

import { Frame, logTicks } from "../charts/svg";
import { fill, h, s } from "../dom";
import * as format from "../format";
import { type Blocks, type Growth, type Shift, latenciesOf, shifts } from "./compare";
import { table } from "./panels";
import { latencies } from "./selection";
import type { Box, Class } from "./view";

/** The I/Os of one class in both boxes. */
export interface ClassInBoxes {
  cls: Class;
  before: Blocks;
  after: Blocks;
}

/** Cells of the distributions' curves. */
const BINS = 60;

/**
 * Compares the second box with the first: distributions, quantiles, and what takes more time. `note` says what is not
 * restricted to the boxes.
 */
export function comparison(root: HTMLElement, boxes: readonly [Box, Box], classes: ClassInBoxes[], actors: Growth[], waits: Growth[], note: string | null, tools: HTMLElement): void {
  const [a, b] = boxes;
  const said = (box: Box) => `${format.clock(box.from, 0.1)} to ${format.clock(box.to, 0.1)} UTC, ${latencies(box)}`;
  const seen = classes.filter((c) => latenciesOf(c.before).some((n) => n > 0) || latenciesOf(c.after).some((n) => n > 0));
  const head = h("header", {}, h("h2", { text: "B compared with A" }), h("small", { text: `A: ${said(a)} · B: ${said(b)}` }), tools);
  if (seen.length === 0) {
    fill(root, head, h("p", { class: "empty", text: "No I/O lies in these boxes." }));
    return;
  }
  const measures = seen.flatMap((c) => shifts(c.before, c.after).map((shift) => ({ cls: c.cls, shift })));
  const column = (label: string, ...content: (HTMLElement | null)[]) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, ...content);
  fill(root, head, h("div", { class: "compared" },
    column("Latency of both boxes", distributions(seen)),
    column("Change of each measure", table(
      [{ text: "Measure" }, { text: "A", kind: "num" }, { text: "B", kind: "num" }, { text: "Change", kind: "num" }, { text: "95 % interval", kind: "num" }],
      measures.map(({ cls, shift }) => row(cls, shift)), measures.map(({ shift }) => (clear(shift) ? "clear" : "")))),
    column("What takes more time", growth("Actors with more I/O time", actors), growth("Waits that grew", waits), note === null ? null : h("p", { class: "note", text: note }))));
}

/** Whether the change is statistically significant. */
const clear = ({ interval }: Shift): boolean => interval !== null && (interval[0] > 0 || interval[1] < 0);

function row(cls: Class, shift: Shift): HTMLElement[] {
  const value = (v: number | null) => (shift.q === null ? (v === null ? format.ABSENT : `${format.number(v)}/s`) : format.micros(v));
  const signed = (percent: number) => `${percent > 0 ? "+" : percent < 0 ? "−" : ""}${format.percent(Math.abs(percent))}`;
  return [
    h("td", {}, h("span", { class: cls, text: cls }), shift.q === null ? " I/Os" : ` p${format.number(100 * shift.q)}`),
    h("td", { class: "num", text: value(shift.before) }), h("td", { class: "num", text: value(shift.after) }),
    h("td", { class: "num change", text: shift.percent === null ? format.ABSENT : signed(shift.percent) }),
    h("td", { class: "num", text: shift.interval === null ? "not enough data" : `${signed(shift.interval[0])} to ${signed(shift.interval[1])}` }),
  ];
}

function growth(title: string, list: Growth[]): HTMLElement {
  const rate = (seconds: number) => `${format.micros(seconds * 1e6)}/s`;
  const rows = list.slice(0, 6).map((g) => [h("td", { text: g.name }), h("td", { class: "num", text: rate(g.before) }), h("td", { class: "num", text: rate(g.after) })]);
  return h("div", {}, h("h3", { text: title }), rows.length === 0 ? h("p", { class: "empty", text: "None." }) : table([{ text: "Who" }, { text: "A", kind: "num" }, { text: "B", kind: "num" }], rows));
}

/** The share of the I/Os by latency: A dashed, B solid. */
function distributions(classes: ClassInBoxes[]): HTMLElement {
  let [low, high] = [Infinity, 0];
  for (const c of classes) {
    for (const side of [c.before, c.after]) {
      latenciesOf(side).forEach((n, cell) => {
        if (n === 0) return;
        low = Math.min(low, side.edgesUs[cell] ?? low);
        high = Math.max(high, side.edgesUs[cell + 1] ?? high);
      });
    }
  }
  const width = Math.log(high / low) || 1;
  const curves = classes.flatMap((c) => (["before", "after"] as const).map((side) => {
    const sums = latenciesOf(c[side]);
    const total = sums.reduce((x, y) => x + y, 0);
    const shares = new Float64Array(BINS);
    sums.forEach((n, cell) => {
      const middle = Math.sqrt((c[side].edgesUs[cell] ?? 1) * (c[side].edgesUs[cell + 1] ?? 1));
      const bin = Math.min(BINS - 1, Math.max(0, Math.floor((Math.log(middle / low) / width) * BINS)));
      shares[bin] = (shares[bin] ?? 0) + n / Math.max(total, 1);
    });
    return { cls: c.cls, side, shares };
  }));
  const most = Math.max(...curves.map((c) => Math.max(...c.shares)), 1e-9);
  const frame = new Frame(440, 158, "Share of the I/Os by latency, A dashed, B solid", { bottom: 32, right: 24 });
  for (const us of logTicks(low, high)) frame.xTick(Math.log(us / low) / width, format.micros(us));
  frame.xTitle("latency (A dashed, B solid)");
  for (const share of [0, 0.5, 1]) frame.yTick(share, format.percent(100 * most * share));
  for (const curve of curves) {
    const at = (edge: number, share: number) => `${frame.x(edge / BINS).toFixed(1)},${frame.y(share / most).toFixed(1)}`;
    // The area is closed by a straight line from the last point to the first; both are on the axis.
    const points = [at(0, 0)];
    curve.shares.forEach((share, bin) => points.push(at(bin, share), at(bin + 1, share)));
    points.push(at(BINS, 0));
    frame.add(s("polyline", { points: points.join(" "), class: `curve ${curve.cls} ${curve.side}` }));
  }
  const wrapped = h("div", {});
  wrapped.append(frame.svg);
  return wrapped;
}
