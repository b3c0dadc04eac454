// The application in Chromium, with a server that answers like the program. Skips with a message if there is no
// Chromium.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, describe, test } from "node:test";
import { Browser, here, missing } from "./chromium.mjs";
import { DOCUMENTS, EVIL, NOW_S, amount, group, serve, stop } from "./stub_server.mjs";

let browser;

before(async () => {
  if (missing) return;
  browser = await Browser.start({ width: 1400, height: 900 });
});

after(async () => {
  await browser?.close();
  stop();
});

const AN_HOUR = `?from=${NOW_S - 3600}&to=${NOW_S}`;

async function open(url) {
  const page = await browser.page();
  page.on("dialog", (d) => page.problems.push(d.message()));
  await page.goto(url);
  await page.waitForSelector("html[data-ready]");
  return page;
}

const quiet = (page) => page.waitForFunction(() => [...document.querySelectorAll(".part-status")].every((p) => p.textContent === ""));
const range = (page) => page.evaluate(() => {
  const q = new URLSearchParams(location.search);
  return [Number(q.get("from")), Number(q.get("to"))];
});
/** Waits until the address changes, and returns the width in it. */
async function widthAfter(page, act) {
  const before = page.url();
  await act();
  await page.waitForFunction((b) => location.href !== b, before);
  const [from, to] = await range(page);
  return to - from;
}
/** How many pixels of the chart are not transparent. */
const inked = (page) => page.evaluate(() => {
  const c = document.querySelector(".chart canvas");
  const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
  let n = 0;
  for (let i = 3; i < data.length; i += 4) n += data[i] > 0 ? 1 : 0;
  return n;
});

describe("the application", { skip: missing !== null }, () => {
  test("is painted and can be used while every answer takes 2 s", async () => {
    const server = await serve({ delayMs: 2000 });
    const page = await open(server.url + AN_HOUR);
    const ready = Number(await page.evaluate(() => document.documentElement.dataset.ready));
    assert.ok(await page.locator(".bar").isVisible() && await page.locator(".chart canvas").isVisible());
    assert.match(await page.locator(".stories").textContent(), /The stories are loading/);
    assert.ok(ready < 2000, `drawn after ${ready} ms, before any answer`);
    await page.waitForSelector(".story");
    await quiet(page);
    assert.deepEqual(page.problems, []);
    assert.equal(await page.locator("link[rel=icon]").getAttribute("href"), "data:,", "no icon is asked for");
    await page.close();
  });

  test("says in a sentence which part failed, keeps the others, and tries again", async () => {
    const server = await serve({ fail: { waits: 1 } });
    const page = await open(server.url + AN_HOUR);
    await page.waitForSelector(".part-status.failed");
    const text = await page.locator(".waits").textContent();
    assert.match(text, /The waits could not be loaded\. This takes too long: ask for a shorter stretch\. Trying again/);
    assert.ok(!text.includes("{"), "no JSON on screen");
    assert.equal(await page.locator(".story").count(), 1, "stories of one identity are one row");
    await page.waitForSelector(".waits tbody tr");
    assert.equal(await page.locator(".part-status.failed").count(), 0);
    await page.close();
  });

  test("lists of an earlier time are grey and say of which, and all are asked at once when the server is back", async () => {
    const server = await serve();
    const page = await open(server.url + AN_HOUR);
    await page.locator(".waits tbody tr").first().waitFor();
    await quiet(page);
    let isDown = true;
    await page.route("**/api/v1/**", (route) => (isDown ? route.abort() : route.fallback()));
    await page.keyboard.press("w");
    for (const part of ["stories", "waits", "actors"]) {
      const status = page.locator(`.${part} > .part-status.failed`, { hasText: "Shown is what was loaded before: all devices, 2026-11-18" });
      await status.waitFor();
      assert.equal(await page.locator(`.${part} > .scroll`).evaluate((e) => getComputedStyle(e).opacity), "0.5");
    }
    assert.doesNotMatch(await page.locator(".time").textContent(), /loaded before/);
    // Their retry delays have grown.
    await page.waitForFunction(() => document.querySelector(".waits > .part-status").textContent.includes("again in 8 s"));
    isDown = false;
    const begin = Date.now();
    await page.getByRole("button", { name: "control group" }).click();
    await quiet(page);
    assert.ok(Date.now() - begin < 4000, `${Date.now() - begin} ms`);
    assert.equal(await page.locator(".part-status.failed").count(), 0);
    await page.close();
  });

  test("an unknown host is named as it is, and once", async () => {
    const server = await serve({ refuse: "nosuch: nothing is recorded of it" });
    const page = await open(`${server.url}?host=nosuch`);
    await page.waitForSelector(".part-status.failed");
    await page.waitForFunction(() => !document.body.textContent.includes("loading"));
    assert.equal(await page.getByText("nosuch: nothing is recorded of it.", { exact: true }).count(), 1);
    await page.close();
  });

  test("the page of one host names it, leads back to all, and has its name in the title", async () => {
    const server = await serve();
    const page = await open(`${server.url}${AN_HOUR}&host=db-1`);
    const host = page.locator(".bar .host");
    assert.equal(await host.textContent(), "db-1");
    assert.equal(await host.evaluate((a) => a.href), server.url);
    assert.equal(await page.title(), "db-1 – Disk I/O – iolens");
    const alone = await open(server.url + AN_HOUR);
    assert.equal(await alone.locator(".bar .host").isVisible(), false);
    assert.deepEqual([...page.problems, ...alone.problems], []);
    await page.close();
    await alone.close();
  });

  test("where nothing is recorded now it opens on the last 15 minutes of all recordings, and a button leads back there", async () => {
    const iso = (s) => new Date(s * 1000).toISOString();
    // A short recording after a restart is the newest.
    const recordings = () => ({ recordings: [{ from: iso(NOW_S - 7200), to: iso(NOW_S - 3700) }, { from: iso(NOW_S - 3660), to: iso(NOW_S - 3600) }] });
    const server = await serve({ documents: { ...DOCUMENTS, recordings } });
    const page = await open(server.url);
    await page.locator(".time .span", { hasText: "15 min" }).waitFor();
    await quiet(page);
    const to = page.getByLabel("To (UTC)");
    const newest = await to.inputValue();
    assert.equal(Date.parse(`${newest.replace(" ", "T")}Z`) / 1000, NOW_S - 3600);
    await to.fill("2026-11-01 10:00");
    await page.getByLabel("From (UTC)").fill("2026-11-01 09:00");
    await widthAfter(page, () => page.keyboard.press("Enter"));
    const width = await widthAfter(page, () => page.getByRole("button", { name: "Newest" }).click());
    assert.equal(width, 900);
    assert.equal(await to.inputValue(), newest);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("a live view asks no more for what is refused, until it is about something else", async () => {
    const server = await serve({ recording: true, refuse: "nosuch: no such device" });
    const page = await browser.page();
    await page.clock.install();
    await page.goto(`${server.url}?from=-60s&to=now&device=nosuch`);
    await page.waitForFunction(() => ["stories", "waits", "actors", "time"].every((part) => document.querySelector(`.${part} > .part-status.failed`)));
    const asked = () => server.asked.filter((a) => !a.startsWith("live")).length;
    const before = asked();
    const shown = () => page.locator("input[aria-label='To (UTC)']").inputValue();
    for (const since of [await shown(), null]) {
      // Every refresh is due by then.
      await page.clock.fastForward(60_000);
      if (since) await page.waitForFunction((s) => document.querySelector("input[aria-label='To (UTC)']").value.slice(0, 16) !== s.slice(0, 16), since);
    }
    assert.equal(asked(), before);
    assert.equal(await page.locator("select[aria-label=Device] option:checked").textContent(), "nosuch");
    server.refuse = null;
    await page.locator("select[aria-label=Device]").selectOption("");
    await page.waitForSelector(".waits tbody tr");
    await page.close();
  });

  test("names are text, and a victim without a process has a word", async () => {
    const server = await serve();
    const page = await open(server.url + AN_HOUR);
    await page.waitForSelector(".waits tbody tr");
    await page.waitForSelector(".actors tbody tr");
    await page.locator(".story summary").first().click();
    assert.equal(await page.locator("img").count(), 0);
    assert.match(await page.locator(".waits tbody").textContent(), /<img src=x onerror=alert\(1\)>\\u\{202e\}/);
    const victims = await page.locator(".waits tbody tr td:first-child").allTextContents();
    assert.match(victims[0], /<img/, "who waited for others comes first");
    assert.match(victims[1], /^\(not known\)write/);
    assert.match(await page.locator(".waits thead").textContent(), /Behind other I\/O/, "it may be of the same program");
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("the story of two recordings is one row, with the sum of its harm and what each recording says", async () => {
    const server = await serve();
    const page = await open(server.url + AN_HOUR);
    await page.waitForSelector(".story");
    assert.equal(await page.locator(".story").count(), 1);
    assert.match(await page.locator(".story .harm").textContent(), /^3 s lost 50 %, up to 9 ms, 6 times$/);
    await page.locator(".story summary").click();
    const said = await page.locator(".story > p").allTextContents();
    assert.equal(said.filter((text) => /^[\d:]+ to [\d:]+ UTC: Story \d of/.test(text)).length, 2, said.join("\n"));
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("a reader who may not see names is not told that they are not known", async () => {
    const server = await serve();
    const stub = DOCUMENTS.waits;
    const note = "names of files and processes are left out, as everybody on this machine can ask";
    DOCUMENTS.waits = () => {
      const { waits } = stub();
      const without = (who, pid) => ({ ...who, process: null, pid });
      return { waits: waits.map((w, i) => ({ ...w, victim: without(w.victim, i === 0 ? null : 7), behind: w.behind.map((b) => without(b, null)) })), notes: [note] };
    };
    try {
      const page = await open(server.url + AN_HOUR);
      await page.locator(".waits tbody tr").first().waitFor();
      const rows = await page.locator(".waits tbody tr").allTextContents();
      assert.match(rows[0], /^\[7\]read.*a processwrite/);
      assert.match(rows[1], /^a processwrite/);
      assert.ok(!rows.join("").includes("not known"));
      await page.getByText(note).waitFor();
      assert.deepEqual(page.problems, []);
      await page.close();
    } finally {
      DOCUMENTS.waits = stub;
    }
  });

  test("the head of a story without names is a sentence, and how to see them stands above the stories", async () => {
    const note = "names of files and processes are left out, as everybody on this machine can ask";
    const stories = (query) => {
      const known = DOCUMENTS.stories(query).stories;
      const nameless = (who) => ({ ...who, process: null, pid: null });
      const numbered = (who) => ({ ...who, process: null, pid: 7 });
      return { notes: [note], stories: [
        { ...known[0], victim: nameless(group(null, "write")), culprits: [nameless(group(null, "write"))] },
        { ...known[1], id: "second", victim: numbered(group(null, "flush")), culprits: [nameless(group(null, "write"))] },
        { ...known[1], id: "third", victim: nameless(group(null, "read")), culprits: [numbered(group(null, "write"))] },
      ] };
    };
    const server = await serve({ documents: { ...DOCUMENTS, stories } });
    const page = await open(server.url + AN_HOUR);
    await page.waitForSelector(".story");
    const heads = (await page.locator(".story .line").allTextContents()).map((text) => text.replace(/^writeback flush|^write-back flush/, ""));
    assert.deepEqual(heads, ["another process delays writes of a process", "another process delays [7] flushes", "[7] delays reads of another process"]);
    const above = await page.evaluate(() => document.querySelector(".stories .note").getBoundingClientRect().bottom <= document.querySelector(".story").getBoundingClientRect().top);
    assert.ok(above);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("where it is not known whether a program waited, it is not said that none did", async () => {
    const summary = "Not proven: reads of shop (7) took 5.91 s, of which they can have lost up to 5.52 s behind backup (8) on sda.";
    const stories = () => ({ stories: [], not_proven: [{ summary }], notes: [] });
    const server = await serve({ documents: { ...DOCUMENTS, stories } });
    const page = await open(server.url + AN_HOUR);
    await page.waitForSelector(".stories .empty");
    assert.deepEqual(await page.locator(".stories .empty").allTextContents(), [summary]);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("zooms by keys, wheel, drag and buttons, and the address is the view", async () => {
    const server = await serve();
    const page = await open(server.url + AN_HOUR);
    await quiet(page);
    const close = (a, b) => assert.ok(Math.abs(a - b) < 1e-3 * b, `${a} is ${b}`);
    close(await widthAfter(page, () => page.keyboard.press("w")), 1800);
    close(await widthAfter(page, () => page.keyboard.press("-")), 3600);
    const [before] = await range(page);
    close(await widthAfter(page, () => page.keyboard.press("ArrowLeft")), 3600);
    assert.ok((await range(page))[0] < before);
    close(await widthAfter(page, () => page.getByRole("button", { name: "Closer (W or +)" }).click()), 1800);
    const box = await page.locator(".chart canvas").boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + 60);
    assert.ok(await widthAfter(page, () => page.mouse.wheel(0, -100)) < 1400);
    const wide = await range(page);
    const narrow = await widthAfter(page, async () => {
      await page.mouse.move(box.x + 300, box.y + 60);
      await page.mouse.down();
      await page.mouse.move(box.x + 400, box.y + 70, { steps: 4 });
      await page.mouse.up();
    });
    close(narrow, ((wide[1] - wide[0]) * 100) / (box.width - 78));
    await page.goBack();
    assert.deepEqual(await range(page), wide);
    await page.goForward();
    await quiet(page);
    const asked = server.asked.filter((a) => a.startsWith("stories")).length;
    const address = page.url();
    await page.goto(address);
    await quiet(page);
    assert.equal(page.url(), address);
    assert.ok(server.asked.filter((a) => a.startsWith("stories")).length > asked);
    const last = new URLSearchParams(server.asked.filter((a) => a.startsWith("stories")).at(-1).split("?")[1]);
    close(Number(last.get("to")) - Number(last.get("from")), narrow);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("a newer view cancels the requests of the older one, and what was drawn stays", async () => {
    const server = await serve();
    const page = await open(server.url + AN_HOUR);
    await quiet(page);
    const full = await inked(page);
    server.delayMs = 3000;
    await page.keyboard.press("w");
    await page.waitForFunction(() => document.querySelector(".stories .part-status").textContent !== "");
    assert.ok(await inked(page) > full / 2, "coarser data stays until finer is there");
    await page.keyboard.press("w");
    while (!["stories", "waits", "heatmap"].every((n) => server.aborted.includes(n))) await page.waitForTimeout(20);
    await quiet(page);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("shows each I/O as a bar below 50 ms, with all its fields", async () => {
    const server = await serve();
    const page = await open(`${server.url}?from=${NOW_S - 100}&to=${NOW_S - 100 + 0.04}`);
    await page.waitForSelector("html[data-mode=ios]");
    const ios = server.asked.find((a) => a.startsWith("ios"));
    const query = new URLSearchParams(ios.split("?")[1]);
    assert.ok(Number(query.get("to")) > NOW_S - 100 + 1, "I/Os that complete later are asked for");
    const box = await page.locator(".chart canvas").boundingBox();
    // Bars lie in lanes from the top: somewhere in the first one is an I/O.
    for (let x = 70; x < box.width - 20 && !(await page.locator(".io-tip").isVisible()); x += 3) await page.mouse.move(box.x + x, box.y + 20);
    const tip = await page.locator(".io-tip").textContent();
    for (const field of ["Process", "Control group", "File", "Class", "sector", "Size4 KiB", "Latency", "In the queue50 us", "In the device", "Undisturbed90 us", "Behind write-back of", "direct, sync", "Started", "Completed"]) assert.ok(tip.includes(field), `${field}: ${tip}`);
    assert.match(tip, /Started[\d:]+\.\d{9} UTCCompleted[\d:]+\.\d{9} UTC/);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("an I/O that started before what is on screen has its size and sector at the left edge", async () => {
    const from = NOW_S - 100;
    const ios = (query) => {
      const answer = DOCUMENTS.ios(query);
      const second = answer.since_unix_s;
      // All of them started 5 ms before the view.
      answer.columns.start_ns = answer.columns.start_ns.map(() => Math.round((from - second - 0.005) * 1e9));
      answer.columns.done_ns = answer.columns.done_ns.map(() => Math.round((from - second + 0.02) * 1e9));
      return answer;
    };
    const server = await serve({ documents: { ...DOCUMENTS, ios } });
    const page = await open(`${server.url}?from=${from}&to=${from + 0.04}`);
    await page.waitForSelector("html[data-mode=ios]");
    const box = await page.locator(".chart canvas").boundingBox();
    // Below the bars, at the left edge.
    const tip = page.locator(".io-tip");
    const found = async (share) => {
      await page.mouse.move(box.x + 600, box.y + 5);
      for (let y = box.height * share; y < box.height * (share + 0.2) && !(await tip.isVisible()); y += 4) await page.mouse.move(box.x + 66, box.y + y);
      return (await tip.isVisible()) ? tip.textContent() : "nothing";
    };
    assert.match(await found(0.62), /Size4 KiB/);
    assert.match(await found(0.82), /sector \d/);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("colours each I/O by class, process or what it waited for, and the address remembers by which", async () => {
    const server = await serve();
    const page = await open(`${server.url}?from=${NOW_S - 100}&to=${NOW_S - 100 + 0.04}`);
    await page.waitForSelector("html[data-mode=ios]");
    await quiet(page);
    const colours = () => page.evaluate(() => {
      const c = document.querySelector(".chart canvas");
      const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
      const found = new Set();
      for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) found.add(`rgb(${data[i]}, ${data[i + 1]}, ${data[i + 2]})`);
      return [...document.querySelectorAll(".io-legend i")].map((e) => ({ name: e.parentElement.textContent, drawn: found.has(e.style.background), colour: e.style.background }));
    });
    const seen = {};
    for (const by of ["class", "process", "cause"]) {
      await page.getByLabel("Colours of the I/Os").selectOption(by);
      await page.waitForFunction((n) => document.querySelector(".io-legend .entries").textContent.includes(n), { class: "write", process: "dd", cause: "behind others" }[by]);
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
      seen[by] = await colours();
      assert.equal(seen[by].length, 2, JSON.stringify(seen[by]));
      for (const entry of seen[by]) assert.ok(entry.drawn, `${by}: ${JSON.stringify(entry)}`);
    }
    assert.match(seen.class.map((e) => e.name).join(), /^read \d+,write \d+$/);
    assert.match(seen.process.map((e) => e.name).join(), /dd \d+,<img/);
    assert.match(seen.cause.map((e) => e.name).join(), /^mostly undisturbed \d+,behind others \d+$/);
    assert.match(page.url(), /colour=cause/);
    await page.reload();
    await page.waitForSelector("html[data-mode=ios]");
    await page.getByText(/^behind others \d+$/).waitFor();
    // The size and the sector of an I/O lead to its fields, too.
    const box = await page.locator(".chart canvas").boundingBox();
    await page.locator(".io-tip").waitFor({ state: "hidden" });
    for (let x = 70; x < box.width - 20 && !(await page.locator(".io-tip").isVisible()); x += 5) await page.mouse.move(box.x + x, box.y + 41 + 0.58 * (box.height - 77));
    assert.match(await page.locator(".io-tip").textContent(), /Process.*Undisturbed/);
    await page.getByLabel("Colours of the I/Os").selectOption("process");
    await page.locator(".io-legend button", { hasText: "dd" }).click();
    await page.locator(".filter", { hasText: "process dd" }).waitFor();
    await page.waitForFunction((n) => document.querySelector(".io-legend .entries").textContent.includes(n), "dd");
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("a click filters charts and tables, and Escape shows all again", async () => {
    const server = await serve();
    const page = await open(server.url + AN_HOUR);
    await page.locator(".actors button.name").first().click();
    await page.waitForFunction(() => location.search.includes("filter=process"));
    assert.match(await page.locator(".filter").textContent(), /Only process <img/);
    await quiet(page);
    for (const part of ["series", "heatmap", "stories", "waits", "actors"]) assert.match(server.asked.filter((a) => a.startsWith(part)).at(-1), /[?&]process=/, part);
    await page.reload();
    await page.waitForSelector(".filter:not([hidden])");
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !location.search.includes("filter"));
    assert.equal(await page.locator(".filter").isVisible(), false);
    // Threads of a process may have different names, and the table of waits combines them: its PID covers all.
    await page.locator(".waits button.name", { hasText: "dd[7]" }).first().click();
    await page.waitForFunction(() => location.search.includes("filter=process%3A7"));
    await quiet(page);
    assert.match(server.asked.filter((a) => a.startsWith("actors")).at(-1), /[?&]process=7(&|$)/);
    assert.match(await page.locator(".filter").textContent(), /^Only process .+\[7\]/);
    assert.equal(await page.locator(".actors tr.chosen").count(), 1, "the actor has this number");
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !location.search.includes("filter"));
    await page.locator("select[aria-label=Device]").selectOption("sdb");
    await page.waitForFunction(() => location.search.includes("device=sdb"));
    await quiet(page);
    assert.match(server.asked.filter((a) => a.startsWith("waits")).at(-1), /device=sdb/);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("a box says who is in it and what distinguishes it", async () => {
    const server = await serve();
    const page = await open(server.url + AN_HOUR);
    await quiet(page);
    const canvas = await page.locator(".chart canvas").boundingBox();
    // 5 ms lies in the upper third of 8 us to 12 ms, the scale of the heat map.
    await page.keyboard.down("Shift");
    await page.mouse.move(canvas.x + 70, canvas.y + 18);
    await page.mouse.down();
    await page.mouse.move(canvas.x + canvas.width - 20, canvas.y + 70, { steps: 3 });
    await page.mouse.up();
    await page.keyboard.up("Shift");
    const box = page.locator("section[aria-label=Selection]");
    await box.locator("tbody tr").first().waitFor();
    const rows = await box.locator("tbody tr").allTextContents();
    assert.match(await box.locator("h2").textContent(), /^10 I\/Os of/);
    assert.ok(rows.some((r) => /process dd\[7\]100 %0 %/.test(r)), rows.join("\n"));
    assert.ok(rows.some((r) => /file \/wal100 %0 %/.test(r)), rows.join("\n"));
    assert.ok(rows.some((r) => /most of its time behind .*, write-back100 %0 %/.test(r)), rows.join("\n"));
    await page.keyboard.press("Escape");
    assert.equal(await box.isVisible(), false);
    // With everything visible there is nothing outside, which is not a share of 0 %.
    await page.keyboard.press("b");
    await box.getByText("there are no others to compare with").waitFor();
    const all = await box.locator("tbody tr").allTextContents();
    assert.ok(all.every((r) => r.endsWith("%–")), all.join("\n"));
    assert.equal(await box.locator("i.outside").count(), 0);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("a second box is compared with the first, by drag, by button and by key, and the address holds both", async () => {
    const server = await serve();
    const page = await open(server.url + AN_HOUR);
    await quiet(page);
    const drag = async (from, to) => {
      // The chart shrinks for the panel of the box.
      const canvas = await page.locator(".chart canvas").boundingBox();
      await page.mouse.move(canvas.x + from, canvas.y + 8);
      await page.mouse.down();
      await page.mouse.move(canvas.x + to, canvas.y + canvas.height - 40, { steps: 3 });
      await page.mouse.up();
    };
    const box = page.locator("section[aria-label=Selection]");
    await page.getByRole("button", { name: "Select", exact: true }).click();
    await drag(100, 300);
    await box.getByText(/I\/Os of/).waitFor();
    assert.deepEqual((await range(page)), [NOW_S - 3600, NOW_S], "a drag that selects does not zoom");
    await page.keyboard.down("Control");
    await drag(600, 900);
    await page.keyboard.up("Control");
    await box.locator(".compared tbody tr").first().waitFor();
    assert.match(await box.locator("h2").textContent(), /B compared with A/);
    const rows = await box.locator(".compared > div:nth-child(2) tbody tr").allTextContents();
    assert.equal(rows.length, 10, "I/Os and four quantiles of reads and writes");
    assert.ok(rows.every((r) => /^(read|write)/.test(r)), rows.join("\n"));
    // In both boxes, all I/Os of a cell of the stub are equal.
    assert.match(rows.find((r) => r.startsWith("read p50")), /^read p50(\d+ us)\1(?:0 %).* % to .* %$/);
    const maps = server.asked.filter((a) => a.startsWith("heatmap") && a.includes("height=256"));
    assert.equal(maps.length, 4);
    await page.waitForFunction(() => new URLSearchParams(location.search).getAll("box").length === 2);
    await page.reload();
    await box.locator(".compared tbody tr").first().waitFor();
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !location.search.includes("box="));
    assert.equal(await box.isVisible(), false);
    await page.keyboard.press("b");
    await box.getByText("any latency").waitFor();
    await page.keyboard.press("d");
    await page.keyboard.press("c");
    await box.locator(".compared tbody tr").first().waitFor();
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("what takes more time in boxes of some latencies is of those latencies, or says of what it is", async () => {
    const ios = (query) => {
      const answer = DOCUMENTS.ios(query);
      // The second box has writes of 8 ms.
      if (query.from >= NOW_S - 1000) answer.columns.total_us = answer.columns.total_us.map((us) => (us > 1000 ? 8000 * 1000 : us));
      return answer;
    };
    const box = (from, to) => `&box=${from},${to},1000,1e9`;
    const boxes = box(NOW_S - 3000, NOW_S - 2999) + box(NOW_S - 1000, NOW_S - 999);
    const server = await serve({ documents: { ...DOCUMENTS, ios } });
    const page = await open(server.url + AN_HOUR + boxes);
    const growth = page.locator(".compared > div:nth-child(3)");
    await growth.locator("tbody tr").first().waitFor();
    const rows = await growth.locator("div:first-child tbody tr").allTextContents();
    assert.deepEqual(rows.map((r) => /^\D+/.exec(r)[0]), ["dd"], "reads of 100 us are in no box");
    assert.equal(await growth.locator(".note").count(), 0);
    assert.deepEqual(page.problems, []);
    await page.close();
    const without = await serve({ documents: { ...DOCUMENTS, ios: undefined } });
    const other = await open(without.url + AN_HOUR + boxes);
    await other.locator(".compared .note", { hasText: "Of all latencies" }).waitFor();
    await other.close();
  });

  test("a search marks the times of a name on the map, and the address holds it", async () => {
    const server = await serve();
    const page = await open(server.url + AN_HOUR);
    await quiet(page);
    // Pixels of the upper edge of the heat map, which contains only marks.
    const marks = () => page.evaluate(() => {
      const c = document.querySelector(".chart canvas");
      const mark = getComputedStyle(document.documentElement).getPropertyValue("--mark").trim();
      const [r, g, b] = [1, 3, 5].map((i) => parseInt(mark.slice(i, i + 2), 16));
      const { data } = c.getContext("2d").getImageData(64, 17, c.width - 78, 1);
      let n = 0;
      for (let i = 0; i < data.length; i += 4) n += data[i] === r && data[i + 1] === g && data[i + 2] === b ? 1 : 0;
      return n;
    });
    assert.equal(await marks(), 0);
    const find = page.getByLabel("Find a process, control group or file");
    await page.keyboard.press("/");
    await page.keyboard.type("dd");
    await page.keyboard.press("Enter");
    await page.getByText(/^process: .* I\/Os$/).waitFor();
    const marked = await marks();
    // One column of ten.
    assert.ok(marked > 80 && marked < 200, `${marked} pixels`);
    for (const kind of ["process", "cgroup", "file"]) assert.ok(server.asked.some((a) => a.startsWith("heatmap") && a.includes(`&${kind}=dd`)), kind);
    await page.waitForFunction(() => location.search.includes("find=dd"));
    await page.reload();
    await page.getByText(/^process: .* I\/Os$/).waitFor();
    assert.equal(await find.inputValue(), "dd");
    await find.fill("nobody");
    await find.press("Enter");
    await page.getByText("No process, control group or file “nobody” here").waitFor();
    assert.equal(await marks(), 0);
    await page.locator(".chart canvas").focus();
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !location.search.includes("find="));
    assert.equal(await find.inputValue(), "");
    assert.ok(await page.locator("#names option").count() > 3, "names are suggested");
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("offers the second-offset layout where a period was found", async () => {
    const server = await serve();
    const page = await open(server.url + AN_HOUR);
    await quiet(page);
    const layout = page.getByLabel("Layout of the heat map");
    await layout.waitFor();
    assert.deepEqual(await layout.locator("option").allTextContents(), ["Latency", "Seconds", "Every 30 s (writes, sda)"]);
    await layout.selectOption("Every 30 s (writes, sda)");
    await page.waitForFunction(() => location.search.includes("fold=30.0004"));
    await quiet(page);
    const asked = server.asked.filter((a) => a.includes("height=1&") || a.endsWith("height=1"));
    assert.ok(asked.length >= 1 && asked.every((a) => a.includes("class=write")), asked.join("\n"));
    const canvas = await page.locator(".chart canvas").boundingBox();
    await page.mouse.move(canvas.x + 300, canvas.y + 100);
    assert.match(await page.locator(".io-tip").textContent(), /Offset.*writes\d+ in/);
    await page.reload();
    await quiet(page);
    assert.equal(await layout.locator("option:checked").textContent(), "Every 30 s (writes, sda)");
    await layout.selectOption("Latency");
    await page.waitForFunction(() => !location.search.includes("fold="));
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("shows each quantity below the heat map, flushes only where there are any, and says what is not known", async () => {
    const server = await serve();
    const page = await open(`${server.url}?from=${NOW_S - 60}&to=${NOW_S}`);
    await quiet(page);
    const select = page.locator("select[aria-label='Chart below the heat map']");
    // How many pixels of the strip below the heat map have the colour of flushes.
    const ofFlushes = () => page.evaluate(() => {
      const c = document.querySelector(".chart canvas");
      const [r, g, b] = getComputedStyle(document.documentElement).getPropertyValue("--flush").trim().slice(1).match(/../g).map((x) => parseInt(x, 16));
      const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
      let n = 0;
      for (let i = 0; i < data.length; i += 4) if (Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 12 && data[i + 3] > 200) n++;
      return n;
    });
    const drawn = () => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const pictures = new Set();
    for (const quantity of ["throughput", "iops", "mean", "p50", "p90", "p99", "longest", "busy", "busyClass"]) {
      await select.selectOption(quantity);
      await drawn();
      const flushes = await ofFlushes();
      assert.equal(flushes > 20, quantity === "iops" || quantity === "busyClass", `${quantity}: ${flushes} pixels`);
      pictures.add(await page.evaluate(() => document.querySelector(".chart canvas").toDataURL()));
    }
    assert.equal(pictures.size, 9, "each draws something else, or says that it is not known");
    assert.match(page.url(), /quantity=busyClass/);
    const canvas = page.locator(".chart canvas");
    const { width, height } = await canvas.boundingBox();
    await canvas.hover({ position: { x: width * 0.75, y: height * 0.75 } });
    const tip = await page.locator(".io-tip").textContent();
    assert.match(tip, /I\/Os per secondread 50\/s, write 10\/s, flush 4\/s/);
    assert.match(tip, /p50 of latencyread 95 us, write 2 ms/);
    assert.match(tip, /Busy by classread 20 %, write 30 %, flush 5 %/);
    assert.ok(!tip.includes("discard"), tip);
    await page.close();
  });

  test("a heat map of flushes and of discards is drawn where they are filtered to", async () => {
    const server = await serve();
    for (const cls of ["flush", "discard"]) {
      const before = server.asked.length;
      const page = await open(`${server.url}${AN_HOUR}&class=${cls}`);
      await quiet(page);
      const maps = server.asked.slice(before).filter((a) => a.startsWith("heatmap"));
      assert.ok(maps.length > 0 && maps.every((a) => a.includes(`class=${cls}`)), maps.join("\n"));
      const canvas = page.locator(".chart canvas");
      const { width, height } = await canvas.boundingBox();
      await canvas.hover({ position: { x: width / 2, y: height * 0.3 } });
      assert.match(await page.locator(".io-tip").textContent(), cls === "flush" ? /Flushes5 in/ : /Discards5 in/);
      assert.ok(await inked(page) > 50_000, cls);
      assert.deepEqual(page.problems, []);
      await page.close();
    }
  });

  test("takes times as the page writes them, whatever the browser's language", async () => {
    const server = await serve();
    const page = await open(server.url + AN_HOUR);
    await quiet(page);
    const [from, to] = [page.getByLabel("From (UTC)"), page.getByLabel("To (UTC)")];
    assert.match(await from.inputValue(), /^2026-11-18 \d\d:\d\d:\d\d\.000$/);
    await to.fill("soon");
    await to.press("Enter");
    await page.getByText("“soon” is no time: write 2026-11-26 04:15:00, -5m or now.").waitFor();
    assert.deepEqual(await range(page), [NOW_S - 3600, NOW_S]);
    await from.fill("2026-11-18 10:30");
    await to.fill("2026-11-18 10:31:30.5");
    assert.equal(await widthAfter(page, () => to.press("Enter")), 90.5);
    assert.equal((await range(page))[0], Date.parse("2026-11-18T10:30:00Z") / 1000);
    await from.fill("2026-11-18 10:40");
    await from.press("Enter");
    await page.getByText("The end must be after the beginning.").waitFor();
    // The times of the shortest view differ by less than a millisecond.
    await page.goto(`${server.url}?from=${NOW_S - 100}&to=${NOW_S - 100 + 0.0004}`);
    await page.waitForSelector("html[data-mode=ios]");
    assert.match(await to.inputValue(), /\.000400$/);
    await to.fill((await to.inputValue()).replace(/400$/, "600"));
    assert.ok(Math.abs((await widthAfter(page, () => page.getByRole("button", { name: "Go" }).click())) - 0.0006) < 2e-6);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("a link to a story shows it, where the time of the link alone has none", async () => {
    // At a threshold: only the answer about the hour contains the story, whatever else is requested.
    const hour = DOCUMENTS.stories({ from: NOW_S - 1800 }).stories[0];
    const stories = ({ from, to }) => ({ stories: to - from > 3599 ? [hour] : [], notes: [] });
    const server = await serve({ documents: { ...DOCUMENTS, stories } });
    const page = await open(server.url + AN_HOUR);
    await page.locator(".story summary").first().click();
    await widthAfter(page, () => page.getByRole("button", { name: "Show its time" }).first().click());
    await page.reload();
    await quiet(page);
    const story = page.locator(".story");
    assert.equal(await story.count(), 1);
    assert.equal(await story.evaluate((e) => e.open), true, "it is what the link is about");
    await page.getByLabel("From (UTC)").fill("2026-11-17 10:00");
    await page.getByLabel("To (UTC)").fill("2026-11-17 10:05");
    await page.keyboard.press("Enter");
    await page.getByText("No story in this time").waitFor();
    await widthAfter(page, () => page.keyboard.press("w"));
    assert.ok(!page.url().includes("story="), "elsewhere the address names it no more");
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("the mark of an episode says whose story it is, and a click on it opens that story", async () => {
    const stories = (query) => {
      const answer = DOCUMENTS.stories(query);
      // Only the second one has a mark, a tenth of the plot from the left.
      const [first, second] = answer.stories;
      first.episodes = [];
      first.harm.worst_at_s = null;
      second.id = "other";
      second.episodes = [{ start_s: 362, end_s: 363 }];
      return answer;
    };
    const server = await serve({ documents: { ...DOCUMENTS, stories } });
    const page = await open(server.url + AN_HOUR);
    await quiet(page);
    const canvas = await page.locator(".chart canvas").boundingBox();
    const heat = Math.round((canvas.height - 16 - 22 - 32 - 7) * 0.58);
    const [x, y] = [canvas.x + 64 + (canvas.width - 78) / 10, canvas.y + 16 + heat + 4];
    await page.mouse.move(x, y);
    assert.match(await page.locator(".io-tip").textContent(), /^write-back flushdd delays .* reads1 s lost, 50 %, up to 9 ms, 3 times$/);
    await page.mouse.down();
    await page.mouse.up();
    await page.waitForFunction(() => location.search.includes("story=other"));
    assert.deepEqual(await page.locator(".story").evaluateAll((all) => all.map((e) => e.open)), [false, true]);
    // Beside a mark the pointer is on the rows of the charts.
    await page.mouse.move(x + 100, y);
    assert.match(await page.locator(".io-tip").textContent(), /Throughput/);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("a story stays in the list at its worst moment, where that time alone has none", async () => {
    const server = await serve();
    const page = await open(server.url + AN_HOUR);
    await quiet(page);
    const stub = DOCUMENTS.stories;
    const story = page.locator(".story").first();
    const line = await story.locator(".line").textContent();
    await story.locator("summary").click();
    DOCUMENTS.stories = () => ({ stories: [], notes: [] });
    try {
      await widthAfter(page, () => page.getByRole("button", { name: "Show the worst moment, I/O by I/O" }).first().click());
      await page.waitForSelector("html[data-mode=ios]");
      await quiet(page);
      assert.equal(await page.locator(".story").count(), 1);
      assert.equal(await story.locator(".line").textContent(), line);
      // Elsewhere it has no effect.
      await page.getByLabel("From (UTC)").fill("2026-11-17 10:00");
      await page.getByLabel("To (UTC)").fill("2026-11-17 11:00");
      await page.keyboard.press("Enter");
      await page.getByText("No story in this time").waitFor();
    } finally {
      DOCUMENTS.stories = stub;
    }
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("on a phone the chart comes into sight when a story leads to its time", async () => {
    const server = await serve();
    const page = await open(server.url + AN_HOUR);
    await page.setViewportSize({ width: 390, height: 700 });
    try {
      await quiet(page);
      await page.locator(".story summary").click();
      const seen = () => page.evaluate(() => {
        const { top, bottom } = document.querySelector(".chart").getBoundingClientRect();
        return Math.min(bottom, innerHeight) - Math.max(top, 0);
      });
      assert.ok(await seen() < 100, "the stories fill the screen");
      await widthAfter(page, () => page.getByRole("button", { name: /Show its time/ }).click());
      assert.ok(await seen() > 300, `${await seen()} pixels`);
      assert.deepEqual(page.problems, []);
    } finally {
      await page.setViewportSize({ width: 1400, height: 900 });
      await page.close();
    }
  });

  test("a list that was opened by the pointer gives the keys back, one that was reached by keys keeps them", async () => {
    const server = await serve();
    const page = await open(server.url + AN_HOUR);
    await quiet(page);
    const quantity = page.getByLabel("Chart below the heat map");
    await quantity.focus();
    await quantity.dispatchEvent("pointerdown");
    await quantity.selectOption("p99");
    assert.ok(Math.abs((await widthAfter(page, () => page.keyboard.press("w"))) - 1800) < 1);
    assert.equal(await quantity.inputValue(), "p99");
    const before = await range(page);
    await quantity.focus();
    await page.keyboard.press("l");
    await page.waitForFunction(() => location.search.includes("quantity=longest"));
    assert.deepEqual(await range(page), before);
    assert.equal(await page.evaluate(() => document.activeElement.value), "longest");
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("the head of a story wraps where its names are long, and paper has all of it", async () => {
    const stories = (query) => {
      const { stories: [first] } = DOCUMENTS.stories(query);
      const culprits = [group("a-backup-daemon-of-a-long-name", "write")];
      const victim = group("walwriter-of-the-second-cluster", "flush");
      return { stories: [{ ...first, culprits, victim }], notes: [] };
    };
    const server = await serve({ documents: { ...DOCUMENTS, stories } });
    const page = await open(server.url + AN_HOUR);
    const line = page.locator(".story .line");
    await line.waitFor();
    const isCut = () => line.evaluate((e) => e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1);
    assert.equal(await isCut(), false);
    assert.ok(await line.evaluate((e) => e.clientHeight) > 30, "two lines");
    assert.equal(await line.getAttribute("title"), "a-backup-daemon-of-a-long-name delays walwriter-of-the-second-cluster flushes");
    await page.emulateMedia({ media: "print" });
    await page.setViewportSize({ width: 720, height: 900 });
    assert.equal(await isCut(), false);
    await page.setViewportSize({ width: 1400, height: 900 });
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("zooms by two fingers, and the time under them stays", async () => {
    const server = await serve();
    const page = await open(server.url + AN_HOUR);
    await quiet(page);
    const canvas = await page.locator(".chart canvas").boundingBox();
    const devtools = await browser.context.newCDPSession(page);
    const touch = (type, ...xs) => devtools.send("Input.dispatchTouchEvent", { type, touchPoints: xs.map((x, id) => ({ x: canvas.x + x, y: canvas.y + 100, id })) });
    const [from, to] = await range(page);
    const share = (400 - 64) / (canvas.width - 78);
    const at = from + share * (to - from);
    const width = await widthAfter(page, async () => {
      await touch("touchStart", 400);
      await touch("touchStart", 400, 600);
      for (let x = 620; x <= 800; x += 20) await touch("touchMove", 400, x);
      await touch("touchEnd");
    });
    assert.ok(Math.abs(width - 1800) < 40, `${width} s of an hour, for fingers twice as far apart`);
    const [a, b] = await range(page);
    assert.ok(Math.abs(a + share * (b - a) - at) < 20, "the time under the first finger");
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("gives what is on screen to other programs: picture, tables, link, trace", async () => {
    const server = await serve();
    const page = await open(server.url + AN_HOUR);
    await quiet(page);
    const exported = async (label) => {
      await page.locator(".menu summary").click();
      const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: label }).click()]);
      assert.equal(await page.locator(".menu[open]").count(), 0, "the menu closes");
      return { name: file.suggestedFilename(), content: await readFile(await file.path()) };
    };
    const picture = await exported("Picture (PNG)");
    assert.match(picture.name, /^iolens-2026-11-18T\d{6}\.png$/);
    assert.equal(picture.content.subarray(1, 4).toString(), "PNG");
    const { width: chartWidth } = await page.locator(".chart canvas").boundingBox();
    assert.ok(Math.abs(picture.content.readUInt32BE(16) - chartWidth) <= 1, "as wide as the chart");
    const rows = (await exported("Chart (CSV)")).content.toString().trim().split("\r\n");
    assert.match(rows[0], /^time,time_unix_s,slot_s,r_kib_per_s/);
    // The series has a row beyond the view, which is not on screen.
    assert.equal(rows.length, 2);
    const actors = (await exported("Actors (CSV)")).content.toString();
    assert.ok(actors.includes(`${EVIL}[7],4,90,368640,100`), actors);
    const waits = (await exported("Waits (CSV)")).content.toString();
    assert.match(waits, /\r\nsda,[^\r]*,7,\/,read,direct,10,4,1,0,0,1,0,dd,7,write,2,5\r\n/);
    const { traceEvents } = JSON.parse((await exported("I/Os for Perfetto")).content.toString());
    assert.equal(traceEvents.filter((e) => e.ph === "b").length, 40);
    await page.locator(".menu summary").click();
    await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true }));
    await page.getByRole("button", { name: "Link" }).click();
    const link = await page.getByLabel("Link to what is on screen").inputValue();
    assert.equal(new URL(link).search, `?from=${NOW_S - 3600}.000000&to=${NOW_S}.000000`);
    await page.keyboard.press("Escape");
    assert.equal(await page.locator(".menu[open]").count(), 0);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("one address has one picture, whatever was on screen before", async () => {
    // The longer the time, the more latencies it has; one I/O in each column.
    const heatmap = ({ from, to, width, class: cls }) => {
      const rows = Math.min(96, Math.round((to - from) / 40));
      const edges = Array.from({ length: rows + 1 }, (_, i) => 200 * (1 + (to - from) / 100) ** ((2 * i) / rows));
      const counts = Array.from({ length: width }, (_, c) => edges.slice(1).map((_, r) => (r === (c * 7 + (cls === "read" ? 3 : 0)) % rows ? 1 : 0)));
      return { from_unix_s: from, column_s: (to - from) / width, latency_us: edges, counts, notes: [] };
    };
    const server = await serve({ documents: { ...DOCUMENTS, heatmap } });
    const picture = (page) => page.evaluate(() => document.querySelector(".chart canvas").toDataURL());
    const settled = async (page) => {
      await quiet(page);
      await page.evaluate(async () => {
        for (let i = 0; i < 3; i++) await new Promise((done) => requestAnimationFrame(done));
      });
    };
    const page = await open(server.url + AN_HOUR);
    await settled(page);
    // Closer, later, and farther again.
    for (const key of ["w", "w", "w", "d", "s"]) {
      await widthAfter(page, () => page.keyboard.press(key));
      await page.waitForTimeout(300);
      await settled(page);
    }
    const fresh = await open(page.url());
    await settled(fresh);
    assert.equal(await picture(page), await picture(fresh));
    await page.close();
    await fresh.close();
  });

  test("a heat map of which a small part is recorded is drawn", async () => {
    const server = await serve();
    const page = await open(`${server.url}?from=${NOW_S - 3600}&to=${NOW_S}&device=part`);
    await quiet(page);
    const canvas = await page.locator(".chart canvas").boundingBox();
    // The last minute of the hour.
    await page.mouse.move(canvas.x + canvas.width - 14 - (canvas.width - 78) / 120, canvas.y + 120);
    assert.match(await page.locator(".io-tip").textContent(), /Reads\d/);
    const colours = await page.evaluate(() => {
      const c = document.querySelector(".chart canvas");
      const { data } = c.getContext("2d").getImageData(c.width - 14 - (c.width - 78) / 60, 20, (c.width - 78) / 60, 100);
      return new Set(new Uint32Array(data.buffer)).size;
    });
    assert.ok(colours > 3, `${colours} colours`);
    await page.close();
  });

  test("words about time that is not recorded have no line through them", async () => {
    const series = (query) => {
      const answer = DOCUMENTS.series(query);
      answer.step_s = 1;
      answer.columns = { ...answer.columns, time_unix_s: [NOW_S - 1, NOW_S], slot_s: [1, 1] };
      return answer;
    };
    const heatmap = (query) => ({ ...DOCUMENTS.heatmap(query), counts: Array.from({ length: query.width }, () => [0, 0, 0]) });
    const server = await serve({ documents: { ...DOCUMENTS, series, heatmap } });
    const page = await open(server.url + AN_HOUR);
    await quiet(page);
    const colours = await page.evaluate(() => {
      const c = document.querySelector(".chart canvas");
      const [middle, height] = [64 + (c.width - 78) / 2, c.height - 16 - 22 - 32 - 7];
      const y = 16 + Math.round((height * 0.58) / 2);
      // Above, below and beside the words.
      const data = [[-20, -8, 40, 1], [-20, 7, 40, 1], [-37, -8, 2, 15]].map(([x, dy, w, h]) => c.getContext("2d").getImageData(middle + x, y + dy, w, h).data);
      return data.map((d) => new Set(new Uint32Array(d.buffer)).size);
    });
    assert.deepEqual(colours, [1, 1, 1]);
    await page.close();
  });

  test("has no violation of accessibility and clips nothing, light and dark, from 390 to 2560 pixels", async () => {
    const axe = await readFile(new URL("node_modules/axe-core/axe.min.js", here), "utf8");
    const server = await serve();
    const boxes = `&box=${NOW_S - 3000},${NOW_S - 2000},0,1000000000&box=${NOW_S - 1500},${NOW_S - 500},0,1000000000`;
    for (const colorScheme of ["light", "dark"]) {
      const page = await open(`${server.url}${AN_HOUR}${boxes}&find=dd`);
      await page.emulateMedia({ colorScheme });
      await page.locator(".compared tbody tr").first().waitFor();
      await page.locator(".story summary").first().click();
      await page.evaluate(axe);
      for (const width of [390, 1024, 1400, 2560]) {
        await page.setViewportSize({ width, height: width < 500 ? 800 : 900 });
        await quiet(page);
        const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"], rules: { "label-content-name-mismatch": { enabled: true } } }));
        assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(" ")}`), [], `${colorScheme}, ${width} pixels`);
        const clipped = await page.evaluate(() => [...document.querySelectorAll("body *")].filter((e) => {
          const { overflowX, clipPath } = getComputedStyle(e);
          // Headlines of stories may be truncated, because they open. Text for screen readers only is a pixel wide.
          return overflowX !== "visible" && clipPath === "none" && e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1 && !e.matches("input, select, .line, .hint, .filter");
        }).map((e) => `${e.tagName} ${e.className}: ${e.scrollWidth} of ${e.clientWidth}, ${e.textContent.slice(0, 60)}`));
        assert.deepEqual(clipped, [], `${colorScheme}, ${width} pixels`);
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${width} pixels are wide enough`);
      }
      assert.deepEqual(page.problems, []);
      await page.close();
    }
    const page = browser.context.pages()[0];
    await page?.setViewportSize({ width: 1400, height: 900 });
  });

  test("a long filter leaves the top bar whole, and times are not clipped on a phone", async () => {
    const server = await serve({ recording: true });
    const name = `/kubepods.slice/${"kubepods-burstable-pod12345678.slice/".repeat(4)}scope`;
    const page = await open(`${server.url}${AN_HOUR}&filter=cgroup:${encodeURIComponent(name)}`);
    try {
      for (const width of [390, 1024, 1300, 1400, 1920]) {
        await page.setViewportSize({ width, height: 900 });
        const seen = await page.evaluate(() => {
          const clips = (e) => e.scrollWidth > e.clientWidth;
          const bar = document.querySelector(".bar");
          // All are as high as a line.
          const tall = [...bar.querySelectorAll("h1, a, button, select, .filter")].filter((e) => e.offsetHeight > 36);
          return { page: clips(document.documentElement), bar: clips(bar), times: [...bar.querySelectorAll("input.instant")].filter(clips).length, tall: tall.map((e) => e.textContent), filter: bar.querySelector(".filter").offsetWidth };
        });
        assert.deepEqual({ ...seen, filter: seen.filter > 200 }, { page: false, bar: false, times: 0, tall: [], filter: true }, `${width}: ${JSON.stringify(seen)}`);
      }
      assert.equal(await page.locator(".filter .only").getAttribute("title"), name);
    } finally {
      await page.setViewportSize({ width: 1400, height: 900 });
      await page.close();
    }
  });

  test("the keyboard reaches all, and goes through single I/Os", async () => {
    const server = await serve();
    const page = await open(`${server.url}?from=${NOW_S - 100}&to=${NOW_S - 100 + 0.04}`);
    await page.waitForSelector("html[data-mode=ios]");
    await quiet(page);
    const all = await page.evaluate(() => {
      const found = [...document.querySelectorAll("button, a[href], input, select, summary, canvas, .scroll")].filter((e) => e.checkVisibility());
      found.forEach((e, i) => (e.dataset.nth = String(i)));
      document.activeElement.blur();
      return found.length;
    });
    const reached = new Set();
    for (let i = 0; i < 2 * all && reached.size < all; i++) {
      await page.keyboard.press("Tab");
      reached.add(await page.evaluate(() => document.activeElement.dataset.nth));
    }
    reached.delete(undefined);
    assert.equal(reached.size, all);
    await page.locator(".chart canvas").focus();
    await page.keyboard.press(".");
    const first = await page.locator(".io-tip").textContent();
    await page.keyboard.press(".");
    const second = await page.locator(".io-tip").textContent();
    await page.keyboard.press(",");
    assert.match(first, /Process.*Latency/);
    assert.notEqual(second, first);
    assert.equal(await page.locator(".io-tip").textContent(), first);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("prints what is on screen, without what paper cannot do", async () => {
    const server = await serve();
    const page = await open(`${server.url}${AN_HOUR}&device=sda`);
    await page.locator(".actors tbody tr").first().waitFor();
    await quiet(page);
    await page.emulateMedia({ media: "print" });
    assert.equal(await page.locator(".bar").isVisible(), false);
    assert.equal(await page.getByRole("button", { name: "Select", exact: true }).isVisible(), false);
    assert.match(await page.locator(".printed").textContent(), /^iolens, sda, 2026-11-18 \d\d:/);
    assert.ok(await page.locator(".printed").isVisible());
    const { height } = await page.locator(".chart canvas").boundingBox();
    assert.ok(height >= 380, `the chart is ${height} pixels high`);
    const cut = await page.evaluate(() => [...document.querySelectorAll(".panel-box, .scroll")].filter((e) => e.scrollHeight > e.clientHeight + 2 && getComputedStyle(e).overflowY !== "visible").length);
    assert.equal(cut, 0);
    assert.ok((await page.pdf()).length > 20_000);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("asks for the newest part of a live heat map twice a second, and for the whole now and then", async () => {
    const server = await serve({ recording: true });
    const page = await open(`${server.url}?from=-60s&to=now`);
    const maps = () => server.asked.filter((q) => q.startsWith("heatmap") && q.includes("class=read")).map((q) => {
      const query = new URLSearchParams(q.split("?")[1]);
      return Number(query.get("to")) - Number(query.get("from"));
    });
    while (maps().filter((s) => s < 30).length < 5) await page.waitForTimeout(50);
    assert.ok(maps().filter((s) => s > 50).length <= 3, `${maps()}`);
    assert.ok(maps().every((s) => s < 30 || Math.abs(s - 60) < 1), `${maps()}`);
    assert.ok(await inked(page) > 10_000);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("is live, pauses where it is touched, and goes back with one key", async () => {
    const server = await serve({ recording: true });
    const page = await open(server.url);
    await page.waitForSelector(".live-button[aria-pressed=true]");
    while (server.watchers.size === 0) await page.waitForTimeout(20);
    const shown = () => page.locator("input[aria-label='To (UTC)']").inputValue();
    const first = await shown();
    await page.waitForFunction((f) => document.querySelector("input[aria-label='To (UTC)']").value !== f, first);
    const canvas = await page.locator(".chart canvas").boundingBox();
    await page.mouse.move(canvas.x + 300, canvas.y + 60);
    await page.mouse.wheel(0, -100);
    await page.waitForSelector(".live-button[aria-pressed=false]");
    await page.waitForFunction(() => /to=\d/.test(location.search));
    const span = (await range(page)).reduce((a, b) => b - a);
    await page.keyboard.press("l");
    await page.waitForSelector(".live-button[aria-pressed=true]");
    await page.waitForFunction(() => location.search.includes("to=now"));
    const kept = Number(/from=-([\d.]+)s/.exec(page.url())[1]);
    assert.ok(Math.abs(kept - span) < 0.01 * span, `${kept} is ${span}: the width is kept`);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("a refresh of a live view keeps the focus and what is selected", async () => {
    let answers = 0;
    const stories = (query) => {
      const { stories: list } = DOCUMENTS.stories(query);
      answers++;
      return { stories: list.map((s, i) => ({ ...s, id: String(i), recording_start_unix_s: NOW_S - 60, advice: [{ text: "vm.dirty=1", now: null }], summary: `${s.summary}, ${answers}` })), notes: [] };
    };
    const waits = () => {
      const { waits: list } = DOCUMENTS.waits();
      return { waits: list.map((w) => ({ ...w, io_time_s: w.io_time_s + answers })), notes: [] };
    };
    const server = await serve({ recording: true, documents: { ...DOCUMENTS, stories, waits } });
    const page = await browser.page();
    await page.clock.install();
    await page.goto(`${server.url}?from=-60s&to=now`);
    await page.locator(".waits tbody tr").first().waitFor();
    await page.locator(".story").first().waitFor();
    const refreshed = async () => {
      const asked = answers;
      const before = await page.locator(".waits tbody").textContent();
      while (answers === asked) await page.clock.runFor(1000);
      await page.waitForFunction((b) => document.querySelector(".waits tbody").textContent !== b, before);
    };
    const name = page.locator(".waits tbody button.name", { hasText: "dd[7]" });
    await name.focus();
    await refreshed();
    assert.match(await page.evaluate(() => document.activeElement.textContent), /^dd\[7\]$/);
    await page.locator(".story summary").nth(1).focus();
    await refreshed();
    assert.equal(await page.evaluate(() => [...document.querySelectorAll(".story summary")].indexOf(document.activeElement)), 1);
    await page.keyboard.press("Enter");
    await page.locator(".story[open] code").evaluate((e) => getSelection().selectAllChildren(e));
    await refreshed();
    assert.equal(await page.evaluate(() => getSelection().toString()), "vm.dirty=1");
    const shown = page.locator(".story[open] > p").first();
    const before = await shown.textContent();
    await page.evaluate(() => getSelection().removeAllRanges());
    await refreshed();
    await page.waitForFunction((b) => document.querySelector(".story[open] > p").textContent !== b, before);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("fits a phone, and has no more than 140 KiB of script", async () => {
    const server = await serve();
    const page = await open(server.url + AN_HOUR);
    await page.setViewportSize({ width: 390, height: 800 });
    await quiet(page);
    const [inner, scroll] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
    assert.ok(scroll <= inner, `${scroll} pixels on ${inner}`);
    await page.close();
    const { gzipSync } = await import("node:zlib");
    assert.ok(gzipSync(await readFile(new URL("dist/app.html", here))).length < 140 * 1024);
  });
});
