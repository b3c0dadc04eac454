// The live strip "The last ten minutes as they happen": bytes read and written by each device, and new findings.

import { fill, h, s } from "../dom";
import * as format from "../format";
import { type Browser, Feed, RECENT_S, type Said } from "./feed";
import { Recent, type Second } from "./recent";

/** Maximum number of devices with a row of their own. */
const MAX_ROWS = 6;
const HALF = 14;
const KEY = "iolens-live";

/** The saved state of a server's page. */
export const BROWSER: Browser = {
  open: (address) => new EventSource(address) as unknown as ReturnType<Browser["open"]>,
  after: (ms, run) => window.setTimeout(run, ms),
  cancel: (timer) => clearTimeout(timer),
  now: () => Date.now(),
};

/** The last ten minutes, live: the activity of each device, and new findings. */
export class Live {
  readonly root = h("section", { class: "live", "aria-label": "The last ten minutes, live", hidden: true });
  readonly #rows = h("div", { class: "rows" });
  readonly #said = h("ul", { class: "said" });
  readonly #state = h("p", { class: "note", role: "status" });
  readonly #recent: Recent;
  readonly #feed: Feed;
  #stale = true;

  /** `now_s`: the server's clock when it created the page. `known`: whether the page already has that finding. */
  constructor(now_s: number, readonly known: (said: Said) => boolean, browser: Browser = BROWSER) {
    const what = h("p", { class: "note", text: "The last ten minutes as they happen: bytes read (up) and written (down) in each second." });
    this.root.append(what, this.#rows, this.#said, this.#state);
    this.#recent = Recent.restore(kept(), now_s);
    const since_s = Math.max(this.#recent.newest, now_s - RECENT_S);
    this.#feed = new Feed(since_s, this.#recent.ends, {
      slot: (slot) => {
        this.#recent.take(slot);
        this.#stale = true;
      },
      finding: (said) => {
        this.#recent.say(said);
        this.#stale = true;
      },
      connected: (lostAt) => {
        this.#state.textContent = lostAt === null ? "" : `Not connected since ${format.clock(lostAt / 1000, 1)} UTC, trying again. What happens meanwhile comes then, up to ten minutes of it.`;
      },
    }, browser);
    const look = () => (document.hidden ? this.#feed.rest() : this.#feed.follow());
    document.addEventListener("visibilitychange", look);
    addEventListener("pageshow", look);
    addEventListener("pagehide", () => {
      this.#feed.rest();
      keep(this.#recent.kept());
    });
    look();
    this.draw();
    window.setInterval(() => this.draw(), 1000);
  }

  /** Draws new data. */
  draw(): void {
    if (!this.#stale || document.hidden) return;
    this.#stale = false;
    const to = Math.floor(this.#recent.newest);
    const devices = this.#recent.devices();
    const left = devices.length - MAX_ROWS;
    this.root.hidden = devices.length === 0;
    fill(this.#rows,
      ...devices.slice(0, MAX_ROWS).map(([name, seconds]) => row(name, seconds, to)),
      left > 0 && h("p", { class: "note", text: `${left} more devices with fewer bytes.` }));
    fill(this.#said, ...this.#recent.said.filter((said) => !this.known(said)).map(saying));
  }
}

/** A device: reads upwards, writes downwards, and its last complete second as text. */
function row(name: string, seconds: Map<number, Second>, to: number): HTMLElement {
  const last = seconds.get(to - 1);
  const most = Math.max(1, ...[...seconds.values()].map((x) => Math.max(x.readBytes, x.writeBytes)));
  const chart = s("svg", { viewBox: `0 0 ${RECENT_S} ${2 * HALF}`, preserveAspectRatio: "none", role: "img", "aria-label": `${name}: bytes read and written in each second of ten minutes, at most ${format.byteRate(most)}` },
    s("path", { class: "read", d: bars(seconds, to, (x) => -x.readBytes / most) }),
    s("path", { class: "write", d: bars(seconds, to, (x) => x.writeBytes / most) }));
  const figures = (cls: string, what: string, bytes: number | undefined, ios: number | undefined) =>
    h("span", { class: cls, text: `${what} ${format.byteRate(bytes)}, ${ios === undefined ? format.ABSENT : format.number(Math.round(ios))}/s` });
  return h("div", { class: "device" },
    h("b", { text: name }), chart,
    figures("read", "read", last?.readBytes, last?.reads), figures("write", "write", last?.writeBytes, last?.writes));
}

/** A bar for each second, from the middle line, with this share of half the height. */
export function bars(seconds: Map<number, Second>, to: number, share: (x: Second) => number): string {
  const from = to - RECENT_S;
  return [...seconds]
    .filter(([at, x]) => at >= from && at < to && share(x) !== 0)
    .map(([at, x]) => `M${at - from} ${HALF}v${(share(x) * HALF).toFixed(2)}h1V${HALF}z`)
    .join("");
}

function saying(said: Said): HTMLElement {
  const [start, end] = [Date.parse(said.start) / 1000, Date.parse(said.end) / 1000];
  const around = Number.isFinite(start) && Number.isFinite(end) ? `?from=${(start - 30).toFixed(3)}&to=${(end + 30).toFixed(3)}` : null;
  const when = Number.isFinite(start) ? format.clock(start, 1) : format.ABSENT;
  return h("li", {},
    around ? h("a", { href: around, text: when, title: "The minute around it" }) : when, " ",
    h("span", { class: `severity ${said.severity}`, text: said.severity }), " ",
    `${said.kind}${said.device ? `, ${said.device}` : ""}${said.event === "end" ? ", over" : ""}: ${said.summary}`);
}

/** The browser may refuse storage; then the next page requests all ten minutes from the server. */
function kept(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function keep(text: string): void {
  try {
    sessionStorage.setItem(KEY, text);
  } catch {
    // As above.
  }
}
