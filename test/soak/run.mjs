// `make soak MINUTES=30`: bundles main.ts into build/soak and runs it in namespaces of its own.
//   node test/soak/run.mjs [--minutes 30] [--seed N] [--nodes 8] [--report build/soak-report.json]
// Mounts, links, network namespaces, directories and processes of a run are inside of these namespaces: however it
// ends, the kernel removes them all.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const ROOT = join(import.meta.dirname, "../..");
const NAMESPACES = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"];
/** Directories of the run, and /run/netns, are in memory and only seen from within. */
const PREPARE = `mount -t tmpfs -o mode=1777 soak /dev/shm
mount -t tmpfs soak /run
mkdir /run/netns
ip link set lo up
exec "$@"`;

if (process.getuid() !== 0 || spawnSync("unshare", ["-m", "true"]).status !== 0) {
  console.error("soak: needs root, to mount and to make network namespaces");
  process.exit(2);
}
mkdirSync(join(ROOT, "build/soak"), { recursive: true });
// The test cluster's definitions, where the bundled harness looks for them: beside itself.
cpSync(join(ROOT, "test/harness/crds"), join(ROOT, "build/soak/crds"), { recursive: true });
await build({
  entryPoints: [join(ROOT, "test/soak/main.ts")],
  outfile: join(ROOT, "build/soak/main.mjs"),
  bundle: true,
  platform: "node",
  target: "node24",
  format: "esm",
  packages: "external",
  logLevel: "warning",
});
// Out here, where there is a network: they may have to be built first.
const assets =
  process.env.HOLDFAST_KUBE_ASSETS ??
  execFileSync(join(ROOT, "tools/kube-assets"), {
    stdio: ["ignore", "pipe", "inherit"],
    encoding: "utf8",
  }).trim();
const program = [process.execPath, join(ROOT, "build/soak/main.mjs"), ...process.argv.slice(2)];
const child = spawn("unshare", [...NAMESPACES, "bash", "-ec", PREPARE, "soak", ...program], {
  stdio: ["pipe", "inherit", "inherit"],
  env: { ...process.env, TMPDIR: "/dev/shm", HOLDFAST_KUBE_ASSETS: assets },
});
child.stdin.on("error", () => {});
// The run ends when its input does: also when this process is killed.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.stdin.end());
const [code] = await once(child, "exit");
process.exit(code ?? 1);
