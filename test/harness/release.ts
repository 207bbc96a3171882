import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Release, run } from "./daemon.ts";

const ROOT = join(import.meta.dirname, "../..");
const RELEASES = join(ROOT, "build/releases");

/**
 * Builds a commit of this repository's history, once for all tests and runs: its dist/ stays as build/releases/COMMIT. The
 * packages are the present ones. null: this clone does not have the commit, and its origin does not give it.
 */
export async function releaseOf(commit: string): Promise<Release | null> {
  const folder = join(RELEASES, commit);
  if (!existsSync(folder)) {
    if (!(await isInHistory(commit))) return null;
    await build(commit, folder);
  }
  return { holdfast: join(folder, "bin/holdfast"), shim: join(folder, "bin/holdfast-ipam") };
}

async function build(commit: string, folder: string): Promise<void> {
  const work = `${folder}.${randomUUID().slice(0, 8)}`;
  mkdirSync(work, { recursive: true });
  try {
    const archive = join(work, "tree.tar");
    await succeed("git", ["-C", ROOT, "archive", "--output", archive, commit], work);
    await succeed("tar", ["-xf", archive], work);
    symlinkSync(join(ROOT, "node_modules"), join(work, "node_modules"));
    // Notices and bill of materials follow paths of packages, which are beside this tree and not in it.
    writeFileSync(join(work, "tools/supply.mjs"), "export function writeSupplyChain() {}\n");
    await succeed(process.execPath, ["tools/bundle.mjs"], work);
    // -o: newer than anything it is made of, however old its packages are.
    await succeed("make", ["-o", "node_modules/.installed", "dist/bin/holdfast-ipam"], work);
    rename(join(work, "dist"), folder);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** A shallow clone is given the one commit that it lacks. */
async function isInHistory(commit: string): Promise<boolean> {
  const git = (...args: string[]) => run("git", ["-C", ROOT, ...args]);
  const isHere = async () => (await git("cat-file", "-e", `${commit}^{commit}`)).code === 0;
  if (!(await isHere())) await git("fetch", "--quiet", "--depth=1", "origin", commit);
  return isHere();
}

/** Another process may have built the same meanwhile. */
function rename(work: string, folder: string): void {
  try {
    renameSync(work, folder);
  } catch (error) {
    if (!existsSync(folder)) throw error;
  }
}

async function succeed(command: string, args: readonly string[], cwd: string): Promise<void> {
  const { code, stdout, stderr } = await run("env", ["-C", cwd, command, ...args]);
  if (code !== 0) throw new Error(`${command} ${args.join(" ")} in ${cwd}: ${stdout}${stderr}`);
}
