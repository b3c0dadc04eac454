// The section "File-level requests" of the report: charts, slowest requests and syncs, and tables.

import { timeLabel } from "../charts/base";
import { ticks } from "../charts/svg";
import { fill, h, onFrame, term } from "../dom";
import * as format from "../format";
import { segmented } from "../sections/distributions";
import { Table } from "../sections/table";
import type { Store } from "../store";
import { card, chart, type ChartSpec, type Line, type Series } from "./charts";
import type { ClassReport, FilesBlock } from "../generated/page";
import { costs } from "./costs";
import { CALL_COLUMNS, GROUP_COLUMNS, SYNC_COLUMNS, callRows, syncText } from "./tables";
import { slowList } from "./waterfall";

const NAMES: Record<string, string> = { in: "in (reads)", out: "out (writes)", mixed: "mixed", none: "without data", sync: "syncs", all: "all" };

/** Seconds between the ticks of a time axis. */
const ROUND_S = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400];

/** The Files part; `null` if the recording has no file-level requests. */
export function filesPart(data: FilesBlock | undefined, store: Store): HTMLElement | null {
  return data ? new FilesPart(data, store).root : null;
}

class FilesPart {
  readonly root: HTMLElement;
  readonly #charts = h("div", { class: "grid" });
  readonly #slow = h("div", { class: "slow-part" });
  #set = "all";
  #util: "slots" | "exact" = "slots";
  #sizeClass: string;
  #loadClass: string;
  #scale: "own" | "common" = "own";
  #width = 0;

  constructor(readonly data: FilesBlock, readonly store: Store) {
    this.#sizeClass = data.classes.find((c) => c.by_size.length > 0)?.class ?? "in";
    this.#loadClass = data.classes.find((c) => c.by_load)?.class ?? "in";
    this.root = h(
      "section",
      { id: "files" },
      h("h2", {}, term("File-level requests", "files")),
      ...this.#remarks(),
      this.#charts,
      data.classes.length > 0 ? costs(data) : null,
      this.#slow,
      ...this.#tables(),
    );
    const draw = onFrame(() => this.#draw());
    new ResizeObserver(draw).observe(this.root);
    let clock = store.clock;
    store.listen(() => {
      if (clock !== store.clock) this.#draw(true);
      clock = store.clock;
    });
  }

  #remarks(): HTMLElement[] {
    const d = this.data;
    const n = (k: string) => d.requests_by_flag[k] ?? 0;
    const some = (k: number, text: string) => (k > 0 ? `${format.count(k)} ${text}` : "");
    const head = [`${format.count(d.requests)} requests, ${format.count(d.syncs)} syncs`, some(d.lost_requests, "lost")];
    const odd = [
      some(d.unknown_start, "were open before recording began (in sums, not in response times)"),
      some(n("mmap"), "were mapped, and what page faults moved is not counted"),
      some(n("aio"), "were used with io_submit, whose I/Os are not counted"),
      some(n("io_uring"), "went through io_uring (left out of medians)"),
      some(n("still-open"), "were still open at the end"),
      d.one_in > 1 ? `medians are of one request in ${d.one_in}` : "",
    ];
    const peak = d.peak_window
      ? `Peak load: ${format.number(d.peak_window.per_s)} requests/s from ${this.#time(d.peak_window.start_s)} for ${format.span(d.peak_window.duration_s)}, ${format.number(d.peak_window.peak_to_mean)} times the mean.`
      : "";
    const text = [`${head.filter(Boolean).join(", ")}.`, odd.filter(Boolean).map((t) => `${t}.`).join(" "), peak];
    return text.filter(Boolean).map((t) => h("p", { class: "note", text: t }));
  }

  #time(s: number): string {
    return timeLabel(this.store, s, Math.min(this.data.over_time.step_s, 1));
  }

  #draw(force = false): void {
    const all = this.#charts.clientWidth;
    if (all === 0) return;
    const columns = getComputedStyle(this.#charts).gridTemplateColumns.split(" ").length;
    const width = Math.max(240, Math.floor((all - 20 * (columns - 1)) / columns) - 34);
    if (width === this.#width && !force) return;
    this.#width = width;
    fill(this.#charts, this.#rates(), this.#response(), this.#concurrent(), this.#utilisation(), this.#bySize(), this.#byLoad(), this.#atomic());
    this.#drawSlow(all);
  }

  #drawSlow(width: number): void {
    const { slowest, slowest_syncs: syncs } = this.data;
    const pick = segmented("Scale of the bars", [["own", "Each to its own scale"], ["common", "One scale"]], this.#scale, (v) => {
      this.#scale = v;
      this.#drawSlow(width);
    });
    const at = (t: number) => timeLabel(this.store, t, 0.001);
    const list = slowest.length > 0 ? slowList(slowest, width - 34, at, this.#scale === "common") : null;
    const waits = syncs.length > 0 ? slowList(syncs, width - 34, at, true) : null;
    fill(this.#slow, list ? card("files-slow", "Slowest requests", "fileSlow", pick, list) : null, waits ? card("files-slow-syncs", "Slowest syncs", "fileSync", null, waits) : null);
  }

  #overTime(id: string, title: string, definition: string, lines: Line[], more: Partial<ChartSpec> & Pick<ChartSpec, "axis" | "full">): ChartSpec {
    const { start_s: from, end_s: to, step_s: step } = this.data.over_time;
    const n = Math.max(0, ...lines.map((l) => l.values.length));
    const length = Math.max(to - from, 1e-9);
    const xs = Array.from({ length: n + 1 }, (_, i) => Math.min(1, (i * step) / length));
    const apart = (length / Math.max(2, Math.floor(this.#width / 110))) * 0.999;
    const every = ROUND_S.find((s) => s >= apart) ?? apart;
    const xTicks: [number, string][] = [];
    for (let t = Math.ceil(from / every - 1e-9) * every; t < from + length; t += every) xTicks.push([(t - from) / length, timeLabel(this.store, t, every)]);
    const at = (i: number) => `${this.#time(from + i * step)} – ${this.#time(Math.min(to, from + (i + 1) * step))}`;
    return { id, title, definition, xs, steps: true, xTicks, at, lines, ...more };
  }

  #lines(pick: (c: FilesBlock["over_time"]["classes"][number]) => Series, about: (c: string) => string, only: (c: string) => boolean): Line[] {
    const classes = this.data.over_time.classes.filter((c) => only(c.class));
    return classes.map((c) => ({ label: NAMES[c.class] ?? c.class, cls: `c-${c.class}`, values: pick(c), about: about(c.class) }));
  }

  #of(name: string): ClassReport | undefined {
    return this.data.classes.find((c) => c.class === name);
  }

  #rates(): HTMLElement {
    const total = (c: string) => this.data.over_time.classes.find((x) => x.class === c)?.n.reduce((a, b) => a + b, 0) ?? 0;
    const lines = this.#lines((c) => c.per_s, (c) => `n = ${format.count(total(c))}`, () => true);
    return chart(this.#overTime("files-rates", "Requests per second", "fileRates", lines, { axis: format.short, full: (v) => `${format.number(v)}/s` }), this.#width);
  }

  #response(): HTMLElement {
    const about = (c: string) => {
      const t = this.#of(c)?.all;
      return t ? `median ${format.micros(t.total_p50_us)} · p95 ${format.micros(t.total_p95_us)}` : "";
    };
    const lines = this.#lines((c) => c.p50_us, about, (c) => c !== "none");
    return chart(this.#overTime("files-response", "Median response time", "fileResponse", lines, { log: true, axis: format.micros, full: format.micros }), this.#width);
  }

  #concurrent(): HTMLElement {
    const sets = this.data.over_time.under_way ?? [];
    const options = sets.map((u): [string, string] => [u.set, NAMES[u.set] ?? u.set]);
    const pick = segmented("Requests", options, this.#set, (v) => {
      this.#set = v;
      this.#draw(true);
    });
    const u = sets.find((x) => x.set === this.#set);
    const cls = this.#set === "all" ? "c-all" : `c-${this.#set}`;
    const lines: Line[] = u
      ? [
          { label: "p75", cls: `${cls} upper`, values: u.p75, thin: true },
          { label: "p50", cls, values: u.p50 },
        ]
      : [];
    return chart(this.#overTime("files-concurrent", "Concurrent requests, 2 ms slots", "fileConcurrent", lines, { axis: format.short, full: format.number }), this.#width, pick);
  }

  #utilisation(): HTMLElement {
    const pick = segmented("Measured", [["slots", "2 ms slots"], ["exact", "Exact"]], this.#util, (v) => {
      this.#util = v;
      this.#draw(true);
    });
    const exact = this.#util === "exact";
    const lines = (this.data.over_time.under_way ?? []).map((u): Line => ({
      label: NAMES[u.set] ?? u.set,
      cls: `c-${u.set}`,
      values: exact ? u.under_way_percent : u.touched_percent,
      about: `${format.percent(exact ? u.whole_under_way_percent : u.whole_touched_percent)} of the whole`,
      thin: u.set !== "all",
    }));
    const axis = (v: number) => `${format.number(v)} %`;
    return chart(this.#overTime("files-util", "Utilisation by requests", "fileUtil", lines, { top: 100, axis, full: format.percent }), this.#width, pick);
  }

  #classPick(label: string, has: (c: ClassReport) => boolean, chosen: string, choose: (c: string) => void): HTMLElement | null {
    const options = this.data.classes.filter(has).map((c): [string, string] => [c.class, NAMES[c.class] ?? c.class]);
    return options.length > 1 ? segmented(label, options, chosen, choose) : null;
  }

  #bySize(): HTMLElement {
    const pick = this.#classPick("Class", (c) => c.by_size.length > 0, this.#sizeClass, (v) => {
      this.#sizeClass = v;
      this.#draw(true);
    });
    const c = this.#of(this.#sizeClass);
    const bins = c?.by_size ?? [];
    const least = Math.max(512, bins[0]?.over_bytes ?? 512);
    const most = Math.max(bins.at(-1)?.to_bytes ?? 1024, least * 2);
    const place = (b: number) => Math.max(0, Math.log(b / least) / Math.log(most / least));
    // A bin that was omitted because it is empty is a gap.
    const xs: number[] = [];
    const rows: (typeof bins[number] | null)[] = [];
    for (const b of bins) {
      if (xs.length > 0 && (xs.at(-1) ?? 0) < place(b.over_bytes) - 1e-9) rows.push(null);
      if (xs.length === 0 || (xs.at(-1) ?? 0) < place(b.over_bytes) - 1e-9) xs.push(place(b.over_bytes));
      rows.push(b);
      xs.push(place(b.to_bytes));
    }
    const col = (f: (b: typeof bins[number]) => number): Series => rows.map((b) => (b ? f(b) : null));
    const spread = bins.map((b) => b.total_p50_us);
    const log = spread.length > 0 && Math.max(...spread) > 30 * Math.max(Math.min(...spread), 0.1);
    const every = Math.ceil(Math.log2(most / least) / Math.max(3, this.#width / 75));
    const edges: [number, string][] = [];
    for (let b = 1024, k = 0; b <= most; b *= 2, k++) if (b >= least && k % every === 0) edges.push([place(b), format.binaryBytes(b)]);
    const lines: Line[] = [
      { label: "total", cls: "c-total", values: col((b) => b.total_p50_us), band: [col((b) => b.total_low_us), col((b) => b.total_high_us)], about: `n = ${format.count(bins.reduce((n, b) => n + b.n, 0))}` },
      { label: "first delay", cls: "c-first", values: col((b) => b.first_p50_us), thin: true },
    ];
    const at = (i: number) => {
      const b = rows[i];
      return b ? `over ${format.binaryBytes(b.over_bytes)} up to ${format.binaryBytes(b.to_bytes)}, n = ${format.count(b.n)}${b.low_n ? " (few)" : ""}` : "none of these sizes";
    };
    const t = c?.steps;
    const text = t
      ? `Grows in steps of ${format.binaryBytes(t.block_bytes)}: ${format.micros(t.io_us)} each${t.overhead_us < 0 ? "; the first I/O costs less than those after it" : `, ${format.micros(t.overhead_us)} once`}.`
      : "No steps found: a straight line explains the medians as well, or there are too few sizes.";
    const spec: ChartSpec = { id: "files-size", title: "Response time by size", definition: "fileSize", xs, steps: true, xTicks: edges, at, log, axis: format.micros, full: format.micros, lines };
    return chart(spec, this.#width, pick, h("p", { class: "note", text }));
  }

  #byLoad(): HTMLElement {
    const pick = this.#classPick("Class", (c) => c.by_load !== null, this.#loadClass, (v) => {
      this.#loadClass = v;
      this.#draw(true);
    });
    const load = this.#of(this.#loadClass)?.by_load;
    const deciles = load?.deciles ?? [];
    const most = Math.max(...deciles.map((d) => d.per_s), 1e-9) * 1.05;
    const xs = deciles.map((d) => d.per_s / most);
    const xTicks = ticks(most, 4).map((v): [number, string] => [v / most, format.short(v)]);
    const lines: Line[] = [{ label: "second I/O", cls: `c-${this.#loadClass}`, values: deciles.map((d) => d.p50_us), about: load ? `n = ${format.count(load.n)}` : "" }];
    const at = (i: number) => `${format.number(deciles[i]?.per_s)} requests/s, n = ${format.count(deciles[i]?.n)}`;
    const spec: ChartSpec = { id: "files-load", title: "I/O duration by load", definition: "fileLoad", xs, steps: false, xTicks, xTitle: "requests per second", at, axis: format.micros, full: format.micros, lines };
    return chart(spec, this.#width, pick, h("p", { class: "note", text: slopeText(load) }));
  }

  #atomic(): HTMLElement {
    const about = (c: string) => {
      const a = this.#of(c)?.all.atomic;
      return a ? `${format.percent(a.atomic_percent)} [${format.number(a.low_percent)}, ${format.number(a.high_percent)}] of ${format.count(a.n)}` : "";
    };
    const lines = this.#lines((c) => c.atomic_percent, about, (c) => c !== "none" && c !== "sync");
    const bounds = this.data.classes.flatMap((c) => {
      const p = c.all.atomic?.pipelining_bound_percent;
      return p === null || p === undefined ? [] : [`${format.percent(p)} (${c.class})`];
    });
    const text = bounds.length > 0 ? `Pipelining could hide at most ${bounds.join(", ")} of the response time.` : "";
    const axis = (v: number) => `${format.number(v)} %`;
    return chart(this.#overTime("files-atomic", "Atomic requests", "fileAtomic", lines, { top: 100, axis, full: format.percent }), this.#width, null, h("p", { class: "note", text }));
  }

  #tables(): (HTMLElement | null)[] {
    const d = this.data;
    const gap = (name: string, rows: FilesBlock["files"]) => (rows.length > 0 ? new Table(name, GROUP_COLUMNS, rows, 5, "None.").root : null);
    const sync = (name: string, rows: FilesBlock["syncs_by_path"]) => (rows.length > 0 ? new Table(name, SYNC_COLUMNS, rows, 6, "None.").root : null);
    const text = syncText(d);
    return [
      gap("File-level requests by process", d.groups),
      gap("The most expensive files", d.files),
      d.calls.length > 0 ? new Table("Latency per call, by file", CALL_COLUMNS, callRows(d.calls), 6, "None.").root : null,
      sync("Syncs by process", d.syncs_by_process),
      sync("Syncs by file", d.syncs_by_path),
      text ? h("p", { class: "note", text }) : null,
    ];
  }
}

function slopeText(load: ClassReport["by_load"] | undefined): string {
  if (!load) return "Too few requests of two blocks.";
  if (load.slope === null || load.slope_low === null || load.slope_high === null) return "The load did not vary.";
  const f = (v: number) => `${v < 0 ? "−" : "+"}${format.number(Math.abs(v) * 1000)}`;
  const clear = load.slope_low > 0 || load.slope_high < 0;
  return `${f(load.slope)} us per 1000 requests/s [${f(load.slope_low)}, ${f(load.slope_high)}]${clear ? "" : ": no clear dependence"}; Spearman's ρ ${format.number(load.spearman).replace("-", "−")}.`;
}

