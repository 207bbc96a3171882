// The code that V8 makes of the bundles, by the Node that will read it and by the code that reads it, which is
// TypeScript.
import { execFileSync } from "node:child_process";
import { readdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

/** Small, or read by few commands. */
const WITHOUT = ["yaml.cjs", "jsonpath.cjs"];

/** `node`: the path of one, or a command with arguments that runs one, as of another architecture. */
export async function writeCodeCaches(directory, ...node) {
  const { outputFiles } = await build({
    entryPoints: ["cli/load-bundle.ts"],
    bundle: true,
    write: false,
    platform: "node",
    format: "esm",
    logLevel: "warning",
  });
  const [command, ...words] = node;
  const bundles = readdirSync(directory).filter((name) => name.endsWith(".cjs") && !WITHOUT.includes(name));
  for (const name of bundles.sort()) {
    const made = join(directory, `${name}.cache.new`);
    // The directory is in the code too, by the names of what is loaded from it.
    const program = `${outputFiles[0].text}
import { writeFileSync } from "node:fs";
writeFileSync(${JSON.stringify(`${name}.cache.new`)}, makeCodeCache("/proc/self/cwd/${name}"));`;
    // No two builds would be the same otherwise: what is compiled depends on what a process finds when it loads its
    // bundle. The flags of V8 are in the code, and this one does not change what it is checked for.
    const flags = ["--predictable", "--preserve-symlinks", "--input-type=module"];
    execFileSync(command, [...words, ...flags, "-e", program], {
      stdio: ["ignore", "ignore", "pipe"],
      cwd: directory,
      env: { PATH: "/usr/bin:/bin" },
    });
    renameSync(made, join(directory, `${name}.cache`));
  }
}
