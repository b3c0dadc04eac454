/** Formats numbers: a value, a space, a unit. Absent is an en dash, never 0. */
export const ABSENT = "–";

type Maybe = number | null | undefined;

function known(v: Maybe): v is number {
  return v !== null && v !== undefined && Number.isFinite(v);
}

/** Three significant digits without exponent, thousands separated by a narrow space. */
export function number(v: Maybe, digits = 3): string {
  if (!known(v)) return ABSENT;
  const a = Math.abs(v);
  if (a >= 1000) return groups(Math.round(v));
  if (a === 0) return "0";
  const decimals = Math.max(0, Math.min(6, digits - 1 - Math.floor(Math.log10(a))));
  return trimZeros(v.toFixed(decimals));
}

/** All digits of a whole number, in groups of three. */
export function count(v: Maybe): string {
  return known(v) ? groups(Math.round(v)) : ABSENT;
}

function groups(v: number): string {
  return v.toString().replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

function trimZeros(s: string): string {
  return s.includes(".") ? s.replace(/\.?0+$/, "") : s;
}

/** A shortened count for an axis: 12 k, 3.4 M. */
export function short(v: Maybe): string {
  if (!known(v)) return ABSENT;
  const a = Math.abs(v);
  if (a >= 1e9) return `${number(v / 1e9)} G`;
  if (a >= 1e6) return `${number(v / 1e6)} M`;
  if (a >= 1e4) return `${number(v / 1e3)} k`;
  return number(v);
}

/** Bytes in powers of 1000 (MB, GB), for rates and amounts. */
export function bytes(v: Maybe): string {
  return scaled(v, 1000, ["B", "kB", "MB", "GB", "TB", "PB"]);
}

/** Bytes in powers of 1024 (KiB, MiB), for request sizes and memory. */
export function binaryBytes(v: Maybe): string {
  return scaled(v, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
}

function scaled(v: Maybe, base: number, units: string[]): string {
  if (!known(v)) return ABSENT;
  let i = 0;
  let x = v;
  while (Math.abs(x) >= base * 0.9995 && i < units.length - 1) {
    x /= base;
    i++;
  }
  return `${number(x)} ${units[i]}`;
}

export function byteRate(v: Maybe): string {
  return known(v) ? `${bytes(v)}/s` : ABSENT;
}

/** A duration in microseconds, in a suitable unit. */
export function micros(v: Maybe): string {
  if (!known(v)) return ABSENT;
  const a = Math.abs(v);
  if (a >= 999_500) return `${number(v / 1e6)} s`;
  if (a >= 999.5) return `${number(v / 1e3)} ms`;
  return `${number(v)} us`;
}

export function percent(v: Maybe): string {
  if (!known(v)) return ABSENT;
  if (v > 0 && v < 0.01) return "< 0.01 %";
  return `${number(v)} %`;
}

/** A length of time: 1 h 02 min, 12.5 s, 40 ms. */
export function span(seconds: Maybe): string {
  if (!known(seconds)) return ABSENT;
  if (seconds >= 48 * 3600) {
    const hours = Math.round(seconds / 3600);
    return hours % 24 === 0 ? `${hours / 24} days` : `${Math.floor(hours / 24)} days ${hours % 24} h`;
  }
  if (seconds >= 3600) {
    const minutes = Math.round(seconds / 60);
    return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
  }
  if (seconds >= 120) {
    const s = Math.round(seconds);
    return `${Math.floor(s / 60)} min ${String(s % 60).padStart(2, "0")} s`;
  }
  return micros(seconds * 1e6);
}

/** Digits after the decimal point that distinguish slots of `step` seconds. */
export function decimals(step: number): number {
  return Math.max(0, Math.min(6, Math.ceil(-Math.log10(step) - 1e-9)));
}

/** A time as seconds since the start (`12:07.5`) to the precision of `step` seconds. */
export function elapsed(t: number, step: number): string {
  const digits = decimals(step);
  const unit = 10 ** digits;
  const ticks = Math.round(t * unit);
  const total = Math.floor(ticks / unit);
  const fraction = digits > 0 ? `.${String(ticks % unit).padStart(digits, "0")}` : "";
  const two = (x: number) => String(x).padStart(2, "0");
  const h = Math.floor(total / 3600);
  const m = Math.floor(total / 60) % 60;
  return h > 0 ? `${h}:${two(m)}:${two(total % 60)}${fraction}` : `${m}:${two(total % 60)}${fraction}`;
}

/** A wall-clock time in UTC (`05:48:12.345`) to the precision of `step` seconds. */
export function clock(unixSeconds: number, step: number): string {
  const digits = decimals(step);
  const unit = 10 ** digits;
  const ticks = Math.round(unixSeconds * unit);
  const day = ((Math.floor(ticks / unit) % 86400) + 86400) % 86400;
  const two = (x: number) => String(x).padStart(2, "0");
  const fraction = digits > 0 ? `.${String(ticks % unit).padStart(digits, "0")}` : "";
  return `${two(Math.floor(day / 3600))}:${two(Math.floor(day / 60) % 60)}:${two(day % 60)}${fraction}`;
}

/** The date of a time in UTC (`2026-11-24`). */
export function date(unixSeconds: number): string {
  return new Date(unixSeconds * 1000).toISOString().slice(0, 10);
}

/** Offset in seconds that must be added to a time so that its UTC form is the reader's local time. */
export function localOffset(unixSeconds: number): number {
  return -60 * new Date(unixSeconds * 1000).getTimezoneOffset();
}

/** Date and time in UTC, to the second. */
export function dateTime(unixSeconds: Maybe): string {
  if (!known(unixSeconds)) return ABSENT;
  return `${new Date(unixSeconds * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** A probability; below a thousandth only "< 0.001". */
export function probability(v: Maybe): string {
  return known(v) && v < 0.001 ? "< 0.001" : number(v, 2);
}

/** A piece of evidence, formatted by the unit at the end of its name. */
export function byKey(key: string, value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map((v) => byKey(key, v)).join(", ");
  if (typeof value === "object" && value !== null) return JSON.stringify(value);
  if (typeof value !== "number") return ABSENT;
  if (key.endsWith("bytes_per_s")) return byteRate(value);
  if (key.endsWith("iops") || key.endsWith("_per_s")) return `${number(value)}/s`;
  if (key.endsWith("_us")) return micros(value);
  if (key.endsWith("_ns")) return micros(value / 1e3);
  if (key.endsWith("_s")) return span(value);
  if (key.endsWith("bytes")) return bytes(value);
  if (key.endsWith("percent")) return percent(value);
  if (/^p_(value|family)/.test(key)) return probability(value);
  if (key === "ratio" || key.endsWith("_ratio") || key.endsWith("factor")) return `${number(value)} ×`;
  return number(value);
}

const UNITS = ["bytes_per_s", "per_s", "percent", "bytes", "us", "ns", "s"];

const LABELS: Record<string, string> = {
  mean_1s_bytes_per_s: "1 s sampling",
  peak_bytes_per_s: "peak rate",
  ios: "I/Os",
  acf: "autocorrelation",
  lost_percent: "share",
  p_value: "p-value",
  util_io_ticks_percent: "%util (io_ticks)",
};

/** The name of a piece of evidence without its unit: `read_p99_during_us` is "read p99 during". */
export function label(key: string): string {
  const known = LABELS[key];
  if (known) return known;
  const unit = UNITS.find((u) => key.endsWith(`_${u}`));
  const bare = unit && key.length > unit.length + 1 ? key.slice(0, -unit.length - 1) : key;
  return bare.replaceAll("_", " ").replace(/\biops\b/, "IOPS").replace(/\bios\b/, "I/Os");
}
