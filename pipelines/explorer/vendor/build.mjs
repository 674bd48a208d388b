// Bundles the explorer's libraries into two files and writes down what is in them: versions, licences, hashes.
// Run by whoever renews the libraries (README.md); nobody else needs Node.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const BUNDLES = {
  "vega.min.js": 'export { View, parse, Warn, Error as Errors } from "vega"; export { compile } from "vega-lite"; export { expressionInterpreter } from "vega-interpreter";',
  "hyparquet.min.js":
    'export { parquetRead, parquetMetadata } from "hyparquet"; export { compressors } from "hyparquet-compressors";',
};

const sha256 = (content) => createHash("sha256").update(content).digest("hex");

/** The folder of the package that a bundled file belongs to; a package may hold packages of its own. */
function packageFolder(path) {
  const [, before, name] = path.match(/^(.*node_modules\/)((?:@[^/]+\/)?[^/]+)/);
  return before + name;
}

function licenceText(folder) {
  const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name));
  return file ? readFileSync(join(folder, file), "utf8").trim() : null;
}

const files = {};
const packages = new Map();
for (const [name, contents] of Object.entries(BUNDLES)) {
  const result = await build({
    stdin: { contents, resolveDir: "." },
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    legalComments: "none",
    metafile: true,
    outfile: name,
  });
  files[name] = sha256(readFileSync(name));
  for (const [path, used] of Object.entries(Object.values(result.metafile.outputs)[0].inputs)) {
    if (!path.includes("node_modules/") || used.bytesInOutput === 0) continue;
    const folder = packageFolder(path);
    if (existsSync(join(folder, "package.json"))) {
      const told = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
      packages.set(`${told.name}@${told.version}`, { version: told.version, licence: told.license, folder });
    }
  }
}

const sorted = [...packages].sort(([one], [other]) => (one < other ? -1 : 1));
// Packages of one project share their text: each text once, under the packages that it covers.
const texts = new Map();
for (const [name, { licence, folder }] of sorted) {
  const text = licenceText(folder) ?? `${licence} (the package holds no text of its own)`;
  texts.set(text, [...(texts.get(text) ?? []), `${name} (${licence})`]);
}
const licences = [...texts].map(([text, names]) => `${names.join("\n")}\n\n${text}\n`);
writeFileSync("LICENSES.txt", licences.join(`\n${"-".repeat(78)}\n\n`));
files["LICENSES.txt"] = sha256(readFileSync("LICENSES.txt"));
const versions = Object.fromEntries(sorted.map(([name, { licence }]) => [name, licence]));
writeFileSync("versions.json", `${JSON.stringify({ sha256: files, packages: versions }, null, 2)}\n`);
