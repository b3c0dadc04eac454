/** What the server says while it records (docs/serve.md, `/api/v1/live`). */

/** A slot of 100 ms of a device, by its end in Unix time. */
export interface Slot {
  time_s: number;
  device: string;
  r_per_s: number | null;
  w_per_s: number | null;
  r_kib_per_s: number | null;
  w_kib_per_s: number | null;
}

/** A finding that begins or ends. */
export interface Said {
  event: string;
  kind: string;
  severity: string;
  device: string | null;
  start: string;
  end: string;
  summary: string;
}

/** What is used of the browser's `EventSource`. */
export interface Source {
  addEventListener(type: string, listener: (event: { data?: string }) => void): void;
  close(): void;
}

/** Who listens. */
export interface Listener {
  slot(slot: Slot): void;
  finding(said: Said): void;
  /** The connection is there, or was lost at this time of the reader's clock, in milliseconds. */
  connected(lostAt: number | null): void;
}

/** What the feed takes of the browser; tests give their own. */
export interface Browser {
  open(address: string): Source;
  after(ms: number, run: () => void): number;
  cancel(timer: number): void;
  now(): number;
}

/** The server remembers so much; what is older is in the report only. */
export const RECENT_S = 600;
/** Devices have slots of the same time: those before the last one are asked for again, and left out. */
const OVERLAP_S = 1;
const FIRST_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 30_000;
/** Slots come every 100 ms, idle ones too: after such a silence the other end is gone without a word. */
const SILENCE_MS = 30_000;

/**
 * Follows the server's events without a gap and without repetitions, over breaks of the connection.
 *
 * The browser's own reconnection is never waited for: it would ask with the first address for what was heard long ago, and
 * a new `EventSource` cannot say which event was the last. Instead each connection asks for what came after the last slot heard.
 */
export class Feed {
  #source: Source | null = null;
  #pauseMs = FIRST_PAUSE_MS;
  #retry: number | null = null;
  #watch: number | null = null;
  #heardAt = 0;
  #lostAt: number | null = null;
  /** By device the end of the newest slot. */
  readonly #newest: Map<string, number>;
  readonly #findings = new Set<string>();

  /** `since_s`: what came after this Unix time is wanted first, but of the devices in `newest` only what came after that. */
  constructor(private since_s: number, newest: ReadonlyMap<string, number>, private readonly to: Listener, private readonly browser: Browser) {
    this.#newest = new Map(newest);
  }

  /** Begins, or goes on where it was left. */
  follow(): void {
    if (this.#source || this.#retry !== null) return;
    this.#connect();
  }

  /** Leaves the server alone until `follow`: it has few places for those who watch. */
  rest(): void {
    this.#close();
    if (this.#retry !== null) this.browser.cancel(this.#retry);
    this.#retry = null;
    this.#pauseMs = FIRST_PAUSE_MS;
    if (this.#lostAt === null) return;
    // Nothing is tried any more, so nothing is said of it.
    this.#lostAt = null;
    this.to.connected(null);
  }

  #connect(): void {
    const source = this.browser.open(`api/v1/live?since=${Math.max(0, this.since_s - OVERLAP_S).toFixed(3)}`);
    this.#source = source;
    this.#heardAt = this.browser.now();
    // What a connection says after it was given up is another one's to say.
    const heard = (type: string, take: (data: string) => void) =>
      source.addEventListener(type, (e) => {
        if (this.#source !== source) return;
        this.#heardAt = this.browser.now();
        take(e.data ?? "");
      });
    heard("open", () => {
      this.#lostAt = null;
      this.to.connected(null);
    });
    heard("slot", (data) => this.#slot(data));
    heard("finding", (data) => this.#finding(data));
    // Too slow: what was left out is still remembered.
    heard("missed", () => this.#again());
    heard("error", () => this.#lost());
    this.#watch = this.browser.after(SILENCE_MS, () => this.#look());
  }

  #look(): void {
    const quietMs = this.browser.now() - this.#heardAt;
    if (quietMs >= SILENCE_MS) this.#lost();
    else this.#watch = this.browser.after(SILENCE_MS - quietMs, () => this.#look());
  }

  #lost(): void {
    this.#lostAt ??= this.browser.now();
    this.to.connected(this.#lostAt);
    this.#again();
  }

  #again(): void {
    this.#close();
    this.#retry = this.browser.after(this.#pauseMs, () => {
      this.#retry = null;
      this.#connect();
    });
    this.#pauseMs = Math.min(MAX_PAUSE_MS, 2 * this.#pauseMs);
  }

  #close(): void {
    this.#source?.close();
    this.#source = null;
    if (this.#watch !== null) this.browser.cancel(this.#watch);
    this.#watch = null;
  }

  #slot(data: string): void {
    const slot = parsed<Slot>(data);
    if (typeof slot?.time_s !== "number" || slot.time_s <= (this.#newest.get(slot.device) ?? 0)) return;
    this.#newest.set(slot.device, slot.time_s);
    this.since_s = Math.max(this.since_s, slot.time_s);
    this.#pauseMs = FIRST_PAUSE_MS;
    this.to.slot(slot);
  }

  #finding(data: string): void {
    const said = parsed<Said>(data);
    if (typeof said?.kind !== "string") return;
    const what = JSON.stringify([said.event, said.kind, said.device, said.start]);
    if (this.#findings.has(what)) return;
    this.#findings.add(what);
    this.to.finding(said);
  }
}

function parsed<T>(data: string): T | null {
  try {
    return JSON.parse(data) as T;
  } catch {
    return null;
  }
}
