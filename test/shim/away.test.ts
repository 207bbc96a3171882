/** The daemon is away: the code for each verb, and DEL's way into the spool. */
import { chmodSync, copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startDaemon } from "./daemon.ts";
import {
  awayCode,
  BINARIES,
  type Binary,
  cniError,
  expectAway,
  FAILING_VERBS,
  runVerb,
  temporaryDirectory,
} from "./harness.ts";

describe.each(BINARIES)("daemon away, $build", (binary) => {
  test("no socket", async () => {
    const socketPath = join(temporaryDirectory(), "holdfast.sock");
    const message = `holdfast daemon not reachable at ${socketPath}: No such file or directory`;
    await expectAway(binary, { socketPath }, message);
  });

  test("a file that nobody listens on", async () => {
    const socketPath = join(temporaryDirectory(), "holdfast.sock");
    writeFileSync(socketPath, "");
    await expectAway(
      binary,
      { socketPath },
      `holdfast daemon not reachable at ${socketPath}: Connection refused`,
    );
  });

  test("a socket that we may not use", async () => {
    const isRoot = process.getuid?.() === 0;
    const { socketPath } = await startDaemon((connection) => connection.end());
    chmodSync(socketPath, 0);
    const directory = temporaryDirectory(); // where somebody else can execute the shim, too
    chmodSync(directory, 0o755);
    chmodSync(join(socketPath, ".."), 0o755);
    const copy: Binary = { ...binary, path: join(directory, "holdfast-ipam") };
    copyFileSync(binary.path, copy.path);
    const message = `holdfast daemon not reachable at ${socketPath}: Permission denied`;
    for (const verb of FAILING_VERBS) {
      const outcome = await runVerb(copy, verb, { socketPath, ...(isRoot ? { uid: 65534 } : {}) });
      expect(cniError(outcome)).toMatchObject({ code: awayCode(verb), msg: message });
    }
  });

  test("a socket path longer than the kernel takes", async () => {
    const longest = `/tmp/${"x".repeat(102)}`; // 107 bytes: reaches the kernel
    const missing = `holdfast daemon not reachable at ${longest}: No such file or directory`;
    await expectAway(binary, { socketPath: longest }, missing);

    const socketPath = `${longest}x`;
    const msg = `socket path is longer than the 107 bytes that a unix socket can have: ${socketPath}`;
    for (const verb of FAILING_VERBS)
      expect(cniError(await runVerb(binary, verb, { socketPath }))).toMatchObject({ code: 7, msg });
    const del = await runVerb(binary, "DEL", { socketPath });
    expect(del).toMatchObject({ status: 0, stderr: expect.stringContaining(msg) });
    expect(del.spooled).toHaveLength(1);
  });
});
