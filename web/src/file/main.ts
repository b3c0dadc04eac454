import "uplot/dist/uPlot.min.css";
import "../style.css";
import "../files/style.css";
import "../plots/style.css";
import { answerFrom } from "../app/api";
import { Inside } from "../app/inside";
import { Application } from "../app/main";
import type { PageData } from "../generated/page";
import { embedded, show } from "../page";
import { title } from "../sections/header";
import { watch } from "../theme";
import { details } from "./details";

show(() => {
  watch();
  const data = embedded<PageData>(1);
  const { inside } = data;
  if (!inside) throw new Error("the file holds no answers");
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
      notes: inside.left_out ?? [],
      details: (back) => details(data, back),
      // Counters and imported tables have more columns than the application draws.
      detailsFirst: !inside.heat,
    },
  });
});
