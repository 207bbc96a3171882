import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { pause, until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { askedWhile, DECOY } from "./decoy.ts";
import { batch, NetNode, type PortGuest } from "./node.ts";
import { type PythonProcess, startPython } from "./python-process.ts";
import { askAs, onlyDefaultRoute, self } from "./who.ts";

const DRIVERS = whyNotReal() === null ? ["auto", "bridge"] : [];

describe.each(DRIVERS)("the node's own 169.254.169.254, driver %s", (driver) => {
  let node: NetNode;
  let bridge: string;
  let served: PortGuest;
  /** On the same bridge, of a network without metadata. */
  let unserved: PortGuest;
  /** At no bridge, as the ptp plugin attaches it; the bridge driver does not serve it. */
  let routed: PortGuest | null = null;
  let decoy: PythonProcess;

  const guests = () => [served, unserved, ...(routed === null ? [] : [routed])];
  const wanted = () => [served.on("blue"), ...(routed === null ? [] : [routed.on("red")])];

  beforeAll(async () => {
    node = await NetNode.start(["--driver", driver], { apart: true });
    bridge = await node.bridge();
    await node.mustRun("ip", ["address", "add", "10.30.0.1/24", "dev", bridge]);
    await node.mustRun("ip", ["address", "add", "169.254.169.254/32", "dev", bridge]);
    served = await node.guest(bridge, "10.30.0.5/24");
    unserved = await node.guest(bridge, "10.30.0.6/24");
    for (const guest of [served, unserved]) await batch(onlyDefaultRoute("10.30.0.1", null), guest.namespace);
    if (driver !== "bridge") {
      routed = await node.guest(null, "10.40.0.5/24");
      await node.mustRun("ip", ["route", "add", "10.40.0.5/32", "dev", routed.port]);
    }
    decoy = await startPython(["ip", "netns", "exec", node.space as string], DECOY, []);
    // Without metadata-net, all of them reach it.
    for (const guest of guests()) expect((await guest.ask("/")).body).toBe("NODE-IAM-CREDENTIALS");
    expect(await node.wanted(...wanted())).toEqual({});
    expect(await askAs(served)).toBe(self(served));
  });
  afterEach(async () => {
    if (node.process?.child.exitCode !== null || node.process.child.signalCode !== null) node.startNet();
    expect(await node.applied()).toEqual({});
    await servedAgain();
  });
  afterAll(async () => {
    await decoy.stop();
    expect(await node.stop(), node.log).toEqual([]);
  });

  const family = driver === "bridge" ? "bridge" : "netdev";
  const table = () => (driver === "bridge" ? `${node.names.table}_ports` : node.names.table);
  const rulesAreThere = async () => (await node.run("nft", ["-t", "list", "table", family, table()])).code === 0;
  const flush = () => node.mustRun("nft", ["flush", "ruleset"]);
  const servedAgain = () =>
    until(
      async () => (await askAs(served, ["--max-time", "1"])) === self(served),
      () => `the guest is served; log: ${node.log}`,
      20_000,
    );

  const TROUBLES: Readonly<Record<string, () => Promise<void>>> = {
    "ten flushes of the ruleset": async () => {
      for (let count = 0; count < 10; count += 1) {
        await flush();
        await until(rulesAreThere, () => `the rules after flush ${count}; log: ${node.log}`, 20_000);
      }
    },
    "a stop": async () => {
      await node.endNet("SIGTERM");
      await pause(3_000);
      expect(await rulesAreThere()).toBe(true);
    },
    "a stop and a flush after it": async () => {
      await node.endNet("SIGTERM");
      await flush();
      await pause(1_000);
    },
    "SIGKILL and a start": async () => {
      await node.endNet("SIGKILL");
      node.startNet();
      await node.applied();
    },
    "SIGKILL, a flush and a start while the daemon is away": async () => {
      await node.endNet("SIGKILL");
      await flush();
      await node.stopDaemon();
      node.startNet();
      await until(rulesAreThere, () => `rules before the daemon is heard; log: ${node.log}`, 20_000);
      await node.startDaemon();
      await node.applied();
    },
    "a replacement, which starts when the old one has ended": async () => {
      await node.endNet("SIGTERM");
      node.startNet();
      await node.applied();
    },
    "SIGSTOP and a flush": async () => {
      node.process?.child.kill("SIGSTOP");
      await flush();
      await pause(2_000);
      node.process?.child.kill("SIGCONT");
      await until(rulesAreThere, () => `the rules; log: ${node.log}`, 20_000);
    },
  };

  test.each(Object.entries(TROUBLES))("answers no guest of its bridges during %s", async (name, trouble) => {
    const counts = await askedWhile(guests(), trouble);
    console.log(`driver ${driver}, ${name}:`, JSON.stringify(counts));
    for (const { asked, node: answers } of counts) {
      expect(asked).toBeGreaterThan(10);
      expect(answers).toBe(0);
    }
  });

  test("is answered for by no neighbour while metadata-net is stopped", async () => {
    const thief = await node.guest(bridge, "10.30.0.7/24");
    const neighbour = await node.guest(bridge, "10.30.0.8/24");
    await batch(["address add 169.254.169.254/32 dev eth0"], thief.namespace);
    const claimed = await startPython(thief.namespace, DECOY, []);
    // Of those whose networks have no metadata it is believed.
    await until(async () => (await neighbour.ask("/", ["--max-time", "1"])).status === 200, "the claim");
    await node.endNet("SIGTERM");
    await batch(["route replace 169.254.0.0/16 dev eth0 scope link"], served.namespace);
    expect((await served.ask("/", ["--max-time", "2"])).status).toBe(0);
    await batch(["route del 169.254.0.0/16 dev eth0"], served.namespace);
    await claimed.stop();
    for (const guest of [thief, neighbour]) await node.removeGuest(guest);
  });

  test("answers no guest when routing rules were changed, and the list of rules is as before after --remove", async () => {
    const before = (await node.mustRun("ip", ["rule"])).stdout;
    expect(before).toContain(`iif ${bridge} blackhole`);
    const ours = ["iif", bridge, "to", "169.254.169.254", "blackhole"];
    await node.mustRun("ip", ["rule", "del", "pref", "0", ...ours]);
    const restored = async () => (await node.mustRun("ip", ["rule"])).stdout.includes(`iif ${bridge} blackhole`);
    await until(restored, () => `the rule; log: ${node.log}`, 20_000);
    // The kernel's own rule first: ours would never be asked. In one turn, or both sides add the kernel's rule again.
    const blackhole = `pref 0 ${ours.join(" ")}`;
    const reordered = `ip rule add pref 1 lookup local
      ip rule del pref 0 lookup local; ip rule del ${blackhole}
      ip rule add pref 0 lookup local; ip rule add ${blackhole}`;
    await node.mustRun("flock", ["/run", "sh", "-ec", reordered]);
    const isFirst = async () =>
      /iif \S+ blackhole[\s\S]*lookup local/.test((await node.mustRun("ip", ["rule"])).stdout);
    await until(isFirst, () => `the rule before that of the kernel; log: ${node.log}`, 20_000);
    await node.endNet("SIGTERM");
    await node.removeLeft();
    expect((await node.mustRun("ip", ["rule"])).stdout).toMatch(
      /^0:\s+from all lookup local\n32766:\s+from all lookup main\n32767:\s+from all lookup default\n$/,
    );
    expect((await node.mustRun("nft", ["list", "ruleset"])).stdout).toBe("");
    // The node's own server has the time of a busy machine.
    const isAnswered = async () => (await unserved.ask("/")).body === "NODE-IAM-CREDENTIALS";
    await until(isAnswered, "the node's own answer, which nothing holds up any more", 20_000);
  });
});
