/** The spool: what a DEL leaves for the daemon, and what happens when it cannot. */
import { readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { requireTool } from "../harness/needs.ts";
import { always, httpAnswer, startDaemon, wireRequest } from "./daemon.ts";
import {
  BINARIES,
  type Binary,
  environmentOf,
  readSpool,
  runShim,
  type ShimCall,
  temporaryDirectory,
} from "./harness.ts";

const ENTRIES_MAX = 10_000;
const FILE_BYTES_MAX = 64 * 1024;
const NOBODY = "/nonexistent/holdfast.sock";

async function del(binary: Binary, spool: string, call: Partial<ShimCall> = {}) {
  const env = { ...environmentOf("DEL"), HOLDFAST_SOCKET: NOBODY, HOLDFAST_SPOOL: spool, ...call.env };
  const outcome = await runShim(binary, { ...call, env });
  expect(outcome).toMatchObject({ status: 0, stdout: "" });
  return outcome;
}

describe.each(BINARIES)("spool, $build", (binary) => {
  test("has exactly the bytes of the request body", async () => {
    const spool = temporaryDirectory();
    const daemon = await startDaemon(always(httpAnswer(503, "{}")));
    const stdin = Buffer.from('{"name":"\x00é\xff\\"}', "latin1");
    const env = { HOLDFAST_SOCKET: daemon.socketPath, CNI_ARGS: 'IP="1"' };
    await del(binary, spool, { stdin, env });
    expect(readSpool(spool).map(({ body }) => body)).toEqual(daemon.requests.map(({ body }) => body));
  });

  test("file names are in the order of the calls, and say when and who", async () => {
    const spool = temporaryDirectory();
    for (let i = 0; i < 5; i++) await del(binary, spool, { env: { CNI_CONTAINERID: `c${i}` } });
    const files = readSpool(spool);
    expect(files.map(({ body }) => wireRequest(body).containerId)).toEqual(["c0", "c1", "c2", "c3", "c4"]);
    for (const { name, body } of files) {
      const stamp = String(wireRequest(body).bootUs).padStart(20, "0");
      expect(name).toMatch(new RegExp(`^${stamp}-\\d+-0\\.json$`));
    }
  });

  test("many at once leave one file each", async () => {
    const spool = join(temporaryDirectory(), "spool"); // which they also race to make
    const ids = Array.from({ length: 24 }, (_, i) => `c${i}`);
    await Promise.all(ids.map((id) => del(binary, spool, { env: { CNI_CONTAINERID: id } })));
    const found = readSpool(spool).map(({ body }) => wireRequest(body).containerId);
    expect(found.sort()).toEqual(ids.sort());
  });

  test("makes a missing directory and its parents; all is for the owner alone", async () => {
    const root = temporaryDirectory();
    const parents = ["var", "var/lib", "var/lib/spool"].map((path) => join(root, path));
    await del(binary, `${root}//var/lib/./spool/`);
    const spool = join(root, "var/lib/spool");
    for (const path of parents) expect(statSync(path).mode & 0o777).toBe(0o700);
    const [name] = readdirSync(spool);
    expect(statSync(join(spool, name ?? "")).mode & 0o777).toBe(0o600);
  });

  test("a body above the bound of a file is kept without its configuration", async () => {
    const spool = temporaryDirectory();
    await del(binary, spool, { stdin: "x".repeat(FILE_BYTES_MAX / 2) });
    await del(binary, spool, { stdin: "x".repeat(FILE_BYTES_MAX) });
    const files = readSpool(spool);
    const configs = files.map(({ body }) => wireRequest(body).config.length);
    expect(configs).toEqual([FILE_BYTES_MAX / 2, 0]);
    for (const { body } of files) expect(wireRequest(body)).toMatchObject({ containerId: "c0ffee", ifname: "net1" });
  });

  test("exactly at the bound of a file nothing is left out", async () => {
    const spool = temporaryDirectory();
    await del(binary, spool, { stdin: "" });
    const emptyBytes = readSpool(spool)[0]?.body.length ?? 0;
    await del(binary, spool, { stdin: "x".repeat(FILE_BYTES_MAX - emptyBytes - 20) }); // bootUs may gain digits
    expect(readSpool(spool)[1]?.body.length).toBeGreaterThan(FILE_BYTES_MAX - 40);
  });

  test("the bound on entries: the last place is taken, the next DEL is said to be lost", async () => {
    const spool = temporaryDirectory();
    for (let i = 0; i < ENTRIES_MAX - 1; i++) writeFileSync(join(spool, `${i}`), "");
    await del(binary, spool);
    expect(readdirSync(spool)).toHaveLength(ENTRIES_MAX);
    const { stderr } = await del(binary, spool);
    expect(stderr).toContain(`lost: spool directory ${spool}: has 10000 entries, the most allowed`);
    expect(readdirSync(spool)).toHaveLength(ENTRIES_MAX);
  });

  test.each([
    ["a file stands in its place", "file", "Not a directory"],
    ["a file stands in its parent's place", "file/spool", "Not a directory"],
    ["a name that no file system takes", "x".repeat(300), "File name too long"],
    ["a missing parent with such a name", `missing/${"x".repeat(300)}`, "File name too long"],
  ])("is reported where it cannot be created: %s", async (_reason, path, message) => {
    const root = temporaryDirectory();
    writeFileSync(join(root, "file"), "");
    const { stderr } = await del(binary, join(root, path));
    expect(stderr).toContain(`lost: spool directory ${join(root, path)}: ${message}`);
  });
});

/** File systems that refuse, each mounted in a namespace of its own, which ends with the call. */
const REFUSING: [string, string, string][] = [
  ["no space for the content", "size=4k", "No space left on device"],
  ["no inode for the file", "size=64k,nr_inodes=1", "No space left on device"],
  ["read-only", "ro", "Read-only file system"],
];

describe.each(BINARIES)("spool on a file system that refuses, $build", (binary) => {
  const unshare = process.getuid?.() === 0 ? "-m" : "-rm";

  test.for(REFUSING)("%s: said on stderr, exit 0, nothing left", async ([_reason, options, message], context) => {
    requireTool(context, "unshare", unshare, "true");
    const spool = temporaryDirectory();
    const mounted = `mount -t tmpfs -o ${options} tmpfs "$HOLDFAST_SPOOL" && "$0"; echo "exit $?"; ls -A "$HOLDFAST_SPOOL"`;
    const env = { ...environmentOf("DEL"), HOLDFAST_SOCKET: NOBODY, HOLDFAST_SPOOL: spool };
    const through = `exec unshare ${unshare} sh -c '${mounted}' "$0"`;
    const { stdout, stderr } = await runShim(binary, { env, through, stdin: "x".repeat(20_000) });
    expect(stderr).toContain(`lost: spool directory ${spool}: ${message}`);
    expect(stdout).toBe("exit 0\n");
  });
});
