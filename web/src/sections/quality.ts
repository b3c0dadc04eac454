// The sections "Data quality" (losses and their reasons, the recorder's cost) and "Definitions" (the glossary).

import type { LossBlock, Note, PageData } from "../generated/page";
import { DEFINITIONS } from "../definitions";
import { h } from "../dom";
import * as format from "../format";
import { MIN_UNIX_S } from "../store";

const LOSS_REASONS: Record<string, string> = {
  "ring-full": "ring buffer overflow",
  "slot-clash": "two requests hashed to the same entry of the tracer's table",
  "writer-busy": "the disk that holds the recording was too slow",
  "disk-full": "no room on the disk that holds the recording",
  corrupt: "a damaged block of the recording",
  retention: "removed by the size limit (--keep)",
  unseen: "completion event never reached the tracer",
  unaccounted: "only the kernel's own counters show them",
  "not-recorded": "no recorder ran then",
  censored: "in flight when recording began, so their start is not known",
  import: "the imported log was cut or damaged",
};

/** How reliable the values above are. */
export function quality(data: PageData): HTMLElement {
  const notes = [...lossNotes(data), ...data.quality, ...costNotes(data)];
  return h(
    "section",
    { id: "quality" },
    h("h2", { text: "Data quality" }),
    h("ul", { class: "quality" }, ...notes.map(item)),
  );
}

function item(n: Note): HTMLElement {
  return h("li", { class: n.level }, h("span", { class: `badge ${n.level}`, text: n.level === "ok" ? "ok" : n.level === "info" ? "note" : "warning" }), h("b", { text: n.topic }), h("p", { text: n.text }));
}

function lossNotes(data: PageData): Note[] {
  const { lost_ios: lost, ios, source } = data.recording;
  const total = data.lost_intervals.filter((l) => l.reason !== "censored" && l.reason !== "retention");
  const head: Note =
    lost === null
      ? { topic: "Losses", level: "warning", text: "It is not known how many I/Os are missing." }
      : lost === 0 && total.length === 0
        ? { topic: "Losses", level: "ok", text: source === "ebpf" ? `None: all ${format.count(ios)} I/Os that completed are in the recording.` : "None that the source knows of." }
        : { topic: "Losses", level: "warning", text: `${format.count(lost)} I/Os are missing, in ${total.length} ${total.length === 1 ? "interval" : "intervals"}, hatched in the charts. Rates there are too low, and percentiles leave them out.` };
  const start = data.recording.start_unix_s;
  const dated = start !== null && start >= MIN_UNIX_S;
  const at = (t: number) => (dated ? `${format.date(start + t)} ${format.clock(start + t, 0.1)} UTC` : format.elapsed(t, 0.1));
  return [head, ...byReason(data.lost_intervals, at)];
}

function byReason(lossy: LossBlock[], at: (t: number) => string): Note[] {
  const reasons = new Map<string, { ios: number | null; from: number; to: number; times: number }>();
  for (const l of lossy) {
    const r = reasons.get(l.reason) ?? { ios: 0, from: l.start_s, to: l.end_s, times: 0 };
    r.ios = r.ios === null || l.ios === null ? null : r.ios + l.ios;
    r.from = Math.min(r.from, l.start_s);
    r.to = Math.max(r.to, l.end_s);
    r.times++;
    reasons.set(l.reason, r);
  }
  return [...reasons].map(([reason, r]) => ({
    topic: reason,
    level: reason === "censored" ? "info" : "warning",
    text: `${r.ios === null ? "An unknown number of" : format.count(r.ios)} I/Os: ${LOSS_REASONS[reason] ?? reason}. ${r.times === 1 ? "Once" : `${r.times} times`}, between ${at(r.from)} and ${at(r.to)}.`,
  }));
}

function costNotes(data: PageData): Note[] {
  const r = data.recording.recorder;
  const parts = [
    r.cpu_percent === null ? null : `${format.percent(r.cpu_percent)} of one CPU`,
    r.max_rss_bytes === null ? null : `${format.binaryBytes(r.max_rss_bytes)} of memory at most`,
    r.disk_bytes === null ? null : `${format.binaryBytes(r.disk_bytes)} on disk${r.bytes_per_io === null ? "" : `, ${format.number(r.bytes_per_io)} bytes per I/O`}`,
  ].filter((p) => p !== null);
  const rounding: Note = data.imported_tables ? {
    topic: "Rounding",
    level: "info",
    text: "Charts show the log's own numbers, to a hundredth.",
  } : {
    topic: "Rounding",
    level: "info",
    text: "Counts and bytes in the charts are exact; latencies and mean concurrency are rounded by at most 0.55 %, percentiles by another 0.4 %. Tables hold the exact values of the analysis.",
  };
  if (parts.length === 0) return [rounding];
  return [{ topic: "Recorder's cost", level: "info", text: `The recorder itself took ${parts.join("; ")}.` }, rounding];
}

/** All definitions in one place, for readers without a mouse and for printing. */
export function glossary(): HTMLDetailsElement {
  const entries = Object.values(DEFINITIONS).flatMap((d) => [
    h("dt", {}, d.title, d.id ? h("span", { class: "id", text: d.id }) : null),
    h("dd", {}, d.text, d.formula ? h("code", { text: d.formula }) : null),
  ]);
  return h("details", { id: "definitions" }, h("summary", {}, h("h2", { text: "Definitions" })), h("dl", { class: "glossary" }, ...entries));
}

