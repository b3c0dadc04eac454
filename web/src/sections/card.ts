// The frame of a small chart in the report: its title and controls, a line of its legend, and the text of an empty one.

import { h, term } from "../dom";

/** A small chart in a frame, with its title, definition and controls. */
export function card(id: string, title: string, definition: string, controls: HTMLElement | null, ...body: Node[]): HTMLElement {
  return h(
    "section",
    { class: "panel dist", "data-panel": id },
    h("header", {}, h("h3", {}, term(title, definition)), controls),
    ...body,
  );
}

/** Placeholder for a chart that cannot be drawn. */
export function emptyText(text: string): HTMLElement {
  return h("p", { class: "empty", text });
}

/** A line of a chart's legend. */
export function legendRow(cls: string, name: string, text: string): HTMLElement {
  return h("li", {}, h("i", { class: `swatch ${cls}` }), h("b", { text: name }), h("span", { text }));
}
