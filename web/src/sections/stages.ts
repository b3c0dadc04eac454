// The card "Stages": where the time of a device's I/Os went in the block layer (Q2G, G2I, S2D, D2C).

import type { DepthBlock, Stage } from "../generated/page";
import { h, s, term } from "../dom";
import * as format from "../format";
import type { Store } from "../store";
import { card, emptyText } from "./card";
import { ONE_DEVICE, depthOf } from "./depth";

/** A stage of an I/O's path through the block layer. */
export interface StageRow {
  name: string;
  words: string;
  /** What its `n` counts: several bios may share a request. */
  counts: "requests" | "bios";
  stats: Stage;
  /** The total; the other stages are shares of it. */
  whole: boolean;
}

const REQUESTS: [keyof DepthBlock["stages"] & ("s2d" | "d2c" | "s2c"), string, string][] = [
  ["s2d", "S2D", "start to issue: the kernel's queues"],
  ["d2c", "D2C", "issue to completion: the device"],
  ["s2c", "S2C", "start to completion"],
];

const BIOS: [keyof NonNullable<DepthBlock["stages"]["bios"]>, string, string][] = [
  ["q2g", "Q2G", "queued to request allocated"],
  ["g2i", "G2I", "allocated to inserted into the scheduler"],
  ["i2d", "I2D", "inserted to issued"],
  ["q2m", "Q2M", "queued to merged into a request"],
  ["m2d", "M2D", "merged to issued"],
  ["d2c", "D2C", "issued to completed: the device"],
  ["q2c", "Q2C", "queued to completed"],
];

/** The known stages: those of requests, then those of bios. */
export function stageRows(stages: DepthBlock["stages"]): StageRow[] {
  const { bios } = stages;
  const rows: StageRow[] = REQUESTS.map(([key, name, words]) => ({ name, words, counts: "requests", stats: stages[key], whole: key === "s2c" }));
  if (bios) rows.push(...BIOS.map(([key, name, words]): StageRow => ({ name, words, counts: "bios", stats: bios[key], whole: key === "q2c" })));
  return rows.filter((r) => r.stats.n > 0);
}

/** One bar of a card with stacked bars, from `from` to `to` percent. */
export function bar(cls: string, from: number, to: number, label: HTMLElement, words: string, value: string, definition: string): HTMLElement {
  const rect = s("rect", { x: from, y: 0, width: Math.max(to - from, 0.25), height: 10, class: cls });
  return h(
    "li",
    {},
    label,
    h("span", { class: "words", text: words }),
    s("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, s("rect", { x: 0, y: 0, width: 100, height: 10, class: "track" }), rect),
    h("span", { class: "value", "data-def": definition, text: value }),
  );
}

/** Time of one device's I/Os per stage: each stage's bar begins where that of the previous one ends. */
export function stagesCard(store: Store): HTMLElement {
  const show = (...body: Node[]) => {
    const c = card("stages", "Stages", "stages", null, ...body);
    c.classList.add("whole-row");
    return c;
  };
  const depth = depthOf(store);
  if (!depth) return show(emptyText(ONE_DEVICE));
  const rows = stageRows(depth.stages);
  const counts = depth.stages.bios ? "bios" : "requests";
  const shown = rows.filter((r) => r.counts === counts);
  if (shown.every((r) => r.stats.share_percent === null)) return show(emptyText("Stages are not known for any I/O."));
  let at = 0;
  const bars = shown.map((r) => {
    const share = r.stats.share_percent ?? 0;
    const from = r.whole ? 0 : at;
    at = r.whole ? at : at + share;
    const cls = r.whole ? "total" : r.name === "D2C" ? "device" : "queue";
    const of = r.whole ? `, n = ${format.count(r.stats.n)} ${counts}` : `, mean of ${format.count(r.stats.n)}`;
    const value = `${r.whole ? "" : `${format.percent(r.stats.share_percent)}, `}${format.micros(r.stats.mean_us)}${of}`;
    return bar(cls, from, Math.min(100, from + share), h("b", {}, term(r.name, "stages")), r.words, value, "stages");
  });
  const note = depth.stages.bios ? "Counted per bio, as btt does: a request counts once for each bio in it." : "Counted per request: a tracer of requests does not see the bios in them.";
  return show(h("ul", { class: "bars" }, ...bars), h("p", { class: "note", text: note }));
}
