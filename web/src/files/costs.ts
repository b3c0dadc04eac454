// The table "Where the time of a request goes", with the verdict on the response-time decomposition.

import { h, term } from "../dom";
import * as format from "../format";
import type { ClassReport, ClassTable, FilesBlock, CostPart } from "../generated/page";

type Cell = [number | null | undefined, number | null | undefined];

const part = (p: CostPart | null): Cell => [p?.p50_us, p?.p95_us];

/** The rows of the table: name, level of indentation, and the value for a class. */
const ROWS: [string, number, (t: ClassTable) => Cell, (v: number | null | undefined) => string][] = [
  ["Requests per second", 0, (t) => [t.per_s, null], format.number],
  ["Response time", 0, (t) => [t.total_p50_us, t.total_p95_us], format.micros],
  ["First delay", 0, (t) => [t.first_p50_us, null], format.micros],
  ["open", 1, (t) => part(t.direct.open_call), format.micros],
  ["first I/O", 1, (t) => part(t.direct.first_io), format.micros],
  ["second I/O", 1, (t) => part(t.direct.second_io), format.micros],
  ["later I/Os, mean of each", 1, (t) => part(t.direct.later_ios), format.micros],
  ["think time between calls", 1, (t) => part(t.direct.gaps), format.micros],
  ["close", 1, (t) => part(t.direct.close_call), format.micros],
  ["device time", 1, (t) => part(t.direct.block_io), format.micros],
  ["Reads from memory", 0, (t) => [t.direct.cache_hit_percent, null], format.percent],
  ["From response times: I/O", 0, (t) => [t.classical?.io_us, null], format.micros],
  ["From response times: overhead", 0, (t) => [t.classical?.overhead_us, null], format.micros],
];

/** The decomposition of response times, classical and direct, over all requests and over the peak, with the verdict. */
export function costs(data: FilesBlock): HTMLElement {
  const columns = data.classes.flatMap((c) => [
    { title: `${c.class}, all`, table: c.all },
    ...(c.peak && c.peak.requests > 0 ? [{ title: `${c.class}, peak`, table: c.peak }] : []),
  ]);
  const head = h("tr", {}, h("td"), ...columns.flatMap((c) => [h("th", { scope: "col", class: "num", text: c.title }), h("th", { scope: "col", class: "num", text: "p95" })]));
  const rows = ROWS.filter(([, , take]) => columns.some((c) => take(c.table)[0] !== null && take(c.table)[0] !== undefined)).map(([name, depth, take, text]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", class: depth > 0 ? "under" : undefined, text: name }),
      ...columns.flatMap((c) => {
        const [a, b] = take(c.table);
        return [h("td", { class: "num", text: text(a) }), h("td", { class: "num absent", text: b === null || b === undefined ? "" : text(b) })];
      }),
    ),
  );
  return h(
    "section",
    { class: "table", "data-panel": "files-costs" },
    h("div", { class: "table-tools" }, h("h3", {}, term("Where the time of a request goes, medians", "fileCosts"))),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Where the time of a request goes" }, h("table", { class: "costs" }, h("thead", {}, head), h("tbody", {}, ...rows))),
    ...data.classes.flatMap(verdict),
  );
}

function verdict(c: ClassReport): HTMLElement[] {
  const v = c.all.classical_verdict;
  if (!v) return [];
  const badge = h("b", { class: `badge ${v.valid ? "ok" : "info"}`, text: v.valid ? "applies" : "not applicable, hidden" });
  return [h("p", { class: "note verdict" }, `Class ${c.class}: response-time decomposition `, badge, `: ${v.why}`)];
}
