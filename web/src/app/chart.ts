// The chart "Over time" of the application: latency heat map, throughput, in flight; zoomed in, each I/O as a bar.

import { hatch } from "../charts/overlay";
import { h, onFrame, visible } from "../dom";
import * as format from "../format";
import { type Theme, onTheme, ramp, theme } from "../theme";
import { type Grouping, Legend, countsOf, grouped } from "./colours";
import type { Column, Heat, Ios, Series } from "./data";
import { type Frame, type Layer, type Question, SHADES, isEmpty, joined, latencyRange, layerOf, rasterOf, recordedShare, regridded, shownLayers } from "./heat";
import { type Entry, type Heading, fitting, placesOf } from "./heading";
import { lanes } from "./lanes";
import { type Line, QUANTITIES, type Values, described, drawnOf, linesOf, missingOf, together, valueOf, valuesOf } from "./quantities";
import { type Box, type Class, type Colouring, IO_SPAN_S, OPEN_US, type View, columnOf, latencyTicks, pluralOf, shownClasses, timeTicks, zoomed } from "./view";

const FONT = "system-ui, sans-serif";
const LEFT = 64;
/** Width and height of the chart in print. */
const PRINTED: [number, number] = [720, 400];
const RIGHT = 14;
const TOP = 16;
const AXIS = 22;
const GAP = 16;
/** Height of the marks of episodes, below the heat map. */
const EPISODES = 7;
/** Maximum number of heat map layers kept: the current view, the previous one, and wider ones. */
const MAX_LAYERS = 24;
const CLICK_PX = 4;
/** Maximum distance of the pointer from the mark of an episode. */
const MARK_SLACK_PX = 3;
/** Maximum number of stories named at one place. */
const MAX_NAMED_STORIES = 3;
/** Minimum distance between two labels of the time axis. */
const LABEL_GAP = 6;
/** Width and height of the mark of an I/O's size or sector. */
const MARK_PX = 3;
/** Maximum distance of the pointer from the mark of an I/O. */
const NEAR_PX = 8;
const NOT_RECORDED = "not recorded";
/** Stretches without a row that are narrower than this are not marked as unrecorded. */
const UNRECORDED_PX = 3;
/** Rows shorter than this share of the longest one do not determine the scale. */
const LONG_SHARE = 0.4;
/** Height of a legend line in an exported picture. */
const LEGEND_LINE = 18;

/** The heat maps of the search results. */
export interface Found {
  heats: Heat[];
  /** Whether an I/O is a search result. */
  has(ios: Ios, i: number): boolean;
}

interface Row {
  at: number;
  length: number;
  values: Values;
  inflight: number | null;
  inflightMax: number | null;
  lossy: boolean;
  /** Whether the row is shorter than the others because the recording ends in it. */
  isCut: boolean;
}

/** I/Os in order of start, with their lanes and the ranges of their sizes and sectors. Times count from `since_unix_s`. */
interface IoLayout {
  order: number[];
  startS: Float64Array;
  doneS: Float64Array;
  lane: Int32Array;
  count: number;
  mostBytes: number;
  firstSector: number;
  lastSector: number;
}

function layoutOf(c: Ios["columns"]): IoLayout {
  const order = c.start_ns.map((_, i) => i).sort((a, b) => (c.start_ns[a] ?? 0) - (c.start_ns[b] ?? 0));
  const startS = Float64Array.from(order, (i) => (c.start_ns[i] ?? 0) / 1e9);
  const doneS = Float64Array.from(order, (i) => (c.done_ns[i] ?? 0) / 1e9);
  let [mostBytes, firstSector, lastSector] = [1, Infinity, 0];
  for (const bytes of c.bytes) mostBytes = Math.max(mostBytes, bytes);
  for (const sector of c.sector) {
    if (sector === null) continue;
    firstSector = Math.min(firstSector, sector);
    lastSector = Math.max(lastSector, sector);
  }
  const { lane, count } = lanes(startS, doneS);
  return { order, startS, doneS, lane, count, mostBytes, firstSector: Math.min(firstSector, lastSector), lastSector };
}

/** A stretch of time: an episode of a story, or its worst moment. */
export interface Episode {
  from: number;
  to: number;
}

/** A story whose episodes are marked. */
export interface MarkedStory {
  episodes: readonly Episode[];
  /** Its description, as pairs of label and text. */
  lines: readonly [string, string][];
  /** Opens the story in the list. */
  open(): void;
}

export interface Actions {
  look(from: number, to: number): void;
  touched(): void;
  /** Selects a box. With `second`, the box is compared with the first one. */
  select(box: Box, second: boolean): void;
  colour(by: Colouring): void;
  /** Restricts the view to a class or process. */
  filter(by: Colouring, key: string): void;
}

interface Bar {
  index: number;
  x0: number;
  x1: number;
  y0: number;
  y1: number;
  /** x of its marks: at its start, or at the left edge if it started before the view. */
  markX: number;
  /** y of the centres of its marks: size and sector. */
  sizeY: number;
  sectorY: number | null;
}

/** Latency of every I/O, throughput and I/Os in flight over a common time axis. In a short view each I/O is a bar. */
export class Chart {
  readonly root: HTMLElement;
  readonly #plot: HTMLElement;
  readonly #canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": "Latency of every I/O, throughput and I/Os in flight over time", "aria-describedby": "keys" });
  readonly #tip = h("div", { class: "io-tip", hidden: true, role: "status" });
  #view: View;
  #layers: Layer[] = [];
  /** The layers drawn, lowest first, and the range of their latencies. */
  #shown: { layers: Layer[]; latencies: [number, number] } = { layers: [], latencies: [10, 100_000] };
  /** Cache of drawn heat maps, reused while only other parts change. */
  readonly #images = new Map<string, { of: unknown[]; canvas: HTMLCanvasElement }>();
  #rows: Row[] = [];
  #live: Row[] = [];
  /** The time covered by the series. Where it has no row, nothing was recorded. */
  #asked: Episode = { from: 0, to: 0 };
  #ios: Ios | null = null;
  /** The layout of the I/Os, reused while the view moves over them. */
  #layout: IoLayout | null = null;
  #grouping: Grouping | null = null;
  readonly #legend: Legend;
  /** Index of the bar under the pointer. */
  #hot: number | null = null;
  /** The layer of the second-offset layout, whose rows are offsets. */
  #fold: Layer | null = null;
  #found: Layer[] | null = null;
  #isFound: Found["has"] | null = null;
  #stories: readonly MarkedStory[] = [];
  /** Number of episodes that are not contained in the answer. */
  #unmarked = 0;
  #next: "box" | "second" | null = null;
  #bars: Bar[] = [];
  /** Index of the bar selected with the keys. */
  #stepped = 0;
  #width = 0;
  #height = 0;
  #drag: { x: number; y: number; nowX: number; nowY: number; box: "box" | "second" | null; pan: boolean; from: number; to: number } | null = null;
  readonly #touches = new Map<number, { x: number; y: number }>();
  readonly #later = onFrame(() => this.#draw());

  constructor(view: View, private readonly actions: Actions) {
    this.#view = view;
    this.#plot = h("div", { class: "plot" }, this.#canvas, this.#tip);
    this.#legend = new Legend((by) => this.actions.colour(by), (by, key) => this.actions.filter(by, key));
    this.root = h("div", { class: "chart" }, this.#legend.root, this.#plot);
    this.#listen();
    // For printing, the picture is taken immediately and at the width of the paper; a scaled-down screen picture
    // would be unreadable.
    addEventListener("beforeprint", () => {
      [this.#width, this.#height] = PRINTED;
      this.#draw();
    });
    addEventListener("afterprint", () => this.#measure());
    onTheme(() => {
      this.#images.clear();
      this.#later();
    });
    new ResizeObserver(() => this.#measure()).observe(this.#plot);
  }

  /** Sets the size from the element's size on screen. */
  #measure(): void {
    this.#width = this.#plot.clientWidth;
    this.#height = this.#plot.clientHeight;
    this.#later();
  }

  /** Width of the plot in CSS pixels, which is the maximum useful number of columns. */
  get plotWidth(): number {
    return Math.max(200, (this.#width || this.#plot.clientWidth || innerWidth) - LEFT - RIGHT);
  }

  get plotHeat(): number {
    return this.#areas().heat.h;
  }

  show(view: View): void {
    if (view.colour !== this.#view.colour) this.#grouping = null;
    // The tip describes what was under the pointer before the move. A live view moves continuously.
    const moves = view.from !== this.#view.from || view.to !== this.#view.to || view.fold !== this.#view.fold;
    if (moves && !view.live) this.#hideTip();
    this.#view = view;
    this.#later();
  }

  /** Clears everything, because the device, class or filter has changed. */
  clear(): void {
    this.#layers = [];
    this.#fold = null;
    this.#rows = [];
    this.#live = [];
    this.#asked = { from: 0, to: 0 };
    this.#ios = null;
    this.#grouping = null;
    this.#later();
  }

  /** Adds a heat map, which answers a query for columns of a given length. */
  addHeat(cls: Class, answer: Heat, asked: Question): void {
    // If little of the time is recorded, the server's columns divide only that part; they are joined to the requested
    // length.
    const layer = layerOf(cls, joined(answer, Math.round(asked.columnS / answer.column_s)), asked);
    // Layers that are hidden by the new one are dropped.
    this.#layers = this.#layers.filter((l) => l.cls !== cls || (!l.isNewest && (l.from < layer.from || l.to > layer.to || l.heat.column_s < layer.heat.column_s * 0.9)));
    this.#layers.push(layer);
    if (this.#layers.length > MAX_LAYERS) this.#layers.shift();
    this.#later();
  }

  /** Sets the series. `asked` is the time that it covers. */
  setSeries(series: Series, asked: Episode): void {
    const c = series.columns;
    this.#asked = asked;
    const at = c["time_unix_s"] ?? [];
    this.#rows = [];
    for (let i = 0; i < at.length; i++) {
      const length = c["slot_s"]?.[i] ?? series.step_s;
      this.#rows.push({
        at: at[i] ?? 0, length, isCut: length < series.step_s * 0.999,
        values: valuesOf((column) => c[column]?.[i]),
        inflight: c["inflight_mean"]?.[i] ?? null, inflightMax: c["inflight_max"]?.[i] ?? null,
        lossy: Boolean(c["lossy"]?.[i]),
      });
    }
    const end = this.#rows.at(-1)?.at ?? 0;
    this.#live = this.#live.filter((r) => r.at > end);
    this.#later();
  }

  /** Adds a slot of 100 ms over all shown devices, newer than the series. */
  addLive(at: number, values: Values, inflight: number, inflightMax: number, lossy: boolean): void {
    const last = this.#live.at(-1);
    if (last && Math.abs(last.at - at) < 0.01) {
      Object.assign(last, ofDevices(last, { values, inflight, inflightMax, lossy }));
      return;
    }
    if (at <= (this.#rows.at(-1)?.at ?? 0)) return;
    this.#live.push({ at, length: 0.1, isCut: false, values, inflight, inflightMax, lossy });
    if (this.#live.length > 6000) this.#live.splice(0, 1000);
  }

  /** Adds a heat map of only the newest time; it replaces the previous one. */
  addNewest(cls: Class, answer: Heat, askedColumnS: number): void {
    this.#layers = this.#layers.filter((l) => l.cls !== cls || !l.isNewest);
    const whole = this.#layers.filter((l) => l.cls === cls).at(-1);
    const heat = joined(answer, Math.round(askedColumnS / answer.column_s));
    // It uses the rows of the whole heat map, so that shades mean the same in both.
    const layer = layerOf(cls, whole ? regridded(heat, whole.heat.latency_us) : heat);
    if (layer.max > 0) this.#layers.push({ ...layer, max: Math.max(layer.max, whole?.max ?? 0), isNewest: true });
    this.#later();
  }

  /** Shows the second-offset layout, of one class or all; `null`: latency over time. */
  setFold(heat: Heat | null, cls: Class | null): void {
    this.#fold = heat && layerOf(cls ?? "all", heat);
    this.#later();
  }

  /** Marks the search results; `null`: no search. */
  setFound(found: Found | null, askedColumnS: number): void {
    this.#found = found?.heats.map((heat) => layerOf("found", joined(heat, Math.round(askedColumnS / heat.column_s)))) ?? null;
    this.#isFound = found?.has ?? null;
    this.#later();
  }

  /** The chart as an image, with a title line. */
  picture(title: string): Promise<Blob | null> {
    this.#draw();
    const ratio = devicePixelRatio || 1;
    const line = Math.round(LEGEND_LINE * ratio);
    const legend = this.#entries();
    const canvas = h("canvas");
    canvas.width = this.#canvas.width;
    const ctx = canvas.getContext("2d");
    if (!ctx) return Promise.resolve(null);
    const font = `${Math.round(12 * ratio)}px ${FONT}`;
    ctx.font = font;
    const widthOf = (name: string) => ctx.measureText(name).width + 30 * ratio;
    let lines = legend.length > 0 ? 1 : 0;
    let x = 8 * ratio;
    const places = legend.map(({ name }) => {
      if (x + widthOf(name) > canvas.width && x > 8 * ratio) [x, lines] = [8 * ratio, lines + 1];
      const place = { x, line: lines };
      x += widthOf(name);
      return place;
    });
    const head = Math.round(8 * ratio) + line * (1 + lines);
    canvas.height = this.#canvas.height + head;
    const t = theme();
    ctx.fillStyle = t.paper;
    ctx.fillRect(0, 0, canvas.width, canvas.height);
    ctx.fillStyle = t.text;
    ctx.font = font;
    ctx.textBaseline = "middle";
    ctx.fillText(visible(title), 8 * ratio, 13 * ratio, canvas.width - 16 * ratio);
    legend.forEach(({ name, colour }, i) => {
      const { x, line: n } = places[i]!;
      const y = 13 * ratio + n * line;
      ctx.fillStyle = colour;
      ctx.fillRect(x, y - 5 * ratio, 9 * ratio, 9 * ratio);
      ctx.fillStyle = t.text;
      ctx.fillText(visible(name), x + 13 * ratio, y);
    });
    ctx.drawImage(this.#canvas, 0, head);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  }

  /** The legend of the colours of single I/Os. */
  #entries(): { name: string; colour: string }[] {
    const grouping = this.#grouping;
    if (!grouping || !this.#single) return [];
    const counts = countsOf(grouping, this.#bars.map((bar) => bar.index));
    return grouping.groups.map((g) => ({ name: g.name, colour: g.colour(theme()) })).filter((_, n) => (counts[n] ?? 0) > 0);
  }

  setIos(ios: Ios | null): void {
    this.#ios = ios;
    this.#layout = null;
    this.#hot = null;
    if (ios) this.#grouping = grouped(ios, this.#view.colour, theme().series.length, this.#grouping);
    this.#later();
  }

  /** Sets the stories. `unmarked` is the number of episodes whose time is not known. */
  setStories(stories: readonly MarkedStory[], unmarked: number): void {
    this.#stories = stories;
    this.#unmarked = unmarked;
    this.#later();
  }

  /** Sets what the next drag without a key selects; `null`: the time range. */
  choosing(next: "box" | "second" | null): void {
    this.#next = next;
    this.#canvas.classList.toggle("choosing", next !== null);
  }

  /** A box around everything in view. */
  get whole(): Box {
    return { from: this.#view.from, to: this.#view.to, lowUs: 0, highUs: OPEN_US };
  }

  #areas() {
    const h0 = Math.max(160, this.#height || this.#plot.clientHeight) - TOP - AXIS - 2 * GAP - EPISODES;
    const heat = { y: TOP, h: Math.round(h0 * 0.58) };
    const rate = { y: heat.y + heat.h + EPISODES + GAP, h: Math.round(h0 * 0.24) };
    const depth = { y: rate.y + rate.h + GAP, h: h0 - heat.h - rate.h };
    return { heat, rate, depth };
  }

  #x(t: number): number {
    const { from, to } = this.#view;
    return LEFT + ((t - from) / (to - from)) * this.plotWidth;
  }

  #t(x: number): number {
    const { from, to } = this.#view;
    return from + ((x - LEFT) / this.plotWidth) * (to - from);
  }

  /** Selects the layers to draw, and from them the range of the latency axis. */
  #choose(): void {
    const { from, to, live } = this.#view;
    const question = { from, to, columnS: columnOf((2 * (to - from)) / this.plotWidth) };
    const layers = shownClasses(this.#view.cls).flatMap((cls) => shownLayers(this.#layers.filter((l) => l.cls === cls), question, live));
    const range = latencyRange(layers);
    this.#shown = { layers, latencies: range ? [Math.max(0.1, range[0] / 1.2), range[1] * 1.2] : [10, 100_000] };
  }

  /** The layers of a class to draw, topmost last. */
  #shownOf(cls: Class): Layer[] {
    return this.#shown.layers.filter((layer) => layer.cls === cls);
  }

  #y(us: number): number {
    const [low, high] = this.#shown.latencies;
    const { heat } = this.#areas();
    return heat.y + heat.h * (1 - Math.log(us / low) / Math.log(high / low));
  }

  #us(y: number): number {
    const [low, high] = this.#shown.latencies;
    const { heat } = this.#areas();
    return low * (high / low) ** (1 - (y - heat.y) / heat.h);
  }

  get #single(): boolean {
    return this.#view.to - this.#view.from < IO_SPAN_S && this.#ios !== null;
  }

  #draw(): void {
    const ctx = this.#canvas.getContext("2d");
    if (!ctx || this.#width === 0) return;
    const ratio = devicePixelRatio || 1;
    const [w, hh] = [Math.round(this.#width * ratio), Math.round(this.#height * ratio)];
    if (this.#canvas.width !== w || this.#canvas.height !== hh) {
      this.#canvas.width = w;
      this.#canvas.height = hh;
    }
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, this.#width, this.#height);
    ctx.font = `11px ${FONT}`;
    const areas = this.#areas();
    const single = this.#single;
    const { from, to } = this.#view;
    this.#bars = [];
    this.#choose();
    this.#timeAxis(ctx);
    const gaps = single ? [] : this.#drawUnrecorded(ctx);
    if (single) {
      this.#drawIos(ctx);
    } else {
      this.#legend.hide();
      const period = this.#fold?.heat.column_s;
      const what = this.#fold?.cls === "all" ? "I/Os" : `${this.#fold?.cls ?? ""}s`;
      if (period === undefined) this.#heatHeading(ctx, areas.heat.y, "Latency of every I/O", "Latency");
      else this.#heatHeading(ctx, areas.heat.y, `Number of ${what}: a column each ${format.span(period)}, up: offset in it`, `${what} each ${format.span(period)}`);
      if (period === undefined) this.#latencyAxis(ctx);
      else this.#offsetAxis(ctx, period);
      this.#clip(ctx, areas.heat, () => {
        if (this.#fold) {
          this.#drawFold(ctx, this.#fold);
          return;
        }
        this.#drawHeat(ctx);
        this.#drawFound(ctx);
      });
      // Drawn after the lines of the axes, which would cross the text.
      for (const { middle, width } of gaps) {
        if (ctx.measureText(NOT_RECORDED).width + 8 <= width) this.#remark(ctx, areas.heat, NOT_RECORDED, middle);
      }
      if (gaps.length === 0 && isIdle(this.#rowsOn(from, to))) this.#remark(ctx, areas.heat, this.#isFiltered ? "Recorded: no such I/O." : "Recorded: no I/O.");
      this.#drawRates(ctx);
    }
    this.#clip(ctx, { y: 0, h: this.#height - AXIS }, () => this.#drawMarks(ctx));
    document.documentElement.dataset["mode"] = single ? "ios" : "heat";
  }

  #clip(ctx: CanvasRenderingContext2D, area: { y: number; h: number }, draw: () => void): void {
    ctx.save();
    ctx.beginPath();
    ctx.rect(LEFT, area.y, this.plotWidth, area.h);
    ctx.clip();
    draw();
    ctx.restore();
  }

  /** Draws the title and legend above a chart, using the longest of `headings` that fits. */
  #heading(ctx: CanvasRenderingContext2D, y: number, headings: readonly Heading[]): void {
    const t = theme();
    const measure = (text: string) => ctx.measureText(text).width;
    const heading = fitting(headings, this.#width - LEFT, measure);
    ctx.textAlign = "left";
    ctx.textBaseline = "bottom";
    ctx.fillStyle = t.text;
    ctx.fillText(heading.title, LEFT, y - 2);
    placesOf(heading, measure).forEach(({ left, name }, i) => {
      const entry = heading.entries[i]!;
      ctx.fillStyle = entry.colour;
      if (entry.isFlat) ctx.fillRect(LEFT + left, y - 8, 14, 4);
      else ctx.fillRect(LEFT + left, y - 11, 9, 9);
      ctx.fillStyle = t.muted;
      ctx.fillText(entry.name, LEFT + name, y - 2);
    });
  }

  /** Draws the heading of the heat map: classes, search results and stories. */
  #heatHeading(ctx: CanvasRenderingContext2D, y: number, title: string, short: string): void {
    const t = theme();
    const entries = classesOf(this.#fold?.cls ?? null, this.#view.cls).map((cls): Entry => ({ name: cls, colour: t[cls] }));
    if (this.#found !== null && !this.#fold) entries.push({ name: "found", colour: t.mark });
    const more = this.#unmarked > 0 ? ` (${format.count(this.#unmarked)} more)` : "";
    const stories = this.#stories.every(({ episodes }) => episodes.length === 0) ? [] : [`stories: episodes${more}, or the worst moment`, `stories${more}`, "stories"];
    const withStories = (title: string, name: string): Heading => ({ title, entries: [...entries, { name, colour: t.mark, isFlat: true }] });
    const [long, middle, least] = stories;
    if (long === undefined || middle === undefined || least === undefined) {
      this.#heading(ctx, y, [{ title, entries }, { title: short, entries }]);
      return;
    }
    this.#heading(ctx, y, [withStories(title, long), withStories(title, middle), withStories(short, middle), withStories(short, least)]);
  }

  #timeAxis(ctx: CanvasRenderingContext2D): void {
    const t = theme();
    const { from, to } = this.#view;
    const most = Math.max(2, this.plotWidth / (to - from < 0.1 ? 120 : 84));
    const { step, ticks } = timeTicks(from, to, most, (step, ticks) => this.#timeLabels(ctx, step, ticks).length);
    const bottom = this.#height - AXIS;
    ctx.textAlign = "center";
    ctx.textBaseline = "top";
    ctx.lineWidth = 1;
    ctx.strokeStyle = t.grid;
    for (const at of ticks) {
      const x = Math.round(this.#x(at)) + 0.5;
      ctx.beginPath();
      ctx.moveTo(x, TOP);
      ctx.lineTo(x, bottom);
      ctx.stroke();
    }
    ctx.fillStyle = t.muted;
    for (const { text, middle } of this.#timeLabels(ctx, step, ticks)) ctx.fillText(text, middle, bottom + 5);
  }

  /** The time labels that fit, with their centres. */
  #timeLabels(ctx: CanvasRenderingContext2D, step: number, ticks: readonly number[]): { text: string; middle: number }[] {
    const labels: { text: string; middle: number }[] = [];
    let day = "";
    let end = -Infinity;
    for (const at of ticks) {
      const x = Math.round(this.#x(at)) + 0.5;
      const date = format.date(at);
      const long = step >= 3600 && date !== day;
      day = date;
      const text = step >= 86400 ? date : long ? `${date} ${format.clock(at, 60).slice(0, 5)}` : format.clock(at, Math.min(step, 1));
      // Labels at the edges stay inside the picture.
      const half = ctx.measureText(text).width / 2;
      const middle = Math.min(x, this.#width - half);
      if (x <= LEFT + 20 || x >= this.#width - RIGHT || middle - half < end + LABEL_GAP) continue;
      labels.push({ text, middle });
      end = middle + half;
    }
    return labels;
  }

  /** Hatches unrecorded time, to distinguish it from time without I/O. Returns the positions. */
  #drawUnrecorded(ctx: CanvasRenderingContext2D): { middle: number; width: number }[] {
    const gaps: { middle: number; width: number }[] = [];
    const ratio = devicePixelRatio || 1;
    const plot = { ctx, left: LEFT * ratio, top: TOP * ratio, width: this.plotWidth * ratio, height: (this.#height - AXIS - TOP) * ratio, x: (t: number) => this.#x(t) * ratio };
    for (const { from, to } of unrecorded([...this.#rows, ...this.#live], this.#asked)) {
      const left = Math.max(LEFT, this.#x(from));
      const width = Math.min(LEFT + this.plotWidth, this.#x(to)) - left;
      if (width < UNRECORDED_PX) continue;
      gaps.push({ middle: left + width / 2, width });
      ctx.save();
      ctx.setTransform(1, 0, 0, 1, 0, 0);
      hatch(plot, plot.x(from), plot.x(to), theme().muted, 0.5);
      ctx.restore();
    }
    return gaps;
  }

  /** Draws a line across the plot with a label to its left. */
  #horizontalLine(ctx: CanvasRenderingContext2D, at: number, label: string): void {
    const y = Math.round(at) + 0.5;
    const t = theme();
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    ctx.strokeStyle = t.grid;
    ctx.beginPath();
    ctx.moveTo(LEFT, y);
    ctx.lineTo(LEFT + this.plotWidth, y);
    ctx.stroke();
    ctx.fillStyle = t.muted;
    ctx.fillText(label, LEFT - 6, y);
  }

  #latencyAxis(ctx: CanvasRenderingContext2D): void {
    for (const us of latencyTicks(...this.#shown.latencies)) this.#horizontalLine(ctx, this.#y(us), format.micros(us));
  }

  /** Reads are drawn over writes. */
  #drawHeat(ctx: CanvasRenderingContext2D): void {
    const y = (us: number) => this.#y(us);
    for (const cls of shownClasses(this.#view.cls)) {
      const strength = this.#found ? 0.25 : cls === "read" ? 0.85 : 1;
      this.#drawLayers(ctx, cls, this.#shownOf(cls), y, strength);
    }
  }

  /** Draws heat maps on top of each other. `y` maps the edge of a row to a pixel. */
  #drawLayers(ctx: CanvasRenderingContext2D, cls: Layer["cls"], layers: Layer[], y: (edge: number) => number, strength: number): void {
    const { heat } = this.#areas();
    const ratio = devicePixelRatio || 1;
    const [left, top] = [Math.round(LEFT * ratio), Math.round(heat.y * ratio)];
    const frame: Frame = {
      width: Math.ceil(this.plotWidth * ratio), height: Math.round(heat.h * ratio), least: Math.max(1, Math.round(ratio)),
      x: (t) => this.#x(t) * ratio - left, y: (edge) => y(edge) * ratio - top,
    };
    if (layers.every(isEmpty)) return;
    ctx.save();
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.globalAlpha = strength;
    ctx.drawImage(this.#image(cls, layers, frame), left, top);
    ctx.restore();
  }

  #image(cls: Layer["cls"], layers: Layer[], frame: Frame): HTMLCanvasElement {
    const { from, to } = this.#view;
    const of = [frame.width, frame.height, from, to, ...this.#shown.latencies, ...layers];
    const known = this.#images.get(cls);
    if (known && known.of.length === of.length && of.every((part, i) => part === known.of[i])) return known.canvas;
    const canvas = painted(rasterOf(layers, frame), frame, cls);
    this.#images.set(cls, { of, canvas });
    return canvas;
  }

  #offsetAxis(ctx: CanvasRenderingContext2D, period: number): void {
    const { heat } = this.#areas();
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      this.#horizontalLine(ctx, heat.y + heat.h * (1 - share), share === 0 ? "0" : format.span(share * period));
    }
  }

  #drawFold(ctx: CanvasRenderingContext2D, layer: Layer): void {
    const { heat } = this.#areas();
    // Rows are offsets within the period.
    this.#drawLayers(ctx, layer.cls, [layer], (offset) => heat.y + heat.h * (1 - offset / layer.heat.column_s), 1);
  }

  /** Draws the cells with search results, and their times along the upper edge. */
  #drawFound(ctx: CanvasRenderingContext2D): void {
    const { heat } = this.#areas();
    this.#drawLayers(ctx, "found", this.#found ?? [], (us) => this.#y(us), 1);
    for (const layer of this.#found ?? []) {
      ctx.fillStyle = theme().mark;
      layer.heat.counts.forEach((column, i) => {
        if (!column.some((n) => n > 0)) return;
        const at = Math.floor(this.#x(layer.from + i * layer.heat.column_s));
        ctx.fillRect(at, heat.y, Math.max(1, Math.floor(this.#x(layer.from + (i + 1) * layer.heat.column_s)) - at), 4);
      });
    }
  }

  /** The rows that overlap a stretch of time. */
  #rowsOn(from: number, to: number): Row[] {
    return [...this.#rows, ...this.#live].filter((r) => r.at >= from && r.at - r.length <= to);
  }

  /** Whether only some of the I/Os are selected. */
  get #isFiltered(): boolean {
    const { cls, filter, device } = this.#view;
    return cls !== null || filter !== null || device !== null;
  }

  #drawRates(ctx: CanvasRenderingContext2D): void {
    const t = theme();
    const areas = this.#areas();
    const { from, to } = this.#view;
    const rows = this.#rowsOn(from, to);
    const { quantity, title } = drawnOf(this.#view.quantity, this.#view.cls);
    const { text } = QUANTITIES[quantity];
    const lines = linesOf(quantity, rows.map((r) => r.values), this.#view.cls);
    let most = 0;
    let deepest = 1;
    for (const r of scaling(rows)) for (const line of lines) most = Math.max(most, valueOf(r.values, quantity, line) ?? 0);
    for (const r of rows) deepest = Math.max(deepest, r.inflightMax ?? r.inflight ?? 0);
    if (most === 0) most = 1;
    const classes = lines.some((line) => line.rare) ? lines.map(({ cls }) => cls) : [];
    const entries = classes.flatMap((cls): Entry[] => (cls === "all" ? [] : [{ name: cls, colour: t[cls] }]));
    const isLossy = rows.some((r) => r.lossy);
    const withLost = (title: string, name: string): Heading => ({ title, entries: isLossy ? [...entries, { name, colour: t.lossy }] : entries });
    // The selector also names the quantity.
    this.#heading(ctx, areas.rate.y, [withLost(title, "I/Os were lost"), withLost(title, "lost"), withLost("", "lost")]);
    this.#heading(ctx, areas.depth.y, [{ title: "In flight (mean, light: maximum)", entries: [] }]);
    this.#scale(ctx, areas.rate, lines.length > 0 ? text(most) : "");
    this.#scale(ctx, areas.depth, format.number(deepest));
    if (rows.length > 0 && lines.length === 0) this.#remark(ctx, areas.rate, missingOf(quantity, this.#view.cls));
    const steps = (area: { y: number; h: number }, of: (r: Row) => number | null, top: number, fill: string | null, stroke: string | null) =>
      this.#clip(ctx, area, () => {
        const bottom = area.y + area.h;
        if (fill) ctx.fillStyle = fill;
        if (stroke) ctx.strokeStyle = stroke;
        ctx.lineWidth = 1.3;
        const line = new Path2D();
        let last: number | null = null;
        for (const r of rows) {
          const v = of(r);
          const [x0, x1] = [this.#x(r.at - r.length), this.#x(r.at)];
          if (v === null || r.lossy) {
            last = null;
            continue;
          }
          const y = bottom - (v / top) * (area.h - 1);
          if (fill) ctx.fillRect(x0, y, Math.max(x1 - x0, 0.5), bottom - y);
          // Between two recordings nothing is known, so the line is interrupted.
          if (last === null || x0 - last > 2) line.moveTo(x0, y);
          else line.lineTo(x0, y);
          line.lineTo(x1, y);
          last = x1;
        }
        if (stroke) ctx.stroke(line);
      });
    // Reads are drawn over writes.
    for (const line of [...lines].reverse()) {
      const { fill, stroke } = coloursOf(line, t);
      steps(areas.rate, (r) => valueOf(r.values, quantity, line), most, fill, stroke);
    }
    steps(areas.depth, (r) => r.inflightMax, deepest, t.inflightFill, null);
    steps(areas.depth, (r) => r.inflight, deepest, t.inflightFill, t.inflight);
    ctx.fillStyle = t.lossy;
    for (const r of rows) if (r.lossy) ctx.fillRect(this.#x(r.at - r.length), areas.rate.y - 2, Math.max(1, this.#x(r.at) - this.#x(r.at - r.length)), 2);
  }

  /** Draws text in place of a chart, on a background, because lines and hatching would cross it. */
  #remark(ctx: CanvasRenderingContext2D, area: { y: number; h: number }, text: string, x = LEFT + this.plotWidth / 2): void {
    const y = area.y + area.h / 2;
    const width = ctx.measureText(text).width + 8;
    ctx.fillStyle = theme().paper;
    ctx.fillRect(x - width / 2, y - 9, width, 18);
    ctx.fillStyle = theme().muted;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.fillText(text, x, y);
  }

  #scale(ctx: CanvasRenderingContext2D, area: { y: number; h: number }, top: string, bottom = "0"): void {
    const t = theme();
    ctx.strokeStyle = t.grid;
    ctx.beginPath();
    ctx.moveTo(LEFT, area.y + area.h + 0.5);
    ctx.lineTo(LEFT + this.plotWidth, area.y + area.h + 0.5);
    ctx.stroke();
    ctx.fillStyle = t.muted;
    ctx.textAlign = "right";
    ctx.textBaseline = "top";
    ctx.fillText(top, LEFT - 6, area.y);
    ctx.textBaseline = "bottom";
    ctx.fillText(bottom, LEFT - 6, area.y + area.h);
  }

  #drawIos(ctx: CanvasRenderingContext2D): void {
    const t = theme();
    const areas = this.#areas();
    const c = this.#ios?.columns;
    if (!c) return;
    // Relative to `since_unix_s`, times have all digits of their nanoseconds.
    const [from, to] = [this.#view.from, this.#view.to].map((t) => t - (this.#ios?.since_unix_s ?? 0)) as [number, number];
    const x = (t: number) => LEFT + ((t - from) / (to - from)) * this.plotWidth;
    const { order, startS, doneS, lane, count, mostBytes, firstSector, lastSector } = (this.#layout ??= layoutOf(c));
    const height = Math.min(14, areas.heat.h / Math.max(1, count));
    const gap = height > 4 ? 1 : 0;
    const grouping = (this.#grouping ??= grouped(this.#ios!, this.#view.colour, t.series.length, null));
    const colours = grouping.groups.map((group) => group.colour(t));
    const colourOf = (i: number) => colours[grouping.of[i] ?? 0] ?? t.muted;
    const seen = order.filter((_, n) => (startS[n] ?? 0) <= to && (doneS[n] ?? 0) >= from);
    this.#heading(ctx, areas.heat.y, [{ title: `Each I/O (${format.count(seen.length)}): queue light, device solid`, entries: [] }]);
    if (seen.length === 0) this.#remark(ctx, areas.heat, "No I/O.");
    this.#legend.show(grouping, countsOf(grouping, seen), t);
    this.#heading(ctx, areas.rate.y, [{ title: "Size of each I/O", entries: [] }]);
    this.#heading(ctx, areas.depth.y, [{ title: "Sector of each I/O", entries: [] }]);
    this.#scale(ctx, areas.rate, format.binaryBytes(mostBytes));
    this.#scale(ctx, areas.depth, lastSector > 0 ? format.short(lastSector) : "", format.short(firstSector));
    const strengths = seen.map((i) => (this.#ios && this.#isFound?.(this.#ios, i) === false ? 0.2 : 1));
    this.#clip(ctx, areas.heat, () => {
      order.forEach((i, n) => {
        const [start, done] = [startS[n] ?? 0, doneS[n] ?? 0];
        if (start > to || done < from) return;
        const strength = strengths[this.#bars.length] ?? 1;
        const [x0, x1] = [x(start), x(done)];
        const issued = x(start + (c.queue_us[i] ?? 0) / 1e6);
        const y = areas.heat.y + (lane[n] ?? 0) * height;
        ctx.fillStyle = colourOf(i);
        ctx.globalAlpha = 0.3 * strength;
        ctx.fillRect(x0, y, Math.max(issued - x0, 0), height - gap);
        ctx.globalAlpha = strength;
        ctx.fillRect(issued, y, Math.max(x1 - issued, 1), height - gap);
        const sector = c.sector[i];
        const share = typeof sector === "number" ? (sector - firstSector) / Math.max(1, lastSector - firstSector) : null;
        this.#bars.push({
          index: i, x0, x1: Math.max(x1, x0 + 1), y0: y, y1: y + height, markX: Math.max(x0, LEFT + MARK_PX / 2),
          sizeY: areas.rate.y + (areas.rate.h - 3) * (1 - (c.bytes[i] ?? 0) / mostBytes) + 1.5,
          sectorY: share === null ? null : areas.depth.y + (areas.depth.h - 3) * (1 - share) + 1.5,
        });
      });
    });
    this.#clip(ctx, { y: areas.rate.y, h: this.#height - AXIS - areas.rate.y }, () => {
      this.#bars.forEach(({ index: i, markX, sizeY, sectorY }, n) => {
        ctx.fillStyle = colourOf(i);
        ctx.globalAlpha = strengths[n] ?? 1;
        for (const y of [sizeY, sectorY]) if (y !== null) ctx.fillRect(markX - MARK_PX / 2, y - MARK_PX / 2, MARK_PX, MARK_PX);
      });
    });
    ctx.globalAlpha = 1;
    const hot = this.#bars.find((bar) => bar.index === this.#hot);
    if (hot) this.#drawHot(ctx, hot);
  }

  /** Highlights the I/O whose fields are shown, in all three charts. */
  #drawHot(ctx: CanvasRenderingContext2D, bar: Bar): void {
    this.#clip(ctx, { y: 0, h: this.#height - AXIS }, () => {
      ctx.strokeStyle = theme().text;
      ctx.lineWidth = 1.5;
      ctx.strokeRect(bar.x0 - 1, bar.y0 - 1, bar.x1 - bar.x0 + 2, Math.max(3, bar.y1 - bar.y0 + 1));
      for (const y of [bar.sizeY, bar.sectorY]) if (y !== null) ctx.strokeRect(bar.markX - 3.5, y - 3.5, 7, 7);
    });
  }

  /** Start and end of the mark of an episode, in pixels. */
  #markOf({ from, to }: Episode): [number, number] {
    const left = this.#x(from);
    return [left, Math.max(left + 2, this.#x(to))];
  }

  /** The stories with a mark at a place, nearest first. Touch input has a larger tolerance. */
  #storiesAt(x: number, y: number, slack = MARK_SLACK_PX): MarkedStory[] {
    const { heat } = this.#areas();
    const top = heat.y + heat.h;
    if (x < LEFT || x > LEFT + this.plotWidth || y < top || y > top + EPISODES + slack) return [];
    const marks = this.#stories.map((story) => ({ story, far: farOf(story.episodes.map((e) => this.#markOf(e)), x) }));
    return marks.filter(({ far }) => far <= slack).sort((a, b) => a.far - b.far).map(({ story }) => story);
  }

  #drawMarks(ctx: CanvasRenderingContext2D): void {
    const t = theme();
    const { heat } = this.#areas();
    ctx.fillStyle = t.mark;
    for (const { episodes } of this.#stories) {
      for (const episode of episodes) {
        const [left, right] = this.#markOf(episode);
        ctx.fillRect(left, heat.y + heat.h + 2, right - left, 4);
      }
    }
    const drag = this.#drag;
    const moved = drag !== null && !drag.pan && Math.abs(drag.nowX - drag.x) > CLICK_PX;
    if (drag && moved) {
      ctx.fillStyle = t.busyFill;
      ctx.strokeStyle = t.busy;
      const [x, w] = [Math.min(drag.x, drag.nowX), Math.abs(drag.nowX - drag.x)];
      const [y, hh] = drag.box ? [Math.min(drag.y, drag.nowY), Math.abs(drag.nowY - drag.y)] : [TOP, this.#height - AXIS - TOP];
      ctx.fillRect(x, y, w, hh);
      ctx.strokeRect(x + 0.5, y + 0.5, w, hh);
    }
    if (this.#single) return;
    const [low, high] = this.#shown.latencies;
    this.#view.boxes.forEach((b, i) => {
      ctx.strokeStyle = i === 0 ? t.text : t.mark;
      ctx.fillStyle = ctx.strokeStyle;
      ctx.lineWidth = 1.5;
      const x = this.#x(b.from);
      const y = this.#fold ? heat.y : this.#y(Math.min(b.highUs, high));
      const bottom = this.#fold ? heat.y + heat.h : this.#y(Math.max(b.lowUs, low));
      ctx.strokeRect(x, y, this.#x(b.to) - x, bottom - y);
      ctx.textAlign = "left";
      ctx.textBaseline = "top";
      ctx.font = `bold 12px ${FONT}`;
      if (this.#view.boxes.length > 1) ctx.fillText(i === 0 ? "A" : "B", x + 4, y + 3);
    });
  }

  #listen(): void {
    const canvas = this.#canvas;
    canvas.addEventListener("wheel", (e) => {
      e.preventDefault();
      const { from, to } = this.#view;
      this.actions.touched();
      if (Math.abs(e.deltaX) > Math.abs(e.deltaY) || e.shiftKey) {
        const by = ((e.deltaX || e.deltaY) / this.plotWidth) * (to - from);
        this.actions.look(from + by, to + by);
        return;
      }
      // A pinch on a trackpad arrives as a wheel event with Ctrl and small steps.
      const step = Math.max(-100, Math.min(100, e.deltaY)) * (e.ctrlKey ? 0.01 : 0.003);
      const [a, b] = zoomed(from, to, Math.exp(step), this.#t(e.offsetX));
      this.actions.look(a, b);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (e) => {
      if (e.button !== 0) return;
      canvas.setPointerCapture(e.pointerId);
      this.actions.touched();
      const { from, to } = this.#view;
      const touch = e.pointerType === "touch";
      this.#hideTip();
      this.#touches.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
      const box = e.ctrlKey || e.metaKey ? "second" : e.shiftKey ? "box" : this.#next;
      this.#drag = { x: e.offsetX, y: e.offsetY, nowX: e.offsetX, nowY: e.offsetY, box, pan: box === null && (touch || e.offsetX < LEFT), from, to };
    });
    canvas.addEventListener("pointermove", (e) => {
      if (this.#drag) this.#dragged(e);
      else this.#hover(e.offsetX, e.offsetY);
    });
    canvas.addEventListener("pointerup", (e) => this.#released(e));
    canvas.addEventListener("pointercancel", (e) => {
      this.#touches.delete(e.pointerId);
      this.#drag = null;
      this.#later();
    });
    // Touch input leaves after each tap; the tip stays until the next one.
    canvas.addEventListener("pointerleave", (e) => e.pointerType !== "touch" && this.#hideTip());
    canvas.addEventListener("blur", () => this.#hideTip());
    canvas.addEventListener("keydown", (e) => {
      if (!this.#single || (e.key !== "," && e.key !== ".")) return;
      this.#step(e.key === "." ? 1 : -1);
    });
  }

  #dragged(e: PointerEvent): void {
    const drag = this.#drag;
    if (!drag) return;
    const before = this.#touches.get(e.pointerId);
    const other = [...this.#touches].find(([id]) => id !== e.pointerId)?.[1];
    if (before && other) {
      // Two fingers: the times under both stay under them.
      const [near, far] = [Math.abs(before.x - other.x), Math.abs(e.offsetX - other.x)];
      const [a, b] = zoomed(this.#view.from, this.#view.to, Math.max(near, 1) / Math.max(far, 1), this.#t(other.x));
      this.#touches.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
      this.actions.look(a, b);
      return;
    }
    this.#touches.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
    drag.nowX = e.offsetX;
    drag.nowY = e.offsetY;
    if (drag.pan) {
      const by = ((drag.x - e.offsetX) / this.plotWidth) * (drag.to - drag.from);
      this.actions.look(drag.from + by, drag.to + by);
    } else this.#later();
  }

  #released(e: PointerEvent): void {
    this.#touches.delete(e.pointerId);
    const drag = this.#drag;
    this.#drag = null;
    this.#later();
    const isClick = drag !== null && Math.hypot(e.offsetX - drag.x, e.offsetY - drag.y) <= CLICK_PX;
    const [story] = isClick ? this.#storiesAt(e.offsetX, e.offsetY, e.pointerType === "touch" ? NEAR_PX : MARK_SLACK_PX) : [];
    if (story) {
      story.open();
      return;
    }
    if (drag && e.pointerType === "touch" && Math.abs(e.offsetX - drag.x) <= CLICK_PX) this.#hover(e.offsetX, e.offsetY);
    if (!drag || drag.pan || Math.abs(e.offsetX - drag.x) <= CLICK_PX) return;
    const [a, b] = [this.#t(Math.min(drag.x, e.offsetX)), this.#t(Math.max(drag.x, e.offsetX))];
    if (drag.box) {
      const { heat } = this.#areas();
      const [top, bottom] = [Math.min(drag.y, e.offsetY), Math.max(drag.y, e.offsetY)];
      // A box that reaches the edge of the heat map is unbounded there.
      const highUs = top <= heat.y || this.#fold ? OPEN_US : this.#us(top);
      const lowUs = bottom >= heat.y + heat.h || this.#fold ? 0 : this.#us(bottom);
      if (highUs > lowUs) this.actions.select({ from: a, to: b, lowUs, highUs }, drag.box === "second");
    } else this.actions.look(a, b);
  }

  #hideTip(): void {
    this.#tip.hidden = true;
    this.#highlight(null);
  }

  #highlight(io: number | null): void {
    if (io === this.#hot) return;
    this.#hot = io;
    this.#later();
  }

  /** Shows the fields of the I/O or heat map cell under the pointer, or the story of a mark. */
  #hover(x: number, y: number): void {
    const marked = this.#storiesAt(x, y);
    this.#canvas.classList.toggle("on-story", marked.length > 0);
    const bar = this.#single && marked.length === 0 ? this.#barAt(x, y) : null;
    this.#highlight(bar?.index ?? null);
    const own = this.#single ? bar && this.#fields(bar.index) : this.#cellAt(x, y);
    const lines = marked.length > 0 ? marked.slice(0, MAX_NAMED_STORIES).flatMap((story) => story.lines) : own;
    this.#tip.hidden = lines === null;
    if (lines === null) return;
    this.#tip.replaceChildren(...lines.map(([name, value]) => h("div", {}, h("span", { text: name }), h("b", { text: value }))));
    const right = x > this.#width / 2;
    this.#tip.style.left = right ? "" : `${x + 14}px`;
    this.#tip.style.right = right ? `${this.#width - x + 14}px` : "";
    this.#tip.style.top = `${Math.max(0, Math.min(y - 10, this.#height - 24 - 19 * lines.length))}px`;
  }

  /** Shows the fields of the next or previous I/O. */
  #step(by: number): void {
    this.#stepped = Math.min(this.#bars.length - 1, Math.max(0, this.#tip.hidden ? (by > 0 ? 0 : this.#bars.length - 1) : this.#stepped + by));
    const bar = this.#bars[this.#stepped];
    if (bar) this.#hover(Math.max(LEFT, Math.min(bar.x1, LEFT + this.plotWidth)) - 0.5, (bar.y0 + bar.y1) / 2);
  }

  /** The I/O whose bar is under the pointer, or whose size or sector mark is near it. */
  #barAt(x: number, y: number): Bar | null {
    const { heat, rate, depth } = this.#areas();
    if (y < heat.y + heat.h) return this.#bars.find((b) => x >= b.x0 - 2 && x <= b.x1 + 2 && y >= b.y0 && y < b.y1) ?? null;
    const isSector = y >= (rate.y + rate.h + depth.y) / 2;
    let [nearest, distance]: [Bar | null, number] = [null, NEAR_PX];
    for (const bar of this.#bars) {
      const at = isSector ? bar.sectorY : bar.sizeY;
      const far = at === null ? Infinity : Math.hypot(bar.markX - x, at - y);
      if (far <= distance) [nearest, distance] = [bar, far];
    }
    return nearest;
  }

  #fields(i: number): [string, string][] | null {
    const ios = this.#ios;
    if (!ios) return null;
    const c = ios.columns;
    const text = (v: unknown) => (v === null || v === undefined || v === "" ? format.ABSENT : String(v));
    return [
      ["Process", `${text(c.process[i])} ${c.pid[i] === null ? "" : `[${text(c.pid[i])}]`}`],
      ["Control group", text(c.cgroup[i])],
      ["File", text(c.file[i])],
      ["Class", [text(c.class[i]), text(c.origin[i]), ...flagsOf(c.flags?.[i])].join(", ")],
      ["Device", `${text(c.device[i])}, sector ${format.count(c.sector[i])}`],
      ["Size", format.binaryBytes(c.bytes[i])],
      ["Latency", format.micros(c.total_us[i])],
      ["In the queue", format.micros(c.queue_us[i])],
      ["In the device", format.micros(c.device_us[i])],
      ...waits(c, i),
      ["Started", `${exact(ios, c.start_ns[i])} UTC`],
      ["Completed", `${exact(ios, c.done_ns[i])} UTC`],
      ...(c.error[i] ? ([["Error", text(c.error[i])]] as [string, string][]) : []),
    ];
  }

  #cellAt(x: number, y: number): [string, string][] | null {
    const { heat } = this.#areas();
    if (x < LEFT || x > LEFT + this.plotWidth || y < heat.y || y > heat.y + heat.h) return this.#rowAt(x);
    if (this.#fold) return this.#offsetAt(this.#fold, this.#t(x), 1 - (y - heat.y) / heat.h);
    const [t, us] = [this.#t(x), this.#us(y)];
    const out: [string, string][] = [["Time", `${format.clock(t, Math.max(1e-6, (this.#view.to - this.#view.from) / 2000))} UTC`], ["Latency", format.micros(us)]];
    for (const cls of [...shownClasses(this.#view.cls)].reverse()) {
      const layer = this.#shownOf(cls).filter((l) => l.from <= t && l.to > t).at(-1);
      if (!layer) continue;
      const column = layer.heat.counts[Math.floor((t - layer.from) / layer.heat.column_s)];
      const row = layer.heat.latency_us.findIndex((edge) => edge > us) - 1;
      const n = row >= 0 ? column?.[row] : 0;
      const share = recordedShare(layer.heat, Math.floor((t - layer.from) / layer.heat.column_s));
      const part = share < 0.99 ? `, of which ${format.span(share * layer.heat.column_s)} is recorded` : "";
      out.push([capitalized(pluralOf(cls)), `${format.count(n ?? 0)} in ${format.span(layer.heat.column_s)}${part}`]);
    }
    return out;
  }

  #offsetAt({ heat, cls }: Layer, t: number, share: number): [string, string][] | null {
    const period = heat.column_s;
    const column = Math.floor((t - heat.from_unix_s) / period);
    const cells = heat.counts[column];
    if (!cells) return null;
    const at = heat.from_unix_s + (column + share) * period;
    return [
      ["Time", `${format.clock(at, period / cells.length)} UTC`], ["Offset", format.span(share * period)],
      [cls === "all" ? "I/Os" : `${cls}s`, `${format.count(cells[Math.floor(share * cells.length)] ?? 0)} in ${format.span(period / cells.length)}`],
    ];
  }

  #rowAt(x: number): [string, string][] | null {
    if (x < LEFT || x > LEFT + this.plotWidth) return null;
    const t = this.#t(x);
    const row = [...this.#rows, ...this.#live].find((r) => r.at >= t && r.at - r.length <= t);
    if (!row) return null;
    return [
      ["Time", `${format.clock(t, Math.min(1, row.length))} UTC, mean of ${format.span(row.length)}`],
      ...described(row.values, this.#view.cls),
      ["In flight", `${format.number(row.inflight)}, at most ${format.number(row.inflightMax)}`],
      ...(row.lossy ? ([["Lost", "some I/Os of this time were not recorded"]] as [string, string][]) : []),
    ];
  }
}

type DeviceRow = Pick<Row, "values" | "inflight" | "inflightMax" | "lossy">;

/**
 * Combines the rows of two devices. Their maxima may be at different times: at least the larger one, and at least the
 * mean, was in flight.
 */
export function ofDevices(a: DeviceRow, b: DeviceRow): DeviceRow {
  const inflight = (a.inflight ?? 0) + (b.inflight ?? 0);
  const inflightMax = Math.max(a.inflightMax ?? 0, b.inflightMax ?? 0, Math.ceil(inflight));
  return { values: together(a.values, b.values), inflight, inflightMax, lossy: a.lossy || b.lossy };
}

const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** Stretches of `asked` without a row that are longer than the adjacent rows. */
export function unrecorded(rows: readonly { at: number; length: number }[], asked: Episode): Episode[] {
  const out: Episode[] = [];
  // Without any rows, a text explains why.
  if (rows.length === 0) return out;
  let known = asked.from;
  for (const { at, length } of [...rows].sort((a, b) => a.at - b.at)) {
    const begin = Math.min(at - length, asked.to);
    if (begin - known > length) out.push({ from: known, to: begin });
    known = Math.max(known, at);
  }
  if (asked.to - known > (rows[0]?.length ?? 0)) out.push({ from: known, to: asked.to });
  return out;
}

const RATES: readonly string[] = ["r_per_s", "w_per_s", "d_per_s", "f_per_s"];

/** Whether no I/O completed according to the rows. Rows with losses or unknown rates do not count. */
export function isIdle(rows: readonly { values: Values; lossy: boolean }[]): boolean {
  const isOfNone = (values: Values) => {
    const known = RATES.map((column) => values[column] ?? null).filter((rate) => rate !== null);
    return known.length > 0 && known.every((rate) => rate === 0);
  };
  return rows.length > 0 && rows.every((r) => !r.lossy && isOfNone(r.values));
}

/** Distance from `x` to the nearest of some stretches. */
export function farOf(stretches: readonly (readonly [number, number])[], x: number): number {
  return Math.min(Infinity, ...stretches.map(([left, right]) => Math.max(left - x, x - right, 0)));
}

/**
 * The rows that determine the scale. A single I/O in a cut row is a high rate, so cut rows count only if there are no
 * others. The same applies to the live 100 ms rows beside rows of hours: their peaks, which are means in the longer
 * rows, would flatten all others.
 */
export function scaling<R extends { length: number; isCut: boolean }>(rows: readonly R[]): readonly R[] {
  const longest = rows.reduce((most, r) => Math.max(most, r.length), 0);
  const long = rows.filter((r) => r.length >= longest * LONG_SHARE);
  const whole = long.filter((r) => !r.isCut);
  return whole.length > 0 ? whole : long;
}

/** The classes in the heat map's legend: those of a view of `shown` (null: all), or those of the period layout. */
export function classesOf(fold: Layer["cls"] | null, shown: Class | null): Class[] {
  if (fold === null) return [...shownClasses(shown)].reverse();
  return fold === "all" || fold === "found" ? [] : [fold];
}

/** Rare classes are drawn without an area, which would hide the others. */
function coloursOf({ cls }: Line, t: Theme): { fill: string | null; stroke: string } {
  switch (cls) {
    case "all": return { fill: t.busyFill, stroke: t.busy };
    case "read": return { fill: t.readFill, stroke: t.read };
    case "write": return { fill: t.writeFill, stroke: t.write };
    case "discard":
    case "flush": return { fill: null, stroke: t[cls] };
  }
}

/** The time of day with nanoseconds. */
function exact(ios: Ios, ns: number | undefined): string {
  const [seconds, rest] = [Math.floor((ns ?? 0) / 1e9), (ns ?? 0) % 1e9];
  return `${format.clock(ios.since_unix_s + seconds, 1)}.${String(rest).padStart(9, "0")}`;
}

/** Flags of a request (`cmd_flags >> 8`) that are shown. */
const FLAGS: readonly [bit: number, name: string][] = [[3, "sync"], [4, "meta"], [5, "prio"], [9, "FUA"], [10, "preflush"], [11, "read-ahead"], [12, "background"]];

function flagsOf(flags: number | null | undefined): string[] {
  return FLAGS.filter(([bit]) => ((flags ?? 0) >> bit) & 1).map(([, name]) => name);
}

/** The parts of an I/O's time: the undisturbed latency, then what it waited for, longest first. */
function waits(c: Ios["columns"], i: number): [string, string][] {
  const us = (column: Column | undefined): number => column?.[i] ?? 0;
  const undisturbed = c.undisturbed_us?.[i] ?? null;
  if (undisturbed === null) return [];
  const pid = c.wait_behind_pid?.[i] ?? null;
  const who = c.wait_behind_process?.[i] ?? (pid === null ? "another process" : `process ${pid}`);
  const cls = c.wait_behind_class?.[i] ?? "I/O";
  const what = c.wait_behind_origin?.[i] === "writeback" ? "write-back" : cls === "flush" ? "flushes" : `${cls}s`;
  const behind = us(c.wait_behind_us);
  const parts: [string, number][] = [
    [`Behind ${what} of ${who}`, behind],
    [behind > 0 ? "Behind all others" : "Behind others", us(c.wait_others_us) - behind],
    ["Behind its own", us(c.wait_own_us)],
    ["Held above the driver", us(c.wait_held_us)],
    ["By the device itself", us(c.wait_device_us)],
    ["Of no known cause", us(c.wait_unknown_us)],
  ];
  // Parts of up to 2 ns are rounding errors.
  const waited = parts.filter(([, time]) => time > 0.002).sort((a, b) => b[1] - a[1]);
  return [["Undisturbed", format.micros(undisturbed)], ...waited.map(([name, time]): [string, string] => [name, format.micros(time)])];
}

/**
 * The colour stops of a heat map, from few I/Os to many. The lightest end of the ramp is omitted, so that a single
 * I/O is visible.
 */
function stopsOf(cls: Layer["cls"], t: Theme): string[] {
  switch (cls) {
    case "read":
    case "write":
    case "flush":
    case "discard": return t.heat[cls].slice(1);
    case "found": return [t.mark, t.mark];
    case "all": return [t.grid, t.text];
  }
}

/** Converts a raster of shades to the colours of its class. */
function painted(raster: Uint8Array, { width, height }: Frame, cls: Layer["cls"]): HTMLCanvasElement {
  const canvas = h("canvas", { width, height });
  const ctx = canvas.getContext("2d");
  if (!ctx) return canvas;
  const colours = new Uint32Array(ramp(stopsOf(cls, theme()), SHADES).buffer);
  const image = ctx.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < raster.length; i++) {
    const shade = raster[i]!;
    if (shade > 0) pixels[i] = colours[shade - 1]!;
  }
  ctx.putImageData(image, 0, 0);
  return canvas;
}
