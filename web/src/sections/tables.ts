// The tables of the sections "Devices" and "Attribution (top consumers)" of the report, with their columns.

import type { ActorBlock, ActorFlow, Class, ClassSummary, DepthBlock, DeviceStats, PageData, SlotGroupBlock, SlotQuantiles } from "../generated/page";
import { fill, h } from "../dom";
import * as format from "../format";
import type { Store } from "../store";
import { segmented } from "./distributions";
import { linkTable, setsOf } from "./sets";
import { stageRows, type StageRow } from "./stages";
import { Table, numeric, type Column } from "./table";

interface DeviceRow {
  device: DeviceStats;
  cls: Class;
  stats: ClassSummary;
}

const CLASS_COLUMNS: Column<DeviceRow>[] = [
  { title: "Device", definition: "deviceName", key: (r) => r.device.name, text: (r) => r.device.name, cls: "name" },
  { title: "Class", definition: "class", key: (r) => r.cls, text: (r) => (r.stats.low_n ? `${r.cls} (few)` : r.cls), hint: (r) => (r.stats.low_n ? "lowN" : null) },
  numeric("I/Os", "ios", (r) => r.stats.ios, format.count),
  numeric("Bytes", "bytes", (r) => (r.cls === "flush" ? null : r.stats.bytes), format.bytes),
  numeric("Mean", "mean", (r) => r.stats.mean_us, format.micros),
  numeric("p50", "p50", (r) => r.stats.p50_us, format.micros),
  numeric("p90", "p90", (r) => r.stats.p90_us, format.micros),
  numeric("p99", "p99", (r) => r.stats.p99_us, format.micros),
  numeric("p99.9", "p999", (r) => r.stats.p999_us, format.micros),
  numeric("Max", "max", (r) => r.stats.max_us, format.micros),
  numeric("Queue", "queue", (r) => r.stats.queue_mean_us, format.micros),
  numeric("Device time", "device", (r) => r.stats.device_mean_us, format.micros),
  numeric("Sequential", "sequential", (r) => r.stats.sequential_percent, format.percent),
];

const busyColumns = (depth: Map<string, DepthBlock>): Column<DeviceStats>[] => [
  { title: "Device", definition: "deviceName", key: (d) => d.name, text: (d) => d.name, cls: "name" },
  { title: "Number", definition: "deviceNumber", key: (d) => d.major * 2 ** 20 + d.minor, text: (d) => `${d.major}:${d.minor}` },
  numeric("Busy", "busy", (d) => d.busy_percent, format.percent),
  numeric("with reads", "busy", (d) => d.busy_read_percent, format.percent),
  numeric("with writes", "busy", (d) => d.busy_write_percent, format.percent),
  { title: "%util (io_ticks)", definition: "util", numeric: true, key: (d) => d.util_io_ticks_percent, text: (d) => withSigma(d, depth.get(d.name)) },
  numeric("expected", "expected", (d) => depth.get(d.name)?.util?.expected_percent ?? null, format.percent),
  numeric("In flight", "inflight", (d) => d.concurrency.mean, format.number),
  numeric("p50", "concurrency", (d) => d.concurrency.p50, format.number),
  numeric("p75", "concurrency", (d) => d.concurrency.p75, format.number),
  numeric("p99", "concurrency", (d) => d.concurrency.p99, format.number),
  numeric("Max", "concurrency", (d) => d.concurrency.max, format.number),
];

/** The kernel's value with its standard deviation, if that is known and visible. */
function withSigma(d: DeviceStats, depth: DepthBlock | undefined): string {
  const sigma = depth?.util?.sigma_pp ?? 0;
  const text = format.percent(d.util_io_ticks_percent);
  return sigma >= 0.005 && text !== format.ABSENT ? `${text.replace(" %", "")} ± ${format.number(sigma, 2)} %` : text;
}

const CAPACITY_COLUMNS: Column<DepthBlock>[] = [
  { title: "Device", definition: "deviceName", key: (d) => d.device, text: (d) => d.device, cls: "name" },
  { title: "State", definition: "capacity", key: (d) => d.capacity.state, text: (d) => d.capacity.state.replaceAll("-", " ") },
  numeric("Highest IOPS", "highest", (d) => d.capacity.max_ios_per_s, format.number),
  numeric("Light-load latency", "light", (d) => d.capacity.unloaded_us, format.micros),
  numeric("Knee", "knee", (d) => d.capacity.knee_in_flight, format.number),
  numeric("Headroom", "headroom", (d) => d.capacity.headroom_percent, format.percent),
  numeric("Queue share", "stages", (d) => d.stages.s2d.share_percent, format.percent),
  numeric("Depth at issue", "depthAtIssue", (d) => d.stages.depth_at_issue, format.number),
  numeric("Seek p50", "seek", (d) => (d.stages.seek_p50_sectors === null ? null : d.stages.seek_p50_sectors * 512), format.binaryBytes),
  numeric("Turns", "turns", (d) => d.stages.turn_percent, format.percent),
];

interface StageOf extends StageRow {
  device: string;
}

const STAGE_COLUMNS: Column<StageOf>[] = [
  { title: "Device", definition: "deviceName", key: (r) => r.device, text: (r) => r.device, cls: "name" },
  { title: "Stage", definition: "stages", key: (r) => r.name, text: (r) => r.name },
  { title: "From what to what", definition: "stages", key: (r) => r.words, text: (r) => r.words },
  { title: "Counts", definition: "stages", key: (r) => r.counts, text: (r) => r.counts },
  numeric("n", "stages", (r) => r.stats.n, format.count),
  numeric("Share", "stages", (r) => r.stats.share_percent, format.percent),
  numeric("Mean", "mean", (r) => r.stats.mean_us, format.micros),
  numeric("p50", "p50", (r) => r.stats.p50_us, format.micros),
  numeric("p99", "p99", (r) => r.stats.p99_us, format.micros),
  numeric("Max", "max", (r) => r.stats.max_us, format.micros),
];

interface SlotRow {
  device: string;
  cls: string;
  group: SlotGroupBlock;
}

function pair(title: string, definition: string, of: (g: SlotGroupBlock) => SlotQuantiles): Column<SlotRow>[] {
  return [
    numeric(`${title} p50`, definition, (r) => of(r.group).p50, format.number),
    numeric("p75", definition, (r) => of(r.group).p75, format.number),
  ];
}

const SLOT_COLUMNS: Column<SlotRow>[] = [
  { title: "Device", definition: "deviceName", key: (r) => r.device, text: (r) => r.device, cls: "name" },
  { title: "From", definition: "slots", numeric: true, key: (r) => r.group.start_s, text: (r) => format.elapsed(r.group.start_s, 1) },
  { title: "Class", definition: "class", key: (r) => r.cls, text: (r) => r.cls },
  ...pair("Touched", "touched", (g) => g.touched),
  ...pair("Sampled", "sampled", (g) => g.sampled),
  ...pair("Mean", "slotMean", (g) => g.slot_mean),
  ...pair("Most", "slotMax", (g) => g.slot_max),
  numeric("Slots touched", "touchedShare", (r) => r.group.touched_percent, format.percent),
  numeric("n", "slots", (r) => r.group.slot_count, format.count),
];

/** A row for each device, and before them one for all devices. */
function slotRows(data: PageData): SlotRow[] {
  const classes: [keyof Omit<DepthBlock["slots"], "width_s">, string][] = [["all", "all"], ["read", "read"], ["write", "write"]];
  const together = setsOf(data).sets.flatMap(({ name, slots }) => (slots ? [{ device: `${name} together`, slots }] : []));
  return [...together, ...(data.depth ?? [])].flatMap(({ device, slots }) => slots.all.flatMap((_, i) => classes.flatMap(([key, cls]) => {
    const group = slots[key][i];
    return group ? [{ device, cls, group }] : [];
  })));
}

/** Per device: busy time, and per class I/Os, bytes and latency. */
export function deviceTables(store: Store): HTMLElement {
  const classes: Class[] = ["read", "write", "discard", "flush"];
  const rows = store.data.devices.flatMap((device) =>
    classes.map((cls) => ({ device, cls, stats: device[cls] })).filter(({ stats }) => (stats.ios === null ? stats.bytes !== null || stats.mean_us !== null : stats.ios > 0)),
  );
  const counters = store.data.recording.source === "counters";
  const depth = store.data.depth ?? [];
  const byName = new Map(depth.map((d) => [d.device, d]));
  const nothing = counters ? "Counters hold no single I/Os; the charts show rates and means." : "No device completed any I/O.";
  return h(
    "section",
    { id: "devices" },
    h("h2", { text: "Devices" }),
    new Table("I/O by device and class", CLASS_COLUMNS, rows, 2, nothing).root,
    new Table("Busy time and concurrency by device", busyColumns(byName), store.data.devices, 2, nothing).root,
    linkTable(store.data),
    depth.length > 0 ? new Table("Stages by device", STAGE_COLUMNS, depth.flatMap((d) => stageRows(d.stages).map((r) => ({ ...r, device: d.device }))), 0, nothing, false).root : null,
    depth.length > 0 ? new Table("Capacity, queues and seeks by device", CAPACITY_COLUMNS, depth, 2, nothing).root : null,
    depth.length > 0 ? new Table("Concurrency in 2 ms slots, by 20 minutes", SLOT_COLUMNS, slotRows(store.data), 1, nothing, false).root : null,
  );
}

function side(name: string, pickSide: (a: ActorBlock) => ActorFlow): Column<ActorBlock>[] {
  return [
    numeric(`${name} I/Os`, "ios", (a) => pickSide(a).ios, (v) => (v === 0 ? format.ABSENT : format.count(v))),
    numeric(`${name} bytes`, "bytes", (a) => pickSide(a).bytes, (v) => (v === 0 ? format.ABSENT : format.bytes(v))),
    numeric(`${name} mean`, "mean", (a) => pickSide(a).mean_us, format.micros),
    numeric(`${name} p99`, "p99", (a) => pickSide(a).p99_us, format.micros),
  ];
}

const TABS: [ActorBlock["by"], string][] = [["process", "Processes"], ["cgroup", "Control groups"], ["file", "Files"]];

/** Text of the tables of processes, control groups and files if they are empty. */
export function noActors(data: PageData): string {
  const r = data.recording;
  const isIdle = r.ios === 0 && r.lost_ios === 0 && r.source !== "counters" && !data.imported_tables;
  return isIdle ? "No I/O completed in this time." : "This recording does not say who did the I/O.";
}

/** Attribution by process, control group or file. */
export class Actors {
  readonly root: HTMLElement;
  readonly #tabs = h("div");
  readonly #table: Table<ActorBlock>;
  #by: ActorBlock["by"] = "process";

  constructor(readonly store: Store) {
    const columns: Column<ActorBlock>[] = [
      { title: "Name", definition: "actorName", key: (a) => a.name, text: (a) => a.name, cls: "name" },
      { title: "Detail", definition: "actorDetail", key: (a) => a.identity, text: (a) => a.identity ?? format.ABSENT, cls: "detail" },
      { title: "Device", definition: "deviceName", key: (a) => a.device, text: (a) => a.device ?? format.ABSENT },
      { title: "Origin", definition: "origin", key: (a) => a.origin, text: (a) => a.origin ?? format.ABSENT },
      numeric("I/O time", "timeShare", (a) => a.io_time_percent, format.percent),
      ...side("Read", (a) => a.read),
      ...side("Write", (a) => a.write),
    ];
    this.#table = new Table("Processes, control groups and files", columns, [], 4, noActors(store.data));
    this.root = h("section", { id: "actors" }, h("div", { class: "row" }, h("h2", { text: "Attribution (top consumers)" }), this.#tabs), this.#table.root);
    this.#by = TABS.find(([by]) => store.data.actors.some((a) => a.by === by))?.[0] ?? "process";
    this.#show();
  }

  #show(): void {
    const count = (by: ActorBlock["by"]) => this.store.data.actors.filter((a) => a.by === by).length;
    const options = TABS.map(([by, title]): [ActorBlock["by"], string] => [by, `${title} ${count(by)}`]);
    fill(this.#tabs, segmented("Who", options, this.#by, (by) => this.#choose(by)));
    this.#table.rows = this.store.data.actors.filter((a) => a.by === this.#by);
    this.#table.update();
  }

  #choose(by: ActorBlock["by"]): void {
    this.#by = by;
    this.#show();
    this.#tabs.querySelector<HTMLElement>('[aria-pressed="true"]')?.focus();
  }
}
