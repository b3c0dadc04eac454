// Keeps the last ten minutes for the live strip: reads and writes of each device per second, and new findings.

import { RECENT_S, type Said, type Slot } from "./feed";

/** The activity of a device in a second. */
export interface Second {
  readBytes: number;
  writeBytes: number;
  reads: number;
  writes: number;
}

const SLOT_S = 0.1;
/** Maximum number of listed findings, the newest first. */
const MAX_SAID = 5;
/** Maximum number of devices that are saved while the page is rebuilt, the busiest first. */
const MAX_KEPT = 12;

/** The saved state while the page is rebuilt. */
interface Kept {
  newest: number;
  /** Name, end of the newest slot, and for each second its time and sums. */
  devices: [string, number, [number, number, number, number, number][]][];
  said: Said[];
}

/** The last ten minutes, by second and device. A second without slots is absent, because nothing is known of it. */
export class Recent {
  readonly #devices = new Map<string, Map<number, Second>>();
  /** By device, the end of its newest slot in Unix time. */
  readonly ends = new Map<string, number>();
  #newest = 0;
  said: Said[] = [];

  /** The end of the newest slot in Unix time; 0 if there is none. */
  get newest(): number {
    return this.#newest;
  }

  take(slot: Slot): void {
    const seconds = this.#devices.get(slot.device) ?? new Map<number, Second>();
    this.#devices.set(slot.device, seconds);
    // A slot belongs to the second that contains its start or most of it.
    const at = Math.floor(slot.time_s - SLOT_S / 2);
    const sum = seconds.get(at) ?? { readBytes: 0, writeBytes: 0, reads: 0, writes: 0 };
    seconds.set(at, sum);
    sum.readBytes += (slot.r_kib_per_s ?? 0) * 1024 * SLOT_S;
    sum.writeBytes += (slot.w_kib_per_s ?? 0) * 1024 * SLOT_S;
    sum.reads += (slot.r_per_s ?? 0) * SLOT_S;
    sum.writes += (slot.w_per_s ?? 0) * SLOT_S;
    this.ends.set(slot.device, slot.time_s);
    if (slot.time_s <= this.#newest) return;
    this.#newest = slot.time_s;
    for (const first of seconds.keys()) {
      if (first >= slot.time_s - RECENT_S) break;
      seconds.delete(first);
    }
  }

  /** Adds a finding that begins; sets the end of one that ends. */
  say(said: Said): void {
    const others = this.said.filter((s) => s.kind !== said.kind || s.device !== said.device || s.start !== said.start);
    this.said = [said, ...others].sort((a, b) => Date.parse(b.start) - Date.parse(a.start)).slice(0, MAX_SAID);
  }

  /** The seconds of each device, the devices with most bytes first. */
  devices(): [string, Map<number, Second>][] {
    const from = this.#newest - RECENT_S;
    const bytes = (seconds: Map<number, Second>) =>
      [...seconds].reduce((n, [at, s]) => n + (at >= from ? s.readBytes + s.writeBytes : 0), 0);
    return [...this.#devices].map((d) => [d, bytes(d[1])] as const).sort((a, b) => b[1] - a[1]).map(([d]) => d);
  }

  /** Serialised, for `restore`. */
  kept(): string {
    const rows = (seconds: Map<number, Second>) =>
      [...seconds].map(([at, s]) => [at, s.readBytes, s.writeBytes, s.reads, s.writes].map(Math.round)) as [number, number, number, number, number][];
    const devices: Kept["devices"] = this.devices().slice(0, MAX_KEPT).map(([name, seconds]) => [name, this.ends.get(name) ?? 0, rows(seconds)]);
    return JSON.stringify({ newest: this.#newest, devices, said: this.said } satisfies Kept);
  }

  /**
   * Restores the saved state, unless it is older than the server's memory at `now_s` of its clock, or newer than
   * that.
   */
  static restore(text: string | null, now_s: number): Recent {
    const recent = new Recent();
    try {
      const kept = JSON.parse(text ?? "null") as Kept | null;
      if (!kept || kept.newest > now_s || kept.newest < now_s - RECENT_S) return recent;
      for (const [name, end, rows] of kept.devices) {
        recent.ends.set(name, end);
        const seconds = rows.map(([at, readBytes, writeBytes, reads, writes]) => [at, { readBytes, writeBytes, reads, writes }] as const);
        recent.#devices.set(name, new Map(seconds));
      }
      recent.said = kept.said;
      recent.#newest = kept.newest;
      return recent;
    } catch {
      return new Recent();
    }
  }
}
