// The time bar of a report from a server: earlier, later, closer, farther, "Up to now", Now, and live refresh.

import { typed, wallClock } from "./app/view";
import { h } from "./dom";
import * as format from "./format";
import type { ViewBlock } from "./generated/page";
import { scopeOf } from "./link";
import type { Store } from "./store";

/** A range of wall-clock time, in seconds since the epoch. */
export interface Stretch {
  from: number;
  to: number;
}

/** Replaces the report: why there is none for this time. */
export interface NoData {
  format: number;
  problem: string;
  view: ViewBlock;
}

/** In shorter ranges a report shows little more than single I/Os. */
const MIN_SPAN_S = 0.1;
/** Timeout of a request; a healthy server answers sooner. */
const PATIENCE_MS = 10_000;
/** Time spans that can be chosen, up to now. */
const SPANS: [string, number][] = [["1 min", 60], ["5 min", 300], ["15 min", 900], ["1 h", 3600], ["6 h", 21600], ["1 day", 86400]];

/** `stretch` shifted by this share of its length. */
export function moved(stretch: Stretch, share: number): Stretch {
  const by = (stretch.to - stretch.from) * share;
  return { from: stretch.from + by, to: stretch.to + by };
}

/** `stretch` scaled by this factor around its middle. */
export function scaled(stretch: Stretch, factor: number): Stretch {
  const middle = (stretch.from + stretch.to) / 2;
  const half = Math.max(MIN_SPAN_S, (stretch.to - stretch.from) * factor) / 2;
  return { from: middle - half, to: middle + half };
}

/**
 * The address of a time range. A range that has not ended at `now` becomes the last period of its length, which
 * moves on.
 */
export function query(stretch: Stretch, now: number): string {
  if (stretch.to >= now) return last(stretch.to - stretch.from);
  return `?from=${stretch.from.toFixed(3)}&to=${stretch.to.toFixed(3)}`;
}

/** The address of the last `seconds`. */
export function last(seconds: number): string {
  return `?from=-${Math.max(1, Math.round(seconds))}s&to=now`;
}

/**
 * The time bar: the range of a server's page within the time that the server has data of, and navigation to other
 * times.
 */
export class ViewBar {
  readonly root: HTMLElement;
  readonly #status = h("span", { class: "status", role: "status" });
  readonly #from = h("input", { class: "instant", spellcheck: "false", "aria-label": "From (UTC)", title: "2026-11-26 04:15:00, -5m, now" });
  readonly #to = h("input", { class: "instant", spellcheck: "false", "aria-label": "To (UTC)", title: "2026-11-26 04:15:00, -5m, now" });

  /** `store`: `null` if there is no data of this time. */
  constructor(readonly view: ViewBlock, readonly store: Store | null) {
    const button = (text: string, title: string, stretch: () => Stretch) =>
      h("button", { type: "button", text, title, "aria-label": title, onclick: () => this.#go(query(stretch(), this.#now())) });
    const span = h("select", { "aria-label": "The last", onchange: () => this.#go(last(Number(span.value))) },
      h("option", { text: "Up to now", value: "" }),
      ...SPANS.map(([text, seconds]) => h("option", { text, value: String(seconds) })));
    this.#from.value = wallClock(view.from_unix_s);
    this.#to.value = wallClock(view.to_unix_s);
    this.root = h("nav", { class: "view", "aria-label": "Time" },
      this.#application(),
      button("←", "Earlier (A or ←)", () => moved(this.#seen(), -0.5)),
      button("→", "Later (D or →)", () => moved(this.#seen(), 0.5)),
      button("+", "Closer (W)", () => scaled(this.#seen(), this.#zoomed() ? 1 : 0.5)),
      button("−", "Farther (S)", () => scaled(this.#seen(), 2)),
      span,
      h("form", { onsubmit: (e: Event) => this.#submit(e) }, this.#from, "–", this.#to, h("span", { text: "UTC" }), h("button", { text: "Show" })),
      h("button", { type: "button", text: "Now", title: "The last 15 minutes, live (N)", onclick: () => this.#go(last(900)) }),
      this.#status,
    );
    addEventListener("keydown", (e) => this.#key(e));
    if (view.live) this.#refresh();
    else this.#status.textContent = "a time in the past";
  }

  /** The visible range: the one that the charts are zoomed to. */
  #seen(): Stretch {
    const { from_unix_s: from, to_unix_s: to } = this.view;
    const { store } = this;
    const start = store?.data.recording.start_unix_s;
    if (!store || typeof start !== "number" || !this.#zoomed()) return { from, to };
    return { from: start + store.range.from, to: start + store.range.to };
  }

  #zoomed(): boolean {
    return this.store !== null && !this.store.whole;
  }

  /** The server's clock, which may differ from the reader's. */
  #now(): number {
    return this.view.now_unix_s;
  }

  #go(address: string): void {
    const device = this.store && this.store.scopeIndex > 0 ? scopeOf(this.store.scope?.label) : "";
    const host = new URLSearchParams(location.search).get("host");
    const same = host === null ? "" : `&host=${encodeURIComponent(host)}`;
    location.assign(`${location.pathname}${address}${same}${device}`);
  }

  /** A link to the application at the visible range. A page in a file has no application beside it. */
  #application(): HTMLElement | null {
    if (!location.pathname.endsWith("/report")) return null;
    const link = h("a", { href: "./", text: "← Stories, waits and charts", title: "The same time in the application, down to single I/Os" });
    // The address is computed on use, because the visible range changes without an event.
    const aim = () => link.setAttribute("href", this.#applicationAddress());
    for (const event of ["pointerenter", "pointerdown", "focus"]) link.addEventListener(event, aim);
    aim();
    return link;
  }

  #applicationAddress(): string {
    const host = new URLSearchParams(location.search).get("host");
    const device = this.store && this.store.scopeIndex > 0 ? this.store.scope?.label : undefined;
    const more = Object.entries({ host, device }).map(([name, value]) => (value ? `&${name}=${encodeURIComponent(value)}` : "")).join("");
    return `./${query(this.#seen(), this.#now())}${more}`;
  }

  /** Opens the application at the visible range. */
  leave(): void {
    location.assign(this.#applicationAddress());
  }

  #submit(e: Event): void {
    e.preventDefault();
    const [from, to] = [this.#from, this.#to].map((i) => typed(i.value, this.#now()));
    if (typeof from !== "number" || typeof to !== "number") {
      this.#status.textContent = `“${(typeof from === "number" ? this.#to : this.#from).value}” is no time: write 2026-11-26 04:15:00, -5m or now`;
    } else if (to > from) this.#go(query({ from, to }, this.#now()));
    else this.#status.textContent = "the end is not after the beginning";
  }

  #key(e: KeyboardEvent): void {
    const target = e.target as Element | null;
    if (e.ctrlKey || e.altKey || e.metaKey || target?.closest("input, select, textarea, [data-panel], .navigator")) return;
    const key = e.key.toLowerCase();
    const seen = this.#seen();
    const now = this.#now();
    if (key === "a" || key === "arrowleft") this.#go(query(moved(seen, -0.5), now));
    else if (key === "d" || key === "arrowright") this.#go(query(moved(seen, 0.5), now));
    else if (key === "w") this.#go(query(scaled(seen, this.#zoomed() ? 1 : 0.5), now));
    else if (key === "s") this.#go(query(scaled(seen, 2), now));
    else if (key === "n") this.#go(last(900));
    else return;
    e.preventDefault();
  }

  /** Refreshes the report, unless the reader has zoomed in or away, or the server does not answer. */
  #refresh(): void {
    const { refresh_s } = this.view;
    this.#status.textContent = `live, every ${format.span(refresh_s)}`;
    const again = async () => {
      const busy = this.#zoomed() || Boolean(this.store?.finding);
      if (document.hidden || busy) this.#status.textContent = busy ? "paused while zoomed in" : "paused";
      else if (await answers("healthz")) return location.reload();
      else this.#status.textContent = "the server does not answer, trying again";
      window.setTimeout(() => void again(), 1000);
    };
    window.setTimeout(() => void again(), refresh_s * 1000);
  }
}

/**
 * Whether a server answers at all, with success or an error. Reloading the page from a server that is down would
 * lose it.
 */
async function answers(address: string): Promise<boolean> {
  if (!served()) return true;
  const patience = new AbortController();
  const timer = window.setTimeout(() => patience.abort(), PATIENCE_MS);
  try {
    await fetch(address, { method: "HEAD", cache: "no-store", signal: patience.signal });
    return true;
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}

/** Whether the page came from a server, and not from a saved file. */
export function served(): boolean {
  return location.protocol.startsWith("http");
}
