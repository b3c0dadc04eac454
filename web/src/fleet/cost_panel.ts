// The panel "Who cost whom" of the fleet page, from the worst minute of each host that lost most.

import { Problem, ask } from "../app/api";
import type { Wait } from "../app/data";
import { Loader } from "../app/part";
import { fill, h } from "../dom";
import * as format from "../format";
import type { FleetDocument, HostRow } from "../generated/fleet";
import { type Cost, type HostWaits, costs } from "./costs";

/** Number of hosts that are queried, those with most lost time. */
const HOSTS = 8;
const ROWS = 12;
/** Length of a host's worst period: a minute. */
const MINUTE_S = 60;

interface Place {
  (host: string, from: number | null | undefined, to: number): string;
}

/** Who cost whom, by pod or control group: the waits of the worst minute of the hosts with most lost time. */
export function costPanel(data: FleetDocument, place: Place): HTMLElement {
  const loader = new Loader("The waits");
  const body = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Who cost whom" });
  const known = data.hosts.filter((r) => typeof r.worst_unix_s === "number");
  const asked = known.sort((a, b) => (b.lost_s ?? -1) - (a.lost_s ?? -1)).slice(0, HOSTS);
  loader.run(async (signal) => {
    const answers: HostWaits[] = [];
    const unanswered: string[] = [];
    // One at a time: the server processes two queries at once, and other clients need it as well.
    for (const row of asked) {
      try {
        answers.push(await waitsOf(row, signal));
      } catch (e) {
        // A host without single I/Os of that time has no waits.
        if (!(e instanceof Problem) || e.passes) throw e;
        unanswered.push(row.host);
      }
      draw(body, costs(answers), answers.length, unanswered, asked, place);
    }
    if (asked.length === 0) fill(body, h("p", { class: "empty", text: "Nothing is known of this time." }));
  });
  return h("section", { class: "panel-box costs", id: "costs" }, h("header", {}, h("h2", { text: "Who cost whom" })), loader.status, body);
}

async function waitsOf(row: HostRow, signal: AbortSignal): Promise<HostWaits> {
  const from = row.worst_unix_s ?? 0;
  const query = { host: row.host, from: from.toFixed(3), to: (from + MINUTE_S).toFixed(3), by: "cgroup" };
  const { waits } = await ask<{ waits: Wait[] }>("waits", query, signal);
  const { actors } = await ask<{ actors: { name: string | null; pod?: string | null }[] }>("actors", query, signal);
  const pods = new Map<string, string>();
  for (const { name, pod } of actors) if (name && pod) pods.set(name, pod);
  return { host: row.host, waits, pods };
}

function draw(root: HTMLElement, list: Cost[], answered: number, unanswered: string[], asked: HostRow[], place: Place): void {
  const minutes = new Map(asked.map((r) => [r.host, r.worst_unix_s ?? 0]));
  const link = (host: string) => {
    const at = minutes.get(host) ?? 0;
    return h("a", { href: place(host, at, at + MINUTE_S), text: host });
  };
  const rows = list.slice(0, ROWS).map((c) =>
    h("tr", {},
      h("td", {}, h("b", { class: "culprit", text: c.culprit }), " delays ", h("b", { class: "victim", text: c.victim })),
      h("td", { class: "num", text: format.micros(c.seconds * 1e6) }),
      h("td", {}, c.hosts[0] ? link(c.hosts[0].host) : null, c.hosts.length > 1 ? h("small", { text: ` and ${c.hosts.length - 1} more`, title: c.hosts.map((x) => `${x.host} ${format.micros(x.seconds * 1e6)}`).join("\n") }) : null)));
  const hosts = answered === 1 ? "the host that lost most" : `the ${answered} hosts that lost most`;
  const notes = [`The sum of the worst minute of ${hosts}.`];
  if (unanswered.length > 0) notes.push(`No single I/Os of that time: ${unanswered.join(", ")}.`);
  fill(root,
    list.length === 0
      ? h("p", { class: "empty", text: "No group waited for another one." })
      : h("table", {}, h("thead", {}, h("tr", {}, ...["Who delays whom", "Time lost", "Worst on"].map((t, i) => h("th", { class: i === 1 ? "num" : "", text: t, scope: "col" })))), h("tbody", {}, ...rows)),
    ...notes.map((n) => h("p", { class: "note", text: n })));
}
