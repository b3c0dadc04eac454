// Compares screenshots of the application with those in test/snapshots. UPDATE_SNAPSHOTS=1 rewrites these.
import assert from "node:assert/strict";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { after, before, describe, test } from "node:test";
import { Browser, missing } from "./chromium.mjs";
import { png } from "./png.mjs";
import { FROM_S, SCENE } from "./scene.mjs";
import { NOW_S, serve, stop } from "./stub_server.mjs";

const FOLDER = new URL("snapshots/", import.meta.url);
const UPDATE = process.env.UPDATE_SNAPSHOTS === "1";
/** A stored pixel is the mean of this many by this many, so that the edges of letters are averaged out. */
const REDUCED = 2;
/** Distance between stored colours. */
const COLOUR_STEP = 16;
/**
 * A pixel differs if a colour differs by more than this, of 255; versions of Chromium round edges and shades
 * differently.
 */
const DIFFERENT = 48;
/** Tolerated share of differing pixels in a picture, and in a tile of it: moved or missing elements are in few tiles. */
const SHARE = 0.005;
const TILE = 32;
const TILE_SHARE = 0.25;

const HOUR = `?from=${FROM_S}&to=${NOW_S}`;
const INSTANT = `?from=${FROM_S + 1512.23}&to=${FROM_S + 1512.27}`;
const SCREENS = [
  ...[390, 1024, 1400, 2560].flatMap((width) => ["light", "dark"].map((look) => ({ name: `hour-${width}-${look}`, address: HOUR, width, look }))),
  { name: "ios-class-1400-light", address: INSTANT, width: 1400, look: "light" },
  { name: "ios-process-390-dark", address: `${INSTANT}&colour=process`, width: 390, look: "dark" },
  { name: "ios-cause-1400-dark", address: `${INSTANT}&colour=cause`, width: 1400, look: "dark" },
  { name: "box-1400-light", address: `${INSTANT}&box=${FROM_S + 1512.235},${FROM_S + 1512.25},1000,100000`, width: 1400, look: "light" },
];

let browser;
let server;
let workshop;

before(async () => {
  if (missing) return;
  browser = await Browser.start({ width: 1400, height: 900 }, { fixedFont: true });
  server = await serve({ documents: SCENE });
  workshop = await browser.page();
  if (UPDATE) await mkdir(FOLDER, { recursive: true });
});

after(async () => {
  await browser?.close();
  stop();
});

/** The pixels of a PNG, each the mean of `by` by `by`, in rounded colours. */
async function pixels(bytes, by) {
  const { width, height, data } = await workshop.evaluate(async ({ url, by }) => {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.width, image.height];
    const ctx = canvas.getContext("2d");
    ctx.drawImage(image, 0, 0);
    const from = ctx.getImageData(0, 0, image.width, image.height).data;
    const [width, height] = [Math.floor(image.width / by), Math.floor(image.height / by)];
    const to = new Uint8Array(width * height * 4);
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        for (let c = 0; c < 4; c++) {
          let sum = 0;
          for (let dy = 0; dy < by; dy++) for (let dx = 0; dx < by; dx++) sum += from[((y * by + dy) * image.width + x * by + dx) * 4 + c];
          to[(y * width + x) * 4 + c] = sum / by / by;
        }
      }
    }
    let text = "";
    for (let i = 0; i < to.length; i += 0x8000) text += String.fromCharCode(...to.subarray(i, i + 0x8000));
    return { width, height, data: btoa(text) };
  }, { url: `data:image/png;base64,${bytes.toString("base64")}`, by });
  return { width, height, data: Buffer.from(data, "base64") };
}

const rounded = (picture) => ({ ...picture, data: picture.data.map((v) => Math.min(255, Math.round(v / COLOUR_STEP) * COLOUR_STEP)) });

/** The share of differing pixels in two pictures, and in the tile with most of them. */
export function difference(a, b) {
  if (a.width !== b.width || a.height !== b.height) return { share: 1, worst: 1, where: `${a.width} x ${a.height} instead of ${b.width} x ${b.height}` };
  const across = Math.ceil(a.width / TILE);
  const tiles = new Map();
  let all = 0;
  for (let y = 0; y < a.height; y++) {
    for (let x = 0; x < a.width; x++) {
      const i = (y * a.width + x) * 4;
      if (Math.max(Math.abs(a.data[i] - b.data[i]), Math.abs(a.data[i + 1] - b.data[i + 1]), Math.abs(a.data[i + 2] - b.data[i + 2])) <= DIFFERENT) continue;
      const tile = Math.floor(y / TILE) * across + Math.floor(x / TILE);
      tiles.set(tile, (tiles.get(tile) ?? 0) + 1);
      all++;
    }
  }
  const [tile, most] = [...tiles].sort((p, q) => q[1] - p[1])[0] ?? [0, 0];
  const where = `about x ${(tile % across) * TILE * REDUCED}, y ${Math.floor(tile / across) * TILE * REDUCED}`;
  return { share: all / (a.width * a.height), worst: most / TILE / TILE, where };
}

async function shot({ address, width, look }) {
  const page = await browser.page();
  await page.setViewportSize({ width, height: width === 2560 ? 1440 : 900 });
  await page.emulateMedia({ colorScheme: look, reducedMotion: "reduce" });
  await page.goto(server.url + address);
  await page.waitForSelector("html[data-ready]");
  for (const filled of [".story", ".waits tbody tr", ".actors tbody tr", address === HOUR ? "html[data-mode=heat]" : "html[data-mode=ios]"]) await page.waitForSelector(filled);
  await page.waitForFunction(() => [...document.querySelectorAll(".part-status")].every((p) => p.textContent === ""));
  if (address.includes("box=")) await page.waitForSelector(".panel-box[aria-label=Selection] tbody tr");
  await page.evaluate(async () => {
    await document.fonts.ready;
    scrollTo(0, 0);
    for (let i = 0; i < 3; i++) await new Promise((done) => requestAnimationFrame(done));
  });
  const picture = await page.screenshot({ animations: "disabled", caret: "hide", fullPage: width === 390 });
  assert.deepEqual(page.problems, []);
  await page.close();
  return picture;
}

describe("screens of the application", { skip: missing !== null }, () => {
  for (const screen of SCREENS) {
    test(`${screen.name} looks as it is stored`, async () => {
      const taken = await shot(screen);
      const now = rounded(await pixels(taken, REDUCED));
      const file = new URL(`${screen.name}.png`, FOLDER);
      if (UPDATE) {
        // Rounding alone does not justify a new file.
        const before = await readFile(file).then((bytes) => pixels(bytes, 1), () => null);
        if (!before || difference(now, before).share > 0) await writeFile(file, png(now.width, now.height, now.data));
        return;
      }
      const stored = await pixels(await readFile(file), 1);
      const { share, worst, where } = difference(now, stored);
      const differs = share > SHARE || worst > TILE_SHARE;
      const failed = new URL(`../dist/snapshots/${screen.name}.png`, import.meta.url);
      await rm(failed, { force: true });
      if (differs) {
        await mkdir(new URL(".", failed), { recursive: true });
        await writeFile(failed, taken);
      }
      const text = `${(100 * share).toFixed(2)} % of it differs, of a tile ${(100 * worst).toFixed(0)} % (${where}): see ${failed.pathname}; UPDATE_SNAPSHOTS=1 stores it`;
      assert.ok(!differs, text);
    });
  }

  test("a missing button, another colour and another place are differences", async () => {
    const page = await browser.page();
    await page.setContent("<style>body { margin: 0; font: 13px sans-serif } button { position: absolute; left: 400px; top: 300px }</style><p>Over time</p><button>Select</button>");
    const taken = async () => rounded(await pixels(await page.screenshot(), REDUCED));
    const first = await taken();
    assert.deepEqual(difference(first, await taken()), { share: 0, worst: 0, where: "about x 0, y 0" });
    for (const change of ["left: 430px", "background: #0a63b8", "display: none"]) {
      await page.locator("button").evaluate((e, style) => (e.style.cssText = style), change);
      const { worst, where } = difference(await taken(), first);
      assert.ok(worst > 0.05, `${change}: ${worst} ${where}`);
      await page.locator("button").evaluate((e) => (e.style.cssText = ""));
    }
    await page.close();
  });

  test("no stored picture is of a screen that is gone", { skip: UPDATE }, async () => {
    assert.deepEqual((await readdir(FOLDER)).sort(), SCREENS.map((s) => `${s.name}.png`).sort());
  });
});
