// The full report from a server: its details with time bar and live strip, or the reason why there is no data of that
// time.

import { h } from "../dom";
import type { PageData } from "../generated/page";
import { follow } from "../link";
import type { Said } from "../live/feed";
import { Live } from "../live/strip";
import { type NoData, ViewBar, served } from "../view";
import { details } from "./details";

export { served };

/** Current activity of the server's machine, unless the page is about another machine's recordings. */
function live(data: PageData): HTMLElement | null {
  const here = !new URLSearchParams(location.search).has("host");
  if (!data.view?.live || !served() || !here) return null;
  const known = (said: Said) => data.findings.some((f) => f.kind === said.kind && (f.device ?? null) === said.device);
  return new Live(data.view.now_unix_s, known).root;
}

/** The report of a server: only the details. Its application is a page of the server itself. */
export function servedReport(data: PageData): void {
  let bar: ViewBar | null = null;
  const root = details(data, {
    back: () => bar?.leave(),
    above: (store) => {
      if (data.scopes.length > 0) follow(store);
      bar = data.view ? new ViewBar(data.view, store) : null;
      return [bar?.root ?? null, live(data)];
    },
    footer: data.view ? "The server that made it answers only questions that its address asks." : "This file is complete: it loads nothing and sends nothing.",
  });
  document.body.replaceChildren(root);
  document.documentElement.dataset["ready"] = performance.now().toFixed(0);
}

/** A time without data on the server: the reason, and links to other times. */
export function nothing(data: NoData): void {
  const main = h("main", {}, h("p", { class: "empty", role: "alert", text: data.problem }));
  document.body.replaceChildren(new ViewBar(data.view, null).root, main);
  document.documentElement.dataset["ready"] = performance.now().toFixed(0);
}
