// Writes exported files: tables as CSV, and I/Os as a trace for Perfetto (JSON).

import { type Ios, NOT_KNOWN } from "./data";
import { lanes } from "./lanes";

/** What is on screen, as files of other programs. */

/**
 * A table as CSV (RFC 4180). Absent values are empty cells. Text that a spreadsheet would take for a formula gets a
 * leading apostrophe.
 */
export function csv(columns: [name: string, values: ArrayLike<unknown>][]): string {
  const rows = Math.max(0, ...columns.map(([, values]) => values.length));
  const lines = [columns.map(([name]) => cell(name)).join(",")];
  for (let i = 0; i < rows; i++) lines.push(columns.map(([, values]) => cell(values[i])).join(","));
  return `${lines.join("\r\n")}\r\n`;
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value !== "string") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Nanoseconds as microseconds for a trace, with all digits; a floating-point number of the epoch would lose some. */
const traceTime = (ns: number): string => `${Math.floor(ns / 1000)}.${String(ns % 1000).padStart(3, "0")}`;

/** A time of an answer in nanoseconds since the epoch, which needs a bigint. */
const unixNs = (ios: Ios, ns: number): bigint => BigInt(ios.since_unix_s) * 1_000_000_000n + BigInt(ns);

/** The columns of single I/Os for a table, with times since the epoch. */
export function ioColumns(ios: Ios): [name: string, values: ArrayLike<unknown>][] {
  const { start_ns: start, done_ns: done, ...rest } = ios.columns;
  const instants = (of: number[]) => of.map((ns) => unixNs(ios, ns));
  return [["start_unix_ns", instants(start)], ["done_unix_ns", instants(done)], ...Object.entries(rest)];
}

/**
 * The I/Os as a trace of Perfetto (JSON of the Trace Event Format). Each device is a process of the trace. The I/Os of a program and class
 * overlap, so each lane of them is an asynchronous track: events of one name and one `id`. Times count from `start_unix_ns`, the first start.
 */
export function trace(ios: Ios): string {
  const c = ios.columns;
  const count = c.done_ns.length;
  const durationNs = (i: number) => Math.round((c.total_us[i] ?? 0) * 1000);
  const startNs = c.start_ns;
  let first = Infinity;
  for (const ns of startNs) first = Math.min(first, ns);

  const groups = new Map<string, number[]>();
  for (let i = 0; i < count; i++) {
    const key = JSON.stringify([c.device[i], `${c.process[i] ?? NOT_KNOWN} ${c.class[i]}`]);
    const group = groups.get(key);
    if (group) group.push(i);
    else groups.set(key, [i]);
  }
  const devices = [...new Set(c.device)];
  const events = devices.map((device, n) => JSON.stringify({ ph: "M", name: "process_name", pid: n + 1, args: { name: device } }));
  for (const [key, group] of groups) {
    const [device, name] = JSON.parse(key) as [string, string];
    group.sort((a, b) => (startNs[a] ?? 0) - (startNs[b] ?? 0));
    const from = group.map((i) => (startNs[i] ?? 0) - first);
    const to = group.map((i, n) => (from[n] ?? 0) + durationNs(i));
    const { lane } = lanes(from, to);
    const head = `"cat":"io","name":${JSON.stringify(name)},"pid":${devices.indexOf(device) + 1}`;
    // Within a track, the end of an I/O must precede the start of the next, even at equal times.
    const order = group.map((_, n) => n).sort((a, b) => (lane[a] ?? 0) - (lane[b] ?? 0) || a - b);
    for (const n of order) {
      const i = group[n] ?? 0;
      const id = `"id":"${lane[n] ?? 0}"`;
      const args = JSON.stringify({
        pid: c.pid[i], cgroup: c.cgroup[i], file: c.file[i], origin: c.origin[i], sector: c.sector[i], bytes: c.bytes[i],
        queue_us: c.queue_us[i], device_us: c.device_us[i], error: c.error[i] || undefined,
        undisturbed_us: c.undisturbed_us?.[i], wait_others_us: c.wait_others_us?.[i], wait_own_us: c.wait_own_us?.[i], wait_behind: c.wait_behind_process?.[i],
      });
      events.push(`{"ph":"b",${head},${id},"ts":${traceTime(from[n] ?? 0)},"args":${args}}`, `{"ph":"e",${head},${id},"ts":${traceTime(to[n] ?? 0)}}`);
    }
  }
  const startUnixNs = count > 0 ? String(unixNs(ios, first)) : null;
  return `{"traceEvents":[\n${events.join(",\n")}\n],"otherData":${JSON.stringify({ start_unix_ns: startUnixNs, ios: count, notes: ios.notes })}}\n`;
}

/** Lets the browser save a file. */
export function save(name: string, content: Blob): void {
  const address = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  // The browser reads the file after the click.
  window.setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
