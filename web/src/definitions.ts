// The definitions of values and findings in tooltips and glossary, and the definition of each piece of evidence.

import fields from "../../crates/iolens/src/present/fields.json";

/** A definition: title, text, formula, the id of its definition in the documentation of the analyses, JSON keys. */
export interface Definition {
  title: string;
  text: string;
  formula?: string;
  id?: string;
  keys?: string[];
}

/** The program's table of fields. */
export const DEFINITIONS: Record<string, Definition> = fields;

/** The definition of a piece of evidence, by its key. */
export const EVIDENCE: Record<string, string> = Object.fromEntries(
  Object.entries(DEFINITIONS).flatMap(([id, d]) => (d.keys ?? []).map((key) => [key, id])),
);
