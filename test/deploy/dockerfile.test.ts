import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { run } from "../harness/daemon.ts";
import { debianRoot } from "../harness/debian-root.ts";
import { skippedFor } from "../harness/needs.ts";

/**
 * deploy/Dockerfile, for people with Docker: built by buildah, on Debian's own files instead of an image from a
 * registry.
 */

const ROOT = join(import.meta.dirname, "../..");
/** Where an administrator of Debian puts authorities of his own: what a build behind a proxy has to trust. */
const AUTHORITIES = "/usr/local/share/ca-certificates";
const reason = skippedFor(process.getuid?.() === 0 ? null : "needs root: it changes the root directory");

let storage: string;
const buildah = (...words: string[]) =>
  run("buildah", [
    "--root",
    join(storage, "root"),
    "--runroot",
    join(storage, "run"),
    "--storage-driver",
    "vfs",
    ...words,
  ]);
const out = async (...words: string[]): Promise<string> => {
  const { code, stdout, stderr } = await buildah(...words);
  if (code !== 0) throw new Error(`buildah ${words[0]}: code ${code}\n${stdout.slice(-3_000)}${stderr.slice(-3_000)}`);
  return stdout.trim();
};

beforeAll(() => {
  storage = mkdtempSync(join(tmpdir(), "holdfast-buildah-"));
});
afterAll(async () => {
  await buildah("rm", "--all");
  rmSync(storage, { recursive: true, force: true });
});

test.skipIf(reason !== null)(
  "buildah builds it, and what it makes is Holdfast",
  async () => {
    const base = await out("from", "scratch");
    await out("add", "-q", base, await debianRoot("bookworm"), "/");
    await out("commit", "-q", base, "debian:12");
    await out("tag", "debian:12", "docker.io/library/debian:12", "docker.io/library/debian:12-slim");
    const authorities = readdirSync(AUTHORITIES)
      .filter((name) => name.endsWith(".crt"))
      .map((name) => readFileSync(join(AUTHORITIES, name), "utf8"))
      .join("");
    const registry = (await run("npm", ["config", "get", "registry"])).stdout.trim();
    const given = { NPM_CONFIG_REGISTRY: registry, CA_CERTIFICATE: authorities };
    const words = Object.entries(given).flatMap(([name, value]) => ["--build-arg", `${name}=${value}`]);
    const file = ["-f", join(ROOT, "deploy/Dockerfile"), "-t", "holdfast:test", ROOT];
    await out("bud", "--isolation", "chroot", "--pull-never", "--network", "host", ...words, ...file);
    const built = await out("from", "--pull-never", "holdfast:test");
    const inside = (...command: string[]) => out("run", "--isolation", "chroot", built, "--", ...command);
    const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
    expect(await inside("holdfast", "--version")).toContain(version);
    expect(await inside("id", "-u")).toBe("65532");
    await inside("/usr/sbin/haproxy", "-v");
    await inside("test", "-x", "/usr/local/lib/holdfast/bin/holdfast-ipam");
  },
  1_200_000,
);
