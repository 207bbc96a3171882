/** The daemon is away: the code for each verb, and DEL's way into the spool. */
import { chmodSync, copyFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { pause } from "../harness/wait.ts";
import { always, httpAnswer, listen, startDaemon } from "./daemon.ts";
import {
  BINARIES,
  type Binary,
  cniError,
  expectAway,
  FAILING_VERBS,
  runVerb,
  temporaryDirectory,
  type Verb,
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
    await expectAway(binary, { socketPath }, `holdfast daemon not reachable at ${socketPath}: Connection refused`);
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
      const details = expect.stringContaining("rootless runtimes cannot use the plugin");
      expect(cniError(outcome)).toMatchObject({ code: 5, msg: message, details });
    }
  });

  test.each(["ADD", "CHECK", "GC"] as const)("%s is answered by a daemon that starts meanwhile", async (verb) => {
    const socketPath = join(temporaryDirectory(), "holdfast.sock");
    // What a daemon that was killed leaves behind: nobody listens there.
    if (verb === "CHECK") writeFileSync(socketPath, "");
    const waiting = runVerb(binary, verb, { socketPath, env: { HOLDFAST_SHIM_ABSENT_MS: "60000" } });
    await pause(300);
    rmSync(socketPath, { force: true });
    const daemon = await listen(socketPath, always(httpAnswer(200, '{"ips":[]}')));
    onTestFinished(() => daemon.close());
    expect(await waiting).toMatchObject({ status: 0, stdout: '{"ips":[]}' });
    expect(daemon.requests).toHaveLength(1);
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

test("without the tests' limits, ADD waits 30 s for a daemon, CHECK and GC 8 s, STATUS and DEL not at all", async () => {
  const socketPath = join(temporaryDirectory(), "holdfast.sock");
  const env = { HOLDFAST_SHIM_ABSENT_MS: undefined };
  const took = async (binary: Binary, verb: Verb) => {
    const outcome = await runVerb(binary, verb, { socketPath, env });
    expect(outcome.stdout + outcome.stderr).toContain("not reachable");
    return outcome.elapsedMs;
  };
  await Promise.all(
    BINARIES.map(async (binary) => {
      const [add = 0, ...others] = await Promise.all(
        (["ADD", "CHECK", "GC", "STATUS", "DEL"] as const).map((verb) => took(binary, verb)),
      );
      const [check = 0, gc = 0, ...hasty] = others;
      expect(add).toBeGreaterThanOrEqual(29_990);
      for (const ms of [check, gc]) expect(ms).toBeGreaterThanOrEqual(7_990);
      expect(Math.max(check, gc, ...hasty)).toBeLessThan(add);
      expect(Math.max(...hasty)).toBeLessThan(Math.min(check, gc));
    }),
  );
});
