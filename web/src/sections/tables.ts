import type { Actor, ActorClass, ClassName, ClassStats, DeviceStats } from "../data";
import { fill, h } from "../dom";
import * as format from "../format";
import type { Store } from "../store";
import { segmented } from "./distributions";
import { Table, type Column } from "./table";

interface DeviceRow {
  device: DeviceStats;
  cls: ClassName;
  stats: ClassStats;
}

function numeric<Row>(title: string, definition: string, key: (r: Row) => number | null, text: (v: number | null) => string, cls?: string): Column<Row> {
  return { title, definition, numeric: true, key, text: (r) => text(key(r)), ...(cls ? { cls } : {}) };
}

const CLASS_COLUMNS: Column<DeviceRow>[] = [
  { title: "Device", key: (r) => r.device.name, text: (r) => r.device.name, cls: "name" },
  { title: "Class", key: (r) => r.cls, text: (r) => r.cls },
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

const BUSY_COLUMNS: Column<DeviceStats>[] = [
  { title: "Device", key: (d) => d.name, text: (d) => d.name, cls: "name" },
  { title: "Number", key: (d) => d.major * 2 ** 20 + d.minor, text: (d) => `${d.major}:${d.minor}` },
  numeric("Busy", "busy", (d) => d.busy_percent, format.percent),
  numeric("with reads", "busy", (d) => d.busy_read_percent, format.percent),
  numeric("with writes", "busy", (d) => d.busy_write_percent, format.percent),
  numeric("%util (io_ticks)", "util", (d) => d.util_io_ticks_percent, format.percent),
  numeric("In flight", "inflight", (d) => d.concurrency.mean, format.number),
  numeric("p50", "concurrency", (d) => d.concurrency.p50, format.number),
  numeric("p75", "concurrency", (d) => d.concurrency.p75, format.number),
  numeric("p99", "concurrency", (d) => d.concurrency.p99, format.number),
  numeric("Max", "concurrency", (d) => d.concurrency.max, format.number),
];

/** Per device: how busy, and per class how many, how much, how slow. */
export function deviceTables(store: Store): HTMLElement {
  const classes: ClassName[] = ["read", "write", "discard", "flush"];
  const rows = store.data.devices.flatMap((device) =>
    classes.map((cls) => ({ device, cls, stats: device[cls] })).filter(({ stats }) => stats.ios > 0),
  );
  const counters = store.data.recording.source === "counters";
  const nothing = counters ? "Counters do not tell single I/Os apart: see the charts for rates and means." : "No device completed any I/O.";
  return h(
    "section",
    { id: "devices" },
    h("h2", { text: "Devices" }),
    new Table("I/O by device and class", CLASS_COLUMNS, rows, 2, nothing).root,
    new Table("Busy time and concurrency by device", BUSY_COLUMNS, store.data.devices, 2, nothing).root,
  );
}

function side(name: string, pickSide: (a: Actor) => ActorClass): Column<Actor>[] {
  return [
    numeric(`${name} I/Os`, "ios", (a) => pickSide(a).ios, (v) => (v === 0 ? format.ABSENT : format.count(v))),
    numeric(`${name} bytes`, "bytes", (a) => pickSide(a).bytes, (v) => (v === 0 ? format.ABSENT : format.bytes(v))),
    numeric(`${name} mean`, "mean", (a) => pickSide(a).mean_us, format.micros),
    numeric(`${name} p99`, "p99", (a) => pickSide(a).p99_us, format.micros),
  ];
}

const TABS: [Actor["by"], string][] = [["process", "Processes"], ["cgroup", "Control groups"], ["file", "Files"]];

/** Who did it: by process, control group or file. */
export class Actors {
  readonly root: HTMLElement;
  readonly #tabs = h("div");
  readonly #table: Table<Actor>;
  #by: Actor["by"] = "process";

  constructor(readonly store: Store) {
    const columns: Column<Actor>[] = [
      { title: "Name", key: (a) => a.name, text: (a) => a.name, cls: "name" },
      { title: "Detail", key: (a) => a.detail, text: (a) => a.detail ?? format.ABSENT, cls: "detail" },
      { title: "Device", key: (a) => a.device, text: (a) => a.device ?? format.ABSENT },
      { title: "Origin", definition: "origin", key: (a) => a.origin, text: (a) => a.origin ?? format.ABSENT },
      numeric("I/O time", "timeShare", (a) => a.time_percent, format.percent),
      ...side("Read", (a) => a.read),
      ...side("Write", (a) => a.write),
    ];
    this.#table = new Table("Processes, control groups and files", columns, [], 4, "This recording does not say who did the I/O.");
    this.root = h("section", { id: "actors" }, h("div", { class: "row" }, h("h2", { text: "Who did it" }), this.#tabs), this.#table.root);
    this.#by = TABS.find(([by]) => store.data.actors.some((a) => a.by === by))?.[0] ?? "process";
    this.#show();
  }

  #show(): void {
    const count = (by: Actor["by"]) => this.store.data.actors.filter((a) => a.by === by).length;
    const options = TABS.map(([by, title]): [Actor["by"], string] => [by, `${title} ${count(by)}`]);
    fill(this.#tabs, segmented("Who", options, this.#by, (by) => this.#choose(by)));
    this.#table.rows = this.store.data.actors.filter((a) => a.by === this.#by);
    this.#table.update();
  }

  #choose(by: Actor["by"]): void {
    this.#by = by;
    this.#show();
    this.#tabs.querySelector<HTMLElement>('[aria-pressed="true"]')?.focus();
  }
}
