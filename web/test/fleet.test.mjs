// The fleet page with a server that answers like the program. Skips with a message if there is no Chromium.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { after, before, describe, test } from "node:test";
import { Browser, here, missing } from "./chromium.mjs";


let browser;
let server;
let url;
const asked = [];
/** Hosts whose single I/Os are gone, and the number of answers that fail because of a timeout. */
const gone = new Set(["node58"]);
let busy = 0;

const POD = "/kubepods/pod11111111-2222-3333-4444-555555555555/x";
const who = (cgroup) => ({ process: "p", pid: 1, cgroup, class: "read", origin: "direct" });
const wait = (victim, culprit, seconds) => ({
  device: "sda", victim: who(victim), ios: 9, io_time_s: 2 * seconds, undisturbed_s: seconds, own_s: 0, held_s: 0, device_s: 0, unknown_s: 0,
  behind: [{ ...who(culprit), seconds, ios: 3 }],
});

before(async () => {
  if (missing) return;
  const synth = await import(new URL("dist/test/synth.js", here));
  const template = await readFile(new URL("dist/fleet.html", here), "utf8");
  server = createServer((request, response) => {
    const at = new URL(request.url, "http://h");
    if (at.pathname === "/" || at.pathname === "/short") {
      const none = { hosts: [], devices: [], findings: [], kinds: [], from_unix_s: 0, to_unix_s: 0, notes: ["no recording has sums"] };
      const page = synth.page(template, { ...synth.fleet(), ...(at.pathname === "/short" ? none : {}) });
      const policy = /Content-Security-Policy" content="([^"]*)"/.exec(page)[1];
      response.writeHead(200, { "content-type": "text/html; charset=utf-8", "content-security-policy": policy });
      response.end(page);
      return;
    }
    asked.push(at.pathname + at.search);
    const host = at.searchParams.get("host");
    const json = (status, document) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(document));
    };
    if (at.pathname === "/api/v1/recordings") json(200, { recordings: ["db-1", "db-1", "<b>db-2"].map((name) => ({ host: name })) });
    else if (busy > 0 && busy-- > 0) json(503, { detail: "busy" });
    else if (gone.has(host)) json(422, { detail: "only sums are left" });
    else if (at.pathname === "/api/v1/waits") json(200, { waits: [wait("/shop", POD, host === "node41" ? 5 : 1), wait("/shop", "/shop", 50)], notes: [] });
    else json(200, { actors: [{ name: POD, pod: "batch/<b>backup" }, { name: null }], notes: [] });
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  url = `http://127.0.0.1:${server.address().port}/`;
  browser = await Browser.start({ width: 1400, height: 900 });
});

after(async () => {
  await browser?.close();
  server?.close();
});

describe("the fleet's page of a server", { skip: missing !== null }, () => {
  test("says who cost whom by pod, over the hosts that lost most, and leads to the worst of them", async () => {
    const page = await browser.open(url);
    await page.waitForFunction(() => document.querySelector("#costs .part-status").textContent === "");
    const rows = page.locator("#costs tbody tr");
    assert.equal(await rows.count(), 1, "who waits for itself costs nobody else");
    assert.match(await rows.first().textContent(), /^batch\/<b>backup delays \/shop11 s ?node41 and 6 more$/);
    assert.match(await rows.first().locator("a").getAttribute("href"), /^\/\?host=node41&from=1795002340&to=1795002640$/);
    assert.match(await page.locator("#costs").textContent(), /the 7 hosts that lost most\..*No single I\/Os of that time: node58\./s);
    assert.equal(new URLSearchParams(asked[0].split("?")[1]).get("to") - new URLSearchParams(asked[0].split("?")[1]).get("from"), 60);
    assert.equal(await page.locator("#costs b b").count(), 0);
    assert.match(await page.getByLabel("From (UTC)").inputValue(), /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}$/);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("shows its tables while the waits are not there, and asks again", async () => {
    busy = 1;
    const page = await browser.open(url);
    await page.waitForSelector("#costs .part-status.failed");
    assert.match(await page.locator("#costs .part-status").textContent(), /The waits could not be loaded\. Busy\. Trying again/);
    assert.ok(await page.locator("#hosts tbody tr").count() > 10);
    await page.waitForSelector("#costs tbody tr");
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("leads to the hosts where there are no sums", async () => {
    const page = await browser.open(`${url}short`);
    const links = page.locator("#recorded a");
    await links.first().waitFor();
    assert.deepEqual(await links.allTextContents(), ["db-1", "<b>db-2"]);
    assert.equal(await links.last().getAttribute("href"), "/?host=%3Cb%3Edb-2");
    assert.match(await page.locator(".notes").textContent(), /no recording has sums/);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  test("fits a phone", async () => {
    const page = await browser.open(url);
    await page.setViewportSize({ width: 390, height: 800 });
    await page.waitForSelector("#costs tbody tr");
    const [inner, scroll] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
    assert.ok(scroll <= inner, `${scroll} pixels on ${inner}`);
    await page.close();
  });
});
