// Loads the data of one panel: shows that it is loading, or why it could not be loaded, and tries again.

import { h } from "../dom";
import { Problem, aborted } from "./api";

const FIRST_PAUSE_MS = 2000;
const MAX_PAUSE_MS = 30_000;

/**
 * A part of the page that fetches its own data. A newer request cancels the older one. What was drawn stays until the newer data
 * is there; a failure is a sentence in the part's place, and is tried again where it may pass.
 */
export class Loader {
  readonly status = h("p", { class: "part-status", role: "status" });
  #running: AbortController | null = null;
  #timer = 0;
  #pauseMs = FIRST_PAUSE_MS;
  #isRefused = false;

  /** `what` names the part in sentences: "The stories". */
  constructor(private readonly what: string) {}

  get busy(): boolean {
    return this.#running !== null;
  }

  /** Whether the last question was refused, as one about an unknown device is: a refresh is not worth asking. */
  get isRefused(): boolean {
    return this.#isRefused;
  }

  /** Another question than before: it is asked, whatever became of the last one. */
  renew(): void {
    this.#isRefused = false;
  }

  /** Cancels what is asked, and asks `load`, unless that was refused. `quiet`: nothing says that it loads, as on a live page. */
  run(load: (signal: AbortSignal) => Promise<void>, quiet = false): void {
    if (quiet && this.#isRefused) return;
    this.cancel();
    this.#isRefused = false;
    const controller = new AbortController();
    this.#running = controller;
    if (!quiet) this.status.textContent = `${this.what} are loading …`;
    load(controller.signal).then(
      () => {
        if (this.#running !== controller) return;
        this.#running = null;
        this.#pauseMs = FIRST_PAUSE_MS;
        this.status.classList.remove("failed");
        this.status.textContent = "";
      },
      (e: unknown) => {
        // A newer request has taken the place of this one.
        if (this.#running !== controller || aborted(e)) return;
        this.#running = null;
        this.status.classList.add("failed");
        const why = e instanceof Error ? e.message : String(e);
        const again = !(e instanceof Problem) || e.passes;
        this.#isRefused = e instanceof Problem && e.isRefused;
        this.status.textContent = again ? `${this.what} could not be loaded. ${why} Trying again in ${Math.round(this.#pauseMs / 1000)} s.` : why;
        if (!again) return;
        this.#timer = window.setTimeout(() => this.run(load, true), this.#pauseMs);
        this.#pauseMs = Math.min(MAX_PAUSE_MS, 2 * this.#pauseMs);
      },
    );
  }

  cancel(): void {
    clearTimeout(this.#timer);
    this.#running?.abort();
    this.#running = null;
  }
}
