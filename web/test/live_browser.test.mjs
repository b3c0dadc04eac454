// A live page in Chromium, with a server that stops and restarts. Skips with a message if there is no Chromium.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { after, before, describe, test } from "node:test";
import { Browser, here, missing } from "./chromium.mjs";

const NOW_S = 1_795_000_000;

let browser;
let template;
let synth;
const machines = [];

before(async () => {
  if (missing) return;
  synth = await import(new URL("dist/test/synth.js", here));
  template = await readFile(new URL("dist/report.html", here), "utf8");
  browser = await Browser.start();
});

after(async () => {
  await browser?.close();
  for (const machine of machines) await machine.kill();
});

/** A server like `iolens serve`: the page, `healthz`, and `live` with a memory. */
class Machine {
  memory = [];
  asked = [];
  #port = 0;
  #server = null;
  #watchers = new Set();
  #sockets = new Set();

  constructor(refresh_s) {
    machines.push(this);
    const view = { from_unix_s: NOW_S - 900, to_unix_s: NOW_S, now_unix_s: NOW_S, live: true, refresh_s };
    this.page = synth.page(template, { ...synth.periodicLoad(60), findings: [], view });
  }

  async start() {
    this.#server = createServer((request, response) => this.#answer(request, response));
    this.#server.on("connection", (socket) => this.#sockets.add(socket));
    await new Promise((done) => this.#server.listen(this.#port, "127.0.0.1", done));
    this.#port = this.#server.address().port;
    return `http://127.0.0.1:${this.#port}/`;
  }

  /** Like `kill -9`: every connection breaks. */
  async kill() {
    // Without a server there is nothing to close.
    const closed = new Promise((done) => this.#server?.close(done) ?? done());
    this.#sockets.forEach((socket) => socket.destroy());
    this.#watchers.clear();
    await closed;
  }

  #answer(request, response) {
    this.asked.push(`${request.method} ${request.url}`);
    const url = new URL(request.url, "http://h");
    if (url.pathname === "/" || url.pathname === "/report") {
      // The program sends the page's own policy as a header, too.
      const policy = /Content-Security-Policy" content="([^"]*)"/.exec(this.page)[1];
      response.writeHead(200, { "content-type": "text/html; charset=utf-8", "content-security-policy": `${policy}; frame-ancestors 'none'` });
      response.end(this.page);
    } else if (url.pathname === "/api/v1/live") {
      response.writeHead(200, { "content-type": "text/event-stream" });
      const since = Number(url.searchParams.get("since"));
      response.write(": hello\n\n");
      for (const [at, text] of this.memory) if (at > since) response.write(text);
      this.#watchers.add(response);
    } else response.writeHead(url.pathname === "/healthz" ? 503 : 404).end();
  }

  happens(at, event, data) {
    const text = `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
    this.memory.push([at, text]);
    this.#watchers.forEach((w) => w.write(text));
  }

  /** A second of a device, slot by slot. */
  second(begin, device, kib) {
    for (let i = 1; i <= 10; i++) {
      this.happens(begin + i / 10, "slot", { time_s: begin + i / 10, device, r_per_s: 10, w_per_s: 0, r_kib_per_s: kib, w_kib_per_s: 0 });
    }
  }
}

/** Seconds that the device's chart shows, by their position of 600. */
const shown = (page) => page.locator(".live svg path.read").first().evaluate((p) => (p.getAttribute("d").match(/M\d+/g) ?? []).map((m) => Number(m.slice(1))));

describe("a live page", { skip: missing !== null }, () => {
  test("leads to the application at the time that is shown", async () => {
    const machine = new Machine(3600);
    const page = await browser.open(`${await machine.start()}report?host=h%201`);
    const link = page.getByRole("link", { name: "Stories, waits and charts" });
    await link.hover();
    const { pathname, searchParams } = new URL(await link.evaluate((a) => a.href));
    assert.equal(pathname, "/");
    assert.equal(searchParams.get("host"), "h 1");
    assert.deepEqual([searchParams.get("from"), searchParams.get("to")], ["-900s", "now"]);
    await page.close();
  });

  test("shows what happened in a break once the server is back", async () => {
    const machine = new Machine(3600);
    machine.second(NOW_S - 3, "sda", 1000);
    const url = await machine.start();
    const page = await browser.open(url);
    assert.ok(machine.asked.includes(`GET /api/v1/live?since=${NOW_S - 601}.000`), machine.asked.join());
    machine.second(NOW_S - 2, "sda", 500);
    await page.waitForFunction(() => (document.querySelector(".live path.read")?.getAttribute("d").match(/M/g) ?? []).length === 2);
    assert.deepEqual(await shown(page), [598, 599]);
    await machine.kill();
    await page.waitForFunction(() => document.querySelector(".live").textContent.includes("Not connected since"));
    machine.second(NOW_S - 1, "sda", 500);
    const start = new Date((NOW_S - 1) * 1000).toISOString();
    machine.happens(NOW_S, "finding", { event: "start", kind: "stall", severity: "warning", device: "sda", start, end: start, summary: "<b>nothing</b> completes" });
    machine.second(NOW_S, "sda", 250);
    await machine.start();
    await page.waitForFunction(() => (document.querySelector(".live path.read").getAttribute("d").match(/M/g) ?? []).length === 4, null, { timeout: 60_000 });
    assert.deepEqual(await shown(page), [596, 597, 598, 599]);
    assert.match(await page.locator(".live .device").textContent(), /sda.*read 256 kB\/s, 10\/s/);
    assert.match(await page.locator(".live .said li").textContent(), /warning stall, sda: <b>nothing<\/b> completes/);
    assert.doesNotMatch(await page.locator(".live").textContent(), /Not connected/);
    assert.equal(machine.asked.at(-1), `GET /api/v1/live?since=${NOW_S - 2}.000`);
    // A reloaded page continues with the data of the previous one.
    await page.reload();
    await page.waitForSelector("html[data-ready]");
    assert.deepEqual(await shown(page), [596, 597, 598, 599]);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("takes times as the application does, whatever the browser's language", async () => {
    const machine = new Machine(3600);
    const page = await browser.open(await machine.start());
    const [from, to] = [page.getByLabel("From (UTC)"), page.getByLabel("To (UTC)")];
    assert.equal(await to.inputValue(), `${new Date(NOW_S * 1000).toISOString().slice(0, 10)} ${new Date(NOW_S * 1000).toISOString().slice(11, 23)}`);
    await from.fill("yesterday");
    await to.press("Enter");
    assert.match(await page.locator(".view .status").textContent(), /^“yesterday” is no time: write/);
    await from.fill("2026-11-17 10:00");
    await to.fill("2026-11-17 11:00");
    await Promise.all([page.waitForURL(/from=\d/), to.press("Enter")]);
    const query = new URL(page.url()).searchParams;
    const ten = Date.parse("2026-11-17T10:00:00Z") / 1000;
    assert.deepEqual([Number(query.get("from")), Number(query.get("to"))], [ten, ten + 3600]);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("is not made anew from a server that does not answer", async () => {
    const machine = new Machine(1);
    const page = await browser.open(await machine.start());
    await machine.kill();
    await page.waitForFunction(() => document.querySelector(".view .status").textContent === "the server does not answer, trying again", null, { timeout: 30_000 });
    const before = machine.asked.filter((a) => a === "GET /").length;
    assert.ok(await page.locator("#findings").isVisible());
    await machine.start();
    while (machine.asked.filter((a) => a === "GET /").length === before) await new Promise((done) => setTimeout(done, 50));
    await page.waitForFunction(() => document.querySelector(".view .status")?.textContent === "live, every 1 s");
    assert.ok(machine.asked.includes("HEAD /healthz"));
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("of another host is not followed, and a report is no live page that connects to the server it lies on", async () => {
    const machine = new Machine(3600);
    const url = await machine.start();
    const other = await browser.open(`${url}?host=other`);
    await other.close();
    machine.page = synth.page(template, synth.periodicLoad(60));
    const page = await browser.open(url);
    const refused = await page.evaluate(() => fetch("healthz").then(() => "answered", () => "refused"));
    assert.equal(refused, "refused");
    assert.ok(!machine.asked.some((a) => a.includes("live") || a.includes("healthz")), machine.asked.join());
    assert.ok(page.problems.length > 0 && page.problems.every((p) => p.includes("Content Security Policy")), page.problems.join());
    await page.close();
  });
});
