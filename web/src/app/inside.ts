// Answers the application's questions from the data inside a report file, where there is no server.

import { fromLogCode, unpackColumn } from "../codec";
import * as format from "../format";
import type { PageData } from "../generated/page";
import { Problem, type Query, type Source } from "./api";
import { type Actor, type Amount, type Heat, type Ios, type Series, type Stories, type Story, type Wait, type Who, doneOf, processName } from "./data";
import { type Cells, cellsBetween, cellsOf, quantileOf, tierFor } from "./tiers";
import { type Class, type Subject, pluralOf } from "./view";

export type Block = NonNullable<PageData["inside"]>;

/** An answer for the whole time, and one per step. */
interface Stepped<T> {
  whole: T;
  steps: { from_unix_s: number; to_unix_s: number; answer: T }[];
}

/** A finding of the report, with wall-clock times. */
export interface Finding {
  kind: string;
  device: string | null;
  start_unix_s: number;
  end_unix_s: number;
  evidence: object;
}

interface ActorsAnswer {
  by: string;
  actors: Actor[];
  others: Actor | null;
  notes: string[];
}

interface WaitsAnswer {
  by: string;
  waits: Wait[];
  step_s?: number | null;
  intervals?: { start_unix_s: number; waits: Wait[] }[] | null;
  notes: string[];
}

const INSIDE = 404;
/** The page requests I/Os that complete up to a second after the view. */
const COMPLETES_WITHIN_S = 1;
/** Maximum number of unpacked heat map chunks kept. */
const MAX_CHUNKS = 400;

/** Unpacks data of the file: deflated and encoded as text. */
export async function inflate(text: string): Promise<Uint8Array> {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function unpack<T>(text: string | undefined): Promise<T | null> {
  if (text === undefined) return null;
  return JSON.parse(new TextDecoder().decode(await inflate(text))) as T;
}

/** Answers queries from the data inside the file. */
export class Inside implements Source {
  readonly #documents = new Map<string, Promise<unknown>>();
  readonly #chunks = new Map<string, Promise<Uint8Array>>();

  constructor(private readonly block: Block, private readonly findings: readonly Finding[] = []) {}

  async ask<T>(path: string, query: Query, signal: AbortSignal): Promise<T> {
    const answer = await this.#answer(path, query);
    signal.throwIfAborted();
    return answer as T;
  }

  async #answer(path: string, query: Query): Promise<unknown> {
    switch (path) {
      case "devices": return this.#document("devices");
      case "recordings": return { recordings: [{ from: iso(this.block.from_unix_s), to: iso(this.block.to_unix_s) }], notes: [] };
      case "stories": return this.#stories(query);
      case "findings": return this.#findings(query);
      case "waits": return this.#waits(query);
      case "actors": return this.#actors(query);
      case "heatmap": return this.#heat(query);
      case "series": return this.#series(query);
      case "ios": return this.#ios(query);
      default: throw new Problem("This file does not hold this.", INSIDE);
    }
  }

  /** A document of the file, unpacked once. */
  async #document<T>(name: string): Promise<T> {
    let known = this.#documents.get(name);
    if (!known) {
      known = unpack(this.block.documents[name]);
      this.#documents.set(name, known);
    }
    const document = (await known) as T | null;
    if (document === null) throw new Problem("This recording holds no single I/Os, which this would need.", INSIDE);
    return document;
  }

  async #stories(query: Query): Promise<Stories> {
    const { stories, not_proven: unknown, notes } = await this.#document<Stories>("stories");
    const [from, to] = range(query);
    const isIn = (s: Story) => s.start_unix_s < to && s.end_unix_s > from && (!query["device"] || s.device === query["device"]);
    const isOf = (who: Who | null) => isProcess(query["process"], who?.process, who?.pid) && isBelow(query["cgroup"], who?.cgroup);
    const hurt = (s: Story) => [s.victim, ...(s.also ?? [])];
    const isOfClass = (s: Story) => !query["class"] || hurt(s).some((v) => v?.class === query["class"]);
    const isMeant = (s: Story) => isIn(s) && isOfClass(s) && [...hurt(s), ...s.culprits].some(isOf);
    const more = query["file"] ? ["Of all files: this file does not hold which ones a story is about."] : [];
    // That nothing is proven is only known for the whole time.
    const isWhole = from <= this.block.from_unix_s && to >= this.block.to_unix_s;
    return { stories: stories.filter(isMeant), not_proven: (isWhole && unknown) || [], notes: [...notes, ...more] };
  }

  #findings(query: Query): { findings: Finding[]; notes: string[] } {
    const [from, to] = range(query);
    const meets = (f: Finding) => f.start_unix_s < to && f.end_unix_s > from && (!query["device"] || f.device === query["device"]);
    return { findings: this.findings.filter(meets), notes: [] };
  }

  /** The answer for the whole time, or those of the steps that overlap the time of `query`, with a note about their time. */
  #steps<T extends { notes: string[] }>(stepped: Stepped<T>, query: Query): { answers: T[]; notes: string[] } {
    const [from, to] = range(query);
    const { steps } = stepped;
    if (from <= this.block.from_unix_s && to >= this.block.to_unix_s) return { answers: [stepped.whole], notes: [] };
    if (steps.length === 0) return { answers: [stepped.whole], notes: ["Of the whole time: this file holds no shorter sums."] };
    const met = steps.filter((s) => s.from_unix_s < to && s.to_unix_s > from);
    const [first, last] = [met[0], met.at(-1)];
    if (!first || !last) return { answers: [], notes: [] };
    const length = first.to_unix_s - first.from_unix_s;
    const note = `Of ${format.clock(first.from_unix_s, 1)} to ${format.clock(last.to_unix_s, 1)} UTC: this file holds sums of ${format.span(length)}.`;
    return { answers: met.map((s) => s.answer), notes: [note] };
  }

  async #waits(query: Query): Promise<WaitsAnswer> {
    const by = String(query["by"] ?? "process");
    const whole = await this.#document<WaitsAnswer>(`waits/${by}`);
    const step = whole.step_s ?? 0;
    const steps = (whole.intervals ?? []).map((i) => ({
      from_unix_s: i.start_unix_s, to_unix_s: Math.min(this.block.to_unix_s, i.start_unix_s + step), answer: { by, waits: i.waits, notes: [] },
    }));
    const { answers, notes } = this.#steps<WaitsAnswer>({ whole, steps }, query);
    const waits = sumWaits(answers.map((a) => a.waits));
    const isOfDevice = (w: Wait) => !query["device"] || w.device === query["device"];
    const isOfClass = (w: Wait) => !query["class"] || w.victim.class === query["class"];
    const isMeant = (w: Wait) => isOfDevice(w) && isOfClass(w) && isOfSubject(query, by, w.victim);
    return { by, waits: waits.filter(isMeant), notes: [...notes, ...unfiltered(query, by)] };
  }

  async #actors(query: Query): Promise<ActorsAnswer> {
    const by = String(query["by"] ?? "process");
    const scopes = this.block.heat?.scopes ?? [];
    if (query["device"] && scopes.length > 1) throw new Problem("This file holds the actors of all devices together only: choose all devices to see them.", INSIDE);
    const { answers, notes } = this.#steps(await this.#document<Stepped<ActorsAnswer>>(`actors/${by}`), query);
    const { actors, others } = sumActors(answers);
    const kept = actors.filter((a) => isActor(query[by], by, a.name));
    const ofAllClasses = query["class"] ? ["Not filtered by class: this file holds sums of all classes."] : [];
    // It is not known whose the other I/Os are.
    return { by, actors: kept, others: query[by] ? null : others, notes: [...notes, ...unfiltered(query, by), ...ofAllClasses] };
  }

  /** Refuses a query for a process, control group or file, whose I/Os the file does not contain separately. */
  #refuseSubject(query: Query): void {
    const subject = (["process", "cgroup", "file"] as const).find((s) => query[s]);
    if (subject) throw new Problem(`This file does not hold the I/Os of one ${subject === "cgroup" ? "control group" : subject} by themselves. iolens serve shows them from the recording.`, INSIDE);
  }

  async #heat(query: Query): Promise<Heat> {
    this.#refuseSubject(query);
    const { heat } = this.block;
    const [from, to] = range(query);
    const none: Heat = { from_unix_s: from, column_s: Math.max(to - from, 1e-9), latency_us: [1, 2], counts: [[0]], notes: ["This recording holds no single I/Os."] };
    if (!heat) return none;
    const cls = query["class"];
    if (cls === "flush" || cls === "discard") throw new Problem(`This file holds no heat map of ${pluralOf(cls)}, only of reads and writes. iolens serve shows it from the recording.`, INSIDE);
    const wanted = (to - from) / Math.max(1, Number(query["width"] ?? 300));
    const cells = await this.#cells(query["device"] || null, cls === "write" ? "write" : "read", from, to, wanted);
    if (!cells) throw new Problem(`This file holds no heat map of ${String(query["device"])}: few I/Os completed there.`, INSIDE);
    // The last column extends beyond the recording.
    const recorded = cells.counts.map((_, i) => Math.max(0, Math.min(cells.column_s, this.block.to_unix_s - cells.from_unix_s - i * cells.column_s)));
    return { ...cells, recorded_s: recorded, notes: [] };
  }

  /** The latencies of a device, or of all, in columns of about `wanted` seconds; `null`: not in the file. */
  async #cells(device: Query[string] | null, cls: "read" | "write", from: number, to: number, wanted: number): Promise<Cells | null> {
    const { heat } = this.block;
    const scopes = heat?.scopes.filter((s) => (device ? s.device === device : s.is_in_sum)) ?? [];
    const first = scopes[0];
    if (!heat || !first) return null;
    const level = tierFor(first.tiers, wanted);
    const tier = first.tiers[level];
    if (!tier) return null;
    const begin = this.block.from_unix_s;
    const parts: { chunk: number; bytes: Uint8Array }[] = [];
    for (const scope of scopes) {
      const own = scope.tiers[level];
      if (!own) continue;
      const chunks = own[cls];
      const length = own.column_s * own.columns_of_chunk;
      const low = Math.max(0, Math.floor((from - begin) / length));
      const high = Math.min(chunks.length - 1, Math.floor((to - begin) / length));
      for (let i = low; i <= high; i++) {
        const text = chunks[i];
        if (text) parts.push({ chunk: i, bytes: await this.#chunk(`${scope.device ?? ""} ${scope.is_in_sum} ${cls} ${level} ${i}`, text) });
      }
    }
    return cellsOf(parts, tier, begin, from, to, Math.max(1, Math.floor(wanted / tier.column_s)), heat.latency_us);
  }

  #chunk(key: string, text: string): Promise<Uint8Array> {
    let chunk = this.#chunks.get(key);
    if (!chunk) {
      chunk = inflate(text);
      this.#chunks.set(key, chunk);
      // Drops the chunk that was unpacked first.
      const oldest = this.#chunks.keys().next().value;
      if (this.#chunks.size > MAX_CHUNKS && oldest !== undefined) this.#chunks.delete(oldest);
    }
    return chunk;
  }

  async #series(query: Query): Promise<Series> {
    this.#refuseSubject(query);
    const device = query["device"] || null;
    const scopes = this.block.rows;
    // If only one device had I/O, it represents all.
    const scope = scopes.find((s) => (s.device ?? null) === device) ?? (scopes.length === 1 ? scopes[0] : undefined);
    if (!scope) throw new Problem(device === null ? "This file holds no throughput." : `This file holds no throughput of ${String(device)}: few I/Os completed there.`, INSIDE);
    const key = `rows/${scope.device ?? ""}`;
    let known = this.#documents.get(key) as Promise<Rows | null> | undefined;
    if (!known) {
      known = unpack<PackedRows>(scope.data).then((packed) => packed && rowsOf(packed, scope.row_count));
      this.#documents.set(key, known);
    }
    const rows = await known;
    if (!rows) throw new Problem("This file holds no throughput.", INSIDE);
    const [from, to] = range(query);
    const step = stepOf(query["step"]);
    const heats: Partial<Record<Class, Cells>> = {};
    for (const cls of ["read", "write"] as const) {
      // Without a heat map of the device there are no quantiles.
      heats[cls] = (await this.#cells(device, cls, from, to, Math.max(step, scope.step_s))) ?? undefined;
    }
    return seriesOf(rows, scope, [from, to], step, query["class"], heats);
  }

  async #ios(query: Query): Promise<Ios> {
    const [from, asked] = range(query);
    const to = asked - from > COMPLETES_WITHIN_S ? asked - COMPLETES_WITHIN_S : asked;
    let best: { shared: number; index: number } | null = null;
    let nearest: { off: number; at: number } | null = null;
    this.block.moments.forEach((m, index) => {
      const shared = Math.min(to, m.to_unix_s) - Math.max(from, m.from_unix_s);
      if (shared > 0 && (!best || shared > best.shared)) best = { shared, index };
      const off = Math.max(m.from_unix_s - to, from - m.to_unix_s);
      if (!nearest || off < nearest.off) nearest = { off, at: (m.from_unix_s + m.to_unix_s) / 2 };
    });
    const found = best as { shared: number; index: number } | null;
    if (!found) {
      const near = nearest as { off: number; at: number } | null;
      const where = near ? ` The nearest is at ${format.clock(near.at, 0.001)} UTC.` : "";
      throw new Problem(`This file holds no single I/Os of this time, only those around the worst moments of stories.${where}`, INSIDE);
    }
    const ios = await this.#document<Ios>(`moment/${found.index}`);
    return chosen(ios, query, from, asked);
  }

  /** Adds the moments to the other documents. */
  static of(block: Block, findings: readonly Finding[]): Inside {
    const documents = { ...block.documents };
    block.moments.forEach((m, i) => (documents[`moment/${i}`] = m.data));
    return new Inside({ ...block, documents }, findings);
  }
}

const iso = (s: number): string => new Date(s * 1000).toISOString();

function range(query: Query): [number, number] {
  return [Number(query["from"] ?? 0), Number(query["to"] ?? Infinity)];
}

function stepOf(text: Query[string]): number {
  const parts = /^([\d.]+)(ms|s)$/.exec(String(text ?? ""));
  return parts ? Number(parts[1]) * (parts[2] === "ms" ? 1e-3 : 1) : 0;
}

/** Whether `wanted` is the number, the name or both of a process. */
function isProcess(wanted: Query[string], name: string | null | undefined, pid: number | null | undefined): boolean {
  return !wanted || [name, String(pid), processName(name ?? null, pid ?? null)].includes(String(wanted));
}

/** Whether a control group or file is `wanted` or below it. */
function isBelow(wanted: Query[string], name: string | null | undefined): boolean {
  return !wanted || name === wanted || (name ?? "").startsWith(`${String(wanted)}/`);
}

const SUBJECTS: Record<Subject, string> = { process: "processes", cgroup: "control groups", file: "files" };

/** The note about filters that an answer grouped `by` does not apply. */
function unfiltered(query: Query, by: string): string[] {
  const other = (Object.keys(SUBJECTS) as Subject[]).find((subject) => query[subject] && subject !== by);
  if (!other) return [];
  return [`Not filtered by ${other === "cgroup" ? "control group" : other}: this file holds sums of ${SUBJECTS[by as Subject]}.`];
}

/**
 * Whether a group of an answer grouped `by` matches the query. Threads of a process have their own names, so the
 * number counts.
 */
function isOfSubject(query: Query, by: string, who: Who): boolean {
  if (by === "cgroup") return isBelow(query["cgroup"], who.cgroup);
  if (by === "file") return isBelow(query["file"], who.file);
  const pid = /\[(\d+)\]$/.exec(String(query["process"] ?? ""))?.[1];
  return isProcess(pid ?? query["process"], who.process, who.pid);
}

/** Whether an actor matches the query. */
function isActor(wanted: Query[string], by: string, name: string | null): boolean {
  if (by !== "process") return isBelow(wanted, name);
  const parts = /^(.*)\[(\d+)\]$/.exec(name ?? "");
  return isProcess(wanted, parts?.[1] ?? name, parts ? Number(parts[2]) : null);
}

/** The I/Os selected by time, device, class and subject. */
function chosen(ios: Ios, query: Query, from: number, to: number): Ios {
  const c = ios.columns;
  const is = (i: number): boolean => {
    const done = doneOf(ios, i);
    if (done < from || done > to) return false;
    if (query["device"] && c.device[i] !== query["device"]) return false;
    if (query["class"] && c.class[i] !== query["class"]) return false;
    return isProcess(query["process"], c.process[i], c.pid[i]) && isBelow(query["cgroup"], c.cgroup[i]) && isBelow(query["file"], c.file[i]);
  };
  const kept = c.done_ns.map((_, i) => i).filter(is);
  const columns = Object.fromEntries(Object.entries(c).map(([name, column]) => [name, kept.map((i) => (column as unknown[])[i])]));
  return { ios: kept.length, since_unix_s: ios.since_unix_s, columns: columns as unknown as Ios["columns"], notes: [] };
}

interface PackedClass {
  bytes: string;
  ios: string;
  latency: string;
  longest: string;
  busy: string;
}

export interface PackedRows {
  classes: Record<Class, PackedClass>;
  busy: string;
  mean: string;
  max: string;
  lossy: string;
}

type ClassRows = Record<keyof PackedClass, Float64Array>;

interface Rows {
  classes: Record<Class, ClassRows>;
  busy: Float64Array;
  mean: Float64Array;
  max: Float64Array;
  lossy: Float64Array;
}

/** Unpacks rows (see docs/schema/page.json), converted to the units of a series. */
function rowsOf(packed: PackedRows, n: number): Rows {
  const scaled = (text: string, unit: number) => unpackColumn(text, n).map((code) => (Number.isNaN(code) ? NaN : fromLogCode(code) / unit));
  const percent = (text: string) => unpackColumn(text, n).map((thousandths) => thousandths / 10);
  const classOf = (c: PackedClass): ClassRows => ({
    bytes: scaled(c.bytes, 1024), ios: scaled(c.ios, 1000), latency: scaled(c.latency, 1000), longest: scaled(c.longest, 1000), busy: percent(c.busy),
  });
  const { read, write, discard, flush } = packed.classes;
  return {
    classes: { read: classOf(read), write: classOf(write), discard: classOf(discard), flush: classOf(flush) },
    busy: percent(packed.busy), mean: scaled(packed.mean, 1000), max: unpackColumn(packed.max, n), lossy: unpackColumn(packed.lossy, n),
  };
}

/** The mean of the known values. */
function mean(values: Float64Array): number | null {
  const known = values.filter((v) => !Number.isNaN(v));
  return known.length === 0 ? null : known.reduce((a, b) => a + b, 0) / known.length;
}

/** The maximum of the known values. */
function largest(values: Float64Array): number | null {
  const known = values.filter((v) => !Number.isNaN(v));
  return known.length === 0 ? null : known.reduce((a, b) => Math.max(a, b), 0);
}

const sumOf = (values: number[]): number => values.reduce((sum, v) => sum + (Number.isNaN(v) ? 0 : v), 0);

/** A row is lossy if more than this share of its I/Os is missing, as in the program. */
const MARKING_SHARE = 0.01;

/**
 * Whether several merged rows are lossy. The file says which rows are lossy, not how many I/Os they lack. A loss
 * marks all rows that it overlaps, and amounts to at least one I/O and to the share that marks a row. Rows that are
 * mostly lossy are not drawn.
 */
export function isLossy(lossy: ArrayLike<number>, ios: ArrayLike<number>): boolean {
  let [marked, missing, all] = [0, 0, 0];
  // I/Os of the current lossy stretch; `null` outside of one.
  let stretch: number | null = null;
  const leastOf = (seen: number | null) => (seen === null ? 0 : Math.max(1, MARKING_SHARE * seen));
  for (let i = 0; i < lossy.length; i++) {
    const seen = ios[i] ?? 0;
    all += seen;
    if ((lossy[i] ?? 0) > 0) {
      marked++;
      stretch = (stretch ?? 0) + seen;
      continue;
    }
    missing += leastOf(stretch);
    stretch = null;
  }
  missing += leastOf(stretch);
  return marked > lossy.length / 2 || missing > MARKING_SHARE * Math.max(1, all);
}

/** Mean latency of several rows, weighted by their number of I/Os. */
export function meanLatency(latency: Float64Array, ios: Float64Array): number | null {
  let time = 0;
  let count = 0;
  latency.forEach((us, i) => {
    const n = ios[i] ?? NaN;
    if (Number.isNaN(us) || Number.isNaN(n)) return;
    time += us * n;
    count += n;
  });
  return count > 0 ? time / count : null;
}

/**
 * Merges rows to about `step` seconds. Quantiles come from the class's heat map in `heats`, whose columns add up;
 * quantiles cannot be averaged.
 */
function seriesOf(rows: Rows, scope: Block["rows"][number], [from, to]: [number, number], step: number, asked: Query[string], heats: Partial<Record<Class, Cells>>): Series {
  const together = Math.max(1, Math.round(step / scope.step_s));
  const first = Math.max(0, Math.floor((from - scope.from_unix_s) / scope.step_s / together));
  const end = Math.min(Math.ceil(scope.row_count / together), Math.ceil((to - scope.from_unix_s) / scope.step_s / together));
  const columns: Record<string, (number | null)[]> = {};
  const put = (name: string, value: number | null) => (columns[name] ??= []).push(value);
  for (let g = first; g < end; g++) {
    const [a, b] = [g * together, Math.min(scope.row_count, (g + 1) * together)];
    const of = (column: Float64Array) => column.subarray(a, b);
    const [begin, done] = [scope.from_unix_s + a * scope.step_s, scope.from_unix_s + b * scope.step_s];
    put("time_unix_s", done);
    put("slot_s", done - begin);
    for (const cls of ["read", "write", "discard", "flush"] as const) {
      const c = rows.classes[cls];
      const letter = cls.charAt(0);
      const isAsked = !asked || asked === cls;
      put(`${letter}_per_s`, isAsked ? mean(of(c.ios)) : null);
      put(`${letter}_kib_per_s`, isAsked ? mean(of(c.bytes)) : null);
      put(`busy_${cls}_percent`, isAsked ? mean(of(c.busy)) : null);
      if (cls === "discard" || cls === "flush") continue;
      put(`${letter}_us`, isAsked ? meanLatency(of(c.latency), of(c.ios)) : null);
      put(`${letter}_max_us`, isAsked ? largest(of(c.longest)) : null);
      const heat = isAsked ? heats[cls] : undefined;
      const sums = heat && cellsBetween(heat, begin, done);
      for (const [name, q] of QUANTILES) put(`${letter}_${name}_us`, heat && sums ? quantileOf(sums, heat.latency_us, q) : null);
    }
    // The number in flight is not known for a single class.
    put("busy_percent", asked ? null : mean(of(rows.busy)));
    put("inflight_mean", asked ? null : mean(of(rows.mean)));
    put("inflight_max", asked ? null : largest(of(rows.max)));
    const ios = Array.from({ length: b - a }, (_, i) => scope.step_s * sumOf(AMOUNTS.map((cls) => rows.classes[cls].ios[a + i] ?? NaN)));
    put("lossy", Number(isLossy(of(rows.lossy), ios)));
  }
  return { step_s: together * scope.step_s, columns, notes: [] };
}

const QUANTILES: readonly [name: string, q: number][] = [["p50", 0.5], ["p90", 0.9], ["p99", 0.99]];

const AMOUNTS = ["read", "write", "discard", "flush"] as const;

function addAmount(a: Amount, b: Amount): Amount {
  const ios = a.ios + b.ios;
  const time = (x: Amount) => (x.mean_us ?? 0) * x.ios;
  return { ios, bytes: a.bytes + b.bytes, mean_us: ios > 0 ? (time(a) + time(b)) / ios : null };
}

function addActor(a: Actor, b: Actor): Actor {
  const sum: Actor = { ...a, io_time_s: a.io_time_s + b.io_time_s };
  for (const cls of AMOUNTS) sum[cls] = addAmount(a[cls], b[cls]);
  return sum;
}

/** Sums the actors of several steps, most I/O time first. */
export function sumActors(answers: { actors: Actor[]; others: Actor | null }[]): { actors: Actor[]; others: Actor | null } {
  const named = new Map<string | null, Actor>();
  let others: Actor | null = null;
  for (const answer of answers) {
    for (const actor of answer.actors) {
      const known = named.get(actor.name);
      named.set(actor.name, known ? addActor(known, actor) : actor);
    }
    if (answer.others) others = others ? addActor(others, answer.others) : answer.others;
  }
  const actors = [...named.values()].sort((a, b) => b.io_time_s - a.io_time_s);
  const all = actors.reduce((sum, a) => sum + a.io_time_s, others?.io_time_s ?? 0);
  const percent = (a: Actor): Actor => ({ ...a, io_time_percent: all > 0 ? (100 * a.io_time_s) / all : null });
  return { actors: actors.map(percent), others: others && percent(others) };
}

const WAIT_PARTS = ["ios", "io_time_s", "undisturbed_s", "own_s", "held_s", "device_s", "unknown_s"] as const;

/** Sums the waits of several steps by victim. */
export function sumWaits(answers: Wait[][]): Wait[] {
  const identity = (who: object) => JSON.stringify(who, ["process", "pid", "cgroup", "file", "class", "origin"]);
  const victims = new Map<string, Wait>();
  for (const wait of answers.flat()) {
    const key = `${wait.device} ${identity(wait.victim)}`;
    const known = victims.get(key);
    if (!known) {
      victims.set(key, { ...wait, behind: wait.behind.map((b) => ({ ...b })) });
      continue;
    }
    for (const part of WAIT_PARTS) known[part] += wait[part];
    for (const b of wait.behind) {
      const same = known.behind.find((k) => identity(k) === identity(b));
      if (same) {
        same.seconds += b.seconds;
        same.ios += b.ios;
      } else known.behind.push({ ...b });
    }
  }
  const all = [...victims.values()];
  for (const wait of all) wait.behind.sort((a, b) => b.seconds - a.seconds);
  return all;
}
