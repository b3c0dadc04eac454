import type { Finding } from "../data";
import { DEFINITIONS } from "../definitions";
import { fill, h, term } from "../dom";
import * as format from "../format";
import type { Store } from "../store";
import { around } from "../zoom";

const FIRST = matchMedia("(max-width: 700px)").matches ? 3 : 6;
const FACTS = 6;

/** Findings as cards; choosing one zooms the charts to its time. */
export class Findings {
  readonly root: HTMLElement;
  readonly #list = h("div", { class: "cards" });
  readonly #cards = new Map<Finding, HTMLElement>();
  #all = false;

  constructor(readonly store: Store, readonly chosen: () => void) {
    this.root = h("section", { id: "findings" }, h("h2", { text: "Findings" }), this.#list);
    this.#fill();
  }

  #fill(): void {
    const findings = this.store.data.findings;
    if (findings.length === 0) {
      fill(this.#list, h("p", { class: "empty", text: this.#nothing() }));
      return;
    }
    const shown = this.#all ? findings : findings.slice(0, FIRST);
    this.#cards.clear();
    const cards = shown.map((f) => this.#card(f));
    const rest = findings.length - shown.length;
    const more = rest > 0 && h("button", { class: "more", type: "button", text: `Show ${rest} more`, onclick: () => this.#showAll() });
    fill(this.#list, ...cards, more);
  }

  #nothing(): string {
    const r = this.store.data.recording;
    if (r.source === "counters") return "This recording holds kernel counters, no single I/Os: bursts, starvation and rhythms cannot be found in it.";
    if (r.ios === 0) return `No block I/O completed during these ${format.span(r.duration_s)}: there is nothing to find, and nothing to draw.`;
    return "Nothing stands out: no bursts beyond what one-second sampling shows, no starvation, no rhythm, no saturation.";
  }

  #showAll(): void {
    const next = this.store.data.findings[FIRST];
    this.#all = true;
    this.#fill();
    if (next) this.#cards.get(next)?.querySelector<HTMLElement>("button")?.focus();
  }

  #card(f: Finding): HTMLElement {
    const definition = DEFINITIONS[f.kind];
    const evidence = Object.entries(f.evidence).filter(([, v]) => v !== null && typeof v !== "object");
    const rest = Object.entries(f.evidence).filter(([, v]) => typeof v === "object");
    const fact = ([k, v]: [string, unknown]) => {
      const text = format.byKey(k, v);
      return h("div", { class: text.length > 18 ? "wide" : undefined }, h("dt", { text: format.label(k) }), h("dd", { text }));
    };
    const more = [...evidence.slice(FACTS), ...rest];
    const card = h(
      "article",
      { class: `card ${f.severity}` },
      h(
        "header",
        {},
        h("span", { class: `severity ${f.severity}`, text: f.severity }),
        definition ? term(definition.title, f.kind, "kind") : h("span", { class: "kind", text: f.kind }),
        f.device !== null && h("span", { class: "device", text: f.device }),
      ),
      h("p", { class: "summary", text: f.summary }),
      h("dl", { class: "facts" }, ...evidence.slice(0, FACTS).map(fact)),
      more.length > 0 && h("details", {}, h("summary", { text: "All evidence" }), h("dl", { class: "facts" }, ...more.map(fact))),
      h("button", { class: "show", type: "button", "aria-label": `Show in the charts: ${f.summary}`, text: `Show ${this.#when(f)}`, onclick: () => this.#show(f) }),
    );
    this.#cards.set(f, card);
    return card;
  }

  #when(f: Finding): string {
    const span = f.end_s - f.start_s;
    if (span >= (this.store.bounds.to - this.store.bounds.from) * 0.98) return "the whole recording";
    return `${format.elapsed(f.start_s, Math.max(span / 20, 1e-3))}, for ${format.span(span)}`;
  }

  #show(f: Finding): void {
    this.store.chooseFinding(f, around(f.start_s, f.end_s, 0.05));
    this.chosen();
  }

  update(): void {
    for (const [f, card] of this.#cards) card.classList.toggle("chosen", f === this.store.finding);
  }
}
