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
  /** Asks again what was not answered; `null` where nothing waits for that. */
  #retry: (() => void) | null = null;
  /** What is asked, and what the answer that is shown is about; `null` where the part itself says so. */
  #asked: string | null = null;
  #shown: string | null = null;
  /** Called with each answer. */
  onAnswer: () => void = () => undefined;

  /** `what` names the part in sentences: "The stories". */
  constructor(private readonly what: string) {}

  get busy(): boolean {
    return this.#running !== null;
  }

  /** Whether the last question was refused, as one about an unknown device is: a refresh is not worth asking. */
  get isRefused(): boolean {
    return this.#isRefused;
  }

  /** Another question than before: it is asked, whatever became of the last one. `about`: what it is about, in words. */
  renew(about: string | null = null): void {
    this.#isRefused = false;
    this.#asked = about;
  }

  /** The server is there again: what it did not answer is asked at once. */
  again(): void {
    if (this.#retry === null) return;
    this.#pauseMs = FIRST_PAUSE_MS;
    this.#retry();
  }

  /** What was drawn before stays: of which time it is, if that is another one. */
  #rest(): string {
    return this.#shown === null || this.#shown === this.#asked ? "" : ` Shown is what was loaded before: ${this.#shown}.`;
  }

  /** Cancels what is asked, and asks `load`, unless that was refused. `quiet`: nothing says that it loads, as on a live page. */
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
        // A newer request has taken the place of this one.
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
        // A busy server is not pressed.
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
