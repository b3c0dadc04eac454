import * as format from "../format";

/** What the chart below the heat map can show of reads and writes. */
export type Quantity = "throughput" | "iops" | "mean" | "p99" | "longest" | "busy";

interface Definition {
  title: string;
  /** Columns of a series, and of the slots of `live`. */
  read: string;
  /** `null`: it is of reads and writes together. */
  write: string | null;
  /** From the column's unit to that of `text`. */
  factor: number;
  text(value: number | null | undefined): string;
  /** Devices add up. */
  adds: boolean;
}

const rate = (n: number | null | undefined) => (typeof n === "number" ? `${format.number(n)}/s` : format.ABSENT);

export const QUANTITIES: Record<Quantity, Definition> = {
  throughput: { title: "Throughput", read: "r_kib_per_s", write: "w_kib_per_s", factor: 1024, text: format.byteRate, adds: true },
  iops: { title: "I/Os per second", read: "r_per_s", write: "w_per_s", factor: 1, text: rate, adds: true },
  mean: { title: "Mean latency", read: "r_us", write: "w_us", factor: 1, text: format.micros, adds: false },
  p99: { title: "p99 of latency", read: "r_p99_us", write: "w_p99_us", factor: 1, text: format.micros, adds: false },
  longest: { title: "Longest latency", read: "r_max_us", write: "w_max_us", factor: 1, text: format.micros, adds: false },
  busy: { title: "Busy time", read: "busy_percent", write: null, factor: 1, text: format.percent, adds: false },
};

export const ALL_QUANTITIES = Object.keys(QUANTITIES) as Quantity[];

/** Of reads and of writes. */
type Pair = [read: number | null, write: number | null];
export type Values = Record<Quantity, Pair>;

/** All quantities of a row, whose columns `of` gives. */
export function valuesOf(of: (column: string) => number | null | undefined): Values {
  const pair = ({ read, write, factor }: Definition): Pair => [read, write].map((column) => {
    const value = column === null ? null : of(column);
    return typeof value === "number" ? value * factor : null;
  }) as Pair;
  return Object.fromEntries(ALL_QUANTITIES.map((q) => [q, pair(QUANTITIES[q])])) as Values;
}

/** Of two devices together. A latency or a busy time of both is in neither. */
export function together(a: Values, b: Values): Values {
  const both = (q: Quantity, i: 0 | 1): number | null => {
    const [x, y] = [a[q][i], b[q][i]];
    if (x === null || y === null) return x ?? y;
    return QUANTITIES[q].adds ? x + y : null;
  };
  return Object.fromEntries(ALL_QUANTITIES.map((q) => [q, [both(q, 0), both(q, 1)]])) as Values;
}
