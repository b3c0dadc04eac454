// The colours of single I/Os by class, process or wait cause, and the legend with the choice "Colours".

import { h } from "../dom";
import * as format from "../format";
import type { Theme } from "../theme";
import { type Column, type Ios, NOT_KNOWN } from "./data";
import type { Class, Colouring } from "./view";

/** A group of I/Os with one colour. */
export interface Group {
  /** The class or process; `null`: it cannot be selected. */
  key: string | null;
  name: string;
  colour(theme: Theme): string;
}

/** The group of each I/O. */
export interface Grouping {
  by: Colouring;
  groups: Group[];
  of: Uint8Array;
}

const CLASSES: readonly Class[] = ["read", "write", "discard", "flush"];

type Waits = Ios["columns"];
/** Colours and names as in the table of waits. */
const CAUSES: readonly { name: string; colour: "ok" | "critical" | "mark" | "inflight" | "busy" | "lossy"; us(c: Waits): Column | undefined }[] = [
  { name: "mostly undisturbed", colour: "ok", us: (c) => c.undisturbed_us },
  { name: "behind others", colour: "critical", us: (c) => c.wait_others_us },
  { name: "its own queue", colour: "mark", us: (c) => c.wait_own_us },
  { name: "held above the driver", colour: "inflight", us: (c) => c.wait_held_us },
  { name: "the device itself", colour: "busy", us: (c) => c.wait_device_us },
  { name: "not known", colour: "lossy", us: (c) => c.wait_unknown_us },
];

/** Groups the I/Os. Processes that had a colour in `before` keep it if they are still among those with the most I/O time. */
export function grouped(ios: Ios, by: Colouring, colours: number, before: Grouping | null): Grouping {
  const c = ios.columns;
  const count = c.total_us.length;
  if (by === "class") {
    const groups = CLASSES.map((name): Group => ({ key: name, name, colour: (t) => t[name] }));
    return { by, groups, of: Uint8Array.from(c.class, (cls) => Math.max(0, CLASSES.indexOf(cls))) };
  }
  if (by === "cause") {
    const groups = CAUSES.map(({ name, colour }): Group => ({ key: null, name, colour: (t) => t[colour] }));
    const parts = CAUSES.map(({ us }) => us(c));
    return { by, groups, of: Uint8Array.from({ length: count }, (_, i) => causeOf(parts.map((part) => part?.[i] ?? null))) };
  }
  const names = Array.from({ length: count }, (_, i) => c.process[i] ?? (typeof c.pid[i] === "number" ? `[${c.pid[i]}]` : NOT_KNOWN));
  const time = new Map<string, number>();
  names.forEach((name, i) => time.set(name, (time.get(name) ?? 0) + (c.total_us[i] ?? 0)));
  const ranked = [...time.keys()].sort((a, b) => (time.get(b) ?? 0) - (time.get(a) ?? 0));
  const kept = before?.by === "process" ? before.groups.slice(0, colours) : [];
  const place = new Map<string, number>();
  const top = ranked.slice(0, colours);
  kept.forEach((group, n) => top.includes(group.name) && place.set(group.name, n));
  for (const name of top) {
    if (place.has(name)) continue;
    let free = 0;
    while ([...place.values()].includes(free)) free++;
    place.set(name, free);
  }
  const groups: Group[] = Array.from({ length: colours }, (_, n) => ({ key: null, name: "", colour: (t) => t.series[n] ?? t.muted }));
  const known = new Set(c.process);
  for (const [name, n] of place) groups[n] = { ...groups[n]!, key: known.has(name) ? name : null, name };
  groups.push({ key: null, name: "other processes", colour: (t) => t.muted });
  return { by, groups, of: Uint8Array.from(names, (name) => place.get(name) ?? colours) };
}

/** The index of the longest wait, if it is longer than the undisturbed latency. */
function causeOf([undisturbed, ...waits]: (number | null)[]): number {
  if (typeof undisturbed !== "number") return CAUSES.length - 1;
  const us = waits.map((wait) => wait ?? 0);
  if (us.reduce((a, b) => a + b, 0) <= undisturbed) return 0;
  return 1 + us.indexOf(Math.max(...us));
}

/** The number of I/Os per group. */
export function countsOf(grouping: Grouping, ios: readonly number[]): number[] {
  const counts = new Array<number>(grouping.groups.length).fill(0);
  for (const i of ios) counts[grouping.of[i] ?? 0]!++;
  return counts;
}

/** The selector of the grouping, and the legend of its colours. */
export class Legend {
  readonly root: HTMLElement;
  readonly #entries = h("span", { class: "entries" });
  readonly #by: HTMLSelectElement;
  #shown = "";

  constructor(private readonly choose: (by: Colouring) => void, private readonly pick: (by: Colouring, key: string) => void) {
    const names: Record<Colouring, string> = { class: "Class", process: "Process", cause: "Wait cause" };
    this.#by = h("select", { "aria-label": "Colours of the I/Os", onchange: () => this.choose(this.#by.value as Colouring) }, ...Object.entries(names).map(([value, text]) => h("option", { value, text })));
    this.root = h("div", { class: "io-legend", hidden: true }, h("label", {}, "Colours: ", this.#by), this.#entries);
  }

  hide(): void {
    this.root.hidden = true;
  }

  show(grouping: Grouping, counts: readonly number[], theme: Theme): void {
    this.root.hidden = false;
    this.#by.value = grouping.by;
    const entries = grouping.groups.map((group, n) => ({ ...group, count: counts[n] ?? 0, colour: group.colour(theme) })).filter((e) => e.count > 0);
    const text = JSON.stringify([grouping.by, entries]);
    if (text === this.#shown) return;
    this.#shown = text;
    this.#entries.replaceChildren(...entries.map(({ key, name, count, colour }) => {
      const swatch = h("i", {});
      swatch.style.background = colour;
      const words = [swatch, name, h("small", { text: ` ${format.count(count)}` })];
      if (key === null) return h("span", {}, ...words);
      return h("button", { type: "button", class: "name", title: `Show only ${name}`, onclick: () => this.pick(grouping.by, key) }, ...words);
    }));
  }
}
