// The page of experiments (`iolens lab`): setup, sections with charts and tables, method, raw numbers.

import "../style.css";
import "./style.css";
import { fill, h } from "../dom";
import type { FileBlock, LabPage, SectionBlock, TableBlock } from "../generated/lab";
import { embedded, show } from "../page";
import { watch } from "../theme";
import { count } from "../format";
import { draw } from "./chart";

function build(data: LabPage): void {
  watch();
  const sections = data.sections.map(section);
  const links = data.sections.map((s, i) => h("a", { href: `#s${i}`, text: s.title }));
  if (data.method.length > 0) {
    sections.push(h("section", { id: "method" }, h("h2", { text: "Method" }), h("ul", {}, ...data.method.map((text) => h("li", { text })))));
    links.push(h("a", { href: "#method", text: "Method" }));
  }
  if (data.attachments.length > 0) {
    sections.push(h("section", { id: "raw" }, h("h2", { text: "Raw numbers" }), h("ul", { class: "links" }, ...data.attachments.map(file))));
    links.push(h("a", { href: "#raw", text: "Raw numbers" }));
  }
  const facts = data.setup.map(([what, value]) => h("div", {}, h("dt", { text: what }), h("dd", { text: value })));
  const header = h(
    "header",
    { class: "top" },
    h("div", { class: "title" }, h("h1", { text: data.title }), h("span", { class: "brand", text: "iolens lab" })),
    h("dl", { class: "facts" }, ...facts),
    h("nav", { "aria-label": "Sections" }, ...links),
  );
  const footer = h("footer", { text: `Made by ${data.writer}. This file is complete: it loads nothing and sends nothing.` });
  fill(document.body, header, h("main", { class: "lab" }, ...sections), footer);
  document.documentElement.dataset["ready"] = performance.now().toFixed(0);
}

function section(s: SectionBlock, i: number): HTMLElement {
  const figures = s.figures.map((f) => h("figure", {}, draw(f)));
  const links = s.links.map(([text, href]) => h("li", {}, h("a", { href, text })));
  return h(
    "section",
    { id: `s${i}` },
    h("h2", { text: s.title }),
    ...s.paragraphs.map((text) => h("p", { text })),
    figures.length > 0 && h("div", { class: "figures" }, ...figures),
    ...s.tables.map(table),
    links.length > 0 && h("ul", { class: "links" }, ...links),
  );
}

function table(t: TableBlock): HTMLElement {
  const cell = (tag: "td" | "th") => (text: string, i: number) => h(tag, { class: t.words[i] ? "words" : "", text });
  const rows = t.cells.map((r) => h("tr", {}, ...r.map(cell("td"))));
  const whole = h("table", {}, h("thead", {}, h("tr", {}, ...t.columns.map(cell("th")))), h("tbody", {}, ...rows));
  const body = h("div", { class: "scroll", tabindex: "0" }, whole);
  if (t.folded) return h("details", {}, h("summary", { text: t.caption ?? "Numbers" }), body);
  return h("div", {}, t.caption !== null && t.caption !== undefined && h("h3", { text: t.caption }), body);
}

function file(f: FileBlock): HTMLElement {
  const link = h("a", { download: f.name, href: `data:${f.media};base64,${f.base64}`, text: f.name });
  return h("li", {}, link, ` ${count(f.bytes)} bytes`);
}

show(() => build(embedded<LabPage>(1)));
