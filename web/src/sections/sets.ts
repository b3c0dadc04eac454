// The card "Devices together" (busy time of several devices) and the table "Devices behind one link".

import type { DevicesBlock, LinkBlock, LinkStreamBlock, PageData } from "../generated/page";
import { h, term } from "../dom";
import * as format from "../format";
import type { Store } from "../store";
import { card } from "./card";
import { bar } from "./stages";
import { Table, numeric, type Column } from "./table";

/** Devices together, all of them or those behind one link. */
export function setsOf(data: PageData): { sets: DevicesBlock[]; links: LinkBlock[] } {
  const all = data.sets ?? [];
  return {
    sets: all.filter((x): x is DevicesBlock => !("streams" in x)),
    links: all.filter((x): x is LinkBlock => "streams" in x),
  };
}

/** Busy time of all devices together, beside that of each. Shown if all devices are selected. */
export function setCard(store: Store): HTMLElement | null {
  const set = (store.scope?.device_names.length ?? 0) > 1 ? setsOf(store.data).sets[0] : undefined;
  if (!set) return null;
  const rows: [string, string, number | null, string][] = [
    ["Any", "I/O on at least one of them", set.busy_percent, "total"],
    ["Reads", "a read on at least one", set.busy_read_percent, "read"],
    ["Writes", "a write on at least one", set.busy_write_percent, "write"],
    ["Both", "reads and writes at once", set.busy_both_percent, "queue"],
    ["Mean", "over the devices' own busy time", set.mean_busy_percent, "device"],
    ["Busiest", "the highest of them", set.max_busy_percent, "device"],
  ];
  const bars = rows.map(([name, words, percent, cls]) => bar(cls, 0, percent ?? 0, h("b", {}, term(name, "deviceSet")), words, format.percent(percent), "deviceSet"));
  const c = set.concurrency;
  const fact = (name: string, value: string) => h("div", {}, h("dt", {}, term(name, "setInflight")), h("dd", { text: value, "data-def": "setInflight" }));
  const out = card(
    "sets", "Devices together", "deviceSet", null,
    h("ul", { class: "bars" }, ...bars),
    h(
      "dl",
      { class: "facts" },
      fact("In flight, mean", format.number(c.mean)),
      fact("p50", format.number(c.p50)),
      fact("p75", format.number(c.p75)),
      fact("p99", format.number(c.p99)),
      fact("Max", format.number(c.max)),
    ),
    h("p", { class: "note", text: members(set) }),
  );
  out.classList.add("whole-row");
  return out;
}

function members(set: DevicesBlock): string {
  const left = set.left_out_names.length > 0 ? ` Left out, because their I/Os are recorded on the layer below: ${set.left_out_names.join(", ")}.` : "";
  return `${set.device_names.length} devices: ${set.device_names.join(", ")}.${left}`;
}

interface LinkRow {
  link: LinkBlock;
  stream: LinkStreamBlock;
}

const largest = (r: LinkRow) => r.stream.largest;

const LINK_COLUMNS: Column<LinkRow>[] = [
  { title: "Link", definition: "link", key: (r) => r.link.name, text: (r) => r.link.name, cls: "name" },
  { title: "Class", definition: "class", key: (r) => r.stream.class, text: (r) => r.stream.class },
  numeric("Limit", "limit", (r) => r.link.limit_bytes_per_s, format.byteRate),
  numeric("Bytes", "bytes", (r) => r.stream.bytes, format.bytes),
  numeric("Bursts", "bursts", (r) => r.stream.bursts_found, format.count),
  numeric("Largest", "extent", (r) => (largest(r) ? (largest(r)?.end_s ?? 0) - (largest(r)?.start_s ?? 0) : null), format.span),
  numeric("moved", "bytes", (r) => largest(r)?.bytes ?? null, format.bytes),
  numeric("peak", "peak", (r) => largest(r)?.peak_bytes_per_s ?? null, format.byteRate),
  numeric("of the limit", "limit", (r) => largest(r)?.percent_of_limit ?? null, format.percent),
  numeric("1 s sampling", "oneSecond", (r) => largest(r)?.mean_1s_bytes_per_s ?? null, format.byteRate),
];

/** Bursts on the link that several devices share; `null` if no link was named. */
export function linkTable(data: PageData): HTMLElement | null {
  const rows = setsOf(data).links.flatMap((link) => link.streams.map((stream) => ({ link, stream })));
  if (rows.length === 0) return null;
  return new Table("Devices behind one link", LINK_COLUMNS, rows, 0, "", false).root;
}
