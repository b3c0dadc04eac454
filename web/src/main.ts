import "uplot/dist/uPlot.min.css";
import "./style.css";
import "./files/style.css";
import "./live/style.css";
import "./plots/style.css";
import { AXIS_LEFT, AXIS_RIGHT } from "./charts/base";
import { HeatChart } from "./charts/heat";
import { PANELS } from "./charts/panels";
import { TimeChart } from "./charts/time";
import type { PageData } from "./generated/page";
import { h, onFrame } from "./dom";
import { filesPart } from "./files/part";
import { follow } from "./link";
import type { Said } from "./live/feed";
import { Live } from "./live/strip";
import { embedded, show } from "./page";
import { Plots } from "./plots/part";
import { Tables } from "./plots/rows";
import { Distributions } from "./sections/distributions";
import { Findings } from "./sections/findings";
import { header } from "./sections/header";
import { glossary, quality } from "./sections/quality";
import { Actors, deviceTables } from "./sections/tables";
import { InView, Toolbar } from "./sections/toolbar";
import { Store } from "./store";
import { onTheme, watch } from "./theme";
import { tooltip } from "./tooltip";
import { type NoData, ViewBar, served } from "./view";

/** A page that no server made may connect to none: the policy of all pages allows the one that they came from. */
function connectNowhere(): void {
  document.head.append(h("meta", { "http-equiv": "Content-Security-Policy", content: "connect-src 'none'" }));
}

/** What happens now on the machine of the server, unless the page is about another one's recordings. */
function live(data: PageData): HTMLElement | string {
  const here = !new URLSearchParams(location.search).has("host");
  if (!data.view?.live || !served() || !here) return "";
  const known = (said: Said) => data.findings.some((f) => f.kind === said.kind && (f.device ?? null) === said.device);
  return new Live(data.view.now_unix_s, known).root;
}

function build(data: PageData): void {
  watch();
  if (!data.view || !served()) connectNowhere();
  const store = new Store(data);
  const toolbar = new Toolbar(store);
  const inView = new InView(store);
  const plots = data.tables ? new Plots(store, new Tables(data.tables)) : null;
  // Logs are read beside others, by the clock on the wall; one without a date begins in 1970.
  if (plots && (data.recording.start_unix_s ?? 0) > 366 * 86400) store.clock = "utc";
  // A log's own rows have charts of their own; what single I/Os show it does not hold.
  const charts = plots ? [] : [...PANELS.map((p) => new TimeChart(p, store)), new HeatChart("read", store), new HeatChart("write", store)];
  const distributions = new Distributions(store);
  const time = h("section", { id: "time" }, h("h2", { text: "Over time" }));
  const findings = new Findings(store, () => time.scrollIntoView({ block: "start", behavior: "smooth" }));
  const quiet = data.scopes.length === 0;
  const none = h("p", { class: "empty", text: "No I/O completed, so there are no charts." });
  if (quiet) time.append(none);
  else time.append(toolbar.root, inView.root, plots ? plots.root : h("div", { class: "panels" }, ...charts.map((c) => c.root)));
  const whole = h("section", { id: "distributions" }, h("h2", { text: "Over the whole recording" }), distributions.root);
  const definitions = glossary();
  addEventListener("beforeprint", () => (definitions.open = true));
  const main = h("main", {}, findings.root, time, quiet || plots ? null : whole, deviceTables(store), plots ? null : new Actors(store).root, filesPart(data.files ?? undefined, store), quality(data), definitions);
  const footer = h("footer", { text: `Made by ${data.writer}. ${data.view ? "The server that made it answers only questions that its address asks." : "This file is complete: it loads nothing and sends nothing."}` });
  const bar = data.view ? new ViewBar(data.view, store).root : "";
  document.body.replaceChildren(bar, header(data), live(data), main, footer, tooltip());

  const draw = () => {
    findings.update();
    if (quiet) return;
    toolbar.update();
    inView.update();
    for (const c of charts) c.update();
    plots?.update();
    if (!plots) distributions.update();
  };
  const later = onFrame(draw);
  store.listen(later);
  if (!quiet) follow(store);
  const measure = () => {
    const panel = plots?.root ?? charts[0]?.root;
    if (panel) store.plotWidth = Math.max(200, panel.clientWidth - AXIS_LEFT - AXIS_RIGHT);
  };
  let width = 0;
  const resize = () => {
    if (quiet || main.clientWidth === width) return;
    width = main.clientWidth;
    measure();
    for (const c of charts) {
      c.resize();
      c.update();
    }
    plots?.resize();
    toolbar.update();
    if (!plots) distributions.update();
  };
  onTheme(() => {
    if (quiet) return;
    for (const c of charts) c.recolour();
    plots?.recolour();
    toolbar.update();
  });
  measure();
  draw();
  new ResizeObserver(onFrame(resize)).observe(main);
  document.documentElement.dataset["ready"] = performance.now().toFixed(0);
}

/** A time of which the server knows nothing: why, and the way to others. */
function nothing(data: NoData): void {
  watch();
  const main = h("main", {}, h("p", { class: "empty", role: "alert", text: data.problem }));
  document.body.replaceChildren(new ViewBar(data.view, null).root, main);
  document.documentElement.dataset["ready"] = performance.now().toFixed(0);
}

show(() => {
  const data = embedded<PageData | NoData>(1);
  if ("problem" in data) nothing(data);
  else build(data);
});
