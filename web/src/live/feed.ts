/** The server's live events while it records (docs/serve.md, `/api/v1/live`). */

/** A slot of 100 ms of a device, by its end in Unix time. */
export interface Slot {
  time_s: number;
  device: string;
  r_per_s: number | null;
  w_per_s: number | null;
  r_kib_per_s: number | null;
  w_kib_per_s: number | null;
}

/** The start or end of a finding. */
export interface Said {
  event: string;
  kind: string;
  severity: string;
  device: string | null;
  start: string;
  end: string;
  summary: string;
}

/** The used part of the browser's `EventSource`. */
export interface Source {
  addEventListener(type: string, listener: (event: { data?: string }) => void): void;
  close(): void;
}

/** Callbacks. */
export interface Listener {
  slot(slot: Slot): void;
  finding(said: Said): void;
  /** Called when the connection is established, or was lost at this time of the reader's clock, in milliseconds. */
  connected(lostAt: number | null): void;
}

/** The browser's functions that the feed uses; tests pass their own. */
export interface Browser {
  open(address: string): Source;
  after(ms: number, run: () => void): number;
  cancel(timer: number): void;
  now(): number;
}

/** How long the server keeps slots; older ones are only in the report. */
export const RECENT_S = 600;
/**
 * Devices have slots of the same time, so the slots before the last one are requested again, and duplicates are
 * dropped.
 */
const OVERLAP_S = 1;
const FIRST_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 30_000;
/**
 * Slots arrive every 100 ms, including idle ones. After this long without any, the connection is dead although it
 * was not closed.
 */
const SILENCE_MS = 30_000;

/**
 * Follows the server's events without gaps and duplicates, even if the connection breaks.
 *
 * The browser's own reconnection is not used. It would request the first address again, with slots that were received
 * long ago, and a new `EventSource` cannot set the last event's id. Instead each connection requests the slots after
 * the last received one.
 */
export class Feed {
  #source: Source | null = null;
  #pauseMs = FIRST_PAUSE_MS;
  #retry: number | null = null;
  #watch: number | null = null;
  #heardAt = 0;
  #lostAt: number | null = null;
  /** By device, the end of the newest slot. */
  readonly #newest: Map<string, number>;
  readonly #findings = new Set<string>();

  /**
   * `since_s`: slots after this Unix time are requested first; of the devices in `newest` only those after their
   * newest one.
   */
  constructor(private since_s: number, newest: ReadonlyMap<string, number>, private readonly to: Listener, private readonly browser: Browser) {
    this.#newest = new Map(newest);
  }

  /** Starts, or continues after the last slot. */
  follow(): void {
    if (this.#source || this.#retry !== null) return;
    this.#connect();
  }

  /** Disconnects until `follow`: the server accepts only a few live connections. */
  rest(): void {
    this.#close();
    if (this.#retry !== null) this.browser.cancel(this.#retry);
    this.#retry = null;
    this.#pauseMs = FIRST_PAUSE_MS;
    if (this.#lostAt === null) return;
    // No connection is attempted any more, so its state is not reported.
    this.#lostAt = null;
    this.to.connected(null);
  }

  #connect(): void {
    const source = this.browser.open(`api/v1/live?since=${Math.max(0, this.since_s - OVERLAP_S).toFixed(3)}`);
    this.#source = source;
    this.#heardAt = this.browser.now();
    // Late events of a connection that was closed are ignored.
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
    // The reader was too slow; the server still has the skipped slots.
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
