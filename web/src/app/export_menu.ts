// The Export menu: picture, chart, actors and waits as files, I/Os for Perfetto, and a link to the view.

import { fill, h } from "../dom";
import type { Actor, Ios, Series, Wait } from "./data";
import { actorName, knownName } from "./data";
import { csv, ioColumns, save, trace } from "./export";
import type { Loader } from "./part";
import type { Subject } from "./view";

/** The current view. */
export interface Screen {
  /** Prefix of file names. */
  name: string;
  /** URL that shows the same view later. */
  address: string;
  picture(): Promise<Blob | null>;
  /** The I/Os of the view, if each is drawn. */
  ios: Ios | null;
  series: Series | null;
  actors: Actor[];
  waits: Wait[];
  /** The grouping of these. */
  by: Subject;
  /** Fetches all I/Os of the view. */
  askIos(signal: AbortSignal): Promise<Ios>;
}

/** The menu that exports the view to files and other programs. */
export function exportMenu(screen: () => Screen, loader: Loader): HTMLElement {
  const link = h("input", { readonly: true, hidden: true, "aria-label": "Link to what is on screen" });
  const menu = h("details", { class: "menu" });
  const close = () => {
    menu.open = false;
    link.hidden = true;
  };
  const text = (name: string, content: string, type: string) => save(name, new Blob([content], { type }));
  const item = (label: string, hint: string, run: (now: Screen) => void | Promise<void>) =>
    h("button", { type: "button", title: hint, text: label, onclick: () => void run(screen()) });
  const items = [
    item("Picture (PNG)", "The chart as it is on screen", async (now) => {
      const image = await now.picture();
      if (image) save(`${now.name}.png`, image);
      close();
    }),
    item("Chart (CSV)", "The rows of throughput, latency and in flight, or each I/O where each is drawn", (now) => {
      text(`${now.name}.csv`, csv(now.ios ? ioColumns(now.ios) : seriesColumns(now.series)), "text/csv");
      close();
    }),
    item("Actors (CSV)", "The table of actors", (now) => {
      text(`${now.name}-actors.csv`, csv(actorColumns(now.actors)), "text/csv");
      close();
    }),
    item("Waits (CSV)", "Who waited for whom: a row for each victim and each that it waited for", (now) => {
      text(`${now.name}-waits.csv`, csv(waitColumns(now.waits, now.by)), "text/csv");
      close();
    }),
    item("I/Os for Perfetto (JSON)", "A trace with each I/O of the view, for ui.perfetto.dev", (now) => {
      close();
      loader.run(async (signal) => text(`${now.name}.trace.json`, trace(now.ios ?? (await now.askIos(signal))), "application/json"));
    }),
    item("Link", "An address that shows the same", async (now) => {
      link.value = now.address;
      link.hidden = false;
      link.select();
      // Browsers deny access to the clipboard to pages without TLS from other machines; the link can then be copied
      // by hand.
      await navigator.clipboard?.writeText(now.address).then(close, () => undefined);
    }),
  ];
  fill(menu, h("summary", { text: "Export" }), h("div", { class: "items" }, ...items, link));
  menu.addEventListener("keydown", (e) => {
    if (e.key !== "Escape" || !menu.open) return;
    e.stopPropagation();
    close();
    menu.querySelector("summary")?.focus();
  });
  document.addEventListener("pointerdown", (e) => {
    if (menu.open && !menu.contains(e.target as Node)) close();
  });
  return menu;
}

type Columns = [name: string, values: unknown[]][];

function seriesColumns(series: Series | null): Columns {
  if (series === null) return [];
  const times = series.columns["time_unix_s"] ?? [];
  const iso = times.map((s) => (s === null ? null : new Date(s * 1000).toISOString()));
  return [["time", iso], ...Object.entries(series.columns)];
}

function actorColumns(list: Actor[]): Columns {
  const columns: Columns = [["name", list.map(actorName)], ["io_time_s", list.map((a) => a.io_time_s)]];
  for (const cls of ["read", "write", "discard", "flush"] as const) {
    for (const field of ["ios", "bytes", "mean_us"] as const) columns.push([`${cls}_${field}`, list.map((a) => a[cls][field])]);
  }
  return columns;
}

/** Sums of a victim are repeated in each of its rows. */
function waitColumns(list: Wait[], by: Subject): Columns {
  const rows = list.flatMap((w) => (w.behind.length > 0 ? w.behind : [null]).map((behind) => ({ w, behind })));
  const victim = (of: (w: Wait) => unknown) => rows.map((row) => of(row.w));
  return [
    ["device", victim((w) => w.device)], ["victim", victim((w) => knownName(w.victim, by))], ["victim_pid", victim((w) => w.victim.pid)],
    ["victim_cgroup", victim((w) => w.victim.cgroup)], ["victim_class", victim((w) => w.victim.class)], ["victim_origin", victim((w) => w.victim.origin)],
    ["ios", victim((w) => w.ios)], ["io_time_s", victim((w) => w.io_time_s)], ["undisturbed_s", victim((w) => w.undisturbed_s)], ["own_s", victim((w) => w.own_s)],
    ["held_s", victim((w) => w.held_s)], ["device_s", victim((w) => w.device_s)], ["unknown_s", victim((w) => w.unknown_s)],
    ["behind", rows.map((r) => r.behind && knownName(r.behind, by))], ["behind_pid", rows.map((r) => r.behind?.pid)], ["behind_class", rows.map((r) => r.behind?.class)],
    ["behind_s", rows.map((r) => r.behind?.seconds)], ["behind_ios", rows.map((r) => r.behind?.ios)],
  ];
}
