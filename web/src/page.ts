// Reads the data that a page holds, and shows "This report cannot be shown" where that fails.

import { h } from "./dom";

/** The data that the page holds, which must have the format that its script reads. */
export function embedded<T extends { format: number }>(format: number): T {
  const text = document.getElementById("iolens-data")?.textContent;
  if (!text) throw new Error("the page holds no data");
  const data = JSON.parse(text) as T;
  if (data.format !== format) throw new Error(`the data has format ${String(data.format)}, this page reads format ${format}`);
  return data;
}

/** Draws the page, or says why it cannot be drawn. */
export function show(build: () => void): void {
  try {
    build();
  } catch (e) {
    const text = `This report cannot be shown: ${e instanceof Error ? e.message : String(e)}.`;
    document.body.replaceChildren(h("p", { class: "fatal", role: "alert", text }));
    throw e;
  }
}
