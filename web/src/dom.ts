// Elements of the page: made with attributes and children, filled anew, and words with their explanation.

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

// Control characters, and what turns the direction of the text after it: names of files and processes may hold them.
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

// Attributes that a browser shows or speaks; the others hold values that are compared.
const SPOKEN = new Set(["title", "aria-label", "alt"]);

/** `text` with characters that cannot be seen written out, as the terminal shows them: `\x1b`, `\u{202e}`. */
export function visible(text: string): string {
  return text.replace(INVISIBLE, (c) => {
    const code = c.codePointAt(0) ?? 0;
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
  });
}

function apply(e: Element, props: Props): void {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") e.textContent = visible(String(value));
    else if (name.startsWith("on") && typeof value === "function") {
      e.addEventListener(name.slice(2), value as EventListener);
    } else e.setAttribute(name, value === true ? "" : SPOKEN.has(name) ? visible(String(value)) : String(value));
  }
}

function append(e: Element, children: Child[]): void {
  for (const c of children) if (c !== null && c !== undefined && c !== false) e.append(typeof c === "string" ? visible(c) : c);
}

/** Replaces all children. */
export function fill(e: Element, ...children: Child[]): void {
  e.replaceChildren();
  append(e, children);
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
