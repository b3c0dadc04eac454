// The definitions of figures and findings in tooltips and glossary, and which one belongs to a piece of evidence.

import fields from "../../crates/iolens/src/present/fields.json";

/** What a number means: title, words, formula, the id of its definition in the documentation of the analyses, JSON keys. */
export interface Definition {
  title: string;
  text: string;
  formula?: string;
  id?: string;
  keys?: string[];
}

/** The program's one table of fields. */
export const DEFINITIONS: Record<string, Definition> = fields;

/** Which definition says what a piece of evidence is, by its key. */
export const EVIDENCE: Record<string, string> = Object.fromEntries(
  Object.entries(DEFINITIONS).flatMap(([id, d]) => (d.keys ?? []).map((key) => [key, id])),
);
