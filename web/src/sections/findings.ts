// The findings of the report as cards: the order of evidence, and the button that shows the time of a finding.

import type { FindingBlock, PageData } from "../generated/page";
import { DEFINITIONS, EVIDENCE } from "../definitions";
import { fill, h, term } from "../dom";
import * as format from "../format";
import { datedLabel } from "../charts/base";
import type { ClockMode, Store } from "../store";
import { around } from "../zoom";

/** The definition of a piece of evidence. */
const definition = (key: string): string => EVIDENCE[key] ?? "";

/** Number of cards shown at first. */
const shownAtFirst = () => (matchMedia("(max-width: 700px)").matches ? 3 : 6);
const FACTS = 7;

/** The most important evidence, in this order; the rest is collapsed. */
const FOREMOST = [
  "read_p99_during_us", "read_p99_outside_us", "write_p99_during_us", "write_p99_outside_us", "ratio",
  "period_s", "cycles", "confidence", "p_value",
  "peak_bytes_per_s", "mean_1s_bytes_per_s", "hidden_factor", "bytes", "ios", "peak_iops",
  "expected_s", "in_flight", "issued_meanwhile",
  "knee_in_flight", "mean_in_flight", "max_ios_per_s", "saturated_percent",
  "expected_percent", "busy_percent", "util_io_ticks_percent",
  "slowest_us", "cause",
];

/** The evidence for the card, the most important first, and all the rest. */
export function foremost(evidence: object, most: number): [[string, unknown][], [string, unknown][]] {
  const known = Object.entries(evidence).filter(([, v]: [string, unknown]) => v !== null) as [string, unknown][];
  const plain = known.filter(([, v]) => typeof v !== "object");
  const rank = (key: string) => (FOREMOST.includes(key) ? FOREMOST.indexOf(key) : FOREMOST.length);
  const ordered = [...plain].sort((a, b) => rank(a[0]) - rank(b[0]));
  const named = ordered.filter(([k]) => FOREMOST.includes(k)).length;
  const first = ordered.slice(0, named > 0 ? Math.min(most, named) : most);
  // The top consumer always gets a line.
  const cause = ordered.find(([k]) => k === "cause");
  if (cause && !first.includes(cause)) first[first.length - 1] = cause;
  return [first, known.filter((e) => !first.includes(e))];
}

/** Text of a page without findings: in a recording without single I/Os most kinds cannot be detected. */
export function noFindings(data: PageData): string {
  const r = data.recording;
  if (r.source === "counters") return "This recording holds kernel counters, no single I/Os: bursts and who waited for whom cannot be found in it.";
  if (data.imported_tables) return "This recording holds an imported table, no single I/Os: what harmed them and who waited for whom cannot be found in it.";
  if (r.ios === 0 && r.lost_ios !== 0) return `All I/Os of these ${format.span(r.duration_s)} are missing: what happened is not known.`;
  if (r.ios === 0) return `No block I/O completed during these ${format.span(r.duration_s)}: there is nothing to find, and nothing to draw.`;
  return "No findings: nothing harmed a device or its I/Os without a program behind it.";
}

/** Findings as cards. Choosing one zooms the charts to its time. */
export class Findings {
  readonly root: HTMLElement;
  readonly #list = h("div", { class: "cards" });
  readonly #cards = new Map<FindingBlock, HTMLElement>();
  #all = false;
  #clock: ClockMode;

  constructor(readonly store: Store, readonly chosen: () => void) {
    this.#clock = store.clock;
    this.root = h("section", { id: "findings" }, h("h2", { text: "Findings" }), this.#list);
    this.#fill();
  }

  #fill(): void {
    const findings = this.store.data.findings;
    if (findings.length === 0) {
      fill(this.#list, h("p", { class: "empty", text: noFindings(this.store.data) }));
      return;
    }
    const shown = this.#all ? findings : findings.slice(0, shownAtFirst());
    this.#cards.clear();
    const cards = shown.map((f) => this.#card(f));
    const rest = findings.length - shown.length;
    const more = rest > 0 && h("button", { class: "more", type: "button", text: `Show ${rest} more`, onclick: () => this.#showAll() });
    fill(this.#list, ...cards, more);
  }

  #showAll(): void {
    const next = this.store.data.findings[shownAtFirst()];
    this.#all = true;
    this.#fill();
    if (next) this.#cards.get(next)?.querySelector<HTMLElement>("button")?.focus();
  }

  #card(f: FindingBlock): HTMLElement {
    const kind = DEFINITIONS[f.kind];
    const [first, more] = foremost(f.evidence, FACTS);
    const fact = ([k, v]: [string, unknown]) => {
      const text = format.byKey(k, v);
      return h("div", { class: text.length > 18 ? "wide" : undefined }, h("dt", {}, definition(k) ? term(format.label(k), definition(k)) : format.label(k)), h("dd", { text, "data-def": definition(k) || undefined }));
    };
    const card = h(
      "article",
      { class: `card ${f.severity}` },
      h(
        "header",
        {},
        h("span", { class: `severity ${f.severity}`, text: f.severity }),
        kind ? term(kind.title, f.kind, "kind") : h("span", { class: "kind", text: f.kind }),
        f.device !== null && h("span", { class: "device", text: f.device }),
      ),
      h("p", { class: "summary", text: f.summary }),
      h("dl", { class: "facts" }, ...first.map(fact)),
      more.length > 0 && h("details", {}, h("summary", { text: "All evidence" }), h("dl", { class: "facts" }, ...more.map(fact))),
      h("button", { class: "show", type: "button", "aria-label": `Show ${this.#when(f)}: ${f.summary}`, text: `Show ${this.#when(f)}`, onclick: () => this.#show(f) }),
    );
    this.#cards.set(f, card);
    return card;
  }

  #when(f: FindingBlock): string {
    const span = f.end_s - f.start_s;
    if (span >= (this.store.bounds.to - this.store.bounds.from) * 0.98) return "the whole recording";
    return `${datedLabel(this.store, f.start_s, Math.max(span / 20, 1e-3), this.store.bounds.from)}, for ${format.span(span)}`;
  }

  #show(f: FindingBlock): void {
    this.store.chooseFinding(f, around(f.start_s, f.end_s, 0.05));
    this.chosen();
  }

  update(): void {
    if (this.#clock !== this.store.clock) {
      this.#clock = this.store.clock;
      this.#fill();
    }
    for (const [f, card] of this.#cards) card.classList.toggle("chosen", f === this.store.finding);
  }
}
