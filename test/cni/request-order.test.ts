import { readdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect } from "vitest";
import {
  held,
  network,
  past,
  pod,
  processTest,
  reboot,
  restart,
  type ServedDaemon,
  type TestDaemon,
  test,
  until,
} from "./fixtures.ts";
import { apply, claim, withClaim } from "./manifests.ts";
import { addressesIn, FORMER_BOOT, send, T, wireOf } from "./wire.ts";

/*
 * The plugin binary stamps each request with the boot and the instant of its start, and the stamps decide what a DEL
 * ends: only what is older than itself. The requests here arrive in another order than they began.
 */

const BOUND = ["10.10.0.1/24 Bound container c1 (eth0)"];
const COOLING = ["10.10.0.1/24 Cooling container c1 (eth0)"];

describe("within one boot", () => {
  test("a DEL older than the ADD ends nothing", async ({ daemon }) => {
    await send(daemon, "ADD", { bootUs: T + 10 });
    expect(await send(daemon, "DEL", { bootUs: T })).toMatchObject({ status: 200, body: "" });
    expect(await held(daemon, "blue")).toEqual(BOUND);
  });

  test("a DEL of the same instant as the ADD is not older, and ends nothing", async ({ daemon }) => {
    await send(daemon, "ADD", { bootUs: T });
    await send(daemon, "DEL", { bootUs: T });
    expect(await held(daemon, "blue")).toEqual(BOUND);
  });

  processTest("an ADD that its DEL has overtaken gets no address, however often it is repeated", async ({ daemon }) => {
    await send(daemon, "DEL", { bootUs: T + 10 });
    for (const signal of [null, "SIGKILL"] as const) {
      if (signal) await restart(daemon, signal);
      const late = await send(daemon, "ADD", { bootUs: T });
      expect(late).toMatchObject({ status: 503 });
      expect(late.json()).toMatchObject({
        code: 11,
        msg: expect.stringContaining("overtaken by a later DEL"),
      });
    }
    expect(await held(daemon, "blue")).toEqual([]);
  });

  test("an ADD that is later than such a DEL gets an address, because runtimes reuse container IDs", async ({
    daemon,
  }) => {
    await send(daemon, "DEL", { bootUs: T });
    expect(addressesIn(await send(daemon, "ADD", { bootUs: T + 10 }))).toEqual(["10.10.0.1/24"]);
    await send(daemon, "DEL", { bootUs: T + 5 });
    expect(await held(daemon, "blue")).toEqual(BOUND);
  });

  test("the latest of several DELs counts, in whatever order they arrive", async ({ daemon }) => {
    for (const bootUs of [T + 30, T + 10, T + 20]) await send(daemon, "DEL", { bootUs });
    expect((await send(daemon, "ADD", { bootUs: T + 25 })).json()).toMatchObject({ code: 11 });
    expect(addressesIn(await send(daemon, "ADD", { bootUs: T + 35 }))).toEqual(["10.10.0.1/24"]);
  });

  test("a repeated ADD has the time of its repeat", async ({ daemon }) => {
    await send(daemon, "ADD", { bootUs: T });
    await send(daemon, "ADD", { bootUs: T + 20 });
    await send(daemon, "DEL", { bootUs: T + 10 });
    expect(await held(daemon, "blue")).toEqual(BOUND);
    // A repeat that was overtaken by a younger one does not make it older.
    await send(daemon, "ADD", { bootUs: T + 15 });
    await send(daemon, "DEL", { bootUs: T + 18 });
    expect(await held(daemon, "blue")).toEqual(BOUND);
  });

  test("a DEL of one network or interface does not overtake an ADD of another", async ({ daemon }) => {
    await send(daemon, "DEL", { bootUs: T + 10, config: network("red") });
    await send(daemon, "DEL", { bootUs: T + 10, ifname: "eth1" });
    expect(addressesIn(await send(daemon, "ADD", { bootUs: T }))).toEqual(["10.10.0.1/24"]);
  });

  processTest("a DEL that names no network overtakes the ADDs of all", async ({ daemon }) => {
    await send(daemon, "DEL", { bootUs: T + 10, config: {} });
    for (const name of ["blue", "red"]) {
      expect((await send(daemon, "ADD", { config: network(name) })).json()).toMatchObject({ code: 11 });
    }
  });

  processTest("an ADD and its DEL at the same moment leave nothing behind, whichever wins", async ({ daemon }) => {
    for (let round = 0; round < 20; round++) {
      const containerId = `race-${round}`;
      await Promise.all([
        send(daemon, "ADD", { containerId, bootUs: T }),
        send(daemon, "DEL", { containerId, bootUs: T + 1 }),
      ]);
    }
    expect((await held(daemon, "blue")).filter((one) => one.includes("Bound"))).toEqual([]);
  });
});

/** Has a daemon of a former boot do something, and comes back to this one as a machine does whose power went. */
async function inFormerBoot(daemon: TestDaemon, work: () => Promise<unknown>): Promise<void> {
  const file = join(daemon.directory, "former-boot");
  writeFileSync(file, `${FORMER_BOOT}\n`);
  await reboot(daemon, "SIGTERM", ["--boot-id-file", file]);
  await work();
  await reboot(daemon, "SIGKILL");
}

/** Puts a DEL into the spool, as a plugin binary that found no daemon, and waits until it is drained. */
async function spoolDel(daemon: ServedDaemon, fields: Parameters<typeof wireOf>[1]): Promise<void> {
  const temporary = join(daemon.spool, ".tmp-x");
  writeFileSync(temporary, JSON.stringify(wireOf("DEL", fields)));
  renameSync(temporary, join(daemon.spool, "1-1-0.json"));
  await until(() => readdirSync(daemon.spool).length === 0, "the spool to be drained");
}

describe("across boots", () => {
  test("a spooled DEL of a former boot ends nothing of this boot, and refuses no ADD", async ({ daemon }) => {
    await send(daemon, "ADD", {});
    await spoolDel(daemon, { bootId: FORMER_BOOT, bootUs: T + 10 });
    expect(await held(daemon, "blue")).toEqual(BOUND);
    await spoolDel(daemon, { containerId: "c2", bootId: FORMER_BOOT, bootUs: T + 10 });
    expect(addressesIn(await send(daemon, "ADD", { containerId: "c2" }))).toEqual(["10.10.0.2/24"]);
  });

  test("a spooled DEL of this boot ends what is older than it", async ({ daemon }) => {
    await send(daemon, "ADD", {});
    await spoolDel(daemon, { bootUs: T - 10 });
    expect(await held(daemon, "blue")).toEqual(BOUND);
    await spoolDel(daemon, { bootUs: T + 10 });
    expect(await held(daemon, "blue")).toEqual(COOLING);
  });

  processTest("the first start after a reboot ends the containers of the boot before", async ({ daemon }) => {
    await inFormerBoot(daemon, () => send(daemon, "ADD", { bootId: FORMER_BOOT, bootUs: T + 1_000_000 }));
    await send(daemon, "ADD", { containerId: "c2" });
    expect(await held(daemon, "blue")).toEqual([...COOLING, "10.10.0.2/24 Bound container c2 (eth0)"]);
    expect(await past(daemon, "10.10.0.1")).toEqual(["container c1 until reboot"]);
    await restart(daemon, "SIGKILL");
    expect(await held(daemon, "blue")).toEqual([...COOLING, "10.10.0.2/24 Bound container c2 (eth0)"]);
  });

  processTest("a claim keeps its addresses over the reboot, and its VM may start at once", async ({ daemon }) => {
    const config = withClaim("vm1");
    let before: string[] = [];
    await inFormerBoot(daemon, async () => {
      await apply(daemon, claim("vm1"));
      const answer = await send(daemon, "ADD", { bootId: FORMER_BOOT, config, args: pod("pod-a") });
      before = addressesIn(answer);
    });
    expect(await held(daemon, "blue")).toEqual([`${before[0]} Bound claim default/vm1`]);
    const after = await send(daemon, "ADD", { containerId: "c2", config, args: pod("pod-b") });
    expect(addressesIn(after)).toEqual(before);
  });

  processTest("a pod that restarts after the reboot has its addresses again", async ({ daemon }) => {
    const args = pod("pod-a");
    await inFormerBoot(daemon, () => send(daemon, "ADD", { bootId: FORMER_BOOT, bootUs: T + 1_000_000, args }));
    const now = await send(daemon, "ADD", { containerId: "c2", args });
    expect(addressesIn(now)).toEqual(["10.10.0.1/24"]);
  });

  test.for(["", FORMER_BOOT])(
    "a request that has just arrived is of this boot, also with boot %j",
    async (bootId, { daemon }) => {
      await send(daemon, "ADD", { bootId });
      await send(daemon, "DEL", { bootId, bootUs: T - 10 });
      expect(await held(daemon, "blue")).toEqual(BOUND);
      expect((await send(daemon, "CHECK", { bootId })).status).toBe(200);
      await send(daemon, "DEL", { bootId, bootUs: T + 10 });
      expect(await held(daemon, "blue")).toEqual(COOLING);
    },
  );

  test("a spooled DEL that could not tell its boot ends nothing of this one and refuses no ADD", async ({ daemon }) => {
    await send(daemon, "ADD", {});
    await spoolDel(daemon, { bootId: "", bootUs: T + 10 });
    expect(await held(daemon, "blue")).toEqual(BOUND);
    await spoolDel(daemon, { containerId: "c2", bootId: "", bootUs: T + 10 });
    expect(addressesIn(await send(daemon, "ADD", { containerId: "c2" }))).toEqual(["10.10.0.2/24"]);
  });
});
