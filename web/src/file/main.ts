// Starts the page of a report file, or of a report from a server, depending on its data.

import "uplot/dist/uPlot.min.css";
import "../style.css";
import "../files/style.css";
import "../live/style.css";
import "../plots/style.css";
import { answerFrom } from "../app/api";
import { Inside } from "../app/inside";
import { Application } from "../app/main";
import { h } from "../dom";
import type { PageData } from "../generated/page";
import { embedded, show } from "../page";
import { title } from "../sections/header";
import { watch } from "../theme";
import { details } from "./details";
import { nothing, served, servedReport } from "./served";
import type { NoData } from "../view";

/** A page from a file may not connect to any server. The policy of a server's page allows only that server. */
function connectNowhere(): void {
  document.head.append(h("meta", { "http-equiv": "Content-Security-Policy", content: "connect-src 'none'" }));
}

/** A report file: the application with embedded data, and the details. */
function file(data: PageData, inside: NonNullable<PageData["inside"]>): void {
  const start = data.recording.start_unix_s ?? 0;
  const findings = data.findings.map((f) => ({ ...f, start_unix_s: start + f.start_s, end_unix_s: start + f.end_s }));
  answerFrom(Inside.of(inside, findings));
  new Application({
    format: 1,
    now_unix_s: inside.to_unix_s,
    recording: false,
    file: {
      from: inside.from_unix_s,
      to: inside.to_unix_s,
      title: title(data.recording),
      notes: inside.omitted ?? [],
      details: (back) => details(data, {
        back,
        above: () => [h("nav", { class: "back-bar" }, h("button", { type: "button", text: "← Stories, waits and charts", onclick: () => back() }))],
        footer: "This file is complete: it loads nothing and sends nothing.",
      }),
      // Counters and imported tables have more columns than the application draws.
      detailsFirst: !inside.heat,
    },
  });
}

show(() => {
  watch();
  const data = embedded<PageData | NoData>(1);
  if ("problem" in data) {
    nothing(data);
    return;
  }
  if (!data.view || !served()) connectNowhere();
  if (data.inside) file(data, data.inside);
  else servedReport(data);
});
