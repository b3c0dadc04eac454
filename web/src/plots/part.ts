// The charts over time of an imported log: of one device alone, or "Compare all devices".

import { fill, h } from "../dom";
import type { Store } from "../store";
import { current } from "../theme";
import { PlotChart, type PlotLine, type PlotSpec } from "./chart";
import { type ColumnSpec, CPU, isSaid, QUANTITIES, type Quantity } from "./columns";
import { Rows, Tables } from "./rows";

/**
 * Every column of an imported log over time. For one device there is a chart per quantity. For several there is a
 * chart per column with a line per device. Below them are the CPU shares.
 */
export class Plots {
  readonly root = h("div");
  readonly #panels = h("div", { class: "panels" });
  readonly #switch = h("button", { type: "button", onclick: () => this.#toggle() });
  readonly #tables: Tables;
  readonly #all: Device[];
  #charts: PlotChart[] = [];
  /** A line per device, or only one device. */
  #comparing: boolean;
  #drawn: { scope: number; comparing: boolean } | null = null;

  constructor(readonly store: Store, tables: Tables) {
    this.#tables = tables;
    this.#all = tables.block.devices.flatMap(({ device }) => this.#device(device));
    this.#comparing = this.#all.length > 1;
    this.#switch.hidden = this.#all.length < 2;
    this.root.append(h("p", { class: "row plots-mode" }, this.#switch, mergedNote(tables.block.merged)), this.#panels);
  }

  #device(name: string): Device[] {
    const rows = this.#tables.of(name);
    return rows ? [{ name, rows }] : [];
  }

  #toggle(): void {
    this.#comparing = !this.#comparing;
    this.update();
  }

  update(): void {
    const scope = this.store.scopeIndex;
    // A reader who chooses a device wants to see only that one; one who chooses all of them wants to compare.
    if (this.#drawn && this.#drawn.scope !== scope) this.#comparing = (this.store.scope?.device_names.length ?? 0) > 1;
    if (this.#drawn?.scope !== scope || this.#drawn.comparing !== this.#comparing) this.#rebuild(scope);
    this.#switch.textContent = this.#comparing ? "Show one device alone" : "Compare all devices";
    for (const c of this.#charts) c.update();
  }

  resize(): void {
    for (const c of this.#charts) {
      c.resize();
      c.update();
    }
  }

  recolour(): void {
    for (const c of this.#charts) c.drop();
    this.update();
  }

  #rebuild(scope: number): void {
    for (const c of this.#charts) c.drop();
    this.#drawn = { scope, comparing: this.#comparing };
    this.#charts = this.#specs().map((spec) => new PlotChart(spec, this.store));
    fill(this.#panels, ...this.#charts.map((c) => c.root));
  }

  #specs(): PlotSpec[] {
    const chosen = (this.store.scope?.device_names ?? []).flatMap((name) => this.#device(name));
    const alone = chosen[0] ?? this.#all[0];
    const counted = new Set(this.store.data.scopes[0]?.device_names ?? []);
    const specs = this.#comparing || !alone ? QUANTITIES.flatMap((q) => ofSeveral(q, this.#all, counted)) : QUANTITIES.map((q) => ofOne(q, alone.rows));
    const { cpu } = this.#tables;
    if (cpu) specs.push(ofOne(CPU, cpu));
    return specs.filter((s) => s.lines.length > 0);
  }
}

function mergedNote(merged: number): HTMLElement | null {
  if (merged <= 1) return null;
  return h("span", { class: "note", text: `${merged} rows of the log are one step here; its highest row is the thin line above the mean.` });
}

function line(spec: ColumnSpec, rows: Rows, label: string): PlotLine | null {
  const values = spec.of(rows);
  if (!values) return null;
  return { label, from: rows.from, to: rows.to, values, peaks: spec.peaks(rows), color: spec.color, fill: spec.fill, cls: spec.cls, quiet: spec.quiet };
}

/** A chart with a line per column. Columns without any activity are left out, unless all are. */
function ofOne(q: Quantity, rows: Rows): PlotSpec {
  const said = q.columns.filter((c) => isSaid(c, rows, false));
  const columns = said.length > 0 ? said : q.columns.filter((c) => isSaid(c, rows, true)).slice(0, 2);
  const lines = columns.flatMap((c) => line(c, rows, c.label) ?? []);
  return { id: q.id, title: q.title, definition: q.definition, log: q.log === true, axis: q.axis, full: q.full, lines };
}

interface Device {
  name: string;
  rows: Rows;
}

/** More lines than this are unreadable; the others can be switched on. */
const MAX_LINES = 12;

/** A chart per column that some device has, with a line per device; if a sum is meaningful, also a line with the sum. */
function ofSeveral(q: Quantity, devices: Device[], counted: Set<string>): PlotSpec[] {
  return q.columns.flatMap((c): PlotSpec[] => {
    if (!devices.some((d) => isSaid(c, d.rows, false))) return [];
    const lines = devices.flatMap((d, i): PlotLine[] => {
      const l = line(c, d.rows, d.name);
      if (!l) return [];
      const quiet = i >= MAX_LINES;
      return [{ ...l, color: () => deviceColor(i), fill: undefined, cls: undefined, quiet }];
    });
    // Partitions and layers have the same I/Os as the disks below them, so sums exclude them.
    const total = c.adds ? sum(lines.filter((l) => counted.has(l.label))) : null;
    if (total) lines.push(total);
    return [{ id: `${q.id}-${c.label}`, title: c.label, definition: q.definition, log: q.log === true, axis: q.axis, full: q.full, lines }];
  });
}

/** Hues a golden angle apart: neighbours in the list differ clearly, for any number of lines. */
function deviceColor(i: number): string {
  const hue = (210 + i * 137.508) % 360;
  return current() === "dark" ? `hsl(${hue.toFixed(0)} 70% 66%)` : `hsl(${hue.toFixed(0)} 68% 38%)`;
}

/**
 * The sum of all devices, if their rows have the same intervals. Off by default, because it would dwarf the single
 * devices.
 */
function sum(lines: PlotLine[]): PlotLine | null {
  const [first, ...others] = lines;
  if (!first || others.length === 0) return null;
  const same = others.every((l) => l.from.length === first.from.length && l.from.every((v, i) => v === first.from[i] && l.to[i] === first.to[i]));
  if (!same) return null;
  const values = first.values.map((v, i) => others.reduce((s, l) => s + (l.values[i] ?? NaN), v));
  return { label: "all together", from: first.from, to: first.to, values, peaks: null, color: () => (current() === "dark" ? "#d5dade" : "#333a41"), quiet: true };
}
