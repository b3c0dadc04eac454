// Measures the performance of the application in headless Chromium, for bench/page.py.
//   node test/figures.mjs paint URL RUNS            first paint of a page, from the beginning of loading
//   node test/figures.mjs frames URL SECONDS NAME   frames while it is panned and zoomed without a pause
//   node test/figures.mjs memory URL MINUTES        memory of a tab that is live
//   node test/figures.mjs hour MINUTES              the same of an hour in so many minutes, from a server that answers as the program does
//   node test/figures.mjs drawn FILE RUNS           until a report file is drawn
import { pathToFileURL } from "node:url";
import { Browser } from "./chromium.mjs";
import { NOW_S, serve, stop } from "./stub_server.mjs";

const SIZE = { width: 1400, height: 900 };
const sorted = (list) => [...list].sort((a, b) => a - b);
const quantile = (list, q) => sorted(list)[Math.min(list.length - 1, Math.floor(list.length * q))];
const spread = (list) => `median ${quantile(list, 0.5).toFixed(0)} ms, ${Math.min(...list).toFixed(0)} to ${Math.max(...list).toFixed(0)} ms in ${list.length} runs`;
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

async function paint(browser, url, runs) {
  const [painted, answered] = [[], []];
  for (let i = 0; i < runs; i++) {
    const page = await browser.context.newPage();
    await page.goto(url, { waitUntil: "commit" });
    await page.waitForSelector("html[data-ready]", { timeout: 120_000 });
    const [paint, answer] = await page.evaluate(async () => {
      const first = () => performance.getEntriesByName("first-contentful-paint")[0];
      while (!first()) await new Promise((done) => setTimeout(done, 10));
      return [first().startTime, performance.getEntriesByType("navigation")[0].responseEnd];
    });
    painted.push(paint);
    answered.push(answer);
    await page.close();
  }
  console.log(`first paint: ${spread(painted)}; of that until the page has come: ${spread(answered)} (target: 300 ms)`);
}

/** Each frame moves the view a little; returns the durations of frames. */
async function frames(browser, url, seconds, name) {
  const page = await browser.context.newPage();
  await page.goto(url);
  await page.waitForFunction(() => [...document.querySelectorAll(".time .part-status")].every((p) => p.textContent === "") && document.querySelector("html[data-mode]"), null, { timeout: 60_000 });
  for (const [what, axis, by] of [["panned", "deltaX", 6], ["zoomed", "deltaY", 12]]) {
    const times = await page.evaluate(async ([seconds, axis, by]) => {
      const canvas = document.querySelector(".chart canvas");
      const { left, top, width, height } = canvas.getBoundingClientRect();
      const times = [];
      const begin = performance.now();
      for (let i = 0, last = begin; last - begin < 1000 * seconds; i++) {
        canvas.dispatchEvent(new WheelEvent("wheel", { [axis]: by * Math.sign(Math.sin(i / 60)), clientX: left + width / 2, clientY: top + height / 3, bubbles: true, cancelable: true }));
        const now = await new Promise((done) => requestAnimationFrame(done));
        if (i > 0) times.push(now - last);
        last = now;
      }
      return times;
    }, [seconds, axis, by]);
    const mean = times.reduce((a, b) => a + b, 0) / times.length;
    const mode = await page.evaluate(() => document.documentElement.dataset.mode);
    console.log(`${name} (${mode}), ${what}: ${(1000 / mean).toFixed(0)} frames a second; a frame takes ${quantile(times, 0.5).toFixed(1)} ms, p99 ${quantile(times, 0.99).toFixed(1)} ms (target: 60 frames, at least 30)`);
  }
  await page.close();
}

/** Memory of the tab after garbage collection. */
async function held(session) {
  await session.send("HeapProfiler.collectGarbage");
  const { metrics } = await session.send("Performance.getMetrics");
  const of = (name) => metrics.find((m) => m.name === name)?.value ?? 0;
  return { mib: of("JSHeapUsedSize") / 2 ** 20, nodes: of("Nodes"), listeners: of("JSEventListeners") };
}

async function watched(page, url, minutes, whole) {
  await page.goto(url);
  await page.waitForSelector("html[data-ready]");
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const samples = [];
  const each = (minutes * 60_000) / 12;
  for (let i = 0; i < 12; i++) {
    await wait(each);
    samples.push(await held(session));
  }
  const list = (of) => samples.map(of).join(" ");
  console.log(`a live tab over ${whole}, in twelve steps: script holds ${list((s) => s.mib.toFixed(1))} MiB; nodes ${list((s) => s.nodes)}; listeners ${list((s) => s.listeners)} (target: flat)`);
}

async function memory(browser, url, minutes) {
  const page = await browser.context.newPage();
  await watched(page, url, minutes, `${minutes} min`);
  await page.close();
}

/** An hour of a live page: its clocks and timers run this many times as fast, and so does the stream. */
async function hour(browser, minutes) {
  const faster = 60 / minutes;
  const page = await browser.context.newPage();
  await page.addInitScript((k) => {
    const [date, clock, timeout, interval] = [Date.now.bind(Date), performance.now.bind(performance), window.setTimeout.bind(window), window.setInterval.bind(window)];
    const [date0, clock0] = [date(), clock()];
    Date.now = () => date0 + (date() - date0) * k;
    performance.now = () => clock0 + (clock() - clock0) * k;
    window.setTimeout = (run, ms, ...more) => timeout(run, ms / k, ...more);
    window.setInterval = (run, ms, ...more) => interval(run, ms / k, ...more);
  }, faster);
  const server = await serve({ recording: true });
  const begin = Date.now();
  let sent = 0;
  const timer = setInterval(() => {
    const now = NOW_S + ((Date.now() - begin) / 1000) * faster;
    for (; NOW_S + sent * 0.1 < now; sent++) {
      for (const device of ["sda", "sdb"]) {
        const slot = { device, time_s: NOW_S + sent * 0.1, r_kib_per_s: 100 + (sent % 40), w_kib_per_s: 5, inflight_mean: 1.5, inflight_max: 4, lossy: false };
        for (const watcher of server.watchers) watcher.write(`id: ${sent}\nevent: slot\ndata: ${JSON.stringify(slot)}\n\n`);
      }
    }
  }, 50);
  await watched(page, server.url, minutes, `an hour, ${faster} times as fast`);
  clearInterval(timer);
  console.log(`  asked ${server.asked.length} questions, sent ${2 * sent} slots`);
  await page.close();
}

async function drawn(browser, file, runs) {
  const times = [];
  for (let i = 0; i < runs; i++) {
    const page = await browser.context.newPage();
    await page.goto(pathToFileURL(file).href);
    // The chart, the stories and the tables are drawn.
    await page.waitForFunction(() => document.querySelector("html[data-ready]") && [...document.querySelectorAll(".part-status")].every((p) => p.textContent === "" || p.classList.contains("failed")), null, { polling: "raf", timeout: 60_000 });
    times.push(await page.evaluate(() => performance.now()));
    await page.close();
  }
  console.log(`drawn: ${spread(times)} (target: 1000 ms)`);
}

const [part, ...words] = process.argv.slice(2);
const browser = await Browser.start(SIZE);
try {
  await { paint, frames, memory, hour, drawn }[part](browser, ...words.map((w) => (Number.isNaN(Number(w)) ? w : Number(w))));
} finally {
  await browser.close();
  stop();
}
