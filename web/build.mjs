// Bundles the pages of the report, of report files, of experiments, of fleets and the application into dist/{report,file,lab,fleet,app}.html, in which __TITLE__ and __DATA__
// are left for the program to fill.
// With --test it bundles the tests and their data instead.
import { createHash } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { build } from "esbuild";

const here = new URL(".", import.meta.url).pathname;

async function tests() {
  await build({
    absWorkingDir: here,
    entryPoints: { "unit.test": "test/unit.test.ts", "live.test": "test/live.test.ts", synth: "test/synth.ts" },
    outdir: "dist/test",
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    logLevel: "warning",
  });
}

async function page(name, entry, libraries, connects = "") {
  const result = await build({
    absWorkingDir: here,
    entryPoints: [entry],
    outdir: "dist",
    bundle: true,
    minify: true,
    write: false,
    charset: "utf8",
    target: ["chrome100", "firefox100", "safari15"],
    format: "iife",
    legalComments: "none",
    logLevel: "warning",
  });
  const text = (ending) => result.outputFiles.find((f) => f.path.endsWith(ending)).text.trim();
  // Inline scripts end at the first "</script", wherever it stands.
  const js = `${libraries}${text(".js").replaceAll("</script", "<\\/script")}`;
  const css = text(".css");
  const hash = (s) => `'sha256-${createHash("sha256").update(s).digest("base64")}'`;
  const csp = `default-src 'none'; script-src ${hash(js)}; style-src ${hash(css)}; img-src data:; ${connects}base-uri 'none'; form-action 'none'`;
  const parts = { CSP: csp, CSS: css, JS: js };
  const template = await readFile(`${here}page.html`, "utf8");
  const html = template.replace(/__(CSP|CSS|JS)__/g, (_, name) => parts[name]);
  for (const marker of ["__TITLE__", "__DATA__"]) {
    if (html.split(marker).length !== 2) throw new Error(`${marker} must stand in ${name}.html exactly once`);
  }
  await mkdir(`${here}dist`, { recursive: true });
  // An unchanged page keeps its time: cargo builds the program anew, which takes minutes, for one that is newer.
  const file = `${here}dist/${name}.html`;
  if ((await readFile(file, "utf8").catch(() => null)) !== html) await writeFile(file, html);
  console.log(`dist/${name}.html: ${html.length} characters`);
}

if (process.argv.includes("--test")) {
  await tests();
} else {
  const uplot = JSON.parse(await readFile(`${here}node_modules/uplot/package.json`, "utf8"));
  try {
    // The same page: what a server sent may ask it, a file may ask none.
    await page("report", "src/file/main.ts", `/* with uPlot ${uplot.version}, (c) Leon Sorokin, MIT license */`, "connect-src 'self'; ");
    await page("file", "src/file/main.ts", `/* with uPlot ${uplot.version}, (c) Leon Sorokin, MIT license */`);
    await page("lab", "src/lab/main.ts", "");
    await page("fleet", "src/fleet/main.ts", "", "connect-src 'self'; ");
    await page("app", "src/app/start.ts", "", "connect-src 'self'; ");
  } catch (failure) {
    // No page of older sources is embedded.
    for (const name of ["report", "file", "lab", "fleet", "app"]) await rm(`${here}dist/${name}.html`, { force: true });
    throw failure;
  }
}
