// Reads the data embedded in a page, and shows "This report cannot be shown" if that fails.

import { h } from "./dom";

/** The data embedded in the page, which must have the format that its script expects. */
export function embedded<T extends { format: number }>(format: number): T {
  const text = document.getElementById("iolens-data")?.textContent;
  if (!text) throw new Error("the page holds no data");
  const data = JSON.parse(text) as T;
  if (data.format !== format) throw new Error(`the data has format ${String(data.format)}, this page reads format ${format}`);
  return data;
}

/** Draws the page, or an error message with the reason why it cannot be drawn. */
export function show(build: () => void): void {
  try {
    build();
  } catch (e) {
    const text = `This report cannot be shown: ${e instanceof Error ? e.message : String(e)}.`;
    document.body.replaceChildren(h("p", { class: "fatal", role: "alert", text }));
    throw e;
  }
}
