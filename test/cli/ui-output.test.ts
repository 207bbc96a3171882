/** Where `holdfast ui` prints its URL, which is a password. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, closeSync, openSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cleanEnv, HOLDFAST, newDirectory, TestDaemon } from "../harness/daemon.ts";
import { requireRoot } from "../harness/needs.ts";
import { until } from "../harness/wait.ts";

let daemon: TestDaemon;
let directory: string;
beforeAll(async () => {
  daemon = await TestDaemon.start();
  directory = newDirectory();
});
afterAll(async () => {
  await daemon?.stop();
  rmSync(directory, { recursive: true, force: true });
});

/** `holdfast ui` with a file of this mode as its stdout, after what `wrapper` does first. */
function printingTo(mode: number, wrapper: readonly string[] = []) {
  const path = join(directory, `${mode.toString(8)}-${wrapper.length}`);
  const file = openSync(path, "w", 0o600);
  chmodSync(path, mode);
  const ui = [process.execPath, HOLDFAST, "ui", "--no-open", "--socket", daemon.socket];
  const [program, ...words] = [...wrapper, ...ui] as [string, ...string[]];
  const child = spawn(program, words, { env: cleanEnv(), stdio: ["ignore", file, "pipe"] });
  closeSync(file);
  const written = () => readFileSync(path, "utf8");
  let said = "";
  child.stderr?.on("data", (chunk: Buffer) => {
    said += chunk.toString();
  });
  return { child, written, said: () => said };
}

test.each(["644", "640", "604"])("a file of mode 0%s, which others can read, gets no URL", async (mode) => {
  const { child, written, said } = printingTo(Number.parseInt(mode, 8));
  expect(await once(child, "close")).toEqual([1, null]);
  expect(said()).toMatch(/^error: the URL is a password/);
  expect(written()).toBe("");
});

test("a file of the reader's alone gets it", async () => {
  const { child, written, said } = printingTo(0o600);
  const closed = once(child, "close");
  await until(
    () => /^http:\S+#t=[\w-]{32}\n$/.test(written()),
    () => `the URL; ${said()}`,
  );
  expect(said()).not.toContain(/#t=(\S+)/.exec(written())?.[1]);
  child.kill("SIGTERM");
  await closed;
});

test("on a machine without IPv6 it listens where it can", async (context) => {
  requireRoot(context);
  const without =
    'ip link set lo up && echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 && cat /proc/net/if_inet6 >&2 && exec "$@"';
  const { child, written, said } = printingTo(0o600, ["unshare", "-n", "sh", "-c", without, "sh"]);
  const closed = once(child, "close");
  await until(
    () => /^http:\S+#t=[\w-]{32}\n$/.test(written()),
    () => `the URL; ${said()}`,
  );
  // Its stderr is another pipe, which may be read later.
  await until(
    () => said() !== "",
    () => "what it says",
  );
  // No address of IPv6 was listed.
  expect(said()).toMatch(/^shows /);
  child.kill("SIGTERM");
  await closed;
});
