// Chromium for tests. Without it they skip with a message.
import { access, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const ARGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

/** Options for identical text on every machine: no hinting, no subpixel colours. */
const FIXED = ["--font-render-hinting=none", "--disable-lcd-text", "--force-color-profile=srgb", "--disable-font-subpixel-positioning"];

/** A configuration of fontconfig in which every family is the font of `test/fonts`. */
async function fontsOf(directory) {
  const file = join(directory, "fonts.conf");
  const fonts = fileURLToPath(new URL("fonts", import.meta.url));
  const settings = [["antialias", "bool", "true"], ["hinting", "bool", "false"], ["hintstyle", "const", "hintnone"], ["rgba", "const", "none"]];
  const edits = settings.map(([name, kind, value]) => `<edit name="${name}" mode="assign"><${kind}>${value}</${kind}></edit>`).join("");
  await writeFile(file, `<?xml version="1.0"?><fontconfig><dir>${fonts}</dir><cachedir>${join(directory, "fontconfig")}</cachedir><match target="font">${edits}</match></fontconfig>`);
  return file;
}

/** The reason why there is no browser; `null` if there is one. */
export const missing = await access(CHROMIUM).then(() => null, () => `no browser at ${CHROMIUM}`);
if (missing) console.error(`SKIP: ${missing}`);

/** The folder `web`. */
export const here = new URL("..", import.meta.url);

/** A browser with a temporary directory, which contains its profile and the files of a test. */
export class Browser {
  static async start(size = { width: 1280, height: 900 }, { fixedFont = false } = {}) {
    const browser = new Browser();
    browser.directory = await mkdtemp(join(tmpdir(), "iolens-web-"));
    const more = fixedFont ? { env: { ...process.env, FONTCONFIG_FILE: await fontsOf(browser.directory) } } : {};
    browser.context = await chromium.launchPersistentContext(join(browser.directory, "profile"), {
      executablePath: CHROMIUM, headless: true, args: fixedFont ? [...ARGS, ...FIXED] : ARGS, viewport: size, ...more,
    });
    return browser;
  }

  /** An empty page; `problems` are errors of its scripts and, unless answers may fail, failed requests. */
  async page({ answersMayFail = true } = {}) {
    const page = await this.context.newPage();
    page.problems = [];
    page.on("pageerror", (e) => page.problems.push(String(e)));
    page.on("console", (m) => {
      // An error answer is displayed by the page.
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
