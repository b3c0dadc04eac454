// The details of a report: findings, charts over time, distributions, devices, attribution, files, data quality.

import { AXIS_LEFT, AXIS_RIGHT } from "../charts/base";
import { PANELS } from "../charts/panels";
import { TimeChart } from "../charts/time";
import { h, onFrame } from "../dom";
import { filesPart } from "../files/part";
import type { PageData } from "../generated/page";
import { Plots } from "../plots/part";
import { Tables } from "../plots/rows";
import { Distributions } from "../sections/distributions";
import { Findings } from "../sections/findings";
import { header } from "../sections/header";
import { glossary, quality } from "../sections/quality";
import { Actors, deviceTables } from "../sections/tables";
import { InView, Toolbar } from "../sections/toolbar";
import { Store } from "../store";
import { onTheme } from "../theme";
import { tooltip } from "../tooltip";

/** The page around the details. */
export interface Around {
  /** Where the charts over time are, if the application draws them. */
  back(range: [number, number]): void;
  /** Elements above the details. */
  above(store: Store): (HTMLElement | null)[];
  footer: string;
}

/**
 * The parts of a report beside the application: findings, distributions, devices, files. The application draws single
 * I/Os over time. Kernel counters and imported logs have columns that it does not draw, so their charts over time are
 * here.
 */
export function details(data: PageData, around: Around): HTMLElement {
  const store = new Store(data);
  const plots = data.imported_tables ? new Plots(store, new Tables(data.imported_tables)) : null;
  // Logs are compared with other logs by wall-clock time. A log without a date begins in 1970.
  if (plots && (data.recording.start_unix_s ?? 0) > 366 * 86400) store.clock = "utc";
  const start = data.recording.start_unix_s ?? 0;
  const quiet = data.scopes.length === 0;
  // Counters have more columns than the application draws.
  const charts = data.recording.source === "counters" && !quiet ? PANELS.map((p) => new TimeChart(p, store)) : [];
  const over = plots !== null || charts.length > 0;
  const time = h("section", { id: "time" });
  const shown = () => {
    if (over) time.scrollIntoView({ block: "start", behavior: "smooth" });
    else around.back([start + store.range.from, start + store.range.to]);
  };
  const findings = new Findings(store, shown);
  const distributions = new Distributions(store);
  const toolbar = over ? new Toolbar(store) : null;
  const inView = new InView(store);
  if (toolbar) time.append(h("h2", { text: "Over time" }), toolbar.root, inView.root, plots?.root ?? h("div", { class: "panels" }, ...charts.map((c) => c.root)));
  const whole = h("section", { id: "distributions" }, h("h2", { text: "Over the whole recording" }), toolbar ? null : chooser(store), toolbar ? null : inView.root, distributions.root);
  const definitions = glossary();
  addEventListener("beforeprint", () => (definitions.open = true));
  const main = h("main", {}, findings.root, over ? time : null, quiet || plots ? null : whole, deviceTables(store), plots ? null : new Actors(store).root, filesPart(data.files ?? undefined, store), quality(data), definitions);
  const footer = h("footer", { text: `Made by ${data.writer}. ${around.footer}` });
  const [first, ...more] = around.above(store);
  const root = h("div", { class: "details-page" }, first, header(data), ...more, main, footer, tooltip());

  const draw = () => {
    if (!root.isConnected) return;
    findings.update();
    if (quiet) return;
    toolbar?.update();
    inView.update();
    for (const c of charts) c.update();
    plots?.update();
    if (!plots) distributions.update();
  };
  store.listen(onFrame(draw));
  onTheme(() => {
    for (const c of charts) c.recolour();
    plots?.recolour();
    draw();
  });
  new ResizeObserver(onFrame(() => {
    if (!root.isConnected) return;
    const panel = plots?.root ?? charts[0]?.root;
    if (panel) store.plotWidth = Math.max(200, panel.clientWidth - AXIS_LEFT - AXIS_RIGHT);
    for (const c of charts) c.resize();
    plots?.resize();
    draw();
  })).observe(main);
  return root;
}

/** Selects device and classes of the distributions. */
function chooser(store: Store): HTMLElement {
  const device = h("select", { "aria-label": "Device", onchange: () => store.chooseScope(device.selectedIndex) }, ...store.data.scopes.map((s) => h("option", { text: s.label })));
  const toggle = (cls: "read" | "write") => {
    const button = h("button", { type: "button", class: `toggle ${cls}`, "aria-pressed": "true", text: cls === "read" ? "Reads" : "Writes", onclick: () => {
      store.show[cls] = !store.show[cls];
      button.setAttribute("aria-pressed", String(store.show[cls]));
      store.changed();
    } });
    return button;
  };
  return h("p", { class: "row" }, device, toggle("read"), toggle("write"));
}
