// How long a report takes in headless Chromium from the beginning of loading until everything is drawn.
//   node test/render_time.mjs REPORT.html [RUNS]
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [file, runs = "5"] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--headless", "--no-sandbox", "--disable-gpu"] });
const times = [];
for (let i = 0; i < Number(runs); i++) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(pathToFileURL(file).href);
  await page.waitForSelector("html[data-ready]");
  times.push(Number(await page.locator("html").getAttribute("data-ready")));
  await page.close();
}
await browser.close();
times.sort((a, b) => a - b);
console.log(`drawn: median ${times[times.length >> 1]} ms, ${times[0]} to ${times.at(-1)} ms in ${times.length} runs (target: under 1000 ms)`);
