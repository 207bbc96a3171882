// The code that V8 makes of the bundles, by the Node that will read it and by the code that reads it, which is TypeScript.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

/** Small, or read by few commands. */
const WITHOUT = ["yaml.cjs"];
/** What is in the code depends on a collection of garbage, once in dozens of times: of so many, two in a row are the same. */
const TRIES_MAX = 8;

/** `node`: the path of one, or a command with arguments that runs one, as of another architecture. */
export async function writeCodeCaches(folder, ...node) {
  const { outputFiles } = await build({
    entryPoints: ["cli/load-bundle.ts"],
    bundle: true,
    write: false,
    platform: "node",
    format: "esm",
    logLevel: "warning",
  });
  const [command, ...words] = node;
  const bundles = readdirSync(folder).filter((name) => name.endsWith(".cjs") && !WITHOUT.includes(name));
  for (const name of bundles.sort()) {
    const made = join(folder, `${name}.cache.new`);
    // The folder is in the code too, by the names of what is loaded from it.
    const program = `${outputFiles[0].text}
import { writeFileSync } from "node:fs";
writeFileSync(${JSON.stringify(`${name}.cache.new`)}, makeCodeCache("/proc/self/cwd/${name}"));`;
    const once = () => {
      // Two builds are the same then. The flags of V8 are in the code, and this one does not change what it is checked for.
      execFileSync(
        command,
        [...words, "--predictable", "--preserve-symlinks", "--input-type=module", "-e", program],
        {
          stdio: ["ignore", "ignore", "inherit"],
          cwd: folder,
          env: { PATH: process.env.PATH },
        },
      );
      return readFileSync(made);
    };
    let last = once();
    for (let tries = 1; tries < TRIES_MAX; tries += 1) {
      const next = once();
      if (next.equals(last)) break;
      last = next;
    }
    renameSync(made, join(folder, `${name}.cache`));
  }
}
