// A table that is sorted by a click on a column title and filtered by words.

import { fill, h } from "../dom";
import { ABSENT } from "../format";

/** A column of a table. */
export interface Column<Row> {
  title: string;
  definition?: string;
  /** The sort key; `null` sorts last in both directions. */
  key(row: Row): number | string | null;
  text(row: Row): string;
  numeric?: boolean;
  cls?: string | ((row: Row) => string);
  /** Definition of this row's cell, if it differs from the column's. */
  hint?(row: Row): string | null;
  /** Link target of this row's cell. */
  href?(row: Row): string;
}

/** A column of numbers, formatted by `text`. */
export function numeric<Row>(title: string, definition: string, key: (r: Row) => number | null, text: (v: number | null) => string, cls?: string): Column<Row> {
  return { title, definition, numeric: true, key, text: (r) => text(key(r)), ...(cls ? { cls } : {}) };
}

const FIRST = 50;

/** Rows sorted by a column; absent values are last in both directions. */
export function sorted<Row>(rows: Row[], key: (row: Row) => number | string | null, descending: boolean): Row[] {
  const sign = descending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const x = key(a);
    const y = key(b);
    if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
    if (typeof x === "number" && typeof y === "number") return sign * (x - y);
    return sign * String(x).localeCompare(String(y), "en", { numeric: true });
  });
}

/** Rows whose text contains every word of `query` in any column; case is ignored. */
export function filtered<Row>(rows: Row[], columns: Column<Row>[], query: string): Row[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return rows;
  return rows.filter((row) => {
    const text = columns.map((c) => c.text(row)).join(" ").toLowerCase();
    return words.every((w) => text.includes(w));
  });
}

/** A table that sorts by a click on a title and filters by words. */
export class Table<Row> {
  readonly root: HTMLElement;
  readonly #body = h("tbody");
  readonly #head = h("tr");
  readonly #status = h("p", { class: "status", role: "status" });
  readonly #more = h("button", { class: "more", type: "button", onclick: () => this.#showAll() });
  #query = "";
  #sort: number;
  #descending = true;
  #all = false;

  constructor(
    readonly name: string,
    readonly columns: Column<Row>[],
    public rows: Row[],
    sort: number,
    readonly nothing: string,
    descending = true,
    readonly first = FIRST,
  ) {
    this.#sort = sort;
    this.#descending = descending;
    const filter = h("input", {
      type: "search",
      placeholder: "Filter",
      "aria-label": `Filter ${name}`,
      oninput: (e: Event) => {
        this.#query = (e.target as HTMLInputElement).value;
        this.update();
      },
    });
    this.root = h(
      "div",
      { class: this.columns.length > 10 ? "table compact" : "table" },
      h("div", { class: "table-tools" }, h("h3", { "aria-hidden": "true", text: name }), this.#status, filter),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, h("table", {}, h("caption", { text: name }), h("thead", {}, this.#head), this.#body)),
      this.#more,
    );
    this.update();
  }

  #showAll(): void {
    this.#all = true;
    this.update();
  }

  #choose(i: number): void {
    if (this.#sort === i) this.#descending = !this.#descending;
    else {
      this.#sort = i;
      this.#descending = this.columns[i]?.numeric === true;
    }
    this.update();
    this.#head.children[i]?.querySelector("button")?.focus();
  }

  update(): void {
    fill(this.#head, ...this.columns.map((c, i) => this.#title(c, i)));
    const column = this.columns[this.#sort];
    const matching = filtered(this.rows, this.columns, this.#query);
    const rows = column ? sorted(matching, (r) => column.key(r), this.#descending) : matching;
    const shown = this.#all ? rows : rows.slice(0, this.first);
    fill(this.#body, ...shown.map((r) => this.#row(r)));
    if (rows.length === 0) {
      const text = this.rows.length === 0 ? this.nothing : "Nothing matches the filter.";
      fill(this.#body, h("tr", {}, h("td", { colspan: this.columns.length, class: "empty", text })));
    }
    this.#more.hidden = rows.length <= shown.length;
    this.#more.textContent = `Show ${rows.length - shown.length} more`;
    this.#status.textContent = this.#query ? `${rows.length} of ${this.rows.length}` : "";
  }

  #title(c: Column<Row>, i: number): HTMLElement {
    const active = i === this.#sort;
    const direction = active ? (this.#descending ? "descending" : "ascending") : "none";
    const button = h("button", { type: "button", "data-def": c.definition, onclick: () => this.#choose(i) }, h("span", { text: c.title }), h("i", { class: `arrow ${direction}`, "aria-hidden": "true" }));
    return h("th", { scope: "col", class: c.numeric ? "num" : undefined, "aria-sort": direction }, button);
  }

  #row(row: Row): HTMLElement {
    const cells = this.columns.map((c, i) => {
      const text = c.text(row);
      const cls = [c.numeric ? "num" : "", (typeof c.cls === "function" ? c.cls(row) : c.cls) ?? "", text === ABSENT ? "absent" : ""].filter(Boolean).join(" ");
      // Every number has a definition, not only its column's title.
      const definition = c.hint?.(row) ?? (c.numeric ? c.definition : undefined);
      const href = c.href?.(row);
      if (href !== undefined) return h(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : undefined, class: cls || undefined }, h("a", { href, text }));
      return i === 0 ? h("th", { scope: "row", class: cls || undefined, text }) : h("td", { class: cls || undefined, "data-def": definition, text });
    });
    return h("tr", {}, ...cells);
  }
}

