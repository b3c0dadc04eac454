// The header of a report: host, date, length, kernel, source, I/Os, lost I/Os, and the recorder's cost.

import { h, term } from "../dom";
import * as format from "../format";
import type { Recording, PageData } from "../generated/page";
import { choose, current, onTheme } from "../theme";

/** Name, host and date, and the facts that qualify every number: source, losses, cost. */
export function header(data: PageData): HTMLElement {
  const r = data.recording;
  return h(
    "header",
    { class: "top" },
    h(
      "div",
      { class: "title" },
      h("span", { class: "brand", text: "iolens" }),
      h("h1", { text: title(r) }),
      themeButton(),
    ),
    h(
      "dl",
      { class: "facts" },
      fact("Recorded", "recorded", format.dateTime(beginOf(r))),
      fact("Length", "length", format.span(r.duration_s)),
      fact("Kernel", "kernel", r.kernel ?? format.ABSENT),
      fact("Source", "source", r.source),
      fact("I/Os", "ios", r.source === "counters" ? format.ABSENT : format.count(r.ios)),
      lost(r),
      fact("Recorder's cost", "cost", cost(r)),
    ),
  );
}

/**
 * Start of the page's data, in seconds since the epoch. A range of a longer recording begins later than the
 * recording.
 */
export function beginOf(r: Pick<Recording, "start_unix_s" | "from_s">): number {
  return r.start_unix_s + r.from_s;
}

/** The page's title. */
export function title(r: Recording): string {
  return r.host ? `Disk I/O of ${r.host}` : "Disk I/O";
}

function fact(name: string, definition: string, value: string, cls = ""): HTMLElement {
  return h("div", { class: cls || undefined }, h("dt", {}, term(name, definition)), h("dd", { text: value, "data-def": definition }));
}

function lost(r: Recording): HTMLElement {
  if (r.lost_ios === null) return fact("Lost", "lost", "unknown", "warn");
  if (r.lost_ios === 0) return fact("Lost", "lost", "none");
  const share = r.ios === null ? "" : ` (${format.percent((100 * r.lost_ios) / Math.max(1, r.ios + r.lost_ios))})`;
  return fact("Lost", "lost", `${format.count(r.lost_ios)}${share}`, "warn");
}

function cost(r: Recording): string {
  const { cpu_percent, max_rss_bytes, bytes_per_io } = r.recorder;
  const parts = [
    cpu_percent === null ? null : `${format.percent(cpu_percent)} of a CPU`,
    max_rss_bytes === null ? null : format.binaryBytes(max_rss_bytes),
    bytes_per_io === null ? null : `${format.number(bytes_per_io)} B per I/O`,
  ].filter((p) => p !== null);
  return parts.length > 0 ? parts.join(", ") : format.ABSENT;
}

function themeButton(): HTMLElement {
  const button = h("button", { type: "button", class: "theme", onclick: () => choose(current() === "dark" ? "light" : "dark") });
  const name = () => {
    const other = current() === "dark" ? "Light" : "Dark";
    button.textContent = other;
    button.setAttribute("aria-label", `${other} colours`);
  };
  name();
  onTheme(name);
  return button;
}
