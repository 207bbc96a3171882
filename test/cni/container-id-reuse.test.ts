import { readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished } from "vitest";
import type { ServedDaemon } from "../harness/daemon.ts";
import { addressesOf, expectDone, held, newDirectory, processTest, restart, test, until } from "./fixtures.ts";

/*
 * cnitool derives the container ID from the namespace's path, podman keeps it over stop and start: the same ID comes
 * again after its DEL. A DEL that was slow, or waited in the spool, must not end the container's next life.
 */

describe("a container ID that is used again", () => {
  test("gets its cooling address back after DEL, DEL, ADD", async ({ daemon }) => {
    const first = await daemon.cni("ADD", "c1");
    for (let i = 0; i < 2; i++) expectDone(await daemon.cni("DEL", "c1"));
    await daemon.cni("ADD", "other");
    expect((await daemon.cni("ADD", "c1")).stdout).toBe(first.stdout);
  });

  test("uses one address in a hundred lives", async ({ daemon }) => {
    for (let life = 0; life < 100; life++) {
      expect(addressesOf(await daemon.cni("ADD", "c1"))).toEqual(["10.10.0.1/24"]);
      expectDone(await daemon.cni("DEL", "c1"));
    }
    expect(await held(daemon, "blue")).toEqual(["10.10.0.1/24 Cooling container c1 (eth0)"]);
  });
});

describe("a DEL that waits in the spool", () => {
  /** Runs a DEL whose daemon is away. `deliver` puts what it spooled where the daemon looks. */
  async function delayedDel(daemon: ServedDaemon, containerId: string) {
    const spool = newDirectory();
    onTestFinished(() => rmSync(spool, { recursive: true }));
    const answer = await daemon.cni("DEL", containerId, { socket: "/nonexistent/s.sock", spool });
    expect(answer).toMatchObject({
      code: 0,
      stdout: "",
      stderr: expect.stringContaining("goes to the spool"),
    });
    const [name] = readdirSync(spool);
    return { deliver: () => renameSync(join(spool, name as string), join(daemon.spool, name as string)) };
  }
  const drained = (daemon: ServedDaemon) =>
    until(() => readdirSync(daemon.spool).length === 0, "the spool to be drained");

  test("releases the address after ADD, DEL, drain", async ({ daemon }) => {
    await daemon.cni("ADD", "c1");
    const { deliver } = await delayedDel(daemon, "c1");
    expect(await held(daemon, "blue")).toEqual(["10.10.0.1/24 Bound container c1 (eth0)"]);
    deliver();
    await drained(daemon);
    expect(await held(daemon, "blue")).toEqual(["10.10.0.1/24 Cooling container c1 (eth0)"]);
  });

  processTest("keeps the second life's address after ADD, DEL, ADD, drain", async ({ daemon }) => {
    await daemon.cni("ADD", "c1");
    const { deliver } = await delayedDel(daemon, "c1");
    const second = await daemon.cni("ADD", "c1");
    deliver();
    await drained(daemon);
    expect(await held(daemon, "blue")).toEqual(["10.10.0.1/24 Bound container c1 (eth0)"]);
    expect((await daemon.cni("ADD", "c1")).stdout).toBe(second.stdout);
  });

  processTest("is drained at a restart before the first ADD, which gets the address again", async ({ daemon }) => {
    await daemon.cni("ADD", "c1");
    const { deliver } = await delayedDel(daemon, "c1");
    await daemon.end("SIGKILL");
    deliver();
    await restart(daemon, "SIGKILL");
    expect(readdirSync(daemon.spool)).toEqual([]);
    expect(await held(daemon, "blue")).toEqual(["10.10.0.1/24 Cooling container c1 (eth0)"]);
    expect(addressesOf(await daemon.cni("ADD", "c1"))).toEqual(["10.10.0.1/24"]);
  });

  test("counts only for its own life when the DELs of many lives are drained together", async ({ daemon }) => {
    const waiting = [];
    for (let life = 0; life < 5; life++) {
      await daemon.cni("ADD", "c1");
      waiting.push(await delayedDel(daemon, "c1"));
    }
    await daemon.cni("ADD", "c1");
    for (const { deliver } of waiting) deliver();
    await drained(daemon);
    expect(await held(daemon, "blue")).toEqual(["10.10.0.1/24 Bound container c1 (eth0)"]);
  });

  test("does not refuse a later ADD when no ADD preceded it", async ({ daemon }) => {
    const { deliver } = await delayedDel(daemon, "c1");
    deliver();
    await drained(daemon);
    expect(addressesOf(await daemon.cni("ADD", "c1"))).toEqual(["10.10.0.1/24"]);
    expect(await held(daemon, "blue")).toEqual(["10.10.0.1/24 Bound container c1 (eth0)"]);
  });
});
