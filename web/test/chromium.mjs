// Chromium for tests. Where there is none they skip with a message.
import { access, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const ARGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

/** Why there is no browser; `null` if there is one. */
export const missing = await access(CHROMIUM).then(() => null, () => `no browser at ${CHROMIUM}`);
if (missing) console.error(`SKIP: ${missing}`);

/** The folder `web`. */
export const here = new URL("..", import.meta.url);

/** A browser with a temporary directory, which holds its profile and what a test writes. */
export class Browser {
  static async start(size = { width: 1280, height: 900 }) {
    const browser = new Browser();
    browser.directory = await mkdtemp(join(tmpdir(), "iolens-web-"));
    browser.context = await chromium.launchPersistentContext(join(browser.directory, "profile"), {
      executablePath: CHROMIUM, headless: true, args: ARGS, viewport: size,
    });
    return browser;
  }

  /** An empty page; `problems` are errors of its scripts and, where answers may not fail, what it could not load. */
  async page({ answersMayFail = true } = {}) {
    const page = await this.context.newPage();
    page.problems = [];
    page.on("pageerror", (e) => page.problems.push(String(e)));
    page.on("console", (m) => {
      // An answer that is an error is the page's to show.
      const isAnswer = answersMayFail && m.text().includes("Failed to load resource");
      if (m.type() === "error" && !isAnswer) page.problems.push(m.text());
    });
    return page;
  }

  /** The page at `url`, once it is ready. */
  async open(url) {
    const page = await this.page();
    await page.goto(url);
    await page.waitForSelector("html[data-ready]");
    return page;
  }

  async close() {
    await this.context.close();
    await rm(this.directory, { recursive: true, force: true });
  }
}
