import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { Haproxy } from "../../guests/haproxy/haproxy.ts";
import { findHaproxy } from "../../guests/haproxy/haproxy-process.ts";
import { systemClock } from "../../platform/time.ts";
import { newDirectory } from "../harness/daemon.ts";
import { pause, until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";

/** Something that calls itself haproxy and names our configuration, as every pod of the node can. */
async function impostor(path: string, ...wrapped: readonly string[]): Promise<void> {
  const [command, ...args] = [...wrapped, "bash", "-c", 'exec -a haproxy tail -f "$0"', path];
  const child = spawn(command as string, args, { stdio: "ignore" });
  onTestFinished(async () => {
    const closed = once(child, "close");
    child.kill("SIGKILL");
    await closed;
  });
}

test.skipIf(whyNotReal() !== null)(
  "a process named haproxy in a container is not taken for Holdfast's haproxy",
  async () => {
    const directory = newDirectory();
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
    const path = join(directory, "haproxy.cfg");
    writeFileSync(path, "");
    await impostor(path, "unshare", "--pid", "--fork", "--kill-child");
    await impostor(path);
    await until(() => findHaproxy(path).all.length > 0, "the one beside us to be seen");
    await pause(200);
    const { master, all } = findHaproxy(path);
    expect(all).toEqual([master]);
  },
);

test.skipIf(whyNotReal() !== null)(
  "another user's process named haproxy is not taken for Holdfast's haproxy",
  async () => {
    const directory = newDirectory();
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
    chmodSync(directory, 0o755);
    const path = join(directory, "haproxy.cfg");
    writeFileSync(path, "");
    const nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    await impostor(path, ...nobody);
    // A process that asks not to be dumped has a directory of root's in /proc.
    const hidden = `import ctypes, sys, time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); time.sleep(600)`;
    const child = spawn(
      "setpriv",
      [...nobody.slice(1), "bash", "-c", 'exec -a haproxy python3 -c "$1" -f "$0"', path, hidden],
      { stdio: "ignore" },
    );
    onTestFinished(() => void child.kill("SIGKILL"));
    await impostor(path);
    await until(() => findHaproxy(path).all.length > 0, "the one of root to be seen");
    await pause(500);
    const { master, all } = findHaproxy(path);
    expect(all).toEqual([master]);
    expect(readFileSync(`/proc/${master}/status`, "utf8")).toMatch(/^Uid:\s+0\s/m);
  },
);

/** A command in the place of haproxy: a shell script that gets its arguments. */
function scriptedHaproxy(script: string): { haproxy: Haproxy; text: string } {
  const directory = newDirectory();
  const command = join(directory, "slow-haproxy");
  writeFileSync(command, `#!/bin/bash\n${script}\n`, { mode: 0o755 });
  const haproxy = new Haproxy(command, directory, systemClock);
  onTestFinished(async () => {
    await haproxy.stop();
    rmSync(directory, { recursive: true, force: true });
  });
  const socket = join(directory, "listener.sock");
  const timeouts = "timeout connect 1s\n  timeout client 1s\n  timeout server 1s";
  const text = `global\n  maxconn 10\ndefaults\n  mode http\n  ${timeouts}\nfrontend f\n  bind ${socket}\n`;
  return { haproxy, text };
}

test.skipIf(whyNotReal() !== null)("a haproxy that is executed late is waited for", async () => {
  const { haproxy, text } = scriptedHaproxy('sleep 1.5\nexec -a haproxy haproxy "$@"');
  expect(await haproxy.serve(text)).toEqual({ outcome: "ok" });
});

test.skipIf(whyNotReal() !== null)("a haproxy that exits at its start is reported with its alerts", async () => {
  const { haproxy, text } = scriptedHaproxy('echo "[ALERT]    (1) : nothing works"\nexit 1');
  expect(await haproxy.serve(text)).toEqual({ outcome: "failed", problem: "nothing works" });
});

test.skipIf(whyNotReal() !== null)("several reloads in a row do not count as an exit", async () => {
  const { haproxy, text } = scriptedHaproxy('exec -a haproxy haproxy "$@"');
  for (let reload = 0; reload < 20; reload += 1) expect(await haproxy.serve(text)).toEqual({ outcome: "ok" });
});
