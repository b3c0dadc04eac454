// The panel of a selected box: what distinguishes its I/Os from the others (process, file, size, sectors, waits).

import { fill, h } from "../dom";
import * as format from "../format";
import { type Column, type Ios, NOT_KNOWN, doneOf, processName } from "./data";
import { type Box, type Class, OPEN_US } from "./view";
import { type Ways, table } from "./panels";

type Dimension = "process" | "cgroup" | "file" | "class" | "origin" | "device" | "size" | "sectors" | "waited";

const TITLES: Record<Dimension, string> = { process: "process", cgroup: "control group", file: "file", class: "class", origin: "origin", device: "device", size: "size", sectors: "sectors", waited: "most of its time" };
/** Number of parts into which the sectors used by the I/Os are divided. */
const SECTOR_PARTS = 16;

/** A value of a dimension, with its shares of the I/Os inside and outside of a box. */
export interface Difference {
  dimension: Dimension;
  value: string;
  inside: number;
  /** `null` if there are no I/Os outside. */
  outside: number | null;
}

/** The largest part of an I/O's time. */
function longest(c: Ios["columns"], i: number): string {
  const us = (column: Column | undefined): number => column?.[i] ?? 0;
  if (typeof c.undisturbed_us?.[i] !== "number") return NOT_KNOWN;
  const who = c.wait_behind_process?.[i] ?? "another process";
  const what = c.wait_behind_origin?.[i] === "writeback" ? "write-back" : c.wait_behind_class?.[i] ?? "I/O";
  const parts: [string, number][] = [
    ["undisturbed", us(c.undisturbed_us)], [`behind ${who}, ${what}`, us(c.wait_others_us)], ["behind its own", us(c.wait_own_us)],
    ["held above the driver", us(c.wait_held_us)], ["the device itself", us(c.wait_device_us)], ["unknown", us(c.wait_unknown_us)],
  ];
  return parts.reduce((a, b) => (b[1] > a[1] ? b : a))[0];
}

/** What distinguishes the I/Os inside a box from the others, largest difference of shares first. */
export function differences(ios: Ios, box: Box): { rows: Difference[]; inside: number; outside: number } {
  const c = ios.columns;
  const reach = new Map<string, { first: number; last: number }>();
  c.sector.forEach((sector, i) => {
    const known = reach.get(c.device[i] ?? "");
    if (sector === null) return;
    if (known) [known.first, known.last] = [Math.min(known.first, sector), Math.max(known.last, sector)];
    else reach.set(c.device[i] ?? "", { first: sector, last: sector });
  });
  const sectors = (i: number): string => {
    const [sector, all] = [c.sector[i], reach.get(c.device[i] ?? "")];
    if (typeof sector !== "number" || !all) return "none";
    const part = (all.last - all.first + 1) / SECTOR_PARTS;
    const low = all.first + Math.floor((sector - all.first) / part) * part;
    return `${format.short(low)} to ${format.short(low + part)}`;
  };
  const dims: Record<Dimension, (i: number) => string> = {
    process: (i) => processName(c.process[i] ?? null, c.pid[i] ?? null),
    cgroup: (i) => c.cgroup[i] ?? NOT_KNOWN,
    file: (i) => c.file[i] ?? NOT_KNOWN,
    class: (i) => c.class[i] ?? "",
    origin: (i) => c.origin[i] ?? NOT_KNOWN,
    device: (i) => c.device[i] ?? "",
    size: (i) => format.binaryBytes(2 ** Math.floor(Math.log2(Math.max(1, c.bytes[i] ?? 1)))),
    sectors,
    waited: (i) => longest(c, i),
  };
  const within: number[] = [];
  const without: number[] = [];
  for (let i = 0; i < c.done_ns.length; i++) {
    const [at, us] = [doneOf(ios, i), c.total_us[i] ?? 0];
    const is = at >= box.from && at <= box.to && us >= box.lowUs && us <= box.highUs;
    (is ? within : without).push(i);
  }
  const rows: Difference[] = [];
  for (const dimension of Object.keys(dims) as Dimension[]) {
    const shares = (of: number[]) => {
      const counts = new Map<string, number>();
      for (const i of of) counts.set(dims[dimension](i), (counts.get(dims[dimension](i)) ?? 0) + 1);
      return counts;
    };
    const [a, b] = [shares(within), shares(without)];
    for (const [value, n] of a) rows.push({ dimension, value, inside: n / within.length, outside: without.length > 0 ? (b.get(value) ?? 0) / without.length : null });
  }
  const apart = (r: Difference) => r.inside - (r.outside ?? 0);
  rows.sort((x, y) => apart(y) - apart(x));
  return { rows, inside: within.length, outside: without.length };
}

/** The latencies of a box as text. */
export function latencies(box: Box): string {
  if (box.highUs >= OPEN_US) return box.lowUs <= 0 ? "any latency" : `${format.micros(box.lowUs)} and more`;
  return box.lowUs <= 0 ? `at most ${format.micros(box.highUs)}` : `${format.micros(box.lowUs)} to ${format.micros(box.highUs)}`;
}

/** Shows the actors in a box, and what distinguishes its I/Os. */
export function selection(root: HTMLElement, ios: Ios, box: Box, ways: Ways, tools: HTMLElement): void {
  const { rows, inside, outside } = differences(ios, box);
  const head = h("header", {},
    h("h2", { text: `${format.count(inside)} ${inside === 1 ? "I/O" : "I/Os"} of ${latencies(box)}` }),
    h("small", { text: `in ${format.span(box.to - box.from)}; ${outside > 0 ? `compared with ${format.count(outside)} others` : "there are no others to compare with"}` }),
    tools);
  if (inside === 0) {
    fill(root, head, h("p", { class: "empty", text: "No I/O lies in this box." }));
    return;
  }
  const bar = (cls: string, share: number) => {
    const e = h("i", { class: cls });
    e.style.width = `${(100 * share).toFixed(1)}%`;
    return e;
  };
  const choose = (r: Difference) => {
    if (r.dimension === "process" || r.dimension === "cgroup" || r.dimension === "file") ways.filter({ by: r.dimension, name: r.value });
    else if (r.dimension === "class") ways.cls(r.value as Class);
    else if (r.dimension === "device") ways.device(r.value);
  };
  const plain = (r: Difference) => r.value === NOT_KNOWN || r.dimension === "origin" || r.dimension === "size" || r.dimension === "sectors" || r.dimension === "waited";
  const cells = rows.slice(0, 12).map((r) => [
    h("td", {}, h("small", { text: `${TITLES[r.dimension]} ` }), plain(r) ? h("b", { text: r.value }) : h("button", { type: "button", class: "name", text: r.value, title: `Show only ${r.value}`, onclick: () => choose(r) })),
    h("td", { class: "num", text: format.percent(100 * r.inside) }), h("td", { class: "num", text: r.outside === null ? format.ABSENT : format.percent(100 * r.outside) }),
    h("td", { class: "pair" }, bar("inside", r.inside), r.outside === null ? null : bar("outside", r.outside)),
  ]);
  const found = table([{ text: "What" }, { text: "Inside", kind: "num" }, { text: "Outside", kind: "num" }, { text: "Both as bars", kind: "spoken" }], cells);
  fill(root, head, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "What distinguishes the I/Os of the box" }, found));
}
