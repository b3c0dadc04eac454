// The application in a report file, opened from disk in Chromium. Skips with a message if there is no Chromium.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { access, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { Browser, here, missing } from "./chromium.mjs";

let browser;
let synth;
let template;

before(async () => {
  if (missing) return;
  synth = await import(new URL("dist/test/synth.js", here));
  template = await readFile(new URL("dist/file.html", here), "utf8");
  browser = await Browser.start({ width: 1400, height: 900 });
});

after(async () => {
  await browser?.close();
});

/** A file about `seconds`. */
async function written(name, seconds, devices = 1, more = {}) {
  const data = synth.periodicLoad(60);
  data.recording.start_unix_s = synth.FILE_START_S;
  const path = join(browser.directory, name);
  await writeFile(path, synth.page(template, { ...data, inside: synth.inside(seconds, devices), ...more }));
  return path;
}

/** Opens a file; fails on script errors and on any request beyond the file itself. */
async function open(path, hash = "", viewport = { width: 1400, height: 900 }) {
  const page = await browser.page({ answersMayFail: false });
  page.on("dialog", (d) => page.problems.push(d.message()));
  page.on("request", (r) => r.url().startsWith("file:") || r.url().startsWith("data:") || page.problems.push(`asked for ${r.url()}`));
  await page.setViewportSize(viewport);
  await page.goto(pathToFileURL(path).href + hash);
  await page.waitForSelector("html[data-ready]");
  return page;
}

const quiet = (page) => page.waitForFunction(() => [...document.querySelectorAll(".part-status")].every((p) => p.textContent === ""));
const range = (page) => page.evaluate(() => {
  const q = new URLSearchParams(location.hash.slice(1));
  return [Number(q.get("from")), Number(q.get("to"))];
});
/** How many pixels of the chart are not transparent. */
const inked = (page) => page.evaluate(() => {
  const c = document.querySelector(".chart canvas");
  const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
  let n = 0;
  for (let i = 3; i < data.length; i += 4) n += data[i] > 0 ? 1 : 0;
  return n;
});
const view = (from, to) => `#?from=${from.toFixed(6)}&to=${to.toFixed(6)}`;

// Created before the first suite: the browser is closed when all registered suites have ended.
const made = await madeByTheProgram();

describe("the report file", { skip: missing !== null }, () => {
  test("shows all of its time at once, asks nobody, and fits its screen", async () => {
    const page = await open(await written("hour.html", 3600));
    await quiet(page);
    assert.match(await page.locator(".time .span").textContent(), /1 h|60 min/);
    assert.equal(await page.locator(".story").count(), 1);
    assert.equal(await page.locator("img").count(), 0, "names are text");
    assert.match(await page.locator(".waits tbody").textContent(), /<img src=x/);
    assert.ok(await inked(page) > 100_000);
    assert.equal(await page.locator(".live-button").isVisible(), false);
    const [height, inner] = await page.evaluate(() => [document.documentElement.scrollHeight, innerHeight]);
    assert.ok(height <= inner, `${height} pixels on ${inner}`);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("zooms, keeps the view in its address, and sums waits and actors of the steps in view", async () => {
    const path = await written("zoom.html", 3600);
    const page = await open(path);
    await quiet(page);
    await page.keyboard.press("w");
    await page.waitForFunction(() => location.hash.includes("from="));
    const [from, to] = await range(page);
    assert.ok(Math.abs(to - from - 1800) < 2, `${to - from}`);
    await quiet(page);
    // Five or six of ten steps overlap the half.
    assert.match(await page.locator(".waits").textContent(), /undisturbed.*unknown.*this file holds sums of 6 min.*24 s/s);
    assert.match(await page.locator(".actors tbody").textContent(), /6 s60/);
    await page.reload();
    await page.waitForSelector("html[data-ready]");
    assert.deepEqual(await range(page), [from, to]);
    await page.goBack();
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("shows each I/O at a story's worst moment, and elsewhere says where they are", async () => {
    const path = await written("ios.html", 600);
    const at = synth.MOMENT_S;
    const page = await open(path, view(at - 0.03, at + 0.01));
    await page.waitForSelector("html[data-mode=ios]");
    await quiet(page);
    const elsewhere = await open(path, view(at + 200, at + 200.04));
    await elsewhere.waitForSelector(".part-status.failed");
    const text = await elsewhere.locator(".time .part-status.failed").textContent();
    assert.match(text, /^This file holds no single I\/Os of this time, only those around the worst moments of stories\. The nearest is at \d\d:/);
    assert.deepEqual([...page.problems, ...elsewhere.problems], []);
    await page.close();
    await elsewhere.close();
  });

  test("holds every quantity below the heat map, quantiles from its heat map", async () => {
    const page = await open(await written("quantities.html", 600));
    await quiet(page);
    const canvas = page.locator(".chart canvas");
    const { width, height } = await canvas.boundingBox();
    await canvas.hover({ position: { x: width * 0.5, y: height * 0.75 } });
    const tip = await page.locator(".io-tip").textContent();
    assert.match(tip, /Throughputread [\d.]+ \w+\/s, write/);
    assert.match(tip, /I\/Os per secondread [\d,. k]+\/s, write [\d,. k]+\/s, flush/);
    assert.match(tip, /Mean latencyread 100 us, write 400 us/);
    assert.match(tip, /p50 of latencyread [\d.]+ [um]s, write/);
    assert.match(tip, /Longest latencyread 90\d us/);
    assert.match(tip, /Busy time45 %/);
    assert.match(tip, /Busy by classread 20 %, write 30 %, flush 1 %/);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("filters by device, and says what it does not hold by itself", async () => {
    const page = await open(await written("devices.html", 600, 2));
    await quiet(page);
    const both = await inked(page);
    await page.locator("select[aria-label=Device]").selectOption("sdb");
    await page.waitForSelector(".actors .part-status.failed");
    assert.match(await page.locator(".actors .part-status").textContent(), /actors of all devices together only/);
    assert.match(await page.locator(".waits").textContent(), /No I\/O waited/);
    await page.waitForFunction(() => document.querySelector(".time .part-status").textContent === "");
    assert.ok(both > 0 && (await inked(page)) > 0);
    await page.locator("select[aria-label=Device]").selectOption("");
    await quiet(page);
    await page.locator(".actors button.name").first().click();
    await page.waitForSelector(".time .part-status.failed");
    assert.match(await page.locator(".time .part-status.failed").textContent(), /does not hold the I\/Os of one process by themselves/);
    // The sums of processes can be filtered to one, those of control groups cannot.
    const notes = page.locator(".waits .note, .actors .note", { hasText: "Not filtered by process" });
    assert.equal(await notes.count(), 0);
    await page.getByRole("button", { name: "control group", exact: true }).click();
    await page.waitForFunction(() => document.querySelectorAll(".waits .note, .actors .note").length === 2);
    assert.deepEqual(await notes.allTextContents(), Array(2).fill("Not filtered by process: this file holds sums of control groups."));
    for (const part of [".waits", ".actors"]) {
      const tops = await page.locator(`${part} :is(.note, table)`).evaluateAll((all) => all.map((e) => e.tagName));
      assert.deepEqual(tops, ["P", "TABLE"], "above the list");
    }
    await page.getByRole("button", { name: "process", exact: true }).click();
    await page.locator("select[aria-label=Class]").selectOption("write");
    await page.locator(".actors .note", { hasText: "Not filtered by class" }).waitFor();
    assert.match(await page.locator(".waits").textContent(), /No I\/O waited/, "the only victim is reads");
    await page.locator("select[aria-label=Class]").selectOption("");
    await page.keyboard.press("Escape");
    await quiet(page);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("draws the rate of flushes, and says that it has no heat map of them", async () => {
    const page = await open(await written("flushes.html", 600), "#?class=flush");
    await page.waitForSelector(".time .part-status.failed");
    assert.match(await page.locator(".time .part-status.failed").textContent(), /^This file holds no heat map of flushes, only of reads and writes\./);
    const canvas = page.locator(".chart canvas");
    const { width, height } = await canvas.boundingBox();
    await canvas.hover({ position: { x: width * 0.5, y: height * 0.75 } });
    assert.match(await page.locator(".io-tip").textContent(), /I\/Os per secondflush [\d.]+\/s/);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("has all details one click away, and a finding leads back to its time", async () => {
    const page = await open(await written("details.html", 600));
    await quiet(page);
    await page.getByRole("button", { name: "Findings, distributions" }).click();
    await page.waitForSelector("#distributions svg");
    for (const part of ["#findings .card", "#distributions .panel-card, #distributions article, #distributions figure, #distributions svg"]) assert.ok(await page.locator(part).count() > 0, part);
    assert.equal(await page.locator(".chart canvas").count(), 0);
    await page.locator("#findings button.show").first().click();
    await page.waitForSelector(".chart canvas");
    await page.waitForFunction(() => location.hash.includes("from="));
    const [from, to] = await range(page);
    assert.ok(to - from < 600 && from >= synth.FILE_START_S - 1, `${from} to ${to}`);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("of counters and of an imported log begins with what they say", async () => {
    const { heat, moments, ...without } = synth.inside(60);
    assert.ok(heat && moments);
    const none = { ...without, documents: { devices: without.documents.devices }, moments: [] };
    for (const [name, data, panel] of [["counters", synth.counters(60), '[data-panel="latency"] canvas'], ["log", synth.tables(600), ".panels canvas"]]) {
      const path = join(browser.directory, `${name}.html`);
      await writeFile(path, synth.page(template, { ...data, inside: none }));
      const page = await open(path);
      await page.waitForSelector(panel);
      await page.getByRole("button", { name: "Stories, waits and charts" }).click();
      await page.waitForSelector(".stories .part-status.failed");
      assert.match(await page.locator(".stories .part-status").textContent(), /holds no single I\/Os/);
      await page.waitForFunction(() => document.querySelector(".time .part-status").textContent === "");
      assert.ok(await inked(page) > 1000, "throughput is drawn");
      assert.deepEqual(page.problems, []);
      await page.close();
    }
  });

  test("is drawn within a second, a day of 10 MiB too", async () => {
    const path = await written("day.html", 86_400);
    const page = await open(path);
    await quiet(page);
    assert.ok(await inked(page) > 100_000);
    const { size } = await stat(path);
    const drawn = Number(await page.evaluate(() => document.documentElement.dataset.ready));
    // A loaded machine is slower than the targeted second.
    console.error(`a day in ${(size / 2 ** 20).toFixed(1)} MiB: shown after ${drawn} ms`);
    assert.ok(drawn < 5000, `${drawn} ms`);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("fits a phone, and has no more than 140 KiB of script", async () => {
    const page = await open(await written("phone.html", 600), "", { width: 390, height: 800 });
    await quiet(page);
    const [inner, scroll] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
    assert.ok(scroll <= inner, `${scroll} pixels on ${inner}`);
    await page.close();
    const { gzipSync } = await import("node:zlib");
    assert.ok(gzipSync(template).length < 140 * 1024);
  });
});

describe("a report made by the program", { skip: missing ?? (made.skip || false) }, () => {
  test("tells its story, leads to its worst moment I/O by I/O, and nothing in it became markup", async () => {
    const page = await open(made.path);
    await quiet(page);
    assert.ok(await inked(page) > 50_000);
    assert.equal(await page.locator("main img, main b b, main script").count(), 0);
    if (!process.env.IOLENS_REPORT_HTML) assert.match(await page.locator(".stories").textContent(), /<\/script><b>.*delays.*postgres/s);
    await page.locator(".story summary").first().click();
    await page.getByRole("button", { name: "Show the worst moment, I/O by I/O" }).first().click();
    await page.waitForSelector("html[data-mode=ios]");
    await quiet(page);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Findings, distributions" }).click();
    await page.waitForSelector("#distributions svg");
    assert.ok(await page.locator("#devices tbody tr").count() > 0);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  after(() => made.clean?.());
});

/** The report at IOLENS_REPORT_HTML, or the one that the example html_report writes if cargo has built it. */
async function madeByTheProgram() {
  if (process.env.IOLENS_REPORT_HTML) return { path: process.env.IOLENS_REPORT_HTML };
  const example = fileURLToPath(new URL("../target/debug/examples/html_report", here));
  const skip = (reason) => {
    console.error(`SKIP: a report made by the program: ${reason}`);
    return { skip: reason };
  };
  if (missing) return { skip: missing };
  if (!(await access(example).then(() => true, () => false))) return skip("cargo has not built the example html_report");
  const out = await mkdtemp(join(tmpdir(), "iolens-report-"));
  const path = join(out, "report.html");
  try {
    await promisify(execFile)(example, [path, "60"]);
  } catch (e) {
    return skip(String(e.stderr || e).trim());
  }
  return { path, clean: () => rm(out, { recursive: true, force: true }) };
}
