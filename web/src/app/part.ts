// Loads the data of one panel: shows that it is loading, or why it could not be loaded, and tries again.

import { h } from "../dom";
import { Problem, aborted } from "./api";

const FIRST_PAUSE_MS = 2000;
const MAX_PAUSE_MS = 30_000;

/**
 * A part of the page that fetches its own data. A newer request cancels the older one. The old content stays until
 * the new data arrives. An error is shown as a sentence in its place, and the request is retried if that may help.
 */
export class Loader {
  readonly status = h("p", { class: "part-status", role: "status" });
  #running: AbortController | null = null;
  #timer = 0;
  #pauseMs = FIRST_PAUSE_MS;
  #isRefused = false;
  /** Retries the failed request; `null` if none is waiting for a retry. */
  #retry: (() => void) | null = null;
  /** Descriptions of the current request and of the answer shown; `null` if the part itself shows this. */
  #asked: string | null = null;
  #shown: string | null = null;
  /** Called with each answer. */
  onAnswer: () => void = () => undefined;

  /** `what` names the part in sentences: "The stories". */
  constructor(private readonly what: string) {}

  get busy(): boolean {
    return this.#running !== null;
  }

  /** Whether the last request was refused, for example because of an unknown device. Refreshing it is pointless. */
  get isRefused(): boolean {
    return this.#isRefused;
  }

  /** Starts a new request, regardless of the result of the last one. `about` describes it. */
  renew(about: string | null = null): void {
    this.#isRefused = false;
    this.#asked = about;
  }

  /** The server is available again: failed requests are retried immediately. */
  again(): void {
    if (this.#retry === null) return;
    this.#pauseMs = FIRST_PAUSE_MS;
    this.#retry();
  }

  /** Says which time the remaining old content is about, if it differs. */
  #rest(): string {
    return this.#shown === null || this.#shown === this.#asked ? "" : ` Shown is what was loaded before: ${this.#shown}.`;
  }

  /**
   * Cancels the current request and runs `load`, unless that was refused. With `quiet`, no loading message is shown,
   * as on a live page.
   */
  run(load: (signal: AbortSignal) => Promise<void>, quiet = false): void {
    if (quiet && this.#isRefused) return;
    this.cancel();
    this.#isRefused = false;
    const controller = new AbortController();
    this.#running = controller;
    const asked = this.#asked;
    if (!quiet) this.status.textContent = `${this.what} are loading …`;
    load(controller.signal).then(
      () => {
        if (this.#running !== controller) return;
        this.#running = null;
        this.#pauseMs = FIRST_PAUSE_MS;
        this.status.classList.remove("failed");
        this.status.textContent = "";
        this.#shown = asked;
        this.onAnswer();
      },
      (e: unknown) => {
        // A newer request has replaced this one.
        if (this.#running !== controller || aborted(e)) return;
        this.#running = null;
        this.status.classList.add("failed");
        const why = e instanceof Error ? e.message : String(e);
        const again = !(e instanceof Problem) || e.passes;
        this.#isRefused = e instanceof Problem && e.isRefused;
        const said = again ? `${this.what} could not be loaded. ${why} Trying again in ${Math.round(this.#pauseMs / 1000)} s.` : why;
        this.status.textContent = `${said}${this.#rest()}`;
        if (!again) return;
        const retry = () => this.run(load, true);
        this.#timer = window.setTimeout(retry, this.#pauseMs);
        // A busy server is not retried immediately.
        if (e instanceof Problem && e.status === null) this.#retry = retry;
        this.#pauseMs = Math.min(MAX_PAUSE_MS, 2 * this.#pauseMs);
      },
    );
  }

  cancel(): void {
    clearTimeout(this.#timer);
    this.#retry = null;
    this.#running?.abort();
    this.#running = null;
  }
}
