/** Attributes of an element; `class`, `text` and `on*` as everywhere, the rest are set as attributes. */
export interface Props {
  class?: string;
  text?: string;
  [name: string]: unknown;
}

type Child = Node | string | null | undefined | false;

/**
 * An element with attributes and children. Text only ever becomes text nodes: nothing here parses markup, so names of
 * processes, files and devices stay what they are.
 */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const e = document.createElement(tag);
  apply(e, props);
  append(e, children);
  return e;
}

const SVG = "http://www.w3.org/2000/svg";

/** The same for SVG. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const e = document.createElementNS(SVG, tag);
  apply(e, props);
  append(e, children);
  return e;
}

function apply(e: Element, props: Props): void {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") e.textContent = String(value);
    else if (name.startsWith("on") && typeof value === "function") {
      e.addEventListener(name.slice(2), value as EventListener);
    } else e.setAttribute(name, value === true ? "" : String(value));
  }
}

function append(e: Element, children: Child[]): void {
  for (const c of children) if (c !== null && c !== undefined && c !== false) e.append(c);
}

/** Replaces all children. */
export function fill(e: Element, ...children: Child[]): void {
  e.replaceChildren(...children.filter((c): c is Node | string => c !== null && c !== undefined && c !== false));
}

/** A name or a number with its definition: shown on hover, on focus and on a tap. */
export function term(text: string, definition: string, cls = ""): HTMLElement {
  return h("span", { class: `term ${cls}`.trim(), tabindex: "0", "data-def": definition, text });
}

/** Calls `run` once for many calls in one frame. */
export function onFrame(run: () => void): () => void {
  let pending = false;
  return () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      run();
    });
  };
}
