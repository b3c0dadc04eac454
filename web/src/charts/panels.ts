// The list of the report's charts over time and their lines: IOPS, throughput, latency, busy time, I/Os in flight.

import * as format from "../format";
import type { ColumnName, Slots } from "../levels";
import { theme } from "../theme";

/** One line of a chart. */
export interface SeriesSpec {
  label: string;
  column: ColumnName;
  /** Converts the column's unit to the chart's, for a slot of this length in seconds. */
  value(raw: number, seconds: number): number;
  style: "area" | "line" | "thin" | "dots";
  color(): string;
  fill?(): string;
  /** Hidden together with this class. */
  cls?: "read" | "write";
  /** Column with the number of I/Os behind a value. */
  count?: ColumnName;
  /** Hidden until switched on, unless the recording lacks `insteadOf`. */
  quiet?: boolean;
  insteadOf?: ColumnName;
}

/** One chart over time. */
export interface PanelSpec {
  id: string;
  title: string;
  definition: string;
  height: number;
  log?: boolean;
  /** Fixed maximum of the y axis. */
  top?: number;
  axis(v: number): string;
  full(v: number): string;
  series: SeriesSpec[];
}

const perSecond = (raw: number, seconds: number) => raw / seconds;
const sectorRate = (raw: number, seconds: number) => (raw * 512) / seconds;
const nanosToMicros = (raw: number) => raw / 1e3;
const thousandths = (raw: number) => raw / 1e3;
const tenths = (raw: number) => raw / 10;

const READ = { color: () => theme().read, fill: () => theme().readFill, cls: "read" as const };
const WRITE = { color: () => theme().write, fill: () => theme().writeFill, cls: "write" as const };

function latencySeries(letter: "r" | "w"): SeriesSpec[] {
  const look = letter === "r" ? READ : WRITE;
  const name = letter === "r" ? "read" : "write";
  const base = { ...look, value: nanosToMicros, count: `${letter}_ios` as ColumnName };
  return [
    { ...base, label: `${name} mean`, column: `${letter}_mean`, style: "line", quiet: true, insteadOf: `${letter}_p50` },
    { ...base, label: `${name} p50`, column: `${letter}_p50`, style: "line" },
    { ...base, label: `${name} p90`, column: `${letter}_p90`, style: "thin", quiet: true },
    { ...base, label: `${name} p99`, column: `${letter}_p99`, style: "thin" },
    { ...base, label: `${name} max`, column: `${letter}_max`, style: "dots" },
  ];
}

export const PANELS: PanelSpec[] = [
  {
    id: "iops",
    title: "IOPS",
    definition: "iops",
    height: 150,
    axis: format.short,
    full: (v) => `${format.number(v)}/s`,
    series: [
      { ...READ, label: "reads", column: "r_ios", value: perSecond, style: "area" },
      { ...WRITE, label: "writes", column: "w_ios", value: perSecond, style: "area" },
      { label: "discards", column: "d_ios", value: perSecond, style: "thin", color: () => theme().muted, quiet: true },
      { label: "flushes", column: "f_ios", value: perSecond, style: "thin", color: () => theme().mark, quiet: true },
    ],
  },
  {
    id: "throughput",
    title: "Throughput",
    definition: "throughput",
    height: 150,
    axis: format.byteRate,
    full: format.byteRate,
    series: [
      { ...READ, label: "reads", column: "r_sec", value: sectorRate, style: "area" },
      { ...WRITE, label: "writes", column: "w_sec", value: sectorRate, style: "area" },
    ],
  },
  {
    id: "latency",
    title: "Latency",
    definition: "latency",
    height: 220,
    log: true,
    axis: format.micros,
    full: format.micros,
    series: [...latencySeries("r"), ...latencySeries("w")],
  },
  {
    id: "busy",
    title: "Busy time",
    definition: "busy",
    height: 120,
    top: 100,
    axis: (v) => `${format.number(v)} %`,
    full: format.percent,
    series: [
      { label: "any", column: "busy", value: tenths, style: "area", color: () => theme().busy, fill: () => theme().busyFill },
      { ...READ, label: "reads", column: "busy_r", value: tenths, style: "thin" },
      { ...WRITE, label: "writes", column: "busy_w", value: tenths, style: "thin" },
    ],
  },
  {
    id: "inflight",
    title: "I/Os in flight",
    definition: "inflight",
    height: 120,
    axis: format.short,
    full: format.number,
    series: [
      { label: "mean", column: "q_mean", value: thousandths, style: "area", color: () => theme().inflight, fill: () => theme().inflightFill },
      { label: "max", column: "q_max", value: (v) => v, style: "thin", color: () => theme().inflight },
    ],
  },
];

/** Whether a level has any data for a panel. */
export function hasData(level: Slots | undefined, panel: PanelSpec): boolean {
  return level !== undefined && panel.series.some((s) => level.column(s.column) !== null);
}
