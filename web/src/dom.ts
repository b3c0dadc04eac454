// Elements of the page: creates them with attributes and children, replaces their content, and adds definitions.

/** Attributes of an element; `class`, `text` and `on*` have a special meaning, the rest are set as attributes. */
export interface Props {
  class?: string;
  text?: string;
  [name: string]: unknown;
}

type Child = Node | string | null | undefined | false;

/**
 * Creates an element with attributes and children. Text is only ever inserted as text nodes and never parsed as
 * markup, so names of processes, files and devices cannot inject any.
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

// Control characters, and characters that change the direction of the text after them. Names of files and processes
// may contain them.
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

// Attributes that a browser displays or passes to screen readers; the others hold values that are compared.
const SPOKEN = new Set(["title", "aria-label", "alt"]);

/** `text` with invisible characters escaped, as in the terminal: `\x1b`, `\u{202e}`. */
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

/** Elements that can have the focus. */
const FOCUSABLE = "button, summary, a[href], input, select";

/** The row of a list that contains an element, and its part that identifies it when the list is rebuilt. */
function rowOf(root: Element, e: Element): { row: Element; key: string | null } {
  const row = e.closest("tr, details, p");
  if (!row || row === root || !root.contains(row)) return { row: root, key: null };
  return { row, key: keyOf(row) };
}

const keyOf = (row: Element): string => (row instanceof HTMLElement && row.dataset["key"]) || (row.querySelector("td") ?? row).textContent || "";

/**
 * Replaces all children like `fill`, but keeps children that are equal to the new ones, and keeps the focus in the
 * same row.
 */
export function refill(e: Element, ...children: Child[]): void {
  const next = document.createElement(e.tagName);
  append(next, children);
  if (next.innerHTML === e.innerHTML) return;
  const focused = document.activeElement;
  if (!focused || focused === e || !e.contains(focused)) {
    e.replaceChildren(...next.childNodes);
    return;
  }
  const { row, key } = rowOf(e, focused);
  const place = [...row.querySelectorAll(FOCUSABLE)].indexOf(focused);
  e.replaceChildren(...next.childNodes);
  const after = key === null ? e : [...e.querySelectorAll("tr, details, p")].find((r) => keyOf(r) === key);
  const same = after?.querySelectorAll<HTMLElement>(FOCUSABLE)[place];
  same?.focus({ preventScroll: true });
}

/** Whether the reader has selected text inside an element. */
export function isSelected(e: Element): boolean {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && selection.getRangeAt(0).intersectsNode(e);
}

/** A name or a number with its definition, shown on hover, focus or tap. */
export function term(text: string, definition: string, cls = ""): HTMLElement {
  return h("span", { class: `term ${cls}`.trim(), tabindex: "0", "data-def": definition, text });
}

/** Returns a function that calls `run` once per frame, however often it is called. */
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
