import { rmSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { readClosedBridges } from "../../guests/ports/closed-bridges.ts";
import { pause, until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { askedWhile, DECOY } from "./decoy.ts";
import { batch, NetNode, type PortGuest } from "./node.ts";
import { type PythonProcess, startPython } from "./python-process.ts";
import { onlyDefaultRoute } from "./who.ts";

/*
 * What metadata-net says is closed is what ADDs rely on while it is away: no guest of such a bridge reaches the node's
 * own
 * 169.254.169.254, also one that came since, and a bridge that its guests would reach it by is not named.
 */

describe.skipIf(whyNotReal() !== null)("a bridge that is said to be closed", () => {
  let node: NetNode;
  let blue: string;
  let served: PortGuest;
  let decoy: PythonProcess;
  let guests = 0;

  async function bridge(number: number, name?: string): Promise<string> {
    const made = await node.bridge(name);
    await node.mustRun("ip", ["address", "add", `10.3${number}.0.1/24`, "dev", made]);
    return made;
  }

  /** A guest that is new there. */
  async function guest(on: string, number: number): Promise<PortGuest> {
    guests += 1;
    const made = await node.guest(on, `10.3${number}.0.${guests + 1}/24`);
    await batch(onlyDefaultRoute(`10.3${number}.0.1`, null), made.namespace);
    return made;
  }

  const closed = async () => [...(await readClosedBridges(node.runDir))];

  /** How often the node itself answers guests that are new on a bridge. */
  async function nodeAnswers(on: string, number: number): Promise<number> {
    const [counts] = await askedWhile([await guest(on, number)], () => pause(500));
    expect(counts?.asked).toBeGreaterThan(10);
    return counts?.node ?? -1;
  }

  beforeEach(async () => {
    node = await NetNode.start([], { apart: true });
    await node.mustRun("ip", ["link", "set", "lo", "up"]);
    await node.mustRun("ip", ["address", "add", "169.254.169.254/32", "dev", "lo"]);
    blue = await bridge(0);
    served = await guest(blue, 0);
    decoy = await startPython(["ip", "netns", "exec", node.space as string], DECOY, []);
    // Without metadata-net it is reached.
    expect(await nodeAnswers(blue, 0)).toBeGreaterThan(10);
    expect(await node.wanted(served.on("blue"))).toEqual({});
    expect(await closed()).toEqual([blue]);
  });
  afterEach(async () => {
    await decoy.stop();
    expect(await node.stop(), node.log).toEqual([]);
  });

  test.each<NodeJS.Signals>(["SIGTERM", "SIGKILL"])(
    "is the one with a guest, and not one that is new after %s",
    async (signal) => {
      await node.endNet(signal);
      const green = await bridge(1);
      expect(await nodeAnswers(green, 1)).toBeGreaterThan(10);
      expect(await closed()).toEqual([blue]);
      await node.mustRun("nft", ["flush", "ruleset"]);
      expect(await nodeAnswers(blue, 0)).toBe(0);
    },
  );

  test("is closed when it was deleted and created again while metadata-net was away", async () => {
    await node.endNet("SIGKILL");
    await node.mustRun("ip", ["link", "delete", blue]);
    await bridge(0, blue);
    expect(await closed()).toEqual([blue]);
    expect(await nodeAnswers(blue, 0)).toBe(0);
  });

  test("is not one that was given another name", async () => {
    await node.endNet("SIGKILL");
    await node.mustRun("ip", ["link", "set", blue, "name", "hfrenamed"]);
    expect(await closed()).not.toContain("hfrenamed");
  });

  test("is closed again after a reboot, before metadata-net and the daemon run", async () => {
    await node.reboot();
    expect(await nodeAnswers(blue, 0)).toBeGreaterThan(10);
    expect(await closed()).toEqual([]);
    await node.closeAtBoot();
    expect(await closed()).toEqual([blue]);
    expect(await nodeAnswers(blue, 0)).toBe(0);
  });

  test("is closed again after a reboot by metadata-net itself, while the daemon is away", async () => {
    await node.reboot();
    await node.stopDaemon();
    node.startNet();
    await until(
      async () => (await closed()).includes(blue),
      () => `the bridge to be closed; log: ${node.log}`,
    );
    expect(await nodeAnswers(blue, 0)).toBe(0);
    await node.startDaemon();
  });

  test("is none after a reboot when the state directory was emptied", async () => {
    await node.reboot();
    rmSync(`${node.runDir}-state`, { recursive: true });
    await node.closeAtBoot();
    expect(await closed()).toEqual([]);
  });

  test("is none once no guest is wanted, also at the next boot", async () => {
    expect(await node.wanted()).toEqual({});
    await until(
      async () => (await closed()).length === 0,
      () => `the bridge to be open; log: ${node.log}`,
    );
    await node.reboot();
    await node.closeAtBoot();
    expect(await closed()).toEqual([]);
  });

  test("is not a link that is in no bridge", async () => {
    const routed = await node.guest(null, "10.40.0.5/24");
    expect(await node.wanted(served.on("blue"), routed.on("red"))).toEqual({});
    expect((await node.mustRun("ip", ["rule"])).stdout).toContain(`iif ${routed.port} blackhole`);
    expect(await closed()).toEqual([blue]);
  });
});
