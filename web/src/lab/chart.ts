// Draws the charts of experiments (`iolens lab`): curves and box plots, with their legends.

import { Frame } from "../charts/svg";
import { s } from "../dom";
import type { BoxChart, BoxMark, Chart, Figure } from "../generated/lab";
import { Axis, usable } from "./axis";

const WIDTH = 720;
const HEIGHT = 340;
const COLORS = 8;
/** Above this many points, markers hide the line that they are on. */
const MAX_MARKS = 60;
const LEGEND_COLUMNS = 3;

/** A chart of an experiment. */
export function draw(figure: Figure): SVGSVGElement {
  return "chart" in figure ? curves(figure.chart) : boxes(figure.box_chart);
}

function curves(c: Chart): SVGSVGElement {
  const shown = c.curves.map((k) => k.points.filter((p) => usable(p[0], c.x_scale) && usable(p[1], c.y_scale)));
  const x = Axis.of(shown.flat().map((p) => p[0]), c.x_scale);
  const y = Axis.of(shown.flat().map((p) => p[1]), c.y_scale);
  const f = frame(`${c.y} by ${c.x}`, c.curves.map((k) => k.name), y, c.y);
  for (const v of x.ticks()) {
    f.xTick(x.share(v), x.label(v));
    f.add(s("line", { x1: f.x(x.share(v)), x2: f.x(x.share(v)), y1: f.y(0), y2: f.y(1), class: "gridline" }));
  }
  f.xTitle(c.x);
  c.curves.forEach((k, i) => {
    const at = (shown[i] ?? []).map((p) => [f.x(x.share(p[0])), f.y(y.share(p[1]))] as const);
    const points = at.map((p) => p.map((v) => v.toFixed(1)).join(",")).join(" ");
    f.add(s("polyline", { class: `series c${i % COLORS}${k.is_model ? " model" : ""}`, points }));
    if (k.is_model || at.length > MAX_MARKS) return;
    for (const [cx, cy] of at) f.add(s("circle", { class: `mark c${i % COLORS}`, cx: cx.toFixed(1), cy: cy.toFixed(1), r: 3 }));
  });
  return f.svg;
}

function boxes(b: BoxChart): SVGSVGElement {
  const values = b.boxes.flatMap((m) => [m.stats.whisker_low, m.stats.whisker_high, m.stats.max, m.stats.mean, ...m.stats.outliers]);
  const y = Axis.of([...values, ...b.lines.map((l) => l[1])], b.y_scale);
  const f = frame(b.y, [...b.group_names, ...b.lines.map((l) => l[0])], y, b.y);
  b.lines.forEach(([, v], i) => {
    const at = f.y(y.share(v));
    f.add(s("line", { class: `series model c${(b.group_names.length + i) % COLORS}`, x1: f.left, x2: f.x(1), y1: at, y2: at }));
  });
  const step = 1 / Math.max(1, b.boxes.length);
  b.boxes.forEach((m, i) => box(f, y, m, f.x((i + 0.5) * step), Math.min(46, 0.6 * step * f.innerWidth)));
  return f.svg;
}

function box(f: Frame, y: Axis, m: BoxMark, x: number, width: number): void {
  const at = (v: number) => f.y(Math.min(1, Math.max(0, y.share(v))));
  const { q1, median, q3, whisker_low, whisker_high, mean, outliers } = m.stats;
  const left = x - width / 2;
  f.add(
    s(
      "g",
      { class: `series box c${m.group_index % COLORS}` },
      s("path", { d: `M${x} ${at(whisker_low)}V${at(q1)}M${x} ${at(q3)}V${at(whisker_high)}` }),
      s("rect", { x: left, y: at(q3), width, height: Math.max(0.5, at(q1) - at(q3)) }),
      s("path", { class: "median", d: `M${left} ${at(median)}H${left + width}` }),
      s("path", { d: `M${x - 4} ${at(mean)}h8m-4 -4v8` }),
      ...outliers.map((v) => s("circle", { cx: x, cy: at(v), r: 1.6 })),
    ),
  );
  m.name.split("\n").forEach((text, i) => {
    f.add(s("text", { x, y: f.y(0) + 14 + 13 * i, class: "tick", "text-anchor": "middle", text }));
  });
}

/** Margins, the y axis and, above the plot, the legend. */
function frame(label: string, names: string[], y: Axis, title: string): Frame {
  const rows = Math.ceil(names.length / LEGEND_COLUMNS);
  const f = new Frame(WIDTH, HEIGHT, label, { left: 74, right: 14, top: 14 + 18 * rows, bottom: 44 });
  for (const v of y.ticks()) f.yTick(y.share(v), y.label(v));
  const middle = (f.y(0) + f.y(1)) / 2;
  f.add(s("text", { transform: `translate(14 ${middle}) rotate(-90)`, class: "tick", "text-anchor": "middle", text: title }));
  names.forEach((name, i) => {
    const x = f.left + (i % LEGEND_COLUMNS) * 212;
    const at = 6 + 18 * Math.floor(i / LEGEND_COLUMNS);
    const text = name.length > 30 ? `${name.slice(0, 29)}…` : name;
    f.add(s("rect", { class: `mark c${i % COLORS}`, x, y: at, width: 14, height: 5 }), s("text", { x: x + 20, y: at + 7, class: "tick", text }));
  });
  return f;
}
