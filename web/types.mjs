// Makes src/generated/*.ts, the types of the page's data, from ../docs/schema/*.json, which the program's own types make.
// With --check it writes nothing, and fails where a file is out of date.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { compile } from "json-schema-to-typescript";

const here = new URL(".", import.meta.url).pathname;
const options = {
  additionalProperties: false,
  bannerComment: "// Made from docs/schema/ by `make schema`; do not edit.",
  style: { printWidth: 120 },
  strictIndexSignatures: true,
};

async function types(name) {
  const schema = JSON.parse(await readFile(`${here}../docs/schema/${name}.json`, "utf8"));
  const text = await compile(schema, schema.title, options);
  const path = `${here}src/generated/${name}.ts`;
  if (process.argv.includes("--check")) {
    if ((await readFile(path, "utf8").catch(() => "")) !== text) throw new Error(`${path} is out of date: run \`make schema\``);
    return;
  }
  await mkdir(`${here}src/generated`, { recursive: true });
  await writeFile(path, text);
}

await types("page");
await types("lab");
await types("fleet");
