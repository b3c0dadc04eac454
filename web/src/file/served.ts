// The full report from a server: its details with time bar and live strip, or why there is no data of that time.

import { h } from "../dom";
import type { PageData } from "../generated/page";
import { follow } from "../link";
import type { Said } from "../live/feed";
import { Live } from "../live/strip";
import { type NoData, ViewBar, served } from "../view";
import { details } from "./details";

export { served };

/** What happens now on the machine of the server, unless the page is about another one's recordings. */
function live(data: PageData): HTMLElement | null {
  const here = !new URLSearchParams(location.search).has("host");
  if (!data.view?.live || !served() || !here) return null;
  const known = (said: Said) => data.findings.some((f) => f.kind === said.kind && (f.device ?? null) === said.device);
  return new Live(data.view.now_unix_s, known).root;
}

/** The report that a server made: the details alone. Its application is the server's own page. */
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

/** A time of which the server knows nothing: why, and the way to others. */
export function nothing(data: NoData): void {
  const main = h("main", {}, h("p", { class: "empty", role: "alert", text: data.problem }));
  document.body.replaceChildren(new ViewBar(data.view, null).root, main);
  document.documentElement.dataset["ready"] = performance.now().toFixed(0);
}
