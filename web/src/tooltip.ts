// The tooltip with the definition of a term or figure, on hover, focus or tap.

import { DEFINITIONS } from "./definitions";
import { fill, h } from "./dom";

/** Shows the definition of any element with `data-def` on hover, focus or tap; Escape hides it. */
export function tooltip(): HTMLElement {
  const tip = h("div", { class: "tip", role: "tooltip", id: "tip" });
  tip.hidden = true;
  let owner: Element | null = null;

  const hide = () => {
    owner?.removeAttribute("aria-describedby");
    owner = null;
    tip.hidden = true;
  };
  const show = (target: EventTarget | null) => {
    const e = target instanceof Element ? target.closest("[data-def]") : null;
    if (e === owner) return;
    hide();
    const d = e ? DEFINITIONS[e.getAttribute("data-def") ?? ""] : undefined;
    if (!e || !d) return;
    owner = e;
    fill(tip, h("b", { text: d.title }), d.id ? h("span", { class: "id", text: d.id }) : null, h("p", { text: d.text }), d.formula ? h("code", { text: d.formula }) : null);
    e.setAttribute("aria-describedby", "tip");
    tip.hidden = false;
    place(tip, e.getBoundingClientRect());
  };
  // Scrolling moves elements under a resting pointer, which must not count as hover.
  let rest = "";
  document.addEventListener("pointerover", (e) => {
    const place = `${e.clientX} ${e.clientY}`;
    if (place !== rest) show(e.target);
    rest = place;
  });
  document.addEventListener("pointermove", (e) => (rest = `${e.clientX} ${e.clientY}`), { passive: true });
  document.addEventListener("focusin", (e) => show(e.target));
  document.addEventListener("focusout", hide);
  const follow = () => {
    if (!owner) return;
    if (owner.matches(":hover, :focus")) place(tip, owner.getBoundingClientRect());
    else hide();
  };
  document.addEventListener("scroll", follow, { passive: true });
  document.addEventListener("keydown", (e) => {
    if (e.key === "Escape" && owner) hide();
  });
  return tip;
}

function place(tip: HTMLElement, at: DOMRect): void {
  const margin = 8;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(Math.max(margin, at.left), innerWidth - width - margin);
  const below = at.bottom + 6;
  const top = below + height > innerHeight - margin && at.top - height - 6 > margin ? at.top - height - 6 : below;
  tip.style.left = `${Math.max(margin, left)}px`;
  tip.style.top = `${top}px`;
}
