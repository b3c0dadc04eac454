// The application of serve and of report files: top bar, keys, search, and which data is asked for and when.

import "../style.css";
import "./style.css";
import { fill, h, isSelected, refill, visible } from "../dom";
import * as format from "../format";
import { Feed } from "../live/feed";
import { choose, current } from "../theme";
import { Problem, type Query, ask } from "./api";
import { Chart, type Episode } from "./chart";
import { type Rates, blocksIn, blocksOf, grown, isBounded, ratesIn, recordedOf } from "./compare";
import { comparison } from "./comparison";
import { type Actor, type Column, type Device, type Finding, type Heat, type Ios, type NotProven, type Series, type Stories, type Story, type Wait, NOT_KNOWN, actorName, doneOf, leavesOutNames, leftOut, spoken, startOf } from "./data";
import { type Screen, exportMenu } from "./export_menu";
import { folded, foldPlan } from "./fold";
import { merged, storyKey } from "./merged";
import { CLASSES, type Ways, actors, filterText, findings, legendOfParts, openStory, stories, storyLines, unmarkedOf, waits } from "./panels";
import { Loader } from "./part";
import { ALL_QUANTITIES, QUANTITIES, type Quantity, valuesOf } from "./quantities";
import { selection } from "./selection";
import { type Box, type ChosenStory, type Class, DEFAULT_SPAN_S, type Fold, IO_SPAN_S, MAX_SPAN_S, MIN_SPAN_S, type Subject, type View, columnOf, duration, read, shownClasses, stepOf, typed, wallClock, wholeColumns, write, zoomed } from "./view";

export interface Shell {
  format: number;
  now_unix_s: number;
  recording: boolean;
  /** Set for a report file. */
  file?: FileShell;
}

/**
 * Additions for a report file: its time is all that is known, and the other parts of the report can be shown in place
 * of the application.
 */
export interface FileShell {
  from: number;
  to: number;
  title: string;
  /** Notes about the contents of the file. */
  notes: string[];
  /** Builds the other parts when they are first requested. `back` returns to the application, optionally at a time range. */
  details(back: (range?: [number, number]) => void): HTMLElement;
  /** The application has nothing to draw, so the other parts are shown first. */
  detailsFirst: boolean;
}

/** Rows shorter than a second are not requested for more I/Os than this. */
const MANY_IOS = 1_000_000;
/** Maximum number of I/Os in a response of the server. */
const MAX_IOS = 100_000;
/** Slots of `live` are about a second late. A live view ends where they are complete. */
const LATE_S = 1.2;
/** I/Os that completed this recently may not be stored yet. */
const UNSTORED_S = 4;
const FRAME_MS = 250;
/** Refresh interval of the analyses in a live view; the heat map is refreshed more often. */
const ANALYSES_MS = 10_000;
const CHART_MS = 4000;
/** In between, the newest part of the heat map is refreshed for each new column, at most twice per second. */
const NEWEST_MS = 500;
const FOLD_MS = 10_000;
const PERIODS_MS = 60_000;
const MAX_SUGGESTIONS = 200;
/** The length of a time with milliseconds. */
const MILLIS_CHARACTERS = "2026-11-26 04:15:00.000".length;
/**
 * While the wheel or a key is in use, nothing is requested until the view rests for this long; only then it enters
 * the history.
 */
const REST_MS = 150;
const HISTORY_MS = 700;

export class Application {
  readonly #clockOffset: number;
  #view: View;
  /** The grouping of waits and I/Os. */
  #by: Subject = "process";
  readonly #chart: Chart;
  readonly #ways: Ways;
  readonly #loaders = {
    heat: new Loader("The heat map and throughput"), newest: new Loader("The newest I/Os"), stories: new Loader("The stories"), waits: new Loader("The waits"),
    actors: new Loader("The actors"), devices: new Loader("The devices"), box: new Loader("The I/Os of the boxes"), start: new Loader("The recordings"),
    periods: new Loader("The findings"), found: new Loader("The I/Os that are searched for"), exported: new Loader("The I/Os of the trace"),
  };
  readonly #stories = h("div");
  readonly #findings = h("details", { class: "found", hidden: true });
  readonly #waits = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Who waited for whom" });
  readonly #actors = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Actors" });
  readonly #box = h("section", { class: "panel-box", hidden: true, "aria-label": "Selection" });
  readonly #from = h("input", { class: "instant", spellcheck: "false", "aria-label": "From (UTC)", title: "2026-11-26 04:15:00.000, -5m, now" });
  readonly #to = h("input", { class: "instant", spellcheck: "false", "aria-label": "To (UTC)", title: "2026-11-26 04:15:00.000, -5m, now" });
  readonly #span = h("span", { class: "span" });
  readonly #live = h("button", { type: "button", class: "live-button", text: "Live", onclick: () => this.#now() });
  readonly #device = h("select", { "aria-label": "Device", onchange: () => this.#set({ device: this.#device.value || null }) }, h("option", { value: "", text: "All devices" }));
  readonly #cls = h("select", { "aria-label": "Class", onchange: () => this.#set({ cls: (this.#cls.value || null) as Class | null }) },
    h("option", { value: "", text: "Reads and writes" }), ...CLASSES.map((c) => h("option", { value: c, text: `Only ${c}` })));
  /** The layout selector: latency over time, or second-offset, which is offered if a period was found. */
  readonly #layouts = h("select", { hidden: true, "aria-label": "Layout of the heat map", onchange: () => {
    this.#chart.setFold(null, null);
    this.#change({ fold: this.#layoutOf[Number(this.#layouts.value)] ?? null });
  } });
  #layoutOf: (Fold | null)[] = [null];
  #periods: Finding[] = [];
  #lastPeriods = 0;
  readonly #quantity = h("select", { "aria-label": "Chart below the heat map", title: "What the chart below the heat map shows", onchange: () => this.#redraw({ quantity: this.#quantity.value as Quantity }) },
    ...ALL_QUANTITIES.map((q) => h("option", { value: q, text: QUANTITIES[q].title })));
  readonly #names = h("datalist", { id: "names" });
  readonly #find = h("input", { type: "search", list: "names", placeholder: "Find", "aria-label": "Find a process, control group or file", title: "Marks the times of a process, control group or file (/)", onchange: () => this.#search(this.#find.value), oninput: () => this.#find.value === "" && this.#search("") });
  readonly #foundText = h("small", { role: "status" });
  readonly #filter = h("span", { class: "filter", hidden: true });
  /** For a root with several hosts: the current host, linking to the list of all. */
  readonly #host = h("a", { class: "host", href: "./", hidden: true });
  readonly #report = h("a", { text: "Full report", title: "Distributions, sizes, sectors, files, findings of this time" });
  /** Sets what the next drag selects, for use without a keyboard. */
  readonly #select1 = h("button", { type: "button", text: "Select", title: "The next drag chooses a box (Shift+drag; B: all on screen)", "aria-pressed": "false", onclick: () => this.#choose("box") });
  readonly #select2 = h("button", { type: "button", text: "Compare", title: "The next drag chooses a second box to compare with the first (Ctrl+drag; C: all on screen)", "aria-pressed": "false", onclick: () => this.#choose("second") });
  /** Describes the view in print, where there are no controls. */
  readonly #printed = h("p", { class: "printed" });
  readonly #connection = h("span", { class: "part-status", role: "status" });
  readonly #open = new Set<string>();
  readonly #root: HTMLElement;
  #details: HTMLElement | null = null;
  #list: Story[] = [];
  /** The time range of the query that found a story. */
  readonly #foundIn = new WeakMap<Story, [number, number]>();
  /** Whether the story named in the URL has yet to be opened. */
  #opensStory: boolean;
  #series: Series | null = null;
  /** Mean over the last series. */
  #iosPerS = 0;
  #ios: Ios | null = null;
  #actorList: Actor[] = [];
  #waitList: Wait[] = [];
  #feed: Feed | null = null;
  #rest = 0;
  #history = 0;
  #lastChart = 0;
  #lastNewest = 0;
  #lastAnalyses = 0;

  constructor(private readonly shell: Shell) {
    this.#clockOffset = shell.now_unix_s - Date.now() / 1000;
    const now = this.#clock();
    const asked = read(this.#address(), now);
    const live = asked.range === null ? shell.recording && asked.host === null : asked.live;
    const [from, to] = asked.range ?? this.#usual();
    this.#view = { ...asked, from, to, live };
    this.#opensStory = asked.story !== null;
    this.#ways = {
      look: (a, b) => {
        this.#look(a, b);
        this.#revealChart();
      },
      lookAt: (story, a, b) => this.#lookAt(story, a, b), filter: (filter) => this.#set({ filter }),
      cls: (cls) => this.#set({ cls }), device: (device) => this.#set({ device }),
    };
    this.#chart = new Chart(this.#view, {
      look: (a, b) => this.#look(a, b),
      touched: () => this.#view.live && this.#pause(),
      select: (box, second) => this.#select(box, second),
      colour: (colour) => this.#redraw({ colour }),
      filter: (by, key) => (by === "class" ? this.#set({ cls: key as Class }) : this.#set({ filter: { by: "process", name: key } })),
    });
    this.#root = this.#layout();
    releaseSelects(this.#root);
    for (const loader of Object.values(this.#loaders)) loader.onAnswer = () => this.#askAgain();
    document.body.replaceChildren(this.#root);
    if (shell.file) this.#connection.textContent = shell.file.notes.join(" ");
    if (shell.file?.detailsFirst) this.#showDetails();
    this.#shown();
    addEventListener("keydown", (e) => this.#key(e));
    addEventListener("popstate", () => this.#restore());
    document.addEventListener("visibilitychange", () => this.#follow());
    window.setInterval(() => this.#tick(), FRAME_MS);
    if (asked.range === null && !live && !shell.file) this.#findNewest();
    else this.#load();
    this.#loadBoxes();
    this.#loadDevices();
  }

  #layout(): HTMLElement {
    const way = (text: string, title: string, run: () => void) => h("button", { type: "button", text, title, "aria-label": title, onclick: run });
    const spans: [string, number][] = [["1 min", 60], ["15 min", 900], ["1 h", 3600], ["1 day", 86400], ["30 days", 30 * 86400]];
    const span = h("select", { "aria-label": "The last", onchange: () => {
      if (span.value !== "") this.#last(Number(span.value));
      span.value = "";
    } }, h("option", { value: "", text: "Up to now" }), ...spans.map(([text, s]) => h("option", { value: String(s), text })));
    const head = h("header", { class: "bar" },
      h("h1", { class: "brand", text: "iolens" }), this.#host, this.shell.file ? h("span", { class: "file-title", text: this.shell.file.title }) : null, this.#device, this.#cls, this.#filter,
      h("span", { class: "spring" }),
      h("span", { class: "group" },
        way("←", "Earlier (A or ←)", () => this.#pan(-0.5)), way("→", "Later (D or →)", () => this.#pan(0.5)),
        way("+", "Closer (W or +)", () => this.#zoom(0.5)), way("−", "Farther (S or −)", () => this.#zoom(2))),
      h("form", { class: "group", onsubmit: (e: Event) => this.#typed(e) }, this.#from, h("span", { text: "–" }), this.#to, h("span", { class: "utc", text: "UTC" }), h("button", { text: "Go" })),
      this.shell.file ? way("All", "All that the file holds", () => this.#look(...this.#usual())) : span, this.#live,
      this.shell.file ? way("Details", "Details: findings, distributions, sizes, sectors, files, devices", () => this.#showDetails()) : this.#report,
      way("◐", "Light or dark", () => choose(current() === "dark" ? "light" : "dark")));
    const card = (title: string, cls: string, loader: Loader, body: HTMLElement, ...more: (HTMLElement | null)[]) =>
      h("section", { class: `panel-box ${cls}` }, h("header", {}, h("h2", { text: title }), ...more), loader.status, body);
    const tabs = h("span", { class: "tabs", role: "group", "aria-label": "By" }, ...(["process", "cgroup", "file"] as const).map((by) =>
      h("button", { type: "button", "aria-pressed": String(by === this.#by), text: by === "cgroup" ? "control group" : by, onclick: (e: Event) => {
        this.#by = by;
        tabs.querySelectorAll("button").forEach((b) => b.setAttribute("aria-pressed", String(b === e.currentTarget)));
        this.#loadWaits();
        this.#loadActors();
      } })));
    return h("main", { class: "app" }, head, this.#printed,
      h("div", { class: "answers" }, card("Stories", "stories", this.#loaders.stories, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Stories" }, this.#stories, this.#findings)), card("Who waited for whom", "waits", this.#loaders.waits, this.#waits, legendOfParts())),
      h("section", { class: "panel-box time" },
        h("header", {}, h("h2", { text: "Over time" }), this.#span, h("small", { id: "keys", class: "hint", title: "Keys: W S zoom, A D move, L live, B selects all on screen, C compares it, / finds, comma and full stop go through single I/Os, Escape closes", text: "drag or wheel: zoom · Shift+drag: select · Ctrl+drag: compare · W A S D: move" }),
          h("span", { class: "spring" }), this.#foundText, this.#quantity, this.#layouts, this.#find, this.#names, this.#select1, exportMenu(() => this.#screen(), this.#loaders.exported)),
        this.#connection, this.#loaders.start.status, this.#loaders.devices.status, this.#loaders.exported.status, this.#loaders.found.status,
        this.#loaders.heat.status, this.#chart.root),
      this.#box,
      card("Actors", "actors", this.#loaders.actors, this.#actors, tabs));
  }

  /** Shows the other parts of a report file in place of the application. */
  #showDetails(): void {
    const back = (range?: [number, number]) => {
      document.body.replaceChildren(this.#root);
      if (range) this.#look(...range);
    };
    this.#details ??= this.shell.file?.details(back) ?? null;
    if (this.#details) document.body.replaceChildren(this.#details);
    scrollTo(0, 0);
  }

  #clock(): number {
    // Nothing is known after the end of a file.
    return this.shell.file?.to ?? Date.now() / 1000 + this.#clockOffset;
  }

  /** The URL of the view. A file has the view behind `#`, because the rest of its URL must not change. */
  #address(): string {
    return this.shell.file ? location.hash.slice(1) : location.search;
  }

  #addressOf(view: View): string {
    return `${this.shell.file ? "#" : ""}${write(view)}`;
  }

  /** The time range shown if the URL names none. */
  #usual(): [number, number] {
    const { file } = this.shell;
    const now = this.#clock();
    return file ? [file.from, file.to] : [now - DEFAULT_SPAN_S, now];
  }

  /** Updates the URL and the controls around the chart. */
  #shown(): void {
    const v = this.#view;
    this.#chart.show(v);
    if (document.activeElement !== this.#from && document.activeElement !== this.#to) {
      this.#from.value = wallClock(v.from, v.to - v.from);
      this.#to.value = wallClock(v.to, v.to - v.from);
      for (const input of [this.#from, this.#to]) input.classList.toggle("micros", input.value.length > MILLIS_CHARACTERS);
    }
    this.#span.textContent = `${format.date(v.from)}, ${format.span(v.to - v.from)}`;
    fill(this.#printed, this.#title());
    this.#showLive();
    this.#showDevice();
    this.#cls.value = v.cls ?? "";
    this.#quantity.value = v.quantity;
    this.#quantity.hidden = v.to - v.from < IO_SPAN_S;
    this.#showLayouts();
    if (document.activeElement !== this.#find) this.#find.value = v.find ?? "";
    this.#showFilter();
    this.#showHost();
    const host = v.host === null ? "" : `host=${encodeURIComponent(v.host)}&`;
    this.#report.href = `report?${host}from=${v.from.toFixed(3)}&to=${Math.max(v.to, v.from + 0.001).toFixed(3)}`;
    document.documentElement.dataset["ready"] ??= performance.now().toFixed(0);
  }

  /** If nothing is being recorded, the button leads to the newest recorded time. */
  #showLive(): void {
    const { live, host } = this.#view;
    const canFollow = this.shell.recording && host === null;
    this.#live.hidden = this.shell.file !== undefined;
    const text = canFollow ? "Live" : "Newest";
    if (this.#live.textContent !== text) this.#live.textContent = text;
    this.#live.title = canFollow ? "Follow now (L or N)" : "The newest that is recorded (L or N)";
    if (canFollow) this.#live.setAttribute("aria-pressed", String(live));
    else this.#live.removeAttribute("aria-pressed");
  }

  /** An unknown device, as in a link to a device that is gone, is listed too. */
  #showDevice(): void {
    const { device } = this.#view;
    const isListed = device === null || [...this.#device.options].some((o) => o.value === device);
    if (!isListed) this.#device.append(h("option", { value: device, text: device }));
    this.#device.value = device ?? "";
  }

  #showHost(): void {
    const { host } = this.#view;
    this.#host.hidden = host === null;
    if (host === null || this.#host.textContent === visible(host)) return;
    this.#host.textContent = visible(host);
    this.#host.title = `${visible(host)}: to all hosts`;
    document.title = `${visible(host)} – Disk I/O – iolens`;
  }

  #showFilter(): void {
    const { filter } = this.#view;
    this.#filter.hidden = filter === null;
    this.#filter.parentElement?.classList.toggle("filtered", filter !== null);
    if (filter === null) {
      fill(this.#filter);
      return;
    }
    const kind = filter.by === "cgroup" ? "control group" : filter.by;
    const name = filterText(filter, this.#waitList);
    const all = h("button", { type: "button", text: "×", title: "Show all (Escape)", "aria-label": "Show all", onclick: () => this.#set({ filter: null }) });
    refill(this.#filter, h("span", { class: "only", title: name }, `Only ${kind} `, h("b", { text: name })), all);
  }

  /** Shows another time range. Requests wait until the view rests. */
  #look(from: number, to: number): void {
    const middle = (from + to) / 2;
    const span = Math.min(MAX_SPAN_S, Math.max(MIN_SPAN_S, to - from));
    const end = Math.min(middle + span / 2, this.#clock() + span / 2);
    this.#change({ from: end - span, to: end, live: false });
  }

  /** Shows the time of a story. The URL names the query that found it, because a query for this time alone may not find it. */
  #lookAt(story: Story, from: number, to: number): void {
    this.#name(story);
    this.#look(from, to);
    this.#revealChart();
  }

  /** Names a story in the URL. */
  #name(story: Story): void {
    const chosen = this.#view.story;
    const isChosen = chosen !== null && isStory(story, chosen);
    const [askedFrom, askedTo] = this.#foundIn.get(story) ?? [story.start_unix_s, story.end_unix_s];
    this.#view = { ...this.#view, story: isChosen ? chosen : { id: story.id, device: story.device, from: askedFrom, to: askedTo } };
  }

  /** Opens a story whose mark was clicked. */
  #showStory(story: Story): void {
    this.#name(story);
    this.#remember();
    openStory(this.#stories, story);
  }

  /** Scrolls to the chart if it is out of sight, as below the stories on a phone, so that the action is visible. */
  #revealChart(): void {
    const { top, bottom } = this.#chart.root.getBoundingClientRect();
    const seen = Math.min(bottom, innerHeight) - Math.max(top, 0);
    if (seen < Math.min(bottom - top, innerHeight) / 2) this.#chart.root.scrollIntoView({ block: "center" });
  }

  #change(next: Partial<View>): void {
    this.#view = { ...this.#view, ...next };
    // A live view shows the current time, so it names no story.
    if (this.#view.live) this.#view = { ...this.#view, story: null };
    this.#shown();
    this.#follow();
    clearTimeout(this.#rest);
    this.#rest = window.setTimeout(() => this.#load(), REST_MS);
    clearTimeout(this.#history);
    this.#history = window.setTimeout(() => this.#remember(), HISTORY_MS);
  }

  #remember(): void {
    if (write(this.#view) !== this.#address()) history.pushState(null, "", this.#addressOf(this.#view));
  }

  /** Redraws with the data that is available. */
  #redraw(next: Partial<View>): void {
    this.#view = { ...this.#view, ...next };
    this.#shown();
    this.#remember();
  }

  /** Applies another device, class or filter. */
  #set(next: Partial<View>): void {
    this.#chart.clear();
    this.#change(next);
    this.#loadBoxes();
  }

  #restore(): void {
    clearTimeout(this.#history);
    const asked = read(this.#address(), this.#clock());
    const [from, to] = asked.range ?? this.#usual();
    const other = asked.device !== this.#view.device || asked.cls !== this.#view.cls || JSON.stringify(asked.filter) !== JSON.stringify(this.#view.filter);
    if (other) this.#chart.clear();
    const sameBoxes = !other && JSON.stringify(asked.boxes) === JSON.stringify(this.#view.boxes);
    this.#view = { ...asked, from, to, live: asked.range === null ? this.shell.recording && asked.host === null : asked.live };
    this.#opensStory = asked.story !== null;
    this.#shown();
    this.#follow();
    if (asked.range === null && !this.#view.live && !this.shell.file) this.#findNewest();
    else this.#load();
    if (!sameBoxes) this.#loadBoxes();
  }

  #pan(share: number): void {
    const by = (this.#view.to - this.#view.from) * share;
    this.#look(this.#view.from + by, this.#view.to + by);
  }

  #zoom(factor: number): void {
    this.#look(...zoomed(this.#view.from, this.#view.to, factor));
  }

  #last(span: number): void {
    const now = this.#clock() - (this.shell.recording ? LATE_S : 0);
    this.#change({ from: now - span, to: now, live: this.shell.recording && this.#view.host === null });
  }

  /** Returns to live with the current width. */
  #now(): void {
    if (this.shell.recording && this.#view.host === null) this.#last(Math.max(1, this.#view.to - this.#view.from));
    else this.#findNewest(true);
  }

  #pause(): void {
    this.#view = { ...this.#view, live: false };
    this.#shown();
  }

  #typed(e: Event): void {
    e.preventDefault();
    const [from, to] = [this.#from, this.#to].map((i) => typed(i.value, this.#clock()));
    this.#connection.textContent = "";
    if (typeof from !== "number" || typeof to !== "number") {
      this.#connection.textContent = `“${(typeof from === "number" ? this.#to : this.#from).value}” is no time: write 2026-11-26 04:15:00, -5m or now.`;
    } else if (to <= from) this.#connection.textContent = "The end must be after the beginning.";
    else {
      (document.activeElement as HTMLElement | null)?.blur();
      this.#look(from, to);
    }
  }

  #key(e: KeyboardEvent): void {
    const target = e.target as Element | null;
    if (!this.#root.isConnected || e.ctrlKey || e.altKey || e.metaKey || target?.closest("input, select, textarea")) return;
    const keys: Record<string, () => void> = {
      w: () => this.#zoom(0.5), "+": () => this.#zoom(0.5), "=": () => this.#zoom(0.5), arrowup: () => this.#zoom(0.5),
      s: () => this.#zoom(2), "-": () => this.#zoom(2), arrowdown: () => this.#zoom(2),
      a: () => this.#pan(-0.25), arrowleft: () => this.#pan(-0.25), d: () => this.#pan(0.25), arrowright: () => this.#pan(0.25),
      l: () => this.#now(), n: () => this.#now(),
      "/": () => this.#find.focus(),
      b: () => this.#select(this.#chart.whole, false), c: () => this.#select(this.#chart.whole, true),
      escape: () => {
        if (!this.#box.hidden) this.#closeBoxes();
        else if (this.#view.find !== null) this.#search("");
        else if (this.#view.filter) this.#set({ filter: null });
      },
    };
    const run = keys[e.key.toLowerCase()];
    // Arrow keys scroll a list that has the focus.
    if (!run || (e.key.startsWith("Arrow") && target?.closest(".scroll"))) return;
    e.preventDefault();
    run();
  }

  /** Moves the end of a live view, four times per second. */
  #tick(): void {
    if (!this.#view.live || document.hidden) return;
    const span = this.#view.to - this.#view.from;
    const to = this.#clock() - LATE_S;
    this.#view = { ...this.#view, from: to - span, to };
    this.#shown();
    const now = performance.now();
    if (now - this.#lastChart > (this.#view.fold ? FOLD_MS : CHART_MS) && !this.#loaders.heat.busy) this.#loadChart(true);
    else this.#loadNewest(now);
    if (now - this.#lastAnalyses > ANALYSES_MS && !this.#loaders.stories.busy && !this.#loaders.waits.busy) this.#loadAnalyses(true);
  }

  /** Listens to the server while the view is live and visible. */
  #follow(): void {
    if (!this.#view.live || document.hidden) {
      this.#feed?.rest();
      return;
    }
    this.#feed ??= new Feed(this.#clock() - 60, new Map(), {
      slot: (slot) => {
        const { device, filter } = this.#view;
        // A slot covers a whole device, not a single process.
        if (filter !== null || (device !== null && device !== slot.device)) return;
        const more = slot as unknown as { inflight_mean: number | null; inflight_max: number | null; lossy?: boolean };
        const values = valuesOf((column) => (slot as unknown as Record<string, number | null>)[column]);
        this.#chart.addLive(slot.time_s, values, more.inflight_mean ?? 0, more.inflight_max ?? 0, more.lossy === true);
      },
      finding: () => (this.#lastAnalyses = -Infinity),
      connected: (lostAt) => {
        this.#connection.textContent = lostAt === null ? "" : `Not connected since ${format.clock(lostAt / 1000 + this.#clockOffset, 1)} UTC, trying again.`;
        // A feed that is paused reports this as well.
        if (lostAt === null && this.#view.live && !document.hidden) this.#askAgain();
      },
    }, {
      open: (address) => new EventSource(address),
      after: (ms, run) => window.setTimeout(run, ms),
      cancel: (timer) => clearTimeout(timer),
      now: () => Date.now(),
    });
    this.#feed.follow();
  }

  /**
   * If nothing is being recorded, shows the last minutes known, of any recording. The URL names them once the reader
   * asks for them.
   */
  #findNewest(isAsked = false): void {
    this.#loaders.start.run(async (signal) => {
      const { recordings } = await ask<{ recordings: { from: string; to: string | null }[] }>("recordings", { host: this.#view.host }, signal);
      if (recordings.length === 0) {
        fill(this.#stories, h("p", { class: "empty", text: "Nothing is recorded here yet." }));
        return;
      }
      const first = Math.min(...recordings.map((r) => Date.parse(r.from) / 1000));
      const to = Math.max(...recordings.map((r) => Date.parse(r.to ?? r.from) / 1000));
      this.#view = { ...this.#view, from: Math.max(first, to - DEFAULT_SPAN_S), to, live: false };
      this.#shown();
      if (isAsked) this.#remember();
      this.#load();
    });
  }

  /** The server answers again: failed requests are retried immediately, which would otherwise take up to half a minute. */
  #askAgain(): void {
    for (const loader of Object.values(this.#loaders)) loader.again();
  }

  #load(): void {
    for (const loader of Object.values(this.#loaders)) loader.renew();
    // The chart draws data at its time, but lists do not show theirs.
    for (const list of [this.#loaders.stories, this.#loaders.waits, this.#loaders.actors]) list.renew(this.#about());
    this.#follow();
    this.#loadChart(false);
    this.#loadAnalyses(false);
  }

  #loadAnalyses(quiet: boolean): void {
    this.#lastAnalyses = performance.now();
    this.#loadStories(quiet);
    this.#loadWaits(quiet);
    this.#loadActors(quiet);
    if (!quiet || performance.now() - this.#lastPeriods > PERIODS_MS) this.#loadPeriods();
  }

  /** The parameters common to all queries. */
  #question(): { from: string; to: string; device: string | null; host: string | null } {
    const { from, to, device, host } = this.#view;
    return { from: from.toFixed(6), to: to.toFixed(6), device, host };
  }

  /** The selection of I/Os. The server applies it, so it works for any number of I/Os. */
  #shownIos(): Query {
    const { filter, cls } = this.#view;
    return filter === null ? { class: cls } : { class: cls, [filter.by]: filter.name };
  }

  #loadChart(quiet: boolean): void {
    this.#lastChart = performance.now();
    const view = this.#view;
    const span = view.to - view.from;
    const single = span < IO_SPAN_S;
    // A quarter more is requested on both sides, so that a short move shows no gap.
    const margin = view.live ? 0 : span / 4;
    const column = columnOf((2 * span) / this.#chart.plotWidth);
    // Columns of whole seconds start at whole seconds, so that a move does not redraw everything.
    const [from, to] = wholeColumns(view.from - margin, view.to + margin, column);
    const width = Math.min(2048, Math.round((to - from) / column));
    const height = Math.min(96, Math.round(this.#chart.plotHeat / 4));
    const range = { ...this.#question(), from: from.toFixed(6), to: to.toFixed(6) };
    const shown = this.#shownIos();
    if (!single) this.#showIos(null);
    if (!quiet || !this.#loaders.found.busy) this.#loadFound({ ...range, ...shown }, width, height, (to - from) / width);
    this.#loaders.heat.run(async (signal) => {
      if (single) {
        // I/Os are listed by completion, so those that started in the view may complete later.
        const ios = await ask<Ios>("ios", { ...range, ...shown, to: (to + 1).toFixed(6), limit: MAX_IOS }, signal);
        this.#showIos(chosen(ios, (i) => startOf(ios, i) <= to));
        return;
      }
      const plan = view.fold && foldPlan(view.fold, from, to, this.#chart.plotWidth, span);
      if (view.fold && plan) {
        const cls = view.cls ?? view.fold.cls;
        const parts = plan.parts.map((p) => ask<Heat>("heatmap", { ...range, ...shown, from: p.from.toFixed(6), to: p.to.toFixed(6), class: cls, width: p.width, height: 1 }, signal));
        this.#chart.setFold(folded(view.fold, plan, await Promise.all(parts)), cls);
      } else this.#chart.setFold(null, null);
      const heats = plan ? [] : shownClasses(view.cls).map(async (cls) => this.#chart.addHeat(cls, await ask<Heat>("heatmap", { ...range, ...shown, class: cls, width, height }, signal), { from, to, columnS: (to - from) / width }));
      const drawn = await Promise.allSettled(heats);
      // Sums exist for whole seconds; shorter rows need every I/O.
      const finest = stepOf(to - from, width);
      const step = finest === 0.5 || (finest < 1 && this.#iosPerS * (to - from) > MANY_IOS) ? 1 : finest;
      this.#series = await ask<Series>("series", { ...range, ...shown, step: duration(Math.max(step, 0.001)), extended: "true" }, signal);
      // Newer I/Os may not be stored yet.
      this.#chart.setSeries(this.#series, { from, to: Math.min(to, this.#clock() - UNSTORED_S) });
      this.#iosPerS = rateOf(this.#series);
      // A report file has no heat map of each class, but rates of all.
      for (const heat of drawn) if (heat.status === "rejected") throw heat.reason;
    }, quiet);
  }

  /** Loads the heat map of the time after the last complete one, with the same column width. */
  #loadNewest(now: number): void {
    const { from, to, cls, fold } = this.#view;
    const span = to - from;
    const columnS = columnOf(span / Math.min(2048, this.#chart.plotWidth / 2));
    if (span < IO_SPAN_S || fold !== null || this.#loaders.newest.busy || this.#loaders.heat.busy || this.#loaders.heat.isRefused || now - this.#lastNewest < Math.max(NEWEST_MS, columnS * 1000)) return;
    this.#lastNewest = now;
    // Earlier I/Os may not have been stored when the complete one was requested.
    const since = Math.max(from, to - (now - this.#lastChart) / 1000 - 4);
    const [begin, end] = wholeColumns(since, to, columnS);
    const width = Math.max(1, Math.round((end - begin) / columnS));
    const query = { ...this.#question(), ...this.#shownIos(), from: begin.toFixed(6), to: end.toFixed(6), width, height: 192 };
    this.#loaders.newest.run(async (signal) => {
      const classes = shownClasses(cls);
      const heats = await Promise.all(classes.map((c) => ask<Heat>("heatmap", { ...query, class: c }, signal)));
      // A complete one that arrived in the meantime contains more.
      if (this.#view.live && !this.#loaders.heat.busy) classes.forEach((c, i) => this.#chart.addNewest(c, heats[i]!, (end - begin) / width));
    }, true);
  }

  #showIos(ios: Ios | null): void {
    this.#ios = ios;
    this.#chart.setIos(ios);
  }

  /** A one-line description of the view. */
  #title(): string {
    return `iolens, ${this.#about()}`;
  }

  #about(): string {
    const { from, to, device, cls, filter, host } = this.#view;
    const [begin, end] = [wallClock(from, to - from), wallClock(to, to - from)];
    return [host, device ?? "all devices", cls && `only ${cls}`, filter && `only ${filter.by} ${filter.name}`, `${begin} to ${end} UTC`].filter(Boolean).join(", ");
  }

  /** The view, for export. */
  #screen(): Screen {
    const { from, to, device, host } = this.#view;
    const second = new Date(from * 1000).toISOString().slice(0, 19).replaceAll(":", "");
    const range = { ...this.#question(), ...this.#shownIos() };
    const within = (ios: Ios) => chosen(ios, (i) => startOf(ios, i) < to && doneOf(ios, i) > from);
    const inView = (at: number | null) => at !== null && at > from && at <= to;
    const rows = this.#series?.columns["time_unix_s"]?.map((at, i) => (inView(at) ? i : -1)).filter((i) => i >= 0) ?? [];
    return {
      name: ["iolens", host, device, second].filter(Boolean).join("-"),
      address: new URL(this.#addressOf({ ...this.#view, live: false }), location.href).href,
      picture: () => this.#chart.picture(this.#title()),
      ios: this.#ios && within(this.#ios),
      series: this.#series && { ...this.#series, columns: at(this.#series.columns, rows) },
      actors: this.#actorList,
      waits: this.#waitList,
      by: this.#by,
      askIos: async (signal) => within(await ask<Ios>("ios", { ...range, to: (to + 1).toFixed(6), limit: MAX_IOS }, signal)),
    };
  }

  /** Loads the periods found by the analysis. */
  #loadPeriods(): void {
    this.#lastPeriods = performance.now();
    this.#loaders.periods.run(async (signal) => {
      const { findings: all } = await ask<{ findings: Finding[] }>("findings", { ...this.#question(), device: null }, signal);
      const { device } = this.#view;
      const found = all.filter((f) => device === null || f.device === null || device === f.device);
      findings(this.#findings, found, this.#ways);
      this.#periods = found.filter((f) => f.kind === "periodicity" && f.evidence.period_s);
      this.#showLayouts();
    }, true);
  }

  #showLayouts(): void {
    const { fold } = this.#view;
    const layouts: { text: string; fold: Fold | null }[] = [{ text: "Latency", fold: null }, { text: "Seconds", fold: { periodS: 1, anchorS: 0, cls: null } }];
    for (const { evidence, device, start_unix_s: start } of this.#periods.slice(0, 8)) {
      const periodS = Number((evidence.period_s ?? 1).toPrecision(6));
      // The periodic I/O appears a little above the lower edge.
      layouts.push({ text: `Every ${format.span(periodS)} (${evidence.class ?? ""}s, ${device ?? ""})`, fold: { periodS, anchorS: start - periodS / 8, cls: evidence.class ?? null } });
    }
    const same = (a: Fold | null, b: Fold | null) => a?.periodS === b?.periodS && a?.cls === b?.cls;
    if (!layouts.some((l) => same(l.fold, fold))) layouts.push({ text: `Every ${format.span(fold?.periodS)}`, fold });
    // In a view of single I/Os there is no other layout.
    this.#layouts.hidden = (this.#periods.length === 0 && fold === null) || this.#view.to - this.#view.from < IO_SPAN_S;
    const chosen = String(layouts.findIndex((l) => same(l.fold, fold)));
    if (JSON.stringify(layouts.map((l) => l.fold)) !== JSON.stringify(this.#layoutOf)) {
      this.#layoutOf = layouts.map((l) => l.fold);
      fill(this.#layouts, ...layouts.map((l, i) => h("option", { value: String(i), text: l.text })));
    }
    this.#layouts.value = chosen;
  }

  #search(text: string): void {
    const find = text.trim() === "" ? null : text.trim();
    if (find === this.#view.find) return;
    this.#chart.setFound(null, 1);
    this.#foundText.textContent = "";
    this.#change({ find });
  }

  /** Loads heat maps of the I/Os of a process, a control group and a file with this name. */
  #loadFound(range: Query, width: number, height: number, columnS: number): void {
    const { find, from, to } = this.#view;
    if (find === null) {
      this.#loaders.found.cancel();
      this.#chart.setFound(null, 1);
      this.#foundText.textContent = "";
      return;
    }
    this.#loaders.found.run(async (signal) => {
      const kinds = (["process", "cgroup", "file"] as const).map(async (kind) => ({ kind, heat: await ask<Heat>("heatmap", { ...range, [kind]: find, width, height }, signal) }));
      const found = (await Promise.all(kinds)).filter(({ heat }) => heat.counts.some((column) => column.some((n) => n > 0)));
      this.#chart.setFound({ heats: found.map(({ heat }) => heat), has: (ios, i) => isNamed(ios, i, find) }, columnS);
      const counts = found.map(({ kind, heat }) => {
        const shown = heat.counts.filter((_, c) => heat.from_unix_s + (c + 0.5) * heat.column_s >= from && heat.from_unix_s + (c + 0.5) * heat.column_s <= to);
        const n = shown.reduce((sum, column) => sum + column.reduce((a, b) => a + b, 0), 0);
        return `${kind === "cgroup" ? "control group" : kind}: ${format.count(n)} ${n === 1 ? "I/O" : "I/Os"}`;
      });
      fill(this.#foundText, counts.length > 0 ? counts.join(", ") : `No process, control group or file “${find}” here`);
    }, true);
  }

  #loadStories(quiet = false): void {
    this.#loaders.stories.run(async (signal) => {
      const { from, to, device, story: chosen } = this.#view;
      const { list, unknown, notes } = await this.#askStories(from, to, signal);
      const stays = (s: Story) => s.end_unix_s >= from && s.start_unix_s <= to && (device === null || s.device === device);
      if (chosen !== null) {
        // The story in the URL is shown even if it does not meet the thresholds in this time range.
        const isThere = list.some((s) => isStory(s, chosen));
        const earlier = isThere ? [] : await this.#askChosen(chosen, signal);
        list.unshift(...earlier.filter(stays));
        const shown = list.find((s) => isStory(s, chosen));
        if (shown && this.#opensStory) this.#open.add(storyKey(shown));
        if (!shown && this.#view.story === chosen) this.#view = { ...this.#view, story: null };
      }
      this.#opensStory = false;
      // An open story stays in the list even if the shorter time range alone would not contain it.
      const known = new Set(list.map(storyKey));
      const kept = this.#list.filter((s) => this.#open.has(storyKey(s)) && !known.has(storyKey(s)) && stays(s));
      this.#list = [...kept, ...list];
      if (!isKept(this.#stories, quiet)) stories(this.#stories, this.#list, unknown, notes, this.#ways, this.#open);
      const marked = this.#list.map((story) => ({ episodes: episodesOf(story), lines: storyLines(story), open: () => this.#showStory(story) }));
      this.#chart.setStories(marked, this.#list.reduce((n, s) => n + unmarkedOf(s), 0));
    }, quiet);
  }

  /** Requests the stories of a time range, for the selected I/Os. */
  async #askStories(from: number, to: number, signal: AbortSignal): Promise<{ list: Story[]; unknown: NotProven[]; notes: string[] }> {
    const query = { ...this.#question(), ...this.#shownIos(), from: from.toFixed(6), to: to.toFixed(6) };
    const { stories: found, not_proven: unknown, notes } = await ask<Stories>("stories", query, signal);
    const list = merged(leavesOutNames(notes) ? found.map((s) => ({ ...s, victim: s.victim && leftOut(s.victim), culprits: s.culprits.map(leftOut) })) : found);
    for (const story of list) this.#foundIn.set(story, [from, to]);
    return { list, unknown: unknown ?? [], notes };
  }

  /** Requests the story in the URL with the query that found it; empty if its time is no longer recorded. */
  async #askChosen(chosen: ChosenStory, signal: AbortSignal): Promise<Story[]> {
    try {
      const { list } = await this.#askStories(chosen.from, chosen.to, signal);
      return list.filter((s) => isStory(s, chosen));
    } catch (e) {
      if (e instanceof Problem && !e.passes) return [];
      throw e;
    }
  }

  async #askWaits(query: Query, signal: AbortSignal): Promise<{ list: Wait[]; notes: string[] }> {
    const { waits: list, notes } = await ask<{ waits: Wait[]; notes: string[] }>("waits", query, signal);
    if (!leavesOutNames(notes)) return { list, notes };
    return { list: list.map((w) => ({ ...w, victim: leftOut(w.victim), behind: w.behind.map(leftOut) })), notes };
  }

  #loadWaits(quiet = false): void {
    const by = this.#by;
    this.#loaders.waits.run(async (signal) => {
      const { list, notes } = await this.#askWaits({ ...this.#question(), ...this.#shownIos(), by }, signal);
      this.#waitList = list;
      this.#suggest(list.flatMap((w) => [w.victim, ...w.behind].flatMap((who) => [who.process, who.cgroup, who.file])));
      if (!isKept(this.#waits, quiet)) waits(this.#waits, list, notes, by, this.#ways);
      this.#showFilter();
    }, quiet);
  }

  #loadActors(quiet = false): void {
    const by = this.#by;
    this.#loaders.actors.run(async (signal) => {
      const { actors: list, others, notes } = await ask<{ actors: Actor[]; others: Actor | null; notes: string[] }>("actors", { ...this.#question(), ...this.#shownIos(), by }, signal);
      this.#suggest(list.flatMap((a) => [a.name, a.name?.replace(/\[\d+\]$/, "")]));
      this.#actorList = others ? [...list, { ...others, name: "others together" }] : list;
      if (!isKept(this.#actors, quiet)) actors(this.#actors, list, others ?? null, notes, by, this.#view.filter, this.#ways);
    }, quiet);
  }

  /** Sets the names offered by the search. */
  #suggest(names: (string | null | undefined)[]): void {
    const known = new Set([...this.#names.options].map((o) => o.value));
    for (const name of names) {
      if (!name || known.has(name) || known.size >= MAX_SUGGESTIONS) continue;
      known.add(name);
      this.#names.append(h("option", { value: name }));
    }
  }

  #loadDevices(): void {
    this.#loaders.devices.run(async (signal) => {
      const { devices } = await ask<{ devices: Device[] }>("devices", { host: this.#view.host }, signal).catch((e: unknown) => {
        // The other parts explain why there are no devices, for example an unknown host.
        if (e instanceof Problem && !e.passes) return { devices: [] };
        throw e;
      });
      const used = devices.filter((d) => (d.size_bytes ?? 0) > 0 || d.name === this.#view.device);
      fill(this.#device, h("option", { value: "", text: "All devices" }), ...used.map((d) => h("option", { value: d.name, text: d.model ? `${d.name} (${d.model})` : d.name })));
      this.#showDevice();
    }, true);
  }

  #choose(next: "box" | "second"): void {
    const button = next === "box" ? this.#select1 : this.#select2;
    const on = button.getAttribute("aria-pressed") !== "true";
    for (const b of [this.#select1, this.#select2]) b.setAttribute("aria-pressed", String(on && b === button));
    this.#chart.choosing(on ? next : null);
  }

  /** Selects a box: the first one replaces all boxes, the second one is compared with it. */
  #select(box: Box, second: boolean): void {
    const first = this.#view.boxes[0];
    this.#setBoxes(second && first ? [first, box] : [box]);
  }

  #closeBoxes(): void {
    this.#setBoxes([]);
  }

  #setBoxes(boxes: Box[]): void {
    for (const b of [this.#select1, this.#select2]) b.setAttribute("aria-pressed", "false");
    this.#chart.choosing(null);
    this.#view = { ...this.#view, boxes };
    this.#chart.show(this.#view);
    clearTimeout(this.#history);
    this.#history = window.setTimeout(() => this.#remember(), HISTORY_MS);
    this.#loadBoxes();
  }

  #loadBoxes(): void {
    const [first, second] = this.#view.boxes;
    this.#box.hidden = first === undefined;
    if (first === undefined) {
      this.#loaders.box.cancel();
      return;
    }
    const close = h("button", { type: "button", text: "Close", title: "Close (Escape)", onclick: () => this.#closeBoxes() });
    const tools = h("span", { class: "tools" }, this.#select2, close);
    fill(this.#box, h("header", {}, h("h2", { text: "Selection" }), tools), this.#loaders.box.status);
    this.#loaders.box.run(async (signal) => {
      if (second === undefined) await this.#explain(first, tools, signal);
      else await this.#compare(first, second, tools, signal);
      this.#box.scrollIntoView({ block: "nearest" });
    });
  }

  /** Shows what distinguishes the I/Os of a box from the others. */
  async #explain(box: Box, tools: HTMLElement, signal: AbortSignal): Promise<void> {
    const range = { ...this.#question(), ...this.#shownIos() };
    const whole = ask<Ios>("ios", { ...range, limit: MAX_IOS }, signal);
    // If the whole view has too many I/Os, the box is compared with the other latencies of its own time.
    const ios = await whole.catch((e: unknown) => {
      if (signal.aborted) throw e;
      return ask<Ios>("ios", { ...range, from: box.from.toFixed(6), to: box.to.toFixed(6), limit: MAX_IOS }, signal);
    });
    selection(this.#box, ios, box, this.#ways, tools);
  }

  /** Compares two boxes: their latencies in blocks of time, and the actors and waits of their times. */
  async #compare(first: Box, second: Box, tools: HTMLElement, signal: AbortSignal): Promise<void> {
    const by = this.#by;
    const question = (box: Box) => ({ ...this.#question(), from: box.from.toFixed(6), to: box.to.toFixed(6) });
    const blocks = async (box: Box, cls: Class) => {
      const query = { ...question(box), ...this.#shownIos(), class: cls, width: blocksOf(box.to - box.from), height: 256 };
      return blocksIn(await ask<Heat>("heatmap", query, signal), box.lowUs, box.highUs);
    };
    // For a partly recorded box, rates refer to the recorded part.
    const rates = async (box: Box, seconds: number): Promise<Rates> => {
      const { actors: list } = await ask<{ actors: Actor[] }>("actors", { ...question(box), ...this.#shownIos(), by }, signal);
      const { list: waiting } = await this.#askWaits({ ...question(box), ...this.#shownIos(), by }, signal);
      return {
        // The next run of a program has another process number, but is the same actor.
        actors: list.map((a) => ({ name: actorName(a)?.replace(/(.)\[\d+\]$/, "$1") ?? NOT_KNOWN, rate: a.io_time_s / seconds })),
        waits: waiting.flatMap((w) => w.behind.map((b) => ({ name: `${spoken(w.victim, by)} behind ${spoken(b, by)}`, rate: b.seconds / seconds }))),
      };
    };
    const classes = this.#view.cls === null ? (["read", "write"] as const) : [this.#view.cls];
    const pairs = classes.map(async (cls) => ({ cls, before: await blocks(first, cls), after: await blocks(second, cls) }));
    const inBoxes = await Promise.all(pairs);
    const recorded = (side: "before" | "after", box: Box) => recordedOf(inBoxes[0]?.[side]) || box.to - box.from;
    const seconds = [recorded("before", first), recorded("after", second)] as const;
    const inBounds = async (box: Box, s: number): Promise<Rates> =>
      ratesIn(await ask<Ios>("ios", { ...question(box), ...this.#shownIos(), limit: MAX_IOS }, signal), box, by, s);
    // Sums of actors and waits include all latencies. For some latencies single I/Os are needed, if there are not too
    // many; a file contains few.
    const isOfSome = isBounded(first) || isBounded(second);
    let exact: [Rates, Rates] | null = null;
    if (isOfSome && !this.shell.file) {
      exact = await Promise.all([inBounds(first, seconds[0]), inBounds(second, seconds[1])]).catch((e: unknown) => {
        if (e instanceof Problem && !e.passes) return null;
        throw e;
      });
    }
    const [before, after] = exact ?? (await Promise.all([rates(first, seconds[0]), rates(second, seconds[1])]));
    const note = isOfSome && exact === null ? "Of all latencies in the time of the boxes: their I/Os are not known one by one, or are too many." : null;
    comparison(this.#box, [first, second], inBoxes, grown(before.actors, after.actors), grown(before.waits, after.waits), note, tools);
  }
}

/**
 * Whether a refresh leaves a list unchanged, so that a reader who copies from it keeps the selection. The next
 * refresh draws it.
 */
const isKept = (list: HTMLElement, isRefresh: boolean): boolean => isRefresh && isSelected(list);

/**
 * Removes the focus from a list that was opened with the pointer after a choice, so that the next key goes to the
 * page and not to the list. Keyboard users keep the focus.
 */
function releaseSelects(root: HTMLElement): void {
  let pointed: EventTarget | null = null;
  root.addEventListener("pointerdown", (e) => (pointed = e.target));
  root.addEventListener("keydown", () => (pointed = null));
  root.addEventListener("change", (e) => {
    if (e.target instanceof HTMLSelectElement && e.target === pointed) e.target.blur();
  });
}

const isStory = (story: Story, { id, device }: ChosenStory): boolean => story.id === id && story.device === device;

/** The times of a story: its episodes, or its worst moment if it has none. */
function episodesOf(story: Story): Episode[] {
  const since = story.recording_start_unix_s;
  const worst = story.harm?.worst_at_s ?? null;
  if (story.episodes.length === 0 && worst !== null) return [{ from: since + worst, to: since + worst }];
  return story.episodes.map((e) => ({ from: since + e.start_s, to: since + e.end_s }));
}

/** Mean I/Os per second over the rows. */
function rateOf({ columns }: Series): number {
  const rows = columns["time_unix_s"]?.length ?? 0;
  const sum = (column: Column | undefined) => (column ?? []).reduce((n: number, v) => n + (v ?? 0), 0);
  return rows > 0 ? (sum(columns["r_per_s"]) + sum(columns["w_per_s"])) / rows : 0;
}

/** The I/Os for which `keep` returns true. */
function chosen(ios: Ios, keep: (i: number) => boolean): Ios {
  const kept = ios.columns.done_ns.map((_, i) => i).filter(keep);
  return { ...ios, ios: kept.length, columns: at(ios.columns, kept) };
}

/** Selects rows of all columns. */
function at<T extends object>(columns: T, rows: number[]): T {
  return Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, rows.map((i) => (column as unknown[])[i])])) as T;
}

/** Whether an I/O belongs to a process, control group or file with this name, as the server selects them. */
function isNamed(ios: Ios, i: number, name: string): boolean {
  const { process, pid, cgroup, file } = ios.columns;
  const below = (path: string | null | undefined) => typeof path === "string" && (path === name || path.startsWith(name.endsWith("/") ? name : `${name}/`) || (!name.includes("/") && path.endsWith(`/${name}`)));
  return process[i] === name || String(pid[i]) === name || `${process[i]}[${pid[i]}]` === name || below(cgroup[i]) || below(file[i]);
}
