import { autocorrelation, logSeries } from "../src/rhythm";
import assert from "node:assert/strict";
import { test } from "node:test";
import { isLossy, meanLatency, sumActors, sumWaits } from "../src/app/inside";
import { described, drawnOf, linesOf, missingOf, together, valueOf, valuesOf } from "../src/app/quantities";
import { cellsBetween, cellsOf, quantileOf, tierFor } from "../src/app/tiers";
import { fromLogCode, packColumn, packList, toLogCode, unpackColumn, unpackList } from "../src/codec";
import type { LevelBlock } from "../src/generated/page";
import { classesOf, farOf, isIdle, ofDevices, scaling, unrecorded } from "../src/app/chart";
import { type Frame, joined, latencyRange, layerOf, rasterOf, regridded, shownLayers } from "../src/app/heat";
import { type Blocks, blocksIn, blocksOf, grown, isBounded, ratesIn, shifts } from "../src/app/compare";
import { type Ios, type Story, actorName, knownName, nameOf, processName } from "../src/app/data";
import { fitting, placesOf } from "../src/app/heading";
import { filterOf, filterText, hasActor, nothingFound, storyLines, unmarkedOf } from "../src/app/panels";
import { csv, ioColumns, trace } from "../src/app/export";
import { folded, foldPlan } from "../src/app/fold";
import { merged } from "../src/app/merged";
import { sentence } from "../src/app/api";
import * as appView from "../src/app/view";
import { visible } from "../src/dom";
import * as format from "../src/format";
import * as link from "../src/link";
import * as view from "../src/view";
import { Slots, cutValue, finerThan, loadPoints, openBuckets, openLevels, peaks, pick, totals } from "../src/levels";
import { beginOf } from "../src/sections/header";
import { foremost, noFindings } from "../src/sections/findings";
import { costs, groupName } from "../src/fleet/costs";
import { Axis } from "../src/lab/axis";
import { filtered, sorted, type Column } from "../src/sections/table";
import { noActors } from "../src/sections/tables";
import { around, clamp, pan, scale, snap } from "../src/zoom";
import { random } from "../src/random";
import { counters, empty, periodicLoad, tables } from "./synth";

test("columns survive packing, with absent values, runs and numbers beyond 32 bits", () => {
  const next = random(7);
  for (let round = 0; round < 300; round++) {
    const n = Math.floor(next() * 60);
    const values: (number | null)[] = [];
    while (values.length < n) {
      const kind = next();
      const v = kind < 0.3 ? null : kind < 0.5 ? 0 : kind < 0.55 ? Math.floor(next() * 2 ** 45) : Math.floor(next() * 500);
      for (let k = next() < 0.2 ? 9 : 1; k > 0 && values.length < n; k--) values.push(v);
    }
    const back = [...unpackColumn(packColumn(values), n)].map((v) => (Number.isNaN(v) ? null : v));
    assert.deepEqual(back, values);
  }
});

test("what cannot be seen is written out, beyond 16 bits too", () => {
  assert.equal(visible("a\u202eb\u{e0041}\u0007\u{1f600}"), "a\\u{202e}b\\u{e0041}\\x07\u{1f600}");
});

test("the wire is what the format says it is", () => {
  // Deltas +1, +1, +1 (zigzag 2 = "C"), an absent value, -3 (zigzag 5 = "F").
  assert.equal(packColumn([1, 2, 3, null, 0]), "CCC.F");
  assert.equal(packColumn([5, 5, 5, 5, 5, 5]), "KA~E");
  assert.equal(packList([0, 31, 32, 1024]), "Afg" + "BggB".slice(0, 4));
  assert.deepEqual(unpackList("AfgBggB"), [0, 31, 32, 1024]);
});

test("damaged columns are refused", () => {
  assert.throws(() => unpackColumn("C!", 2), /damaged/);
  assert.throws(() => unpackColumn("C", 2), /expected 2/);
  assert.throws(() => unpackColumn("CCC", 2), /longer/);
  assert.throws(() => unpackColumn("g", 1), /damaged/);
});

test("log codes are off by at most 0.55 %", () => {
  for (let v = 1; v < 1e12; v *= 1.37) assert.ok(Math.abs(fromLogCode(toLogCode(v)) / v - 1) < 0.0055, String(v));
  assert.equal(fromLogCode(toLogCode(0)), 0);
});

test("numbers read well, and absent is a dash", () => {
  assert.equal(format.micros(0.0004), "0.0004 us");
  assert.equal(format.micros(137_000), "137 ms");
  assert.equal(format.micros(999.4), "999 us");
  assert.equal(format.micros(999.7), "1 ms");
  assert.equal(format.micros(2_500_000), "2.5 s");
  assert.equal(format.bytes(999_700_000), "1 GB");
  assert.equal(format.binaryBytes(131072), "128 KiB");
  assert.equal(format.byteRate(2.2235e9), "2.22 GB/s");
  assert.equal(format.count(36_000_000), "36\u202f000\u202f000");
  assert.equal(format.percent(0.004), "< 0.01 %");
  assert.equal(format.byKey("p_value", 1e-12), "< 0.001");
  assert.equal(format.byKey("p_value", 0.0123), "0.012");
  for (const f of [format.micros, format.bytes, format.count, format.percent, format.span, format.number]) {
    assert.equal(f(null), "–");
    assert.equal(f(NaN), "–");
  }
  assert.equal(format.number(0), "0");
  assert.equal(format.span(3720), "1 h 02 min");
  assert.deepEqual([30 * 86400, 2.5 * 86400, 86400].map(format.span), ["30 days", "2 days 12 h", "24 h 00 min"]);
  assert.equal(format.span(3599.9), "60 min 00 s");
});

test("a date is that of the instant, and local time is UTC moved by the zone's offset", () => {
  assert.equal(format.date(1_795_046_399.9), "2026-11-18");
  assert.equal(format.date(1_795_046_400), "2026-11-19");
  const at = new Date(2026, 10, 19, 8, 42, 26).getTime() / 1000;
  assert.equal(format.clock(at + format.localOffset(at), 1), "08:42:26");
});

test("times keep the digits of the slot", () => {
  assert.equal(format.elapsed(153.65, 0.001), "2:33.650");
  assert.equal(format.elapsed(3725, 1), "1:02:05");
  assert.equal(format.elapsed(59.9996, 0.001), "1:00.000");
  assert.equal(format.clock(1_795_238_400 + 0.25, 0.05), "02:40:00.25".replace("02:40:00", new Date(1_795_238_400_000).toISOString().slice(11, 19)));
});

test("evidence is shown by the unit in its key", () => {
  assert.equal(format.byKey("read_p99_during_us", 13_700), "13.7 ms");
  assert.equal(format.byKey("peak_bytes_per_s", 2.2e9), "2.2 GB/s");
  assert.equal(format.byKey("period_s", 5), "5 s");
  assert.equal(format.byKey("ratio", 2.5), "2.5 ×");
  assert.equal(format.byKey("p_value", null), "–");
  assert.equal(format.label("mean_1s_bytes_per_s"), "1 s sampling");
  assert.equal(format.label("read_p99_during_us"), "read p99 during");
  assert.equal(format.label("bytes"), "bytes");
  assert.equal(format.label("peak_iops"), "peak IOPS");
});

test("the card shows what matters most of the evidence, and who did it", () => {
  const evidence = { bytes: 1, cause: "dd", class: "write", core_s: 2, peak_bytes_per_s: 3, mean_1s_bytes_per_s: 4, nothing: null, list: [1] };
  const [first, more] = foremost(evidence, 3);
  assert.deepEqual(first.map(([k]) => k), ["peak_bytes_per_s", "mean_1s_bytes_per_s", "cause"]);
  assert.deepEqual(more.map(([k]) => k), ["bytes", "class", "core_s", "list"]);
  assert.deepEqual(foremost({ a: 1, b: 2 }, 3)[0].map(([k]) => k), ["a", "b"]);
});

test("a stretch of a recording has its own beginning", () => {
  assert.equal(beginOf({ start_unix_s: 1000, from_s: 300 }), 1300);
  assert.equal(beginOf({ start_unix_s: 1000, from_s: 0 }), 1000);
});

test("zooming stays within the recording and above the finest slots", () => {
  const bounds = { from: 0, to: 100 };
  assert.deepEqual(clamp({ from: -5, to: 5 }, bounds, 1), { from: 0, to: 10 });
  assert.deepEqual(clamp({ from: 95, to: 120 }, bounds, 1), { from: 75, to: 100 });
  assert.deepEqual(clamp({ from: -50, to: 500 }, bounds, 1), bounds);
  const tiny = clamp({ from: 50, to: 50.001 }, bounds, 0.01);
  assert.ok(Math.abs(tiny.to - tiny.from - 0.01) < 1e-12);
  assert.deepEqual(pan({ from: 10, to: 20 }, -0.2), { from: 8, to: 18 });
  assert.deepEqual(scale({ from: 10, to: 20 }, 0.5), { from: 12.5, to: 17.5 });
  assert.deepEqual(around(10, 12, 0.1), { from: 8.5, to: 13.5 });
  assert.deepEqual(snap({ from: 0.1234, to: 0.2 }, 0.1), { from: 0.1, to: 0.2 });
});

function ramp(from: number, step: number, slots: number): LevelBlock {
  const ones = packColumn(new Array(slots).fill(1));
  return { from_ns: from * 1e9, step_ns: step * 1e9, to_ns: (from + step * slots) * 1e9, slot_count: slots, cols: { r_ios: ones, r_mean: packColumn(new Array(slots).fill(toLogCode(100_000))) } };
}

test("the finest level that covers the view is drawn", () => {
  const levels = [ramp(0, 1, 3600), ramp(100, 0.02, 3000), ramp(120, 0.001, 2000)].map((l) => new Slots(l));
  const step = (from: number, to: number) => pick(levels, { from, to }, 4000)?.step;
  assert.equal(step(0, 3600), 1);
  assert.equal(step(100, 160), 0.02);
  assert.equal(step(90, 130), 1);
  assert.equal(step(120.2, 120.9), 0.001);
  assert.equal(step(119, 123), 0.02);
  assert.equal(pick([], { from: 0, to: 1 }, 4000), undefined);
  assert.deepEqual(finerThan(levels, 1), [{ from: 100, to: 160 }]);
  const fine = new Slots(ramp(0, 0.001, 8000));
  assert.equal(pick([levels[0]!, fine], { from: 0, to: 8 }, 4000)?.step, 1, "too many slots for one view");
});

test("a view survives its address, nonsense is ignored", () => {
  assert.equal(link.write({ from: 1.5, to: 2.25 }, false, "sd a&b"), "t=1.500-2.250&d=sd%20a%26b");
  assert.deepEqual(link.read("#t=1.500-2.250&d=sd%20a%26b"), { range: { from: 1.5, to: 2.25 }, scope: "sd a&b" });
  assert.equal(link.write({ from: 0, to: 9 }, true, undefined), "");
  for (const bad of ["", "#", "#t=5-1", "#t=x-y", "#t=3"]) assert.equal(link.read(bad).range, null, bad);
});

test("peaks come from the finer slots within each slot", () => {
  const coarse = new Slots({ from_ns: 0, step_ns: 4e9, to_ns: 2 * 4e9, slot_count: 2, cols: {} });
  const fine = new Slots({ from_ns: 0, step_ns: 1e9, to_ns: 7e9, slot_count: 7, cols: { r_ios: packColumn([1, 9, 2, null, null, null, 3]) } });
  assert.deepEqual([...peaks(coarse, fine, "r_ios", 0, 2)], [9, 3]);
  assert.deepEqual([...peaks(coarse, fine, "w_ios", 0, 2)], [NaN, NaN]);
});

test("a last slot that is cut short weighs by its length, and makes no peak", () => {
  const slots = new Slots({ from_ns: 0, step_ns: 1e9, to_ns: 2.25e9, slot_count: 3, cols: { r_ios: packColumn([4, 4, 4]), r_sec: packColumn([0, 0, 0]), busy: packColumn([0, 0, 900]) } });
  const t = totals(slots, 0, 3);
  assert.equal(t.seconds, 2.25);
  assert.equal(t.peakIops, 4, "not 4 in a quarter of a second");
  assert.equal(t.busyPercent, 10);
  assert.deepEqual([0, 1, 2].map((i) => slots.isCut(i)), [false, false, true]);
});

test("a slot that is cut short, or far shorter than others, sets no scale", () => {
  const row = (rate: number, isCut: boolean, length = 1) => ({ rate, isCut, length });
  assert.deepEqual(scaling([row(1, false), row(50, true)]).map((r) => r.rate), [1]);
  assert.deepEqual(scaling([row(50, true)]).map((r) => r.rate), [50]);
  // Live data extends hours in steps of 100 ms; it is used only until the hours' own data arrives.
  assert.deepEqual(scaling([row(5, false, 3600), row(6, true, 600), row(900, false, 0.1)]).map((r) => r.rate), [5]);
  assert.deepEqual(scaling([row(6, true, 600), row(900, false, 0.1)]).map((r) => r.rate), [6]);
  assert.deepEqual(scaling([row(900, false, 0.1)]).map((r) => r.rate), [900]);
  assert.deepEqual(scaling([row(5, false, 0.2), row(9, false, 0.1)]).map((r) => r.rate), [5, 9]);
  assert.deepEqual(scaling([]), []);
  assert.equal(cutValue(4, 1, [5, null, 3]), 4, "its true rate, where others were as high");
  assert.equal(cutValue(400, 4, [5, 3]), 5);
  assert.equal(cutValue(400, 9, [5, 3]), 9, "as many in a whole slot are a peak");
  assert.equal(cutValue(400, 4, []), 4);
});

test("time that no row has is not recorded", () => {
  const row = (at: number) => ({ at, length: 1 });
  const asked = { from: 0, to: 20 };
  assert.deepEqual(unrecorded([row(15), row(11), row(12)], asked), [{ from: 0, to: 10 }, { from: 12, to: 14 }, { from: 15, to: 20 }]);
  assert.deepEqual(unrecorded([row(1), row(2), row(2.5), row(20)], { from: 0.5, to: 19.5 }), [{ from: 2.5, to: 19 }]);
  assert.deepEqual(unrecorded([row(31)], asked), [{ from: 0, to: 20 }]);
  assert.deepEqual(unrecorded([], asked), []);
});

test("devices together have no more in flight than is known to have been, and lack what one of them lacks", () => {
  const row = (inflight: number, inflightMax: number, lossy = false): ReturnType<typeof ofDevices> => ({ values: valuesOf((column) => (column === "r_kib_per_s" ? 1 : null)), inflight, inflightMax, lossy });
  const seven = Array.from({ length: 7 }, () => row(0.1, 1)).reduce(ofDevices);
  assert.equal(seven.inflightMax, 1);
  assert.equal(seven.values["r_kib_per_s"], 7);
  assert.equal(ofDevices(row(1, 4), row(2, 9)).inflightMax, 9);
  assert.equal(ofDevices(row(3, 4), row(3.5, 4)).inflightMax, 7, "at some moment as many as in the mean");
  assert.equal(ofDevices(row(0, 0), row(0, 0, true)).lossy, true);
});

test("rows of zeros are idle, rows of which nothing is known are not", () => {
  const row = (rates: Record<string, number | null>, lossy = false) => ({ values: rates, lossy });
  const none = row({ r_per_s: 0, w_per_s: 0, d_per_s: 0, f_per_s: 0 });
  assert.equal(isIdle([none, none]), true);
  assert.equal(isIdle([none, row({ r_per_s: 0, w_per_s: 0.001 })]), false);
  // With only one class, the others are unknown.
  assert.equal(isIdle([row({ r_per_s: 0, w_per_s: null })]), true);
  assert.equal(isIdle([none, row({ r_per_s: null, w_per_s: null })]), false);
  assert.equal(isIdle([none, row({ r_per_s: 0, w_per_s: 0 }, true)]), false);
  assert.equal(isIdle([]), false);
});

test("sums over a view are sums, means are weighted by I/Os", () => {
  const slots = new Slots({
    from_ns: 0, step_ns: 1e9, to_ns: 3e9, slot_count: 3,
    cols: { r_ios: packColumn([1, 3, 0]), r_sec: packColumn([8, 24, 0]), r_mean: packColumn([toLogCode(1e6), toLogCode(2e6), null]), r_max: packColumn([toLogCode(1e6), toLogCode(9e6), null]), busy: packColumn([100, 300, 0]) },
  });
  const t = totals(slots, 0, 3);
  assert.equal(t.reads, 4);
  assert.equal(t.readBytes, 32 * 512);
  assert.ok(Math.abs((t.readMeanUs ?? 0) - 1750) < 10);
  assert.ok(Math.abs((t.busyPercent ?? 0) - 13.333) < 0.01);
  assert.equal(t.writeMeanUs, null, "nothing was written: no mean");
  assert.equal(t.inflightMean, null, "unknown is not zero");
  assert.equal(totals(slots, 2, 3).readMeanUs, null);
});

test("histograms are opened bucket by bucket", () => {
  assert.deepEqual(openBuckets(packList([80, 90, 8, 9, 16, 1]), 1), [[80, 90], [88, 9], [104, 1]]);
});

test("load points weigh by I/Os and leave thin windows out", () => {
  const n = 600;
  const level = new Slots({
    from_ns: 0, step_ns: 1e9, to_ns: n * 1e9, slot_count: n,
    cols: {
      r_ios: packColumn(Array.from({ length: n }, (_, i) => (i % 2 ? 100 : 3))), w_ios: packColumn(new Array(n).fill(0)),
      r_mean: packColumn(new Array(n).fill(toLogCode(200_000))), w_mean: packColumn(new Array(n).fill(null)), q_mean: packColumn(new Array(n).fill(toLogCode(2000))),
    },
  });
  const points = loadPoints(level);
  assert.equal(points.length, n / 2);
  assert.ok(Math.abs(points[0]!.meanUs - 200) < 2);
  assert.ok(Math.abs(points[0]!.inflight - 2) < 0.02);
});

test("tables sort with absent values last and filter by words", () => {
  const rows = [{ n: 2, s: "Beta" }, { n: null, s: "gamma x" }, { n: 10, s: "alpha X" }];
  const key = (r: { n: number | null }) => r.n;
  assert.deepEqual(sorted(rows, key, true).map((r) => r.n), [10, 2, null]);
  assert.deepEqual(sorted(rows, key, false).map((r) => r.n), [2, 10, null]);
  const columns: Column<(typeof rows)[number]>[] = [{ title: "s", key: (r) => r.s, text: (r) => r.s }];
  assert.deepEqual(filtered(rows, columns, "X alpha").map((r) => r.s), ["alpha X"]);
  assert.equal(filtered(rows, columns, "  ").length, 3);
});

test("levels of a whole recording unpack", () => {
  const scope = periodicLoad(60).scopes[0]!;
  const levels = openLevels(scope);
  assert.ok(levels.length > 1);
  for (const l of levels) assert.equal(l.column("r_ios")?.length, l.n);
  assert.ok(levels[0]!.step > levels.at(-1)!.step);
});

test("autocorrelation finds what comes back", () => {
  const x = Array.from({ length: 400 }, (_, i) => (i % 25 < 2 ? 10 : 0));
  const acf = autocorrelation(x, 60);
  assert.equal(acf[0], 1);
  assert.ok((acf[25] ?? 0) > 0.9 && (acf[12] ?? 1) < 0.1, `${acf[25]} ${acf[12]}`);
  // The definition, term by term.
  const y = [3, 1, 4, 1, 5, 9, 2, 6];
  const mean = y.reduce((a, b) => a + b, 0) / y.length;
  const at = (k: number) => y.slice(k).reduce((sum, v, i) => sum + (v - mean) * ((y[i] ?? 0) - mean), 0);
  autocorrelation(y, 3).forEach((r, k) => assert.ok(Math.abs(r - at(k) / at(0)) < 1e-12));
  assert.deepEqual([...autocorrelation([5, 5, 5, 5], 2)], [0, 0, 0]);
  assert.equal(autocorrelation([], 5).length, 1);
});

test("log series sum slots and leave out a part of one", () => {
  const series = logSeries([2, 0, NaN, 4, 6], 2);
  assert.deepEqual([...series], [Math.log1p(1), Math.log1p(2)]);
});

test("an axis of experiments has round ticks within it, and leaves out what its scale cannot show", () => {
  assert.deepEqual(Axis.of([3, 100], "linear").ticks(), [0, 50, 100]);
  assert.deepEqual(Axis.of([1, 1e6], "bytes").ticks(), [0, 262144, 524288, 786432, 1048576]);
  assert.deepEqual(Axis.of([4096, 65536], "log-bytes").ticks(), [4096, 8192, 16384, 32768, 65536]);
  assert.deepEqual(Axis.of([0, -1, 1, 1000], "log").ticks(), [1, 10, 100, 1000]);
  assert.deepEqual(Axis.of([3, 40], "log").ticks(), [5, 10, 20]);
  assert.deepEqual(Axis.of([3, 8], "log").ticks(), [4, 6, 8], "one of 1, 2, 5 is too few");
  assert.deepEqual(Axis.of([100, 100], "log").ticks().length, 3, "one value");
  assert.equal(Axis.of([], "log").share(1), 0);
  const next = random(3);
  for (let round = 0; round < 500; round++) {
    const scale = (["linear", "log", "bytes", "log-bytes"] as const)[round % 4] ?? "linear";
    const values = Array.from({ length: 1 + Math.floor(next() * 5) }, () => next() * 10 ** Math.floor(next() * 9));
    const axis = Axis.of(values, scale);
    for (const v of values.filter((v) => v > 0)) assert.ok(axis.share(v) >= 0 && axis.share(v) <= 1, `${scale} ${v}`);
    if (scale === "log") assert.ok(axis.ticks().length >= 2, `${axis.ticks()} for ${values}`);
    for (const t of axis.ticks()) assert.ok(axis.share(t) >= -1e-9 && axis.share(t) <= 1 + 1e-9, `${scale} tick ${t}`);
  }
});

test("stretches of a server's time move, scale and have addresses", () => {
  assert.deepEqual(view.moved({ from: 100, to: 200 }, -0.5), { from: 50, to: 150 });
  assert.deepEqual(view.scaled({ from: 100, to: 200 }, 2), { from: 50, to: 250 });
  assert.deepEqual(view.scaled({ from: 100, to: 100.1 }, 0.5), { from: 100, to: 100.1 }, "not shorter than 0.1 s");
  assert.equal(view.query({ from: 100, to: 160 }, 1000), "?from=100.000&to=160.000");
  assert.equal(view.query({ from: 900, to: 1005.4 }, 1000), "?from=-105s&to=now", "what has not ended goes on");
  assert.equal(view.last(0.2), "?from=-1s&to=now");
  assert.equal(link.scopeOf(undefined), "");
  assert.equal(link.scopeOf("sd a&b"), "#d=sd%20a%26b");
});

/** This many I/Os, most of which overlap, that complete around `at`. */
function someIos(n: number, at: number): Ios {
  const next = random(11);
  const fill = <T>(of: (i: number) => T) => Array.from({ length: n }, (_, i) => of(i));
  const queue = fill(() => Math.floor(next() * 2e6) / 1000);
  const device = fill(() => Math.floor(1 + next() * 9e6) / 1000);
  const start = fill(() => 250_000_000 + Math.floor(next() * 2e7));
  return {
    ios: n, since_unix_s: at, notes: [],
    columns: {
      start_ns: start, done_ns: fill((i) => (start[i] ?? 0) + Math.round(((queue[i] ?? 0) + (device[i] ?? 0)) * 1000)), device: fill((i) => (i % 3 ? "sda" : "sdb")), class: fill((i) => (i % 2 ? "read" : "write")),
      sector: fill((i) => i), bytes: fill(() => 4096), queue_us: queue, device_us: device, total_us: fill((i) => Math.round(((queue[i] ?? 0) + (device[i] ?? 0)) * 1000) / 1000),
      error: fill(() => 0), pid: fill(() => 7), process: fill((i) => (i % 5 ? 'a "b"\\\u001b' : null)), cgroup: fill(() => null), file: fill(() => null), origin: fill(() => "direct"),
    },
  };
}

test("a trace of 1,000 overlapping I/Os has each of them whole, in lanes that do not overlap", () => {
  const ios = someIos(1000, 1_795_000_000);
  const text = trace(ios);
  const { traceEvents: events, otherData } = JSON.parse(text);
  assert.equal(otherData.ios, 1000);
  // Times are parsed as text, like in trace processors: a floating-point number may not hold all digits.
  const times = [...text.matchAll(/"ts":(\d+)\.(\d{3})[,}]/g)].map((m) => BigInt(`${m[1]}${m[2]}`));
  const slices = events.filter((e: { ph: string }) => e.ph !== "M");
  assert.equal(times.length, slices.length);
  const tracks = new Map<string, { open: bigint | null; end: bigint; name: string }>();
  let sum = 0n;
  let first = times[0] ?? 0n;
  slices.forEach((e: { ph: string; cat: string; name: string; id: string; pid: number }, i: number) => {
    const at = times[i] ?? 0n;
    if (at < first) first = at;
    const key = `${e.pid} ${e.cat} ${e.name} ${e.id}`;
    const track = tracks.get(key) ?? { open: null, end: 0n, name: e.name };
    if (e.ph === "b") {
      assert.equal(track.open, null, "an I/O begins after the one before has ended");
      assert.ok(at >= track.end);
      track.open = at;
    } else {
      assert.ok(track.open !== null);
      sum += at - track.open;
      track.open = null;
      track.end = at;
    }
    tracks.set(key, track);
  });
  assert.ok([...tracks.values()].every((t) => t.open === null));
  assert.ok(tracks.size > 50 && tracks.size < 1000, `${tracks.size} tracks`);
  const expected = ios.columns.total_us.reduce((ns, us) => ns + BigInt(Math.round(us * 1000)), 0n);
  assert.equal(sum, expected, "to the nanosecond");
  assert.equal(first, 0n);
  assert.equal(BigInt(otherData.start_unix_ns), 1_795_000_000_000_000_000n + BigInt(Math.min(...ios.columns.start_ns)), "to the nanosecond");
  const table = new Map(ioColumns(ios));
  assert.equal(String(table.get("done_unix_ns")?.[5]), `1795000000${String(ios.columns.done_ns[5]).padStart(9, "0")}`);
  assert.deepEqual(new Set(events.filter((e: { ph: string }) => e.ph === "M").map((e: { args: { name: string } }) => e.args.name)), new Set(["sda", "sdb"]));
});

test("a trace without I/Os is a trace", () => {
  assert.deepEqual(JSON.parse(trace(someIos(0, 0))).traceEvents, []);
});

test("CSV keeps commas, quotes and lines in their cell, and gives no formula to a spreadsheet", () => {
  const text = csv([["a", [1.5, null, -2]], ["b", ['x,"y"', "=1+1", "two\nlines"]]]);
  assert.equal(text, 'a,b\r\n1.5,"x,""y"""\r\n,\'=1+1\r\n-2,"two\nlines"\r\n');
});

test("columns of a heat map that divide a short part are joined, and no I/O is lost", () => {
  const heat = { from_unix_s: 0, column_s: 0.1, latency_us: [1, 2, 3], counts: [[1, 0], [2, 5], [0, 1], [0, 0], [7, 7]], notes: [] };
  const wide = joined(heat, 2);
  assert.deepEqual(wide.counts, [[3, 5], [0, 1], [7, 7]]);
  assert.equal(wide.column_s, 0.2);
  assert.deepEqual(wide.recorded_s?.map((s) => Number(s.toFixed(3))), [0.2, 0.2, 0.1]);
  assert.equal(joined(heat, 1), heat);
  assert.equal(joined(heat, 0), heat);
});

/** Latencies of this many blocks, log-normal around `us`, as a heat map with cells of 3 %. */
function someBlocks(blocks: number, perBlock: number, us: number, next: () => number): Blocks {
  const edgesUs = Array.from({ length: 257 }, (_, i) => 10 * 1.03 ** i);
  const counts = Array.from({ length: blocks }, () => {
    const cells = new Array<number>(256).fill(0);
    // I/Os of one block are similar: it has a level of its own.
    const normal = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
    const level = us * Math.exp(0.1 * normal());
    for (let i = 0; i < perBlock; i++) {
      const cell = Math.floor(Math.log((level * Math.exp(0.4 * normal())) / 10) / Math.log(1.03));
      cells[Math.min(255, Math.max(0, cell))]!++;
    }
    return cells;
  });
  return { recordedS: counts.map(() => 0.5), edgesUs, counts };
}

test("a shift of each quantile has an interval that holds it, and without one the interval holds zero", () => {
  const next = random(3);
  const [a, b] = [someBlocks(40, 300, 200, next), someBlocks(40, 300, 300, next)];
  for (const shift of shifts(a, b)) {
    if (shift.q === null) {
      assert.deepEqual([shift.before, shift.after, shift.percent], [600, 600, 0]);
      continue;
    }
    if (shift.q > 0.99) continue;
    assert.ok(shift.interval && shift.interval[0] < 50 && shift.interval[1] > 50, JSON.stringify(shift));
    assert.ok(shift.interval[0] > 20 && shift.interval[1] < 90, JSON.stringify(shift));
  }
  assert.ok(Math.abs((shifts(a, a)[1]?.before ?? 0) / 200 - 1) < 0.1, "the median is that of the I/Os");
  let outside = 0;
  for (let round = 0; round < 100; round++) {
    const [one, other] = [someBlocks(20, 40, 200, next), someBlocks(20, 40, 200, next)];
    const median = shifts(one, other)[1];
    if (!median?.interval || median.interval[0] > 0 || median.interval[1] < 0) outside++;
  }
  assert.ok(outside <= 15, `${outside} of 100 intervals of 95 % miss an unchanged median`);
});

test("too few I/Os give no quantile, and too few blocks no interval", () => {
  const next = random(5);
  const few = shifts(someBlocks(40, 1, 200, next), someBlocks(40, 1, 200, next));
  assert.deepEqual(few.map((s) => s.before !== null), [true, true, false, false, false]);
  const short = shifts(someBlocks(7, 500, 200, next), someBlocks(40, 500, 200, next));
  assert.ok(short.slice(0, 4).every((s) => s.percent !== null && s.interval === null));
  assert.deepEqual([0.1, 0.6, 3, 3600].map(blocksOf), [1, 2, 12, 40]);
  const band = blocksIn({ from_unix_s: 0, column_s: 1, latency_us: [1, 10, 100], counts: [[3, 4]], notes: [] }, 20, 50);
  assert.deepEqual(band.counts, [[0, 4]]);
  assert.deepEqual(band.recordedS, [1]);
  // A block that is only half recorded counts for half of its time.
  const half = { ...someBlocks(40, 500, 200, next), recordedS: [...new Array<number>(39).fill(0.5), 0.25] };
  const [rate] = shifts(half, half);
  assert.equal(rate?.before, (40 * 500) / 19.75);
});

test("what takes more time is summed by name, the largest growth first", () => {
  const rows = grown([{ name: "a", rate: 0.5 }, { name: "b", rate: 0.1 }], [{ name: "a", rate: 0.51 }, { name: "b", rate: 0.1 }, { name: "b", rate: 0.2 }, { name: "c", rate: 0.9 }, { name: "d", rate: 0.0005 }]);
  assert.deepEqual(rows.map((r) => r.name), ["c", "b"]);
});

test("the address of a view holds its boxes and the story that it shows", () => {
  const boxes = [{ from: 10, to: 11.5, lowUs: 0, highUs: appView.OPEN_US }, { from: 12, to: 13, lowUs: 123.4, highUs: 5000 }];
  const address = appView.write({ from: 1, to: 2, live: false, host: null, device: null, cls: null, filter: null, boxes, find: "a b", story: { id: "c0123944e42d", device: "a,b", from: 1.5, to: 1795000000.25 }, fold: { periodS: 2.5, anchorS: 7, cls: "write" }, colour: "cause", quantity: "busy" });
  assert.equal(appView.read(address, 0).colour, "cause");
  assert.equal(appView.read("?colour=red", 0).colour, "class");
  assert.equal(appView.read(address, 0).quantity, "busy");
  assert.equal(appView.read("?quantity=x", 0).quantity, "throughput");
  assert.deepEqual(appView.read(address, 0).boxes, boxes);
  assert.equal(appView.read(address, 0).find, "a b");
  assert.deepEqual(appView.read(address, 0).fold, { periodS: 2.5, anchorS: 7, cls: "write" });
  assert.equal(appView.read("?fold=0", 0).fold, null);
  assert.deepEqual(appView.read(address, 0).story, { id: "c0123944e42d", device: "a,b", from: 1.5, to: 1795000000.25 });
  for (const bad of ["", "id", "id,1,2", "id,2,1,sda", "id,x,2,sda", ",1,2,sda"]) assert.equal(appView.read(`?story=${bad}`, 0).story, null, bad);
  assert.deepEqual(appView.read("?from=1&to=2&box=3,2,1,5&box=1,2,x,4&box=1,2", 0).boxes, []);
});

test("the second-offset layout makes what recurs a line, and loses no I/O", () => {
  const fold = { periodS: 2.5, anchorS: 1000.4, cls: null };
  const plan = foldPlan(fold, 1100, 1600, 1000, 500);
  assert.ok(plan && plan.columns >= 200 && plan.rows > 8);
  assert.ok(plan.parts.every((p) => p.width <= 4096));
  assert.ok(plan.from <= 1100 && plan.from + plan.columns * 2.5 >= 1600);
  assert.equal(plan.parts[0]?.from, plan.from);
  plan.parts.slice(1).forEach((p, i) => assert.ok(Math.abs(p.from - (plan.parts[i]?.to ?? 0)) < 1e-9, "no gap"));
  // An I/O every 2.5 s, 0.8 s after the anchor, in the server's counting.
  const answers = plan.parts.map((p) => {
    const column = (p.to - p.from) / p.width;
    const counts = Array.from({ length: p.width }, () => [0]);
    for (let k = Math.ceil((p.from - 1001.2) / 2.5); 1001.2 + k * 2.5 < p.to; k++) counts[Math.floor((1001.2 + k * 2.5 - p.from) / column)]![0]!++;
    return { from_unix_s: p.from, column_s: column, latency_us: [1, 2], counts, notes: [] };
  });
  const heat = folded(fold, plan, answers);
  const lines = new Set(heat.counts.flatMap((column) => column.map((n, row) => (n > 0 ? row : -1)).filter((row) => row >= 0)));
  assert.deepEqual([...lines], [Math.floor((0.8 / 2.5) * plan.rows)]);
  const sum = (counts: number[][]) => counts.flat().reduce((a, b) => a + b, 0);
  assert.equal(sum(heat.counts), answers.reduce((n, a) => n + sum(a.counts), 0));
  assert.equal(foldPlan({ periodS: 0.01, anchorS: 0, cls: null }, 0, 3600, 1000, 3600), null, "narrower than two pixels");
});

test("a time axis has at least two labels, also on a phone", () => {
  const next = random(13);
  for (let run = 0; run < 2000; run++) {
    const span = 10 ** (11 * next() - 3.5);
    const from = 1_795_000_000 + 1e6 * next();
    // The first tenth of the plot has no labels.
    const labelled = (at: number) => at > from + span / 10;
    const { ticks } = appView.timeTicks(from, from + span, 2, (_, all) => all.filter(labelled).length);
    assert.ok(ticks.filter(labelled).length >= 2 && ticks.length <= 10, `${span}: ${ticks}`);
  }
  assert.deepEqual(appView.timeTicks(0, 60, 4, () => 2), { step: 15, ticks: [0, 15, 30, 45, 60] });
});

test("a heading takes the longest words for which there is room, and cuts none", () => {
  const measure = (text: string) => 6 * text.length;
  const entry = (name: string) => ({ name, colour: "#000" });
  const headings = [
    { title: "Latency of every I/O", entries: [entry("read"), entry("write"), { ...entry("stories (167 more)"), isFlat: true }] },
    { title: "Latency", entries: [entry("read"), entry("write"), { ...entry("stories"), isFlat: true }] },
  ];
  const names = (room: number) => {
    const { title, entries } = fitting(headings, room, measure);
    return [title, ...entries.map(({ name }) => name)];
  };
  const ends = placesOf(headings[0]!, measure).map(({ end }) => end);
  assert.deepEqual(ends, [171, 225, 362]);
  assert.deepEqual(names(362), ["Latency of every I/O", "read", "write", "stories (167 more)"]);
  assert.deepEqual(names(361), ["Latency", "read", "write", "stories"]);
  assert.deepEqual(names(160), ["Latency", "read", "write"]);
  assert.deepEqual(fitting([{ title: "Throughput", entries: [] }], 10, measure).title, "Throughput");
});

test("the colours of a layout by period are those of the class that it counts", () => {
  assert.deepEqual(classesOf(null, null), ["read", "write"]);
  assert.deepEqual(classesOf(null, "flush"), ["flush"]);
  assert.deepEqual(classesOf("write", null), ["write"]);
  assert.deepEqual(classesOf("flush", "flush"), ["flush"]);
  assert.deepEqual(classesOf("all", null), []);
});

test("a latency axis has at least two labels, powers of ten where there are as many", () => {
  assert.deepEqual(appView.latencyTicks(8, 120_000), [10, 100, 1000, 10_000, 100_000]);
  assert.deepEqual(appView.latencyTicks(180, 2300), [200, 500, 1000, 2000]);
  assert.deepEqual(appView.latencyTicks(2100, 3900), [2200, 2400, 2600, 2800, 3000, 3200, 3400, 3600, 3800]);
  assert.deepEqual(appView.latencyTicks(700, 990), [700, 800, 900]);
  const next = random(9);
  for (let run = 0; run < 2000; run++) {
    const low = 10 ** (7 * next() - 1);
    // An axis is 1.44 times as long as the range of its data.
    const ticks = appView.latencyTicks(low, low * 1.44 * 10 ** (4 * next()));
    assert.ok(ticks.length >= 2 && ticks.length <= 16, `${low}: ${ticks}`);
  }
});

test("an axis of a month has days that do not touch, and a problem names times as the page does", () => {
  assert.deepEqual([30, 400].map((days) => appView.tickOf(days * 86400, 14) / 86400), [5, 50]);
  assert.equal(appView.tickOf(14 * 86400, 14), 86400);
  const detail = "no recording holds anything of this time; the nearest one is from=2026-11-27T11:24:15.927004123Z&to=2026-11-28T12:03:45Z";
  assert.equal(sentence(detail), "No recording holds anything of this time; the nearest one is 2026-11-27 11:24:15 to 2026-11-28 12:03:45 UTC.");
  assert.equal(sentence("this takes too long"), "This takes too long.");
  assert.equal(sentence("busy"), "Busy.");
  for (const named of ["nosuch: no such device.", "by: this recording knows no files.", "/tmp/rec: not a recording."]) assert.equal(sentence(named), named);
});

test("a time is typed as the page writes it, with less of it, or as the API takes it", () => {
  const at = Date.parse("2026-11-26T04:15:00.250Z") / 1000;
  assert.equal(appView.wallClock(at, 1), "2026-11-26 04:15:00.250");
  assert.equal(appView.typed(appView.wallClock(at, 1), 0), at);
  // The shortest views have different time labels, too.
  const [from, to] = [at + 0.00012, at + 0.00012 + appView.MIN_SPAN_S].map((s) => appView.wallClock(s, appView.MIN_SPAN_S)) as [string, string];
  assert.deepEqual([from, to], ["2026-11-26 04:15:00.250120", "2026-11-26 04:15:00.250320"]);
  assert.ok(Math.abs(appView.typed(to, 0)! - appView.typed(from, 0)! - appView.MIN_SPAN_S) < 1e-6);
  assert.equal(appView.wallClock(at + 0.7499999, 0.001), "2026-11-26 04:15:01.000000");
  assert.equal(appView.typed("2026-11-26 4:15:00.25", 0), at);
  assert.equal(appView.typed(" 2026-11-26 4:15 ", 0), at - 0.25);
  assert.equal(appView.typed("2026-11-26T04:15:00,25", 0), at);
  assert.equal(appView.typed("2026-11-26", 0), Date.parse("2026-11-26T00:00:00Z") / 1000);
  assert.equal(appView.typed("2026-11-26T04:15:00.25+01:00", 0), at - 3600);
  assert.equal(appView.typed("-5m", 1000), 700);
  for (const text of ["", "yesterday", "2026-13-40 04:15", "2026-11-26 25:99"]) assert.equal(appView.typed(text, 0), null, text);
});

test("a heat map on the rows of another keeps its I/Os, also beyond them", () => {
  const edges = [100, 200, 400, 800];
  const fine = { from_unix_s: 0, column_s: 1, latency_us: [120, 150, 190, 240, 1700, 2000], counts: [[1, 2, 3, 4, 5], [0, 0, 1, 0, 0]], notes: [] };
  const heat = regridded(fine, edges);
  // 120 to 190 lie in the first row, 190 to 240 in the second, 240 to 1700 (middle 639) in the third, 1700 to 2000 beyond.
  assert.deepEqual(heat.counts, [[3, 3, 4, 0, 5], [0, 1, 0, 0, 0]]);
  heat.latency_us.forEach((us, i) => assert.ok(Math.abs(us - 100 * 2 ** i) < 1e-6));
});

const heatOf = (counts: number[][], low = 100, high = 1e5, from = 0, columnS = 1) => {
  const rows = counts[0]!.length;
  return { from_unix_s: from, column_s: columnS, latency_us: Array.from({ length: rows + 1 }, (_, r) => low * (high / low) ** (r / rows)), counts, notes: [] };
};

test("a heat map has pixels for each cell with an I/O, whatever the size of its cells", () => {
  const next = random(5);
  for (const [columns, rows, width, height, least] of [[2000, 200, 313, 57, 1], [40, 8, 300, 90, 1], [300, 60, 301, 61, 2], [7, 3, 2, 2, 2]] as const) {
    for (let run = 0; run < 20; run++) {
      // A single I/O, at any position.
      const cell = [Math.floor(next() * columns), Math.floor(next() * rows)] as const;
      const counts = Array.from({ length: columns }, (_, c) => Array.from({ length: rows }, (_, r) => (c === cell[0] && r === cell[1] ? 3 : 0)));
      const frame: Frame = { width, height, least, x: (t) => (t / columns) * width, y: (us) => height * (1 - Math.log(us / 100) / Math.log(1000)) };
      const raster = rasterOf([layerOf("read", heatOf(counts))], frame);
      const inked = [...raster.keys()].filter((i) => raster[i]! > 0);
      assert.ok(inked.length >= least * least, `${columns} x ${rows} on ${width} x ${height}: cell ${cell}`);
      // They are where the cell is.
      const place = [((cell[0] + 0.5) / columns) * width, (1 - (cell[1] + 0.5) / rows) * height];
      for (const i of inked) {
        assert.ok(Math.abs((i % width) + 0.5 - place[0]!) <= width / columns / 2 + least, `${i}`);
        assert.ok(Math.abs(Math.floor(i / width) + 0.5 - place[1]!) <= height / rows / 2 + least, `${i}`);
      }
    }
  }
});

test("of cells on one pixel the darkest is seen, and neighbours have no gap", () => {
  const frame: Frame = { width: 10, height: 10, least: 1, x: (t) => t, y: (us) => 10 * (1 - Math.log(us / 100) / Math.log(1000)) };
  const full = layerOf("write", heatOf(Array.from({ length: 10 }, () => new Array<number>(3).fill(1))));
  assert.ok(rasterOf([full], frame).every((shade) => shade > 0));
  const columns = Array.from({ length: 100 }, (_, c) => [c === 42 ? 1000 : 1]);
  const crowded = rasterOf([layerOf("write", heatOf(columns, 100, 1e5, 0, 0.1))], frame);
  assert.deepEqual([...crowded.subarray(0, 10)].map((shade) => shade > 32), [0, 0, 0, 0, 1, 0, 0, 0, 0, 0].map(Boolean));
  // A later layer covers an earlier one, including with its empty cells.
  const above = rasterOf([full, layerOf("write", heatOf([[0], [0], [0]], 100, 1e5, 2))], frame);
  assert.deepEqual([...above.subarray(0, 10)].map((shade) => shade > 0), [1, 1, 0, 0, 0, 1, 1, 1, 1, 1].map(Boolean));
});

test("the answer to a view is drawn alone, whatever was loaded before", () => {
  const layer = (from: number, to: number, columnS: number, low = 100, high = 1e5) => {
    const counts = Array.from({ length: Math.round((to - from) / columnS) }, () => [1]);
    return layerOf("read", heatOf(counts, low, high, from, columnS), { from, to, columnS });
  };
  const view = { from: 100, to: 110, columnS: 0.1 };
  const month = layer(0, 1000, 10, 1, 1e7);
  const part = layer(102, 104, 0.02, 10, 2e5);
  const own = layer(97.5, 112.5, 0.1);
  assert.deepEqual(shownLayers([month, own, part], view, false), [own]);
  assert.deepEqual(shownLayers([own], view, false), [own]);
  assert.deepEqual(latencyRange([own]), [100, 1e5]);
  // Until it arrives, all layers that overlap the view replace it, the coarsest at the bottom.
  assert.deepEqual(shownLayers([part, layer(200, 210, 0.1), month], view, false), [month, part]);
  // An answer that is only partly recorded, or empty, is still the answer.
  const nothing = layerOf("read", heatOf([[0]], 1, 2.08, 105, 0.1), own.asked);
  assert.deepEqual(shownLayers([month, nothing], view, false), [nothing]);
  // A live view continues after its answer, and so does the newest layer.
  const newest = { ...layer(108, 111, 0.1), isNewest: true };
  const before = layer(99, 109, 0.1);
  assert.deepEqual(shownLayers([layer(95, 105, 0.1), before, newest], view, true), [before, newest]);
});

test("a heat map without an I/O has no say in the latency axis", () => {
  const reads = layerOf("read", heatOf([[0, 3], [1, 0]], 200, 5e4));
  const none = layerOf("write", heatOf([[0, 0]], 1, 2.08));
  assert.deepEqual(latencyRange([none, reads]), [200, 5e4]);
  assert.equal(latencyRange([none]), null);
  assert.equal(latencyRange([]), null);
});

test("a file's tier is the coarsest that fits, and its columns add up", () => {
  const tier = (column_s: number) => ({ column_s, column_count: 10, columns_of_chunk: 4, rows_together: 1 });
  const tiers = [tier(0.1), tier(1), tier(10)];
  assert.deepEqual([0.01, 0.1, 0.9, 1, 5, 100].map((wanted) => tierFor(tiers, wanted)), [0, 0, 0, 1, 1, 2]);
  // Two rows from the third on, four columns; the last chunk has two.
  const chunk = (width: number) => Uint8Array.from([2, 2, ...new Array<number>(width).fill(1), ...new Array<number>(width).fill(24)]);
  const parts = [0, 1, 2].map((n) => ({ chunk: n, bytes: chunk(n < 2 ? 4 : 2) }));
  const edges = [1, 2, 4, 8, 16, 32];
  const all = cellsOf(parts, tier(1), 100, 100, 110, 3, edges);
  // Code 24 is 16 doubled once.
  assert.deepEqual(all, { from_unix_s: 100, column_s: 3, latency_us: [4, 8, 16], counts: [[3, 96], [3, 96], [3, 96], [1, 32]] });
  const some = cellsOf(parts, tier(1), 100, 104.5, 106.5, 1, edges);
  assert.deepEqual([some.from_unix_s, some.counts.length], [104, 3]);
  assert.deepEqual(cellsOf([], tier(1), 100, 90, 95, 1, edges).counts, [[0]], "nothing before the beginning");
});

test("quantiles of a file come from the sums of its heat map, and a mean latency weighs by I/Os", () => {
  const cells = { from_unix_s: 100, column_s: 1, latency_us: [1, 10, 100, 1000], counts: [[90, 10, 0], [0, 80, 20], [0, 0, 0]] };
  assert.deepEqual(cellsBetween(cells, 100, 102), [90, 90, 20], "columns add up");
  assert.deepEqual(cellsBetween(cells, 101.2, 101.4), [0, 80, 20], "a row within a column has what the column has");
  assert.equal(cellsBetween(cells, 200, 201), null);
  assert.deepEqual([quantileOf([90, 90, 20], cells.latency_us, 0.9), quantileOf([90, 90, 20], cells.latency_us, 1)], [100, 1000]);
  assert.equal(quantileOf([0, 0, 0], cells.latency_us, 0.5), null);
  // Not the quantile of one second, nor the mean of both.
  assert.ok((quantileOf([90, 90, 20], cells.latency_us, 0.5) ?? 0) > 10);
  assert.equal(meanLatency(Float64Array.of(100, 400, NaN), Float64Array.of(3, 1, 7)), 175);
  assert.equal(meanLatency(Float64Array.of(NaN), Float64Array.of(0)), null);
});

test("discards and flushes have a line where there are any, and devices together only what is known of both", () => {
  const row = (more: Record<string, number>) => valuesOf((column) => ({ r_per_s: 5, w_per_s: 0, d_per_s: 0, f_per_s: 0, busy_percent: 40, r_us: 100, ...more })[column]);
  const classes = (rows: ReturnType<typeof row>[]) => linesOf("iops", rows).map((l) => l.cls);
  assert.deepEqual(classes([row({})]), ["read", "write"]);
  assert.deepEqual(classes([row({}), row({ f_per_s: 2 })]), ["read", "write", "flush"]);
  assert.deepEqual(linesOf("iops", [row({ f_per_s: 0 })], "flush").map((l) => l.cls), ["flush"], "the class that is filtered to, idle or not");
  assert.deepEqual(drawnOf("throughput", "discard").quantity, "throughput");
  assert.deepEqual(drawnOf("throughput", "flush"), { quantity: "iops", title: "I/Os per second (flushes carry no bytes)" });
  assert.equal(missingOf("mean", "flush"), "Mean latency is known of reads and writes only, not of flushes.");
  assert.equal(missingOf("mean", "read"), "Mean latency is not known of what is on screen.");
  assert.deepEqual(linesOf("busyClass", [row({})]), [], "what no source says has no line");
  assert.match(JSON.stringify(described(row({ d_per_s: 3 }))), /"I\/Os per second","read 5\/s, write 0\/s, discard 3\/s"/);
  assert.deepEqual(linesOf("throughput", [row({ r_kib_per_s: 2 })]).map((l) => valueOf(row({ r_kib_per_s: 2 }), "throughput", l)), [2048]);
  const both = together(row({}), row({ r_us: 300 }));
  assert.deepEqual([both["r_per_s"], both["busy_percent"], both["r_us"]], [10, null, null]);
  assert.equal(together(row({}), row({ busy_percent: 0 }))["busy_percent"], 40, "an idle device adds nothing");
});

test("waits and actors of several steps add up by who they are", () => {
  const victim = { process: "shop", pid: 1, cgroup: "/", class: "read", origin: "direct" };
  const wait = (seconds: number) => ({ device: "sda", victim, ios: 1, io_time_s: 2 * seconds, undisturbed_s: seconds, own_s: 0, held_s: 0, device_s: 0, unknown_s: 0, behind: [{ process: "dd", class: "write", seconds, ios: 2 }] });
  const sum = sumWaits([[wait(1)], [wait(2)], [{ ...wait(5), device: "sdb" }]]);
  assert.deepEqual(sum.map((w) => [w.device, w.io_time_s, w.behind[0]?.seconds, w.behind.length]), [["sda", 6, 3, 1], ["sdb", 10, 5, 1]]);
  const amount = (ios: number, mean_us: number) => ({ ios, bytes: ios * 512, mean_us });
  const none = amount(0, 0);
  const actor = (name: string, ios: number, mean_us: number) => ({ name, read: amount(ios, mean_us), write: none, discard: none, flush: none, io_time_s: ios, io_time_percent: 100 });
  const { actors } = sumActors([{ actors: [actor("a", 1, 100)], others: null }, { actors: [actor("a", 3, 200), actor("b", 12, 1)], others: null }]);
  assert.deepEqual(actors.map((a) => [a.name, a.read.ios, a.read.mean_us, a.io_time_percent]), [["b", 12, 1, 75], ["a", 4, 175, 25]]);
});

test("groups cost each other by pod, over hosts", () => {
  const who = (cgroup: string | null) => ({ cgroup, process: "p", class: "read" });
  const wait = (victim: string | null, behind: [string, number][]) => ({ device: "sda", victim: who(victim), ios: 1, io_time_s: 9, undisturbed_s: 1, own_s: 0, held_s: 0, device_s: 0, unknown_s: 0, behind: behind.map(([cgroup, seconds]) => ({ ...who(cgroup), seconds, ios: 1 })) });
  const pod = "/kubepods/besteffort/pod0a1b2c3d-1111-2222-3333-444444444444/abc";
  assert.equal(groupName(pod, new Map()), "pod 0a1b2c3d…");
  assert.equal(groupName(null, new Map()), "the kernel");
  const found = costs([
    { host: "a", waits: [wait("/db", [[pod, 1], ["/db", 7]])], pods: new Map([[pod, "ns/web-0"]]) },
    { host: "b", waits: [wait("/db", [["ns/web-0", 3]]), wait(null, [["/db", 2]])], pods: new Map() },
  ]);
  assert.deepEqual(found, [
    { culprit: "ns/web-0", victim: "/db", seconds: 4, hosts: [{ host: "b", seconds: 3 }, { host: "a", seconds: 1 }] },
    { culprit: "/db", victim: "the kernel", seconds: 2, hosts: [{ host: "b", seconds: 2 }] },
  ]);
});

test("without single I/Os no page says that nothing waited or was harmed", () => {
  const lack = "there are no single I/Os of this time, of which it could be said what they waited for";
  assert.deepEqual(nothingFound("No I/O waited in this time.", [lack]), [{ cls: "note", text: lack }]);
  assert.deepEqual(nothingFound("No I/O waited in this time.", ["a note"]), [{ cls: "empty", text: "No I/O waited in this time." }, { cls: "note", text: "a note" }]);
  for (const data of [counters(60), tables(60)]) assert.match(noFindings(data), /no single I\/Os/);
  const idle = empty();
  assert.match(noFindings(idle), /^No block I\/O completed/);
  assert.match(noFindings({ ...idle, recording: { ...idle.recording, lost_ios: 5 } }), /^All I\/Os of these .* are missing/);
  assert.match(noFindings(periodicLoad(60)), /^No findings/);
});

test("an idle recording is said to have no I/O, not to lack the names of who did it", () => {
  const idle = empty();
  const unattributed = "This recording does not say who did the I/O.";
  assert.equal(noActors(idle), "No I/O completed in this time.");
  assert.equal(noActors({ ...idle, recording: { ...idle.recording, lost_ios: null } }), unattributed);
  for (const data of [counters(60), tables(60), periodicLoad(60)]) assert.equal(noActors(data), unattributed);
});

test("what is not known is called the same in all tables, as in the program's own", () => {
  const process = { process: "dd", pid: 7, cgroup: "/a", class: "read", origin: "direct" };
  assert.deepEqual([nameOf(process), nameOf({ ...process, process: null }), nameOf({ ...process, process: null, pid: null })], ["dd", "[7]", "(not known)"]);
  // Groups of files and of control groups have no process.
  const other = { process: null, pid: null, cgroup: null, class: "read", origin: "direct" };
  assert.deepEqual([nameOf({ ...other, file: "/var/db" }, "file"), nameOf(other, "file")], ["/var/db", "(not known)"]);
  assert.deepEqual([nameOf({ ...other, cgroup: "/a" }, "cgroup"), nameOf(other, "cgroup"), knownName(other, "cgroup")], ["/a", "(not known)", null]);
  // An omitted name may be known.
  assert.equal(nameOf({ ...other, leftOut: true }), "a process");
  assert.equal(processName(null, null), "(not known)");
  const none = { ios: 0, bytes: 0, mean_us: null };
  const actor = { read: none, write: none, discard: none, flush: none, io_time_s: 0, io_time_percent: null };
  assert.deepEqual([actorName({ ...actor, name: "unknown" }), actorName({ ...actor, name: "unknown[7]" })], [null, "unknown[7]"]);
});

test("a name chooses the I/Os that its row counts", () => {
  const pool = { process: "pool", pid: 7, cgroup: "/a", class: "read", origin: "direct" };
  // A row of waits covers all threads, an actor covers those with one name.
  assert.deepEqual(filterOf(pool, "process"), { by: "process", name: "7" });
  assert.deepEqual(filterOf({ ...pool, pid: null }, "process"), { by: "process", name: "pool" });
  assert.deepEqual(filterOf(pool, "cgroup"), { by: "cgroup", name: "/a" });
  assert.equal(filterOf({ ...pool, cgroup: "/" }, "cgroup"), null, "all are below it");
  assert.equal(filterOf(pool, "file"), null);
  const filter = { by: "process", name: "7" } as const;
  assert.deepEqual(["pool[7]", "worker[7]", "pool[17]", "7"].map((name) => hasActor(filter, "process", name)), [true, true, false, true]);
  assert.equal(hasActor({ by: "process", name: "pool[7]" }, "process", "worker[7]"), false);
  assert.equal(hasActor(filter, "file", "7"), false);
  const wait = { device: "sda", victim: { ...pool, pid: 8 }, ios: 1, io_time_s: 1, undisturbed_s: 1, own_s: 0, held_s: 0, device_s: 0, unknown_s: 0, behind: [{ ...pool, seconds: 1, ios: 1 }] };
  assert.equal(filterText(filter, [wait]), "pool[7]");
  assert.equal(filterText(filter, []), "7");
  assert.equal(filterText({ by: "file", name: "8" }, [wait]), "8");
});

test("who takes time in a box, and waits, is of the latencies of the box", () => {
  const us = [100, 5000, 9000, 9000];
  const columns = {
    start_ns: [0, 0, 0, 0], done_ns: [1e9, 2e9, 3e9, 9e9], device: us.map(() => "sda"), class: ["read", "read", "write", "read"], sector: us, bytes: us, queue_us: us, device_us: us,
    total_us: us, error: us.map(() => 0), pid: [7, 7, 8, 7], process: ["db", "db", "dd", "db"], cgroup: us.map(() => "/a"), file: ["/x", null, "/y", "/x"], origin: ["direct", "direct", "writeback", "direct"],
    wait_behind_us: [50, 4000, 0, 0], wait_behind_pid: us.map(() => 8), wait_behind_process: us.map(() => "dd"), wait_behind_class: us.map(() => "write"), wait_behind_origin: us.map(() => "writeback"),
  };
  const ios = { ios: 4, since_unix_s: 100, columns, notes: [] } as unknown as Ios;
  const box = { from: 100, to: 104, lowUs: 1000, highUs: appView.OPEN_US };
  assert.deepEqual([isBounded(box), isBounded({ ...box, lowUs: 0 }), isBounded({ ...box, lowUs: 0, highUs: 10 })], [true, false, true]);
  // The first I/O is too short, the last one too late.
  assert.deepEqual(ratesIn(ios, box, "process", 4), {
    actors: [{ name: "db", rate: 0.00125 }, { name: "dd", rate: 0.00225 }],
    waits: [{ name: "db read behind dd write-back", rate: 0.001 }],
  });
  assert.deepEqual(ratesIn(ios, box, "file", 4).actors.map((a) => a.name), ["(not known)", "/y"]);
  assert.deepEqual(ratesIn(ios, { ...box, lowUs: 0 }, "cgroup", 4).waits.map((w) => w.name), ["/a read behind dd write-back", "/a read behind dd write-back"]);
});

test("the mark of a story says what its line in the list says", () => {
  const backup = { process: "backup", pid: 812, class: "write" };
  const postgres = { process: "postgres", pid: 991, class: "read" };
  const story: Story = {
    id: "a", kind: "writeback-flush", device: "sda", summary: "", start_unix_s: 0, end_unix_s: 1, recording_start_unix_s: 0, victim: postgres, culprits: [backup],
    harm: { seconds: 15.7, lost_time_percent: 47.9, worst_at_s: 1, worst_us: 282_000 }, times: 60, episodes: [],
  };
  assert.deepEqual(storyLines(story), [["write-back flush", "backup delays postgres reads"], ["", "15.7 s lost, 47.9 %, up to 282 ms, 60 times"]]);
  assert.deepEqual(storyLines({ ...story, culprits: [], harm: null }), [["write-back flush", "postgres reads"]]);
  assert.equal(farOf([[10, 12], [40, 60]], 15), 3);
  assert.equal(farOf([[10, 12], [40, 60]], 50), 0);
  assert.equal(farOf([], 50), Infinity);
});

test("a story says how many of its episodes have no mark", () => {
  const episodes = Array.from({ length: 8 }, (_, i) => ({ start_s: i, end_s: i + 0.5 }));
  assert.equal(unmarkedOf({ times: 15, episodes }), 7);
  assert.equal(unmarkedOf({ times: 8, episodes }), 0);
  assert.equal(unmarkedOf({ times: null, episodes }), 0);
  assert.equal(unmarkedOf({ times: 3, episodes: [] }), 0, "its worst moment is marked");
});

test("stories of one cause are one: harm and times are sums, times of day stay, and more harm comes first", () => {
  const story = (id: string, recording: number, seconds: number, kind = "writeback-flush"): Story => ({
    id, kind, device: "sda", summary: "", start_unix_s: recording + 5, end_unix_s: recording + 9, recording_start_unix_s: recording, victim: null, culprits: [],
    harm: { seconds, by_clock_s: seconds, lost_time_percent: 50, worst_at_s: 6, worst_us: seconds * 1000 }, times: 2, episodes: [{ start_s: 5, end_s: 9 }], advice: [{ text: "try", now: null }],
  });
  const list = [story("other", 1000, 4), story("same", 2000, 3), story("same", 1000, 2), story("queue", 1000, 90, "own-queue")];
  const [first, second, third] = merged(list);
  assert.deepEqual([first?.id, second?.id, third?.id], ["same", "other", "queue"]);
  assert.deepEqual(first?.harm, { seconds: 5, by_clock_s: 5, lost_time_percent: 50, worst_at_s: 1006, worst_us: 3000 });
  assert.deepEqual([first?.times, first?.start_unix_s, first?.end_unix_s, first?.recording_start_unix_s, first?.advice?.length], [4, 1005, 2009, 1000, 1]);
  assert.deepEqual(first?.episodes, [{ start_s: 5, end_s: 9 }, { start_s: 1005, end_s: 1009 }]);
  assert.deepEqual(first?.parts?.map((p) => p.recording_start_unix_s), [1000, 2000]);
  assert.equal(second, list[0], "what one recording has stays as it is");
});

test("rows together are lossy where a hundredth of their I/Os is missing, as a server judges them", () => {
  const tenth = (n: number) => new Array<number>(10).fill(n);
  assert.equal(isLossy([1], [5000]), true, "a row alone is what the file says");
  assert.equal(isLossy([0], [0]), false);
  assert.equal(isLossy([1, ...tenth(0)], [20, ...tenth(20)]), false, "one of 220");
  assert.equal(isLossy([1, ...tenth(0)], [5, ...tenth(5)]), true, "one of 55");
  assert.equal(isLossy([1, 1, 1, ...tenth(0)], [20, 20, 20, ...tenth(20)]), false, "one of 260, whose stretch meets three rows");
  assert.equal(isLossy([1, 0, 1, 0, 1, ...tenth(0)], [20, 20, 20, 20, 20, ...tenth(15)]), true, "three of 250");
  assert.equal(isLossy([...tenth(1), 0, 0], [...tenth(500), 500, 500]), true, "most of the time");
  assert.equal(isLossy(tenth(1), tenth(5000)), true);
});
