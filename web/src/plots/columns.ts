// The list of charts of imported logs, with iostat's columns (r/s, rkB/s, r_await, aqu-sz, %util) and CPU shares.

import * as format from "../format";
import { theme } from "../theme";
import type { Rows } from "./rows";

/** A class of I/O, or all classes. */
type Letter = "r" | "w" | "d" | "f" | "all";

/** A column as iostat prints it. */
export interface ColumnSpec {
  /** Its heading. */
  label: string;
  /** Values and, where several rows are merged, the maximum of each. */
  of(rows: Rows): Float64Array | null;
  peaks(rows: Rows): Float64Array | null;
  color(): string;
  fill?(): string;
  /** Hidden together with this class. */
  cls?: "read" | "write";
  /** Whether the values of several devices may be summed. */
  adds: boolean;
  /** Hidden until switched on. */
  quiet?: boolean;
}

/** Columns of one quantity, drawn in one chart of a device. */
export interface Quantity {
  id: string;
  title: string;
  definition: string;
  log?: boolean;
  axis(v: number): string;
  full(v: number): string;
  columns: ColumnSpec[];
}

const LOOKS: Record<Letter, Pick<ColumnSpec, "color" | "fill" | "cls">> = {
  r: { color: () => theme().read, fill: () => theme().readFill, cls: "read" },
  w: { color: () => theme().write, fill: () => theme().writeFill, cls: "write" },
  d: { color: () => theme().muted },
  f: { color: () => theme().mark },
  all: { color: () => theme().busy },
};

function plain(label: string, letter: Letter, name: string, adds: boolean): ColumnSpec {
  return { label, ...LOOKS[letter], adds, of: (rows) => rows.column(name), peaks: (rows) => rows.peaks(name) };
}

/** Mean size of a request, from rate and bytes. */
function size(label: string, letter: Letter): ColumnSpec {
  const of = (rows: Rows) => rows.combined([`${letter}_ios`, `${letter}_bytes`], (ios, bytes) => (ios > 0 ? bytes / ios : NaN));
  return { label, ...LOOKS[letter], adds: false, of, peaks: () => null };
}

/** Share of requests that were merged before they were sent. */
function mergedShare(label: string, letter: Letter): ColumnSpec {
  const share = (ios: number, merges: number) => (ios + merges > 0 ? (100 * merges) / (ios + merges) : 0);
  const of = (rows: Rows) => rows.combined([`${letter}_ios`, `${letter}_merges`], share);
  return { label, ...LOOKS[letter], adds: false, of, peaks: () => null };
}

const perSecond = (v: number) => `${format.number(v)}/s`;
const percent = (v: number) => `${format.number(v)} %`;

/** All columns that iostat, sar and similar tools print of a device. */
export const QUANTITIES: Quantity[] = [
  {
    id: "iops", title: "I/Os per second", definition: "iops", axis: format.short, full: perSecond,
    columns: [plain("r/s", "r", "r_ios", true), plain("w/s", "w", "w_ios", true), plain("d/s", "d", "d_ios", true), plain("f/s", "f", "f_ios", true), plain("tps", "all", "all_ios", true)],
  },
  {
    id: "throughput", title: "Throughput", definition: "throughput", axis: format.byteRate, full: format.byteRate,
    columns: [plain("rkB/s", "r", "r_bytes", true), plain("wkB/s", "w", "w_bytes", true), plain("dkB/s", "d", "d_bytes", true), plain("kB/s", "all", "all_bytes", true)],
  },
  {
    id: "await", title: "Latency", definition: "latency", log: true, axis: format.micros, full: format.micros,
    columns: [plain("r_await", "r", "r_us", false), plain("w_await", "w", "w_us", false), plain("d_await", "d", "d_us", false), plain("f_await", "f", "f_us", false), plain("await", "all", "all_us", false), { ...plain("svctm", "all", "service_us", false), quiet: true }],
  },
  {
    id: "queue", title: "Queue length", definition: "inflight", axis: format.short, full: format.number,
    columns: [{ ...plain("aqu-sz", "all", "in_flight", true), color: () => theme().inflight, fill: () => theme().inflightFill }],
  },
  {
    id: "util", title: "Utilisation", definition: "util", axis: percent, full: format.percent,
    columns: [{ ...plain("%util", "all", "util", false), fill: () => theme().busyFill }],
  },
  {
    id: "size", title: "Request size", definition: "requestSize", axis: format.binaryBytes, full: format.binaryBytes,
    columns: [size("rareq-sz", "r"), size("wareq-sz", "w"), size("dareq-sz", "d"), size("areq-sz", "all")],
  },
  {
    id: "merges", title: "Merges per second", definition: "merges", axis: format.short, full: perSecond,
    columns: [plain("rrqm/s", "r", "r_merges", true), plain("wrqm/s", "w", "w_merges", true), plain("drqm/s", "d", "d_merges", true), plain("rqm/s", "all", "all_merges", true)],
  },
  {
    id: "merged", title: "Merged share", definition: "mergedShare", axis: percent, full: format.percent,
    columns: [mergedShare("%rrqm", "r"), mergedShare("%wrqm", "w"), mergedShare("%drqm", "d")],
  },
];

function share(label: string, name: string, color: () => string, quiet = false): ColumnSpec {
  return { label, color, adds: false, quiet, of: (rows) => rows.column(name), peaks: () => null };
}

/** CPU shares. */
export const CPU: Quantity = {
  id: "cpu", title: "CPU", definition: "cpuShares", axis: percent, full: format.percent,
  columns: [
    share("%user", "user", () => theme().read),
    share("%system", "system", () => theme().write),
    share("%iowait", "iowait", () => theme().lossy),
    share("%steal", "steal", () => theme().mark),
    share("%nice", "nice", () => theme().muted),
    share("%idle", "idle", () => theme().busy, true),
  ],
};

/** Whether a log has any data in this column: discards that never happened need no chart. */
export function isSaid(spec: ColumnSpec, rows: Rows, evenZeros: boolean): boolean {
  const column = spec.of(rows);
  return column !== null && column.some((v) => (evenZeros ? !Number.isNaN(v) : v > 0));
}
