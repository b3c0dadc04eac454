// The state of the report: time range, device, reads or writes, clock, chosen finding, and the zoom history.

import type { FindingBlock, PageData, ScopeBlock } from "./generated/page";
import { openLevels, pick, type Slots } from "./levels";
import { clamp, type Range } from "./zoom";

export type ClockMode = "elapsed" | "utc" | "local";

/** Recordings begin after this (2001-09-09). An earlier start comes from a log without a date. */
export const MIN_UNIX_S = 1e9;

/** The view state, in one place. All parts that draw subscribe to it. */
export class Store {
  readonly bounds: Range;
  range: Range;
  scopeIndex = 0;
  show = { read: true, write: true };
  clock: ClockMode;
  /** Width of the plots in CSS pixels: the number of slots that can be distinguished. */
  plotWidth = 1000;
  /** The last chosen finding; its window is marked in the charts. */
  finding: FindingBlock | null = null;
  readonly #levels = new Map<number, Slots[]>();
  readonly #listeners: (() => void)[] = [];
  readonly #past: Range[] = [];

  constructor(readonly data: PageData) {
    const { from_s: from = 0, to_s: to = from + data.recording.duration_s } = data.recording;
    this.bounds = { from, to: Math.max(to, from + 1e-3) };
    this.range = this.bounds;
    this.clock = this.startUnixS === null ? "elapsed" : "utc";
  }

  /** Start of the recording, in seconds since the epoch; `null` if it has no date. */
  get startUnixS(): number | null {
    const start = this.data.recording.start_unix_s;
    return start !== null && start >= MIN_UNIX_S ? start : null;
  }

  get scope(): ScopeBlock | undefined {
    return this.data.scopes[this.scopeIndex];
  }

  /** Levels of the selected scope, the coarsest first. */
  get levels(): Slots[] {
    let levels = this.#levels.get(this.scopeIndex);
    if (!levels) {
      levels = this.scope ? openLevels(this.scope) : [];
      this.#levels.set(this.scopeIndex, levels);
    }
    return levels;
  }

  /** The level to draw: about one slot per pixel. */
  get level(): Slots | undefined {
    return pick(this.levels, this.range, this.plotWidth * 1.6);
  }

  /** The finest level that covers the visible range; peaks and sums are calculated from it. */
  get finest(): Slots | undefined {
    return pick(this.levels, this.range, Infinity);
  }

  /** The finest level of the whole recording. */
  get base(): Slots | undefined {
    return pick(this.levels, this.bounds, Infinity);
  }

  get whole(): boolean {
    return this.range.from <= this.bounds.from && this.range.to >= this.bounds.to;
  }

  get canGoBack(): boolean {
    return this.#past.length > 0;
  }

  /** Shortest useful range: ten of the finest slots. */
  get minSpan(): number {
    const finest = this.levels[this.levels.length - 1]?.step ?? 1e-3;
    return Math.min(this.bounds.to - this.bounds.from, finest * 10);
  }

  listen(f: () => void): void {
    this.#listeners.push(f);
  }

  changed(): void {
    for (const f of this.#listeners) f();
  }

  /** Shows `range`, and saves the previous range in the history unless this is one of many small steps. */
  look(range: Range, remember = true): void {
    if (remember && this.#past.at(-1) !== this.range) this.#past.push(this.range);
    if (this.#past.length > 100) this.#past.shift();
    this.range = clamp(range, this.bounds, this.minSpan);
    this.changed();
  }

  back(): void {
    const range = this.#past.pop();
    if (!range) return;
    this.range = range;
    this.changed();
  }

  reset(): void {
    this.finding = null;
    if (!this.whole) this.look(this.bounds);
    else this.changed();
  }

  chooseScope(index: number): void {
    if (index < 0 || index >= this.data.scopes.length) return;
    this.scopeIndex = index;
    this.changed();
  }

  /** The scope that matches a finding's device best. */
  chooseFinding(finding: FindingBlock, range: Range): void {
    this.finding = finding;
    const device = finding.device;
    const link = "link_devices" in finding.evidence ? finding.evidence.link_devices : undefined;
    if (link) {
      const behind = this.data.scopes.findIndex((s) => link.every((d) => s.device_names.includes(d)));
      if (behind >= 0) this.scopeIndex = behind;
    } else if (device) {
      const alone = this.data.scopes.findIndex((s) => s.device_names.length === 1 && s.device_names[0] === device);
      const among = this.data.scopes.findIndex((s) => s.device_names.includes(device));
      if (alone >= 0) this.scopeIndex = alone;
      else if (among >= 0 && !this.scope?.device_names.includes(device)) this.scopeIndex = among;
    }
    this.look(range);
  }
}
