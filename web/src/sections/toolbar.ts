// The report's toolbar (device, clock, zoom), and "In view", the line of sums over the visible time range.

import { datedLabel } from "../charts/base";
import { Navigator } from "../charts/navigator";
import { fill, h, term } from "../dom";
import * as format from "../format";
import { totals } from "../levels";
import type { ClockMode, Store } from "../store";
import { scale } from "../zoom";

const CLOCKS: Record<ClockMode, [string, string]> = {
  utc: ["UTC", "wall clock in UTC"],
  local: ["Local time", "wall clock of this browser's zone"],
  elapsed: ["Since start", "since the start"],
};

/** Selects what the charts show, and navigates; it stays visible while they scroll. */
export class Toolbar {
  readonly root: HTMLElement;
  readonly #where = h("span", { class: "where" });
  readonly #step = term("", "step", "step");
  readonly #back = h("button", { type: "button", text: "Back", title: "Back to the last view (Backspace)", onclick: () => this.store.back() });
  readonly #all = h("button", { type: "button", text: "Show all", title: "The whole recording (Escape)", onclick: () => this.store.reset() });
  readonly #toggles: Record<"read" | "write", HTMLButtonElement>;
  readonly #scope: HTMLSelectElement;
  readonly #clock: HTMLButtonElement;
  readonly #navigator: Navigator;

  constructor(readonly store: Store) {
    this.#navigator = new Navigator(store);
    this.#toggles = { read: this.#toggle("read"), write: this.#toggle("write") };
    this.#scope = h(
      "select",
      { "aria-label": "Device", onchange: () => store.chooseScope(this.#scope.selectedIndex) },
      ...store.data.scopes.map((s) => h("option", { text: s.label })),
    );
    this.#clock = h("button", { type: "button", onclick: () => this.#nextClock() });
    this.#clock.hidden = store.startUnixS === null;
    const zoom = (factor: number) => () => store.look(scale(store.range, factor));
    this.root = h(
      "div",
      { class: "toolbar" },
      h(
        "div",
        { class: "row" },
        this.#scope,
        this.#toggles.read,
        this.#toggles.write,
        this.#clock,
        h("span", { class: "spring" }),
        this.#where,
        this.#step,
        h("span", { class: "buttons" },
          h("button", { type: "button", text: "+", "aria-label": "Zoom in", title: "Zoom in (+)", onclick: zoom(0.5) }),
          h("button", { type: "button", text: "−", "aria-label": "Zoom out", title: "Zoom out (−)", onclick: zoom(2) }),
          this.#back,
          this.#all,
        ),
      ),
      this.#navigator.root,
    );
  }

  #toggle(cls: "read" | "write"): HTMLButtonElement {
    const flip = () => {
      this.store.show[cls] = !this.store.show[cls];
      this.store.changed();
    };
    return h("button", { type: "button", class: `toggle ${cls}`, onclick: flip }, h("i", { class: `swatch ${cls}` }), `${cls === "read" ? "Reads" : "Writes"}`);
  }

  #nextClock(): void {
    const next: Record<ClockMode, ClockMode> = { utc: "local", local: "elapsed", elapsed: "utc" };
    this.store.clock = next[this.store.clock];
    this.store.changed();
  }

  update(): void {
    const { store } = this;
    const { from, to } = store.range;
    const step = store.level?.step ?? 1;
    const precision = Math.max(step, (to - from) / 1000);
    this.#where.textContent = `${datedLabel(store, from, precision)} – ${datedLabel(store, to, precision, from)}`;
    this.#step.textContent = `${format.span(step)} slots`;
    this.#back.disabled = !store.canGoBack;
    this.#all.disabled = store.whole && store.finding === null;
    const [name, meaning] = CLOCKS[store.clock];
    this.#clock.textContent = name;
    this.#clock.setAttribute("aria-label", `Times: ${meaning}`);
    this.#scope.selectedIndex = store.scopeIndex;
    for (const cls of ["read", "write"] as const) this.#toggles[cls].setAttribute("aria-pressed", String(store.show[cls]));
    this.#navigator.update();
  }
}

/** Sums over the visible range. */
export class InView {
  readonly root: HTMLElement;
  readonly #facts = h("dl", { class: "facts" });
  readonly #note = h("p", { class: "note" });

  constructor(readonly store: Store) {
    this.root = h("div", { class: "in-view" }, this.#facts, this.#note);
  }

  update(): void {
    const { store } = this;
    this.#note.textContent = store.scope?.note ?? "";
    this.#note.hidden = !store.scope?.note;
    const level = store.finest;
    if (!level) {
      fill(this.#facts);
      return;
    }
    const t = totals(level, ...level.within(store.range));
    const fact = (name: string, definition: string, value: string, cls = "") => h("div", { class: cls || undefined }, h("dt", {}, term(name, definition)), h("dd", { text: value, "data-def": definition }));
    fill(
      this.#facts,
      fact("In view", "view", format.span(store.range.to - store.range.from)),
      fact("Reads", "ios", amount(t.reads, t.readBytes), "read"),
      fact("Writes", "ios", amount(t.writes, t.writeBytes), "write"),
      fact(`Peak ${format.span(level.step)}`, "throughput", `${format.byteRate(t.peakBytesPerS)}, ${format.number(t.peakIops)}/s`),
      fact("Read mean / max", "mean", `${format.micros(t.readMeanUs)} / ${format.micros(t.readMaxUs)}`, "read"),
      fact("Write mean / max", "mean", `${format.micros(t.writeMeanUs)} / ${format.micros(t.writeMaxUs)}`, "write"),
      fact("Busy", "busy", format.percent(t.busyPercent)),
      fact("In flight mean / max", "inflight", `${format.number(t.inflightMean)} / ${format.number(t.inflightMax)}`),
    );
  }
}

function amount(ios: number, bytes: number): string {
  return ios === 0 ? format.ABSENT : `${format.count(ios)}, ${format.bytes(bytes)}`;
}
