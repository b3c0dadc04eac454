// Operates the page in Chromium like a user. Data: a generated hour. Skips with a message if there is no Chromium.
import assert from "node:assert/strict";
import { access, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { Browser, here, missing } from "./chromium.mjs";

let browser;
let synth;

before(async () => {
  if (missing) return;
  synth = await import(new URL("dist/test/synth.js", here));
  browser = await Browser.start();
});

after(async () => {
  await browser?.close();
});

/** A file with the page around `data`. */
async function written(name, data, template_name = "report") {
  const template = await readFile(new URL(`dist/${template_name}.html`, here), "utf8");
  const path = join(browser.directory, name);
  await writeFile(path, synth.page(template, data));
  return path;
}

/** Opens a report; fails on script errors and on any request beyond the file itself. */
async function open(path, { width = 1280, height = 900, scheme = "light" } = {}) {
  const page = await browser.page({ answersMayFail: false });
  page.on("request", (r) => r.url().startsWith("file:") || r.url().startsWith("data:") || page.problems.push(`asked for ${r.url()}`));
  await page.emulateMedia({ colorScheme: scheme });
  await page.setViewportSize({ width, height });
  const url = pathToFileURL(path).href;
  await page.goto(url);
  await page.waitForSelector("html[data-ready]", { timeout: 20_000 });
  return page;
}

async function close(page) {
  assert.deepEqual(page.problems, []);
  await page.close();
}

const range = (page) => page.locator(".where").textContent();
const step = (page) => page.locator(".toolbar .step").textContent();

/** The number of different colours on a canvas; an empty one has at most a few. */
function colours(page, selector) {
  return page.locator(selector).evaluate((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4) seen.add((data[i] << 24) | (data[i + 1] << 16) | (data[i + 2] << 8) | data[i + 3]);
    return seen.size;
  });
}

const changed = (page, before) => page.waitForFunction((b) => document.querySelector(".where").textContent !== b, before, { timeout: 5000 });

async function drag(page, selector, from, to) {
  const target = page.locator(selector);
  await target.scrollIntoViewIfNeeded();
  const box = await target.boundingBox();
  await page.mouse.move(box.x + box.width * from, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * ((from + to) / 2), box.y + box.height / 2);
  await page.mouse.move(box.x + box.width * to, box.y + box.height / 2);
  await page.mouse.up();
}

/** Checks for every report with charts over time: those of counters and of imported logs. */
function anyCharts(path) {
  test("draws every chart within two seconds", async () => {
    const page = await open(await path());
    const ms = Number(await page.locator("html").getAttribute("data-ready"));
    console.error(`rendered after ${ms} ms (target: under 2000 ms)`);
    for (const panel of ["iops", "throughput", "latency", "busy"]) {
      const n = await colours(page, `[data-panel="${panel}"] canvas`);
      assert.ok(n > 20, `${panel} shows ${n} colours`);
    }
    await close(page);
  });

  test("dragging zooms, Escape shows everything again", async () => {
    const page = await open(await path());
    const all = await range(page);
    await drag(page, '[data-panel="latency"] .u-over', 0.3, 0.5);
    await changed(page, all);
    const zoomed = await range(page);
    await page.locator('[data-panel="iops"]').focus();
    await page.keyboard.press("ArrowRight");
    await changed(page, zoomed);
    const panned = await range(page);
    await page.keyboard.press("+");
    await changed(page, panned);
    await page.keyboard.press("Escape");
    await page.waitForFunction((a) => document.querySelector(".where").textContent === a, all);
    await drag(page, ".navigator canvas", 0.4, 0.6);
    await changed(page, all);
    await close(page);
  });

  test("fits a phone without scrolling sideways", async () => {
    const page = await open(await path(), { width: 390, height: 844 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 390, `the page is ${wide} px wide`);
    await close(page);
  });

  test("cursors are in step", async () => {
    const page = await open(await path());
    const box = await page.locator('[data-panel="iops"] .u-over').boundingBox();
    await page.locator('[data-panel="iops"]').scrollIntoViewIfNeeded();
    const now = await page.locator('[data-panel="iops"] .u-over').boundingBox();
    await page.mouse.move(now.x + box.width * 0.4, now.y + 40);
    await page.mouse.move(now.x + box.width * 0.41, now.y + 40);
    await page.waitForFunction(() => document.querySelector('[data-panel="throughput"] .float:not([hidden]) .value')?.textContent);
    await close(page);
  });

  test("dark colours by preference and by hand", async () => {
    const page = await open(await path(), { scheme: "dark" });
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await background();
    await page.locator("button.theme").click();
    assert.notEqual(await background(), dark);
    assert.ok((await colours(page, '[data-panel="iops"] canvas')) > 20);
    await close(page);
  });
}

describe("a made-up hour", { skip: missing ?? false }, () => {
  let path;
  const hour = async () => (path ??= await written("hour.html", synth.periodicLoad(3600)));

  test("draws its distributions within two seconds, and leaves the time to the application", async () => {
    const page = await open(await hour());
    const ms = Number(await page.locator("html").getAttribute("data-ready"));
    console.error(`rendered after ${ms} ms (target: under 2000 ms)`);
    for (const panel of ["latency-dist", "size-dist", "concurrency-dist", "load"]) {
      assert.equal(await page.locator(`[data-panel="${panel}"] svg`).count(), 1, panel);
    }
    assert.equal(await page.locator("#time").count(), 0);
    await close(page);
  });

  test("buttons are called what they show, so that they can be named by voice", async () => {
    const page = await open(await hour());
    await page.evaluate(await readFile(new URL("node_modules/axe-core/axe.min.js", here), "utf8"));
    const { violations, passes } = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ["label-content-name-mismatch"] }));
    assert.deepEqual(violations.flatMap((v) => v.nodes.map((n) => n.html)), []);
    assert.ok(passes[0]?.nodes.length > 0, "there are such buttons");
    await close(page);
  });

  test("fits a phone without scrolling sideways", async () => {
    const page = await open(await hour(), { width: 390, height: 844 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 390, `the page is ${wide} px wide`);
    await close(page);
  });

  test("a hostile process name stays text", async () => {
    const page = await open(await hour());
    const cell = page.locator("#actors th.name", { hasText: "</script>" });
    assert.equal(await cell.textContent(), synth.HOSTILE);
    assert.equal(await page.locator("img").count(), 0);
    assert.notEqual(await page.title(), "owned");
    await close(page);
  });

  test("what cannot be seen in a name is written out", async () => {
    const page = await open(await hour());
    await page.locator("#actors button", { hasText: "Files" }).click();
    const names = await page.locator("#actors tbody th").allTextContents();
    assert.ok(names.includes("/srv/\\x1b[31mred\\x0d\\x0a\\u{202e}\\u{e0041}gpj.exe"), names.join(" | "));
    await close(page);
  });

  test("tables sort and filter", async () => {
    const page = await open(await hour());
    const names = () => page.locator("#actors tbody th").allTextContents();
    assert.equal((await names())[0], "checkpointer");
    await page.locator("#actors thead button", { hasText: "Read I/Os" }).click();
    assert.equal((await names())[0], "postgres");
    await page.locator("#actors thead button", { hasText: "Read I/Os" }).click();
    assert.notEqual((await names())[0], "postgres");
    await page.locator("#actors input").fill("JBD2");
    assert.deepEqual(await names(), ["jbd2/nvme0n1p2-8"]);
    await page.locator("#actors input").fill("");
    await page.locator("#actors button", { hasText: "Files" }).click();
    assert.ok((await names()).some((n) => n.includes("pg_wal")));
    await close(page);
  });

  test("definitions appear on hover and on focus", async () => {
    const page = await open(await hour());
    await page.locator('.in-view .term', { hasText: "Busy" }).hover();
    await page.waitForSelector(".tip:not([hidden])");
    assert.match(await page.locator(".tip").textContent(), /at least one I\/O in flight/);
    await page.locator("#devices thead button", { hasText: "p99.9" }).focus();
    assert.match(await page.locator(".tip").textContent(), /999 of 1000/);
    await page.keyboard.press("Escape");
    assert.equal(await page.locator(".tip:not([hidden])").count(), 0);
    await close(page);
  });

  test("another device has its own figures", async () => {
    const page = await open(await hour());
    const facts = () => page.locator(".in-view").textContent();
    const first = await facts();
    await page.locator("#distributions select").first().selectOption("sdb");
    await page.waitForFunction((f) => document.querySelector(".in-view").textContent !== f, first);
    await close(page);
  });

  test("devices in depth: slots, capacity, attribution, rhythm", async () => {
    const page = await open(await hour());
    await page.locator("#distributions select").first().selectOption("nvme0n1");
    for (const panel of ["attribution", "rhythm"]) {
      await page.waitForSelector(`[data-panel="${panel}"] svg path.line`);
    }
    assert.match(await page.locator('[data-panel="rhythm"] .legend').textContent(), /writes.*every 5 s/);
    assert.match(await page.locator('[data-panel="stages"]').textContent(), /S2D.*5 %, 4 us.*D2C.*95 %, 95 us.*S2C.*99 us, n = 9\u202f000\u202f000 requests/s);
    assert.match(await page.locator("#devices").textContent(), /61\.9 ± 0\.31 %/, "%util with one sigma");
    const slots = page.locator(".table", { hasText: "Concurrency in 2 ms slots" });
    assert.equal(await slots.locator("tbody tr").count(), 9, "three groups of 20 minutes, three classes");
    await slots.locator("tbody td.num").nth(2).hover();
    await page.waitForSelector(".tip:not([hidden])");
    assert.match(await page.locator(".tip").textContent(), /Touched/);
    await close(page);
  });

  test("every number on the page has a definition", async () => {
    const page = await open(await hour());
    const bare = await page.evaluate(() => [...document.querySelectorAll("dl.facts dd, td.num")]
      .filter((e) => !e.closest("[data-def]") && e.textContent !== "–")
      .map((e) => `${e.previousElementSibling?.textContent}: ${e.textContent}`));
    assert.deepEqual(bare, []);
    const unknown = await page.evaluate(async () => {
      const out = [];
      let clientX = 0;
      for (const e of document.querySelectorAll("[data-def]")) {
        e.dispatchEvent(new PointerEvent("pointerover", { bubbles: true, clientX: ++clientX }));
        if (document.querySelector(".tip").hidden) out.push(e.getAttribute("data-def"));
      }
      return [...new Set(out)];
    });
    assert.deepEqual(unknown, [], "every definition that is pointed to is there");
    await close(page);
  });

  test("few I/Os are marked", async () => {
    const page = await open(await hour());
    const few = page.locator("#devices td", { hasText: "(few)" });
    assert.ok((await few.count()) > 0);
    assert.equal(await few.first().getAttribute("data-def"), "lowN");
    await close(page);
  });

  test("prints", async () => {
    const page = await open(await hour(), { scheme: "dark" });
    const pdf = await page.pdf({ format: "A4" });
    assert.equal(pdf.subarray(0, 5).toString(), "%PDF-");
    await close(page);
  });
});

describe("devices together, and the ways of bios", { skip: missing ?? false }, () => {
  let path;
  const report = async () => (path ??= await written("together.html", synth.together(60)));
  const share = (bar) => bar.evaluate((r) => ["x", "width"].map((a) => Number(r.getAttribute(a))));

  test("busy time of the set is beside its mean and the busiest device", async () => {
    const page = await open(await report());
    const card = page.locator('[data-panel="sets"]');
    assert.match(await card.textContent(), /Any.*61\.5 %.*Reads.*40 %.*Writes.*30 %.*Both.*8\.5 %.*Mean.*33\.3 %.*Busiest.*44\.8 %/s);
    assert.match(await card.textContent(), /Left out.*dm-0/s);
    assert.deepEqual(await share(card.locator("li rect:not(.track)").nth(0)), [0, 61.5]);
    assert.equal(await page.locator('[data-panel="stages"]').count(), 0, "shown for one device");
    assert.equal(await page.locator("main img").count(), 0);
    const slots = page.locator(".table", { hasText: "Concurrency in 2 ms slots" });
    assert.equal(await slots.locator("tbody th", { hasText: "all together" }).count(), 3);
    const links = await page.locator(".table", { hasText: "Devices behind one link" }).locator("tbody tr").allTextContents();
    assert.match(links[1], /nvme0n1\+sdb.*write.*600 MB\/s.*4 GB.*7.*250 ms.*120 MB.*580 MB\/s.*96\.7 %.*119 MB\/s/);
    await close(page);
  });

  test("each stage begins where the one before it ended", async () => {
    const page = await open(await report());
    await page.locator("#distributions select").first().selectOption("nvme0n1");
    const card = page.locator('[data-panel="stages"]');
    await card.waitFor();
    assert.equal(await page.locator('[data-panel="sets"]').count(), 0);
    const names = await card.locator("li b").allTextContents();
    assert.deepEqual(names, ["Q2G", "I2D", "Q2M", "M2D", "D2C", "Q2C"], "without a scheduler nothing is inserted");
    const bars = await Promise.all(names.map((_, i) => share(card.locator("li rect:not(.track)").nth(i))));
    assert.deepEqual(bars, [[0, 2], [2, 8], [10, 1], [11, 9], [20, 80], [0, 100]]);
    assert.match(await card.textContent(), /I2D.*8 %, 6 us, mean of 8\u202f000/s);
    const table = page.locator(".table", { hasText: "Stages by device" });
    assert.equal(await table.locator("tbody tr").count(), 9, "three of requests, six of bios");
    await close(page);
  });

  test("fits a phone", async () => {
    const page = await open(await report(), { width: 390, height: 844 });
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390);
    await close(page);
  });
});

describe("counters only", { skip: missing ?? false }, () => {
  let path;
  const counters = async () => (path ??= await written("counted.html", synth.counters(300)));
  anyCharts(counters);

  test("the address brings the view back", async () => {
    const page = await open(`${await counters()}`);
    await page.goto(`${page.url()}#t=100.000-160.000`);
    await page.reload();
    await page.waitForSelector("html[data-ready]");
    assert.match(await range(page), /^2026-11-21 05:21:40[.0]* – 05:22:40[.0]*$/);
    await close(page);
  });

  test("draws what counters contain and says what they lack", async () => {
    const page = await open(await written("counters.html", synth.counters(60)));
    for (const panel of ["iops", "throughput", "latency", "busy"]) {
      const n = await colours(page, `[data-panel="${panel}"] canvas`);
      assert.ok(n > 20, `${panel} shows ${n} colours`);
    }
    assert.match(await page.locator("#findings").textContent(), /no single I\/Os/);
    assert.equal(await page.locator('[data-panel="heat-read"] canvas').count(), 0);
    await close(page);
  });
});

describe("an imported log of averages", { skip: missing ?? false }, () => {
  const panels = (page) => page.locator("#time [data-panel]").evaluateAll((all) => all.map((p) => p.dataset.panel));
  const drawn = async (page) => {
    for (const panel of await panels(page)) {
      const n = await colours(page, `[data-panel="${panel}"] canvas`);
      assert.ok(n > 20, `${panel} shows ${n} colours`);
    }
  };

  test("draws every column of the log by device, and the processors, and nothing that it does not hold", async () => {
    const page = await open(await written("log.html", synth.tables(300)));
    const all = await panels(page);
    for (const column of ["iops-r/s", "iops-w/s", "throughput-rkB/s", "throughput-wkB/s", "await-r_await", "await-w_await", "queue-aqu-sz", "util-%util", "size-rareq-sz", "merges-wrqm/s", "merged-%wrqm", "cpu"]) {
      assert.ok(all.includes(column), `${column} is missing in ${all}`);
    }
    assert.ok(!all.includes("merges-rrqm/s"), "merges that never happened");
    await drawn(page);
    assert.equal(await page.locator("#distributions").count(), 0);
    assert.equal(await page.locator("#actors").count(), 0);
    assert.doesNotMatch(await page.locator("main").textContent(), /does not hold|does not say who|that moved data/);
    await page.getByRole("button", { name: "Show one device alone" }).click();
    assert.deepEqual((await panels(page)).slice(0, 2), ["iops", "throughput"], "one device");
    assert.match(await range(page), /^2026-11-24 12:02:48.* 12:07:48/, "the clock on the wall");
    await close(page);
  });

  test("one device has a chart per quantity, which zooms and shows its values", async () => {
    const page = await open(await written("log.html", synth.tables(300)));
    await page.selectOption(".toolbar select", "sdb");
    await page.waitForSelector('[data-panel="iops"] canvas');
    assert.deepEqual(await panels(page), ["iops", "throughput", "await", "queue", "util", "size", "merges", "merged", "cpu"]);
    await drawn(page);
    const before = await range(page);
    await drag(page, '[data-panel="iops"] .u-over', 0.2, 0.4);
    await changed(page, before);
    const over = page.locator('[data-panel="util"] .u-over');
    await over.scrollIntoViewIfNeeded();
    await over.hover({ position: { x: 200, y: 50 } });
    await page.waitForSelector('[data-panel="util"] .float:not([hidden])');
    assert.match(await page.locator('[data-panel="util"] .float').textContent(), /%util(97|12) %/);
    await close(page);
  });
});

describe("nothing happened", { skip: missing ?? false }, () => {
  test("an empty recording says so", async () => {
    const page = await open(await written("empty.html", synth.empty()));
    assert.match(await page.locator("#findings").textContent(), /No block I\/O completed/);
    assert.equal(await page.locator("#time, #distributions").count(), 0);
    await close(page);
  });

  test("a page without data says so", async () => {
    const template = await readFile(new URL("dist/report.html", here), "utf8");
    const path = join(browser.directory, "broken.html");
    await writeFile(path, template.replace("__DATA__", "{"));
    const page = await browser.context.newPage();
    await page.goto(pathToFileURL(path).href);
    assert.match(await page.locator("[role=alert]").textContent(), /cannot be shown/);
    await page.close();
  });
});

describe("file-level requests", { skip: missing ?? false }, () => {
  let path;
  const report = async () => (path ??= await written("files.html", { ...synth.periodicLoad(60), files: synth.filesData(60) }));

  test("every chart is drawn, and follows the pointer", async () => {
    const page = await open(await report());
    for (const id of ["rates", "response", "concurrent", "util", "size", "load", "atomic"]) {
      const panel = page.locator(`[data-panel="files-${id}"]`);
      const lines = await panel.locator("path.fline").evaluateAll((all) => all.map((p) => p.getAttribute("d").length));
      assert.ok(lines.length > 0 && lines.every((n) => n > 20), `${id}: ${lines}`);
    }
    const rates = page.locator('[data-panel="files-rates"]');
    const before = await rates.locator(".legend").textContent();
    await rates.locator("svg").hover();
    assert.notEqual(await rates.locator(".legend").textContent(), before);
    assert.match(await rates.locator(".legend").textContent(), /\/s/);
    await close(page);
  });

  test("slots and exact time, and one class alone, draw other lines", async () => {
    const page = await open(await report());
    const lines = (id) => page.locator(`[data-panel="files-${id}"] path.fline`).evaluateAll((all) => all.map((p) => p.getAttribute("d")));
    const slots = await lines("util");
    await page.locator('[data-panel="files-util"] button', { hasText: "Exact" }).click();
    assert.notDeepEqual(await lines("util"), slots);
    const classes = page.locator('[data-panel="files-concurrent"] button');
    await classes.nth(1).click();
    assert.equal(await classes.nth(1).getAttribute("aria-pressed"), "true");
    await close(page);
  });

  test("a waterfall shows open, I/Os, the rest and close where they were", async () => {
    const page = await open(await report());
    const row = page.locator('[data-panel="files-slow"] li svg').first();
    const kinds = await row.locator("rect").evaluateAll((all) => all.map((r) => r.getAttribute("class").replace("stretch ", "")));
    assert.deepEqual(kinds, ["gap", "open", "rest", "device", "memory", "memory", "memory", "device", "close"]);
    const at = await row.locator("rect").evaluateAll((all) => all.map((r) => Number(r.getAttribute("x"))));
    const scale = at[8] / (5200 - 30);
    assert.ok(Math.abs(at[3] / scale - 400) < 20 && Math.abs(at[7] / scale - 3000) < 20, at.join());
    assert.equal(await page.locator('[data-panel="files-slow-syncs"] rect.sync').count(), 1);
    await close(page);
  });

  test("the verdict, the tables and hostile paths", async () => {
    const page = await open(await report());
    assert.match(await page.locator("#files").textContent(), /applies.*Grows in steps|Grows in steps of 8 KiB.*applies/s);
    assert.match(await page.locator("#files").textContent(), /3 lost/);
    assert.equal(await page.locator("#files .table table").count(), 6);
    assert.equal(await page.locator("#files img").count(), 0);
    assert.notEqual(await page.title(), "owned");
    await close(page);
  });

  test("fits a phone, and is not there without requests", async () => {
    const page = await open(await report(), { width: 390, height: 844 });
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390);
    await close(page);
    const without = await open(await written("nofiles.html", synth.periodicLoad(60)));
    assert.equal(await without.locator("#files").count(), 0);
    await close(without);
  });
});

describe("an experiment", { skip: missing ?? false }, () => {
  for (const [width, scheme] of [[1280, "light"], [390, "dark"]]) {
    test(`shows charts, tables and files at ${width} pixels, ${scheme}`, async () => {
      const page = await open(await written("lab.html", synth.experiment(), "lab"), { width, scheme });
      assert.match(await page.locator("h1").textContent(), /^A sweep <\/script>/);
      assert.equal(await page.locator("img").count(), 0);
      // Of four points one has no logarithm; a model has no marks; a legend's swatch is a rectangle.
      assert.equal(await page.locator("figure").first().locator("circle.mark").count(), 3);
      assert.equal(await page.locator("figure").nth(1).locator(".box circle").count(), 1);
      assert.deepEqual(await page.locator("figure").nth(1).locator("text").filter({ hasText: /^(100 ms|sda)$/ }).count(), 2);
      const polyline = await page.locator("polyline.c0").getAttribute("points");
      assert.match(polyline, /^[\d., ]+$/);
      assert.equal(await page.locator("details[open]").count(), 0);
      const [download] = await Promise.all([page.waitForEvent("download"), page.locator("a[download]").click()]);
      assert.equal(await readFile(await download.path(), "utf8"), "1,2\n");
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(overflow <= 0, `the page is ${overflow} pixels too wide`);
      await close(page);
    });
  }
});

describe("a fleet", { skip: missing ?? false }, () => {
  for (const [width, scheme] of [[1280, "light"], [390, "dark"]]) {
    test(`shows the worst first and leads to a host's moment at ${width} pixels, ${scheme}`, async () => {
      const page = await open(await written("fleet.html", synth.fleet(), "fleet"), { width, scheme });
      assert.equal(await page.locator("img").count(), 0);
      const rows = page.locator("#hosts tbody tr");
      assert.match(await rows.first().textContent(), /^node41/);
      assert.equal(await rows.first().locator("a").getAttribute("href"), "/?host=node41&from=1795002340&to=1795002640");
      assert.equal(await page.locator("#slow").textContent(), "1 disk is slownode41 sdb takes 3.1 times the time of the median M1 at the same load.");
      assert.equal(await page.locator("#slow a").getAttribute("href"), "/?host=node41&from=1795002340&to=1795002640");
      assert.equal(await page.locator("#disks td.slow").textContent(), "3.1 times");
      const found = page.locator("#findings tbody tr");
      assert.match(await found.first().textContent(), /^node41critical.*stallsda2026-11-18 11:21:40 UTC≥ 8\.5 s/);
      assert.equal(await found.first().locator("a").getAttribute("href"), "/?host=node41&from=1795000780&to=1795001028.5");
      assert.equal(await page.locator("#findings .kinds").textContent(), "stall on 1 hostslow-io on 3 hostsmicroburst on 1 host (28)");
      assert.match(await page.locator("#findings").textContent(), /12 less harmful ones are not listed/);
      assert.equal(await found.count(), 10);
      await page.locator("#findings th button").filter({ hasText: "Finding" }).click();
      await page.locator("#findings th button").filter({ hasText: "Severity" }).click();
      assert.match(await found.first().textContent(), /^node41critical/, "by harm, not by name");
      await page.locator("#findings input").fill("slow");
      assert.equal(await found.count(), 1);
      assert.match(await page.locator(".notes").textContent(), /12 hosts are not read yet/);
      assert.equal(await rows.count(), 50, "the others are one click away");
      await page.locator("#hosts button.more").click();
      assert.equal(await rows.count(), 60);
      assert.match(await rows.last().textContent(), /^node9–/, "not known is last, and no zero");
      const quiet = page.locator("#hosts a").filter({ hasText: /^node5$/ });
      assert.equal(await quiet.getAttribute("href"), "/?host=node5&from=1795086220&to=1795086520", "the newest, where no minute is the worst");
      await page.locator("#disks input").fill("node3 sdb");
      // node3, node30 to node39.
      assert.equal(await page.locator("#disks tbody tr").count(), 11);
      await page.locator("#hosts th button").filter({ hasText: "Errors" }).click();
      assert.match(await rows.first().textContent(), /^node3/);
      assert.equal(await rows.filter({ hasText: "<img" }).locator("a").getAttribute("href").then((a) => a.includes("<")), false);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(overflow <= 0, `the page is ${overflow} pixels too wide`);
      await close(page);
    });
  }

  test("names the hosts of which nothing could be read, and says why", async () => {
    const data = synth.fleet();
    data.hosts_unread.push({ host: "<b>web1", reasons: ["/srv/lake/host=%3Cb%3Eweb1/start_ns=1/meta.json: damaged: no JSON; left out"] });
    const page = await open(await written("unread.html", data, "fleet"));
    assert.equal(await page.locator("#unread h2").textContent(), "<b>web1 could not be read");
    assert.match(await page.locator("#unread li").textContent(), /^<b>web1.*damaged: no JSON; left out$/);
    assert.match(await page.locator(".facts").textContent(), /Hosts73/, "60 rows, 12 for the next time, and this one");
    await close(page);
  });

  test("of which nothing is known says why, and no more", async () => {
    const none = { ...synth.fleet(), hosts: [], devices: [], findings: [], findings_left_out: 0, kinds: [], hosts_left_out: 0, from_unix_s: 0, to_unix_s: 0, notes: ["/srv/lake: no recordings"] };
    const page = await open(await written("none.html", none, "fleet"));
    assert.equal(await page.locator("[role=alert]").textContent(), "/srv/lake: no recordings");
    assert.equal(await page.locator("table").count(), 0);
    assert.doesNotMatch(await page.locator("body").textContent(), /1970/);
    await close(page);
  });
});
