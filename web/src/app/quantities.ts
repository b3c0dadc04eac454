// The quantities of the chart below the heat map: throughput, I/Os per second, latencies, busy time.

import * as format from "../format";
import { type Class, pluralOf } from "./view";

/** The quantities that the chart below the heat map can show. */
export type Quantity = "throughput" | "iops" | "mean" | "p50" | "p90" | "p99" | "longest" | "busy" | "busyClass";

/** One line of the chart. */
export interface Line {
  /** `all`: all classes together. */
  cls: Class | "all";
  /** Name of the column in a series and in the slots of `live`. */
  column: string;
  /** Drawn only if it is above zero somewhere: most devices have no discards and flushes. */
  rare: boolean;
}

interface Definition {
  title: string;
  lines: Line[];
  /** Factor from the column's unit to that of `text`. */
  factor: number;
  text(value: number | null | undefined): string;
  /** How values of two devices combine: rates add up; busy times and latencies are only known if one device is idle. */
  together: "sum" | "unknown";
}

const rate = (n: number | null | undefined) => (typeof n === "number" ? `${format.number(n)}/s` : format.ABSENT);
const line = (cls: Line["cls"], column: string, rare = false): Line => ({ cls, column, rare });
const ofReadsAndWrites = (column: string): Line[] => [line("read", `r_${column}`), line("write", `w_${column}`)];
const latency = (title: string, column: string): Definition => ({ title, lines: ofReadsAndWrites(column), factor: 1, text: format.micros, together: "unknown" });

export const QUANTITIES: Record<Quantity, Definition> = {
  throughput: { title: "Throughput", lines: [...ofReadsAndWrites("kib_per_s"), line("discard", "d_kib_per_s", true)], factor: 1024, text: format.byteRate, together: "sum" },
  iops: { title: "I/Os per second", lines: [...ofReadsAndWrites("per_s"), line("discard", "d_per_s", true), line("flush", "f_per_s", true)], factor: 1, text: rate, together: "sum" },
  mean: latency("Mean latency", "us"),
  p50: latency("p50 of latency", "p50_us"),
  p90: latency("p90 of latency", "p90_us"),
  p99: latency("p99 of latency", "p99_us"),
  longest: latency("Longest latency", "max_us"),
  busy: { title: "Busy time", lines: [line("all", "busy_percent")], factor: 1, text: format.percent, together: "unknown" },
  busyClass: {
    title: "Busy by class",
    lines: [line("read", "busy_read_percent"), line("write", "busy_write_percent"), line("discard", "busy_discard_percent", true), line("flush", "busy_flush_percent", true)],
    factor: 1, text: format.percent, together: "unknown",
  },
};

export const ALL_QUANTITIES = Object.keys(QUANTITIES) as Quantity[];

/** Values by column, in the column's unit. */
export type Values = Record<string, number | null>;

/** The drawable values of a row. `of` returns its columns. */
export function valuesOf(of: (column: string) => number | null | undefined): Values {
  const values: Values = {};
  for (const q of ALL_QUANTITIES) for (const { column } of QUANTITIES[q].lines) values[column] = of(column) ?? null;
  return values;
}

/** The value of a line in the unit of its quantity's `text`. */
export function valueOf(values: Values, quantity: Quantity, { column }: Line): number | null {
  const value = values[column] ?? null;
  return value === null ? null : value * QUANTITIES[quantity].factor;
}

/** The lines of a quantity for which `rows` have data. With a filter by class, only this class has a line, even if it is idle. */
export function linesOf(quantity: Quantity, rows: readonly Values[], only: Class | null = null): Line[] {
  const isKnown = ({ column }: Line) => rows.some((values) => typeof values[column] === "number");
  const isAbove = ({ column }: Line) => rows.some((values) => (values[column] ?? 0) > 0);
  const isWanted = ({ cls }: Line) => only === null || cls === only || cls === "all";
  return QUANTITIES[quantity].lines.filter((line) => isWanted(line) && (line.rare && only === null ? isAbove(line) : isKnown(line)));
}

/** What is drawn for `quantity` with a filter by class. Flushes carry no bytes, so their rate is shown. */
export function drawnOf(quantity: Quantity, only: Class | null): { quantity: Quantity; title: string } {
  if (quantity !== "throughput" || only !== "flush") return { quantity, title: QUANTITIES[quantity].title };
  return { quantity: "iops", title: `${QUANTITIES.iops.title} (flushes carry no bytes)` };
}

/** Why a quantity has no line, as text. */
export function missingOf(quantity: Quantity, only: Class | null): string {
  const { title, lines } = QUANTITIES[quantity];
  const isOfOthers = only !== null && !lines.some(({ cls }) => cls === only || cls === "all");
  return isOfOthers ? `${title} is known of reads and writes only, not of ${pluralOf(only)}.` : `${title} is not known of what is on screen.`;
}

/** Combines the values of two devices. */
export function together(a: Values, b: Values): Values {
  const both: Values = {};
  for (const q of ALL_QUANTITIES) {
    for (const { column } of QUANTITIES[q].lines) {
      const [x, y] = [a[column] ?? null, b[column] ?? null];
      if (x === null || y === null) both[column] = x ?? y;
      else if (QUANTITIES[q].together === "sum") both[column] = x + y;
      else both[column] = x === 0 ? y : y === 0 ? x : null;
    }
  }
  return both;
}

/** The values of a row as text, by quantity; rare classes only if they are not zero. */
export function described(values: Values, only: Class | null = null): [title: string, text: string][] {
  const out: [string, string][] = [];
  for (const q of ALL_QUANTITIES) {
    const { title, text } = QUANTITIES[q];
    const parts = linesOf(q, [values], only).map((l) => `${l.cls === "all" ? "" : `${l.cls} `}${text(valueOf(values, q, l))}`);
    if (parts.length > 0) out.push([title, parts.join(", ")]);
  }
  return out;
}
