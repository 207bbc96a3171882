// Bundles test/simulation into build/simulate.cjs, or with one fault put into the product:
//   node tools/simulate-bundle.mjs [--mutant NAME] [--out FILE]
// The faults are those of test/simulation/mutants: see docs/decisions/0045.
import { existsSync, readFileSync, renameSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { build } from "esbuild";

const ROOT = dirname(import.meta.dirname);
const MUTANTS = join(ROOT, "test/simulation/mutants/all.ts");

const { values } = parseArgs({ options: { mutant: { type: "string" }, out: { type: "string" } } });
const outfile = resolve(
  values.out ?? join(ROOT, "build", values.mutant ? `simulate-${values.mutant}.cjs` : "simulate.cjs"),
);
const mutant = values.mutant === undefined ? null : await mutantOf(values.mutant);
await build({
  entryPoints: [join(ROOT, "test/simulation/main.ts")],
  outfile: `${outfile}.new`,
  bundle: true,
  platform: "node",
  target: "node24",
  format: "cjs",
  external: ["better-sqlite3"],
  sourcemap: "inline",
  sourcesContent: false,
  // Packages and the addon are found from here, wherever the bundle is.
  banner: {
    js: `require = require("node:module").createRequire(${JSON.stringify(join(ROOT, "package.json"))});`,
  },
  define: { MUTANT: JSON.stringify(values.mutant ?? null) },
  plugins: [sources(mutant)],
  logLevel: "warning",
});
renameSync(`${outfile}.new`, outfile);

/** By the code that defines them, which is TypeScript. */
async function mutantOf(name) {
  if (!existsSync(MUTANTS)) throw new Error(`there is no ${MUTANTS}`);
  const { outputFiles } = await build({
    entryPoints: [MUTANTS],
    bundle: true,
    write: false,
    platform: "node",
    format: "esm",
    logLevel: "warning",
  });
  const source = Buffer.from(outputFiles[0].text).toString("base64");
  const { MUTANTS: all } = await import(`data:text/javascript;base64,${source}`);
  const found = all[name];
  if (found === undefined) throw new Error(`no mutant ${name}; there are ${Object.keys(all).join(", ")}`);
  return found;
}

/** Each file knows its directory, as it does in the source tree; some of them may have a fault. */
function sources(mutant) {
  const edits = mutant === null ? [] : [mutant, ...(mutant.also ?? [])];
  return {
    name: "sources",
    setup: ({ onLoad }) => {
      onLoad({ filter: /\.ts$/ }, ({ path }) => {
        if (path.includes("/node_modules/")) return undefined;
        const contents = edits
          .filter(({ file }) => join(ROOT, file) === path)
          .reduce(withFault, readFileSync(path, "utf8"));
        const directory = dirname(path);
        return {
          contents: contents.replaceAll("import.meta.dirname", JSON.stringify(directory)),
          loader: "ts",
        };
      });
    },
  };
}

function withFault(text, { file, find, replace }) {
  const places = text.split(find).length - 1;
  if (places !== 1) throw new Error(`${file} has the text of the mutant ${places} times, not once: ${find}`);
  return text.replace(find, () => replace);
}
