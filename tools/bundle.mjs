// Bundles the command line and the processes into dist/: CommonJS files, the code that V8 makes of the large ones, and
// the SQLite addon, nothing else to install. The command line is a bundle of its own so that it starts without reading
// the daemon.
import { chmodSync, copyFileSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { build } from "esbuild";
import { writeCodeCaches } from "./code-caches.mjs";
import { writeSupplyChain } from "./supply.mjs";

/**
 * A plugin that puts nothing in the place of the modules that `filter` matches, where a file that ends so imports them.
 */
function leaveOut(filter, importerEnd = "") {
  const namespace = `nothing for ${importerEnd}`;
  return {
    name: namespace,
    setup({ onResolve, onLoad }) {
      onResolve({ filter }, ({ path, importer }) => (importer.endsWith(importerEnd) ? { path, namespace } : undefined));
      onLoad({ filter: /^/, namespace }, () => ({ contents: "module.exports = {};" }));
    },
  };
}

/**
 * Of @kubernetes/client-node we use the kubeconfig and its credentials. The same module imports what it needs for
 * clients, proxies and a model of every Kubernetes object, none of which is called: half of a bundle, and 5 to 10 MB of
 * memory of a process.
 */
const WITHOUT_CLIENTS = leaveOut(
  /^(undici|hpagent|socks|socks-proxy-agent|\.\/gen\/index\.js|\.\/middleware\.js)$/,
  "/@kubernetes/client-node/dist/config.js",
);
/**
 * Commander can run subcommands that are programs of their own, and loads what starts processes, sockets and streams
 * for it: a tenth of the start of a command line that has no such subcommand.
 */
const WITHOUT_CHILD_PROCESSES = leaveOut(/^node:child_process$/, "/commander/lib/command.js");

const common = {
  plugins: [WITHOUT_CLIENTS],
  bundle: true,
  platform: "node",
  target: "node24",
  format: "cjs",
  minifySyntax: true,
  // What is not read again takes no memory: Node keeps the text of what it runs.
  minifyWhitespace: true,
  // Not in the bundles, whose every byte is read at each start: THIRD-PARTY-NOTICES has them.
  legalComments: "external",
  metafile: true,
  // CommonJS has __dirname and __filename for what is import.meta.* in the source tree.
  define: { "import.meta.dirname": "__dirname", "import.meta.filename": "__filename" },
  logLevel: "warning",
};

/** What browsers run: those of the last years. */
const PAGE = {
  platform: "browser",
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  define: {},
  plugins: [],
};

// Some seconds, but half a minute on a machine that does much else.
if (process.stderr.isTTY) setInterval(() => console.error("  … bundling"), 4_000).unref();
mkdirSync("dist/bin", { recursive: true });
mkdirSync("dist/lib/ui", { recursive: true });
/** Renamed into place, so that whoever starts meanwhile reads a whole file, the old one or the new. */
async function buildInto(outfile, options) {
  const { metafile } = await build({ ...common, ...options, outfile: `${outfile}.new` });
  const legal = `${outfile}.new.LEGAL.txt`;
  const comments = readFileSync(legal, { encoding: "utf8", flag: "a+" });
  rmSync(legal);
  chmodSync(`${outfile}.new`, outfile.startsWith("dist/bin/") ? 0o755 : 0o644);
  renameSync(`${outfile}.new`, outfile);
  return { metafile, comments };
}

const bundles = await Promise.all([
  buildInto("dist/bin/holdfast", {
    entryPoints: ["cli/main.ts"],
    // The Node of node_modules, which runs this; `make install` writes that of the installation.
    banner: { js: `#!${process.execPath}` },
    minify: true,
  }),
  buildInto("dist/lib/command-line.cjs", {
    entryPoints: ["cli/command-line.ts"],
    // Felt at each start: every byte is read, and YAML is needed by few commands.
    minify: true,
    alias: { yaml: "./yaml.cjs", "jsonpath-plus": "./jsonpath.cjs" },
    external: ["./yaml.cjs", "./jsonpath.cjs"],
    // What a code cache is of has nobody to import for it.
    supported: { "dynamic-import": false },
    plugins: [WITHOUT_CHILD_PROCESSES],
  }),
  buildInto("dist/lib/jsonpath.cjs", { entryPoints: ["jsonpath-plus"], minify: true }),
  buildInto("dist/lib/yaml.cjs", { entryPoints: ["yaml"], minify: true }),
  buildInto("dist/lib/daemon.cjs", { entryPoints: ["daemon/main.ts"] }),
  buildInto("dist/lib/controller.cjs", { entryPoints: ["controller/main.ts"] }),
  buildInto("dist/lib/metadata.cjs", { entryPoints: ["metadata/server/main.ts"] }),
  buildInto("dist/lib/metadata-net.cjs", { entryPoints: ["guests/main.ts"] }),
  buildInto("dist/lib/convert.cjs", {
    entryPoints: ["cli/manifests/convert.ts"],
    minify: true,
    supported: { "dynamic-import": false },
    alias: { yaml: "./yaml.cjs" },
    external: ["./yaml.cjs"],
  }),
  buildInto("dist/lib/doctor.cjs", { entryPoints: ["cli/doctor/main.ts"], minify: true }),
  buildInto("dist/lib/cluster.cjs", { entryPoints: ["admin/cluster/main.ts"], minify: true }),
  buildInto("dist/lib/ui.cjs", { entryPoints: ["ui/main.ts"], minify: true }),
  buildInto("dist/lib/ui/page.js", { ...PAGE, entryPoints: ["ui/pages/main.tsx"] }),
  buildInto("dist/lib/ui/page.css", { ...PAGE, entryPoints: ["ui/pages/style.css"] }),
]);
copyFileSync("ui/pages/index.html", "dist/lib/ui/index.html");
// Renamed into place: a daemon that runs from here has the old file mapped and would crash if it changed.
copyFileSync(`node_modules/better-sqlite3/prebuilds/linux-${process.arch}.node`, "dist/lib/better_sqlite3.node.new");
renameSync("dist/lib/better_sqlite3.node.new", "dist/lib/better_sqlite3.node");
await writeCodeCaches("dist/lib", process.execPath);
// Files without an ending are what the nearest package.json says; dist/ may be copied away from ours.
writeFileSync("dist/package.json", `${JSON.stringify({ type: "commonjs" })}\n`);
writeSupplyChain(
  bundles.map(({ metafile }) => metafile),
  bundles.map(({ comments }) => comments),
);
