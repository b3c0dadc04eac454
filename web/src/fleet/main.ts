// The fleet page of many hosts: hosts by time lost, slow disks, findings, disks, and hosts that could not be read.

import "../style.css";
import "../app/style.css";
import "./style.css";
import { ask } from "../app/api";
import { Loader } from "../app/part";
import { typed, wallClock } from "../app/view";
import { fill, h } from "../dom";
import type { DeviceRow, FindingRow, FleetDocument, HostRow, KindRow, UnreadHost } from "../generated/fleet";
import * as format from "../format";
import { embedded, show } from "../page";
import { type Column, Table, numeric } from "../sections/table";
import { choose, current, watch } from "../theme";
import { served } from "../view";
import { costPanel } from "./cost_panel";

/** Margin around the minute that a link opens, in seconds. */
const AROUND_S = 120;
/** Number of slow disks named above the tables. */
const SLOW = 5;
/** Number of findings shown at first. */
const FINDINGS = 10;

function build(data: FleetDocument): void {
  watch();
  const facts: [string, string][] = [
    ["Hosts", format.count(data.hosts.length + data.hosts_unread.length + data.hosts_left_out)],
    ["Disks", format.count(data.hosts.reduce((n, x) => n + x.disks, 0))],
    ["I/Os", format.short(data.hosts.reduce((n, x) => n + x.ios, 0))],
  ];
  // Without any host there is no time range either, only the reason.
  const nothing = data.hosts.length === 0 && data.to_unix_s === 0;
  const bar = h(
    "header",
    { class: "bar" },
    h("h1", { class: "brand", text: "iolens" }),
    h("span", { class: "file-title", text: "Fleet" }),
    !nothing && h("dl", { class: "facts" }, ...facts.map(([what, value]) => h("div", {}, h("dt", { text: what }), h("dd", { text: value })))),
    h("span", { class: "spring" }),
    !nothing && times(data),
    !nothing && range(data),
    h("button", { type: "button", text: "◐", title: "Light or dark", "aria-label": "Light or dark", onclick: () => choose(current() === "dark" ? "light" : "dark") }),
  );
  const notes = [...data.notes];
  if (data.hosts_left_out > 0) notes.unshift(`${format.count(data.hosts_left_out)} hosts are not read yet: load the page again to go on.`);
  const hosts = h("section", { id: "hosts", class: "panel-box" }, new Table<HostRow>("Hosts by time lost", HOSTS, data.hosts, 1, "No host.").root,
    h("p", { class: "note", text: "I/O time beyond what the median disk of the same model takes at the same load. A name leads to that host, in the minute in which most time was spent in flight." }));
  const main = h(
    "main",
    { class: "app fleet" },
    bar,
    notes.length > 0 && h("ul", { class: "notes", role: nothing && "alert" }, ...notes.map((text) => h("li", { text }))),
    data.hosts_unread.length > 0 && unreadable(data.hosts_unread),
    slowDisks(data.devices),
    nothing && served() && recordedHosts(),
    // A page that is not from a server has none to query.
    !nothing && h("div", { class: served() ? "answers" : "" }, hosts, served() && costPanel(data, place)),
    data.findings.length > 0 ? findings(data) : !nothing && h("p", { class: "rule", text: "No finding was reported while this was recorded." }),
    !nothing && h("section", { id: "disks", class: "panel-box" }, new Table<DeviceRow>("Disks", DEVICES, data.devices, 3, "No disk.").root),
  );
  fill(document.body, main, h("footer", { text: "From the sums of each minute; loops and layers above disks are left out." }));
  document.documentElement.dataset["ready"] = performance.now().toFixed(0);
}

/** If no sums show which host lost time, as in recordings shorter than a minute: all hosts with recordings. */
function recordedHosts(): HTMLElement {
  const loader = new Loader("The hosts");
  const list = h("ul", {});
  loader.run(async (signal) => {
    const { recordings } = await ask<{ recordings: { host: string }[] }>("recordings", {}, signal);
    const names = new Set(recordings.map((r) => r.host));
    fill(list, ...[...names].map((name) => h("li", {}, h("a", { href: place(name, null, 0), text: name }))));
  });
  return h("section", { id: "recorded", class: "panel-box" }, h("h2", { text: "Hosts with recordings" }), loader.status, list);
}

/** Hosts without a row, and the reason. */
function unreadable(hosts: UnreadHost[]): HTMLElement {
  const [first, ...others] = hosts;
  const title = others.length === 0 && first ? `${first.host} could not be read` : `${format.count(hosts.length)} hosts could not be read`;
  const row = ({ host, reasons }: UnreadHost) => h("li", {}, h("b", { text: host }), ...reasons.map((text) => h("p", { text })));
  return h("section", { id: "unread", class: "panel-box", role: "alert" }, h("h2", { text: title }), h("ul", {}, ...hosts.map(row)));
}

/** The disks with longer latency than others of their model at the same load, each with a link to its host. */
function slowDisks(devices: DeviceRow[]): HTMLElement | false {
  const slow = devices.filter((d) => d.slow);
  if (slow.length === 0) return false;
  const title = slow.length === 1 ? "1 disk is slow" : `${format.count(slow.length)} disks are slow`;
  const row = (d: DeviceRow) => h("li", {}, h("a", { href: place(d.host, d.worst_unix_s, (d.worst_unix_s ?? 0) + 60), text: `${d.host} ${d.device}` }), ` takes ${factor(d.slow_factor)} the time of the median ${d.model ?? "disk of its kind"} at the same load.`);
  return h("section", { id: "slow", class: "panel-box" }, h("h2", { text: title }), h("ul", {}, ...slow.slice(0, SLOW).map(row)), slow.length > SLOW && h("p", { class: "rule", text: "The table of disks has the others." }));
}

/** Reported findings: grouped by kind with the number of hosts, then individually. */
function findings(data: FleetDocument): HTMLElement {
  const hosts = (n: number) => `${format.count(n)} ${n === 1 ? "host" : "hosts"}`;
  const kind = (k: KindRow) => h("li", {}, h("b", { class: `severity ${k.severity}`, text: k.kind }), ` on ${hosts(k.host_count)}${k.finding_count > k.host_count ? ` (${format.count(k.finding_count)})` : ""}`);
  const rest = data.findings_left_out;
  return h(
    "section",
    { id: "findings", class: "panel-box" },
    h("p", { class: "rule", text: "What was reported while it was recorded, the most harmful first. A name leads to that host at that time." }),
    h("ul", { class: "kinds", "aria-label": "Kinds of findings" }, ...data.kinds.map(kind)),
    new Table<FindingRow>("Findings", columns(data.findings), data.findings, 1, "No finding.", false, FINDINGS).root,
    rest > 0 && h("p", { class: "status", text: `${format.count(rest)} less harmful ones are not listed: the page of their host has them.` }),
  );
}

/** The wall-clock time range, and links to others. */
function range(data: FleetDocument): HTMLElement {
  const input = (name: string, at: number) => h("input", { class: "instant", spellcheck: "false", "aria-label": `${name} (UTC)`, title: "2026-11-26 04:15:00, -5m, now", value: wallClock(at) });
  const [from, to] = [input("From", data.from_unix_s), input("To", data.to_unix_s)];
  const go = (e: Event) => {
    e.preventDefault();
    const [a, b] = [from, to].map((i) => typed(i.value, Date.now() / 1000));
    if (typeof a === "number" && typeof b === "number" && b > a) location.search = `?from=${a}&to=${b}`;
  };
  return h("form", { class: "group", onsubmit: go }, from, h("span", { text: "–" }), to, h("span", { class: "utc", text: "UTC" }), h("button", { text: "Go" }));
}

/** Links to other time ranges, up to the newest recording. */
function times(data: FleetDocument): HTMLElement {
  const spans: [string, number][] = [["1 h", 3600], ["1 day", 86400], ["7 days", 604800], ["30 days", 2592000]];
  const to = data.to_unix_s;
  const link = ([text, s]: [string, number]) => h("a", { href: `?from=${to - s}&to=${to}`, text });
  return h("nav", { "aria-label": "Time" }, h("span", { text: "Up to then: " }), ...spans.map(link), h("a", { href: location.pathname, text: "newest" }));
}

/** The page of a host around a time range. */
export function place(host: string, from: number | null | undefined, to: number): string {
  const of = `/?host=${encodeURIComponent(host)}`;
  return typeof from === "number" ? `${of}&from=${from - AROUND_S}&to=${to + AROUND_S}` : of;
}

type Row = Pick<HostRow & DeviceRow, "host" | "ios" | "bytes" | "lost_s" | "busy_percent" | "p99_us" | "errors" | "lost_ios" | "worst_unix_s">;

const seconds = (v: number | null) => (v === null ? format.ABSENT : format.micros(v * 1e6));
const factor = (v: number | null | undefined) => (typeof v === "number" ? `${format.number(v)} times` : format.ABSENT);
const percent = (v: number | null) => (v === null ? format.ABSENT : `${format.number(v)} %`);

function host<R extends Row>(minute: (r: R) => number | null = (r) => r.worst_unix_s): Column<R> {
  return { title: "Host", key: (r) => r.host, text: (r) => r.host, href: (r) => place(r.host, minute(r), (minute(r) ?? 0) + 60) };
}

function lost<R extends Row>(): Column<R> {
  return numeric("Time lost", "I/O time beyond what the median disk of the same model takes at the same load for as many reads, writes, discards and flushes. Absent: fewer than three such disks had that load.", (r) => r.lost_s ?? null, seconds);
}

function figures<R extends Row>(): Column<R>[] {
  return [
    numeric("p99", "99th percentile of the time from start to completion, at most 3 % off.", (r) => r.p99_us ?? null, format.micros),
    numeric("Busy", "Share of the recorded time with any I/O in flight; of a host, that of its busiest disk.", (r) => r.busy_percent ?? null, percent),
    numeric("I/Os", "Completed.", (r) => r.ios, format.short),
    numeric("Bytes", "Moved.", (r) => r.bytes, format.bytes),
    numeric("Errors", "I/Os that failed.", (r) => r.errors ?? null, format.count),
    numeric("Missing", "I/Os that are known to be missing in the recordings.", (r) => r.lost_ios ?? null, format.count),
  ];
}

/** Sorted as in the data: the most severe first. */
function columns(findings: FindingRow[]): Column<FindingRow>[] {
  const order = new Map(findings.map((f, i) => [f, i]));
  const length = (r: FindingRow) => r.end_unix_s - r.start_unix_s;
  return [
    { title: "Host", key: (r) => r.host, text: (r) => r.host, href: (r) => place(r.host, r.start_unix_s, r.end_unix_s) },
    { title: "Severity", key: (r) => order.get(r) ?? null, text: (r) => r.severity, cls: (r) => `severity ${r.severity}` },
    { title: "Finding", key: (r) => r.kind, text: (r) => r.kind },
    { title: "Device", key: (r) => r.device, text: (r) => r.device ?? format.ABSENT },
    { title: "From", key: (r) => r.start_unix_s, text: (r) => format.dateTime(r.start_unix_s) },
    { ...numeric<FindingRow>("For", "How long it lasted; ≥: it had not ended when it was seen last.", length, format.span), text: (r) => `${r.open ? "≥ " : ""}${format.span(length(r))}` },
    { title: "What", key: (r) => r.summary, text: (r) => r.summary, cls: "detail" },
  ];
}

/** If nothing is known of time in flight: the newest recorded time. */
const HOSTS: Column<HostRow>[] = [host((r) => r.worst_unix_s ?? r.to_unix_s - 60), lost(), numeric("Slow", "Disks that take longer than others of their model at the same load.", (r) => r.slow_disks, format.count), numeric("Findings", "What was reported while it was recorded.", (r) => r.finding_count, format.count), ...figures<HostRow>(), numeric("Disks", "Those with rollups of this time.", (r) => r.disks, format.count)];
const DEVICES: Column<DeviceRow>[] = [
  host(),
  { title: "Disk", key: (r) => r.device, text: (r) => r.device },
  { title: "Model", key: (r) => r.model ?? null, text: (r) => r.model ?? format.ABSENT },
  lost(),
  { ...numeric<DeviceRow>("Slow", "Time in the device by that of the median disk of the same model at the same load. Bold: beyond what healthy disks differ by, and above 1.4 times. Absent: fewer than three such disks had that load.", (r) => r.slow_factor ?? null, factor), cls: (r) => (r.slow ? "slow" : "") },
  numeric("Read", "Mean time of a read from start to completion.", (r) => r.read_us ?? null, format.micros),
  numeric("Write", "Mean time of a write from start to completion.", (r) => r.write_us ?? null, format.micros),
  ...figures<DeviceRow>(),
];

show(() => build(embedded<FleetDocument & { format: number }>(1)));
