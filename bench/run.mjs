// `make bench`: measures the bounds of bench/README.md here and now.
//   node bench/run.mjs [--only NAME] [--markdown]
// NAME is a measurement, or what the names of several begin with: "kube" are all that need an API server.
// Compiles the C programs and bundles main.ts and bare-server.ts into build/bench/, and runs it.
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync } from "node:fs";
import { basename, dirname } from "node:path";
import { build } from "esbuild";

const C_FLAGS = "-std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -O2".split(" ");

process.chdir(dirname(import.meta.dirname));
mkdirSync("build/bench", { recursive: true });
for (const name of ["exec-driver", "load-client", "kube/pod-driver", "metadata/guest-client"]) {
  const command = [...C_FLAGS, "-o", `build/bench/${basename(name)}`, `bench/${name}.c`, "-pthread"];
  execFileSync(process.env.CC ?? "cc", command, { stdio: "inherit" });
}
// The test cluster's definitions, where the bundled harness looks for them: beside itself.
cpSync("test/harness/crds", "build/bench/crds", { recursive: true });
await build({
  entryPoints: ["bench/main.ts", "bench/bare-server.ts"],
  outdir: "build/bench",
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  target: "node24",
  format: "esm",
  packages: "external",
  logLevel: "warning",
});
await import("../build/bench/main.mjs");
