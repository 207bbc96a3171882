import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { hexOf, listenTo, sendArp } from "./frames.ts";
import { batch, NetNode, type PortGuest } from "./node.ts";
import { askAs, onlyDefaultRoute, self } from "./who.ts";

const NOBODY = "02:de:ad:00:00:01";
const METADATA = "169.254.169.254";

describe.skipIf(whyNotReal() !== null)("guests that are served in their bridge", () => {
  let node: NetNode;
  let bridge: string;
  let a: PortGuest;
  let b: PortGuest;
  beforeEach(async () => {
    node = await NetNode.start(["--driver", "bridge", "--rate-limit", "0"], { apart: true });
    bridge = await node.bridge();
    a = await node.guest(bridge, "10.30.0.5/24");
    b = await node.guest(bridge, "10.30.0.5/24");
    expect(await node.wanted(a.on("blue"), b.on("blue"))).toEqual({});
  });
  afterEach(async () => {
    expect(await node.stop(), node.log).toEqual([]);
  });

  const rulesAreThere = async () =>
    (await node.run("nft", ["-t", "list", "table", "bridge", `${node.names.table}_ports`])).code === 0;

  test("are told apart although they have one address, on link and by a gateway that does not exist", async () => {
    for (const guest of [a, b]) expect(await askAs(guest)).toBe(self(guest));
    for (const guest of [a, b]) await batch(onlyDefaultRoute("10.30.0.1", NOBODY), guest.namespace);
    for (let round = 0; round < 5; round += 1)
      expect(await Promise.all([a, b, a, b].map((guest) => askAs(guest)))).toEqual(
        [a, b, a, b].map((one) => self(one)),
      );
  });

  test("are answered on link when the address of the bridge has changed", async () => {
    await node.mustRun("ip", ["link", "set", bridge, "address", "02:00:00:00:00:01"]);
    await until(
      async () => (await node.run("ip", ["neigh", "show", METADATA, "dev", bridge])).stdout.includes("PERMANENT"),
      () => `what the bridge answers; log: ${node.log}`,
      10_000,
    );
    for (const guest of [a, b]) expect(await askAs(guest)).toBe(self(guest));
  });

  test("get their answers while a neighbour floods with their MAC, and others see none of them", async () => {
    const uplink = await node.uplink(bridge);
    await until(
      async () => (await askAs(a, ["--max-time", "1"])) === self(a),
      () => `an answer beside the new port; log: ${node.log}`,
    );
    const heard = await listenTo("eth0", uplink.namespace);
    const lie = {
      operation: "request",
      senderAddress: "10.30.0.99",
      targetAddress: "10.30.0.98",
      from: a.mac,
    } as const;
    const flood = sendArp(b, [lie], 4);
    for (let count = 0; count < 15; count += 1) expect(await askAs(a)).toBe(self(a));
    await flood;
    const frames = await heard.stop();
    expect(frames.some((frame) => frame.includes(hexOf("10.30.0.98")))).toBe(true);
    expect(frames.filter((frame) => frame.slice(24, 28) === "0800" && frame.includes(hexOf(METADATA)))).toEqual([]);
  });

  test("ignore a neighbour that claims 169.254.169.254, and reach nothing by another guest's address", async () => {
    const heard = await listenTo("eth0", a.namespace);
    const claim = {
      operation: "reply",
      senderAddress: METADATA,
      targetAddress: a.address,
      to: a.mac,
    } as const;
    await sendArp(b, [claim, { ...claim, tags: 1 }, { ...claim, snap: true }]);
    const claims = (await heard.stop()).filter((frame) => frame.slice(12, 24) === hexOf(b.mac).replaceAll(":", ""));
    expect(claims.filter((frame) => frame.includes(hexOf(METADATA)))).toEqual([]);
    const shown = await node.mustRun("nft", ["list", "map", "bridge", `${node.names.table}_ports`, "address"]);
    const addresses = [...shown.stdout.matchAll(/24[0-7]\.[\d.]+/g)].map(([address]) => address);
    expect(addresses).toHaveLength(2);
    const stranger = await node.guest(bridge, "10.30.0.9/24");
    await batch(["neigh replace 10.30.0.1 lladdr 02:6d:64:00:00:03 dev eth0"], stranger.namespace);
    for (const address of addresses) {
      await batch([`route replace ${address}/32 via 10.30.0.1 dev eth0`], stranger.namespace);
      expect((await stranger.ask(`http://${address}/`, ["--max-time", "1"])).status).toBe(0);
    }
    expect(node.echoes).toBe(0);
  });

  test("are served again after a flush of the rules, and no other guest gets their answers", async () => {
    const thief = await node.guest(bridge, "10.30.0.5/24");
    const doorMac = "02:6d:64:00:00:03";
    await batch(
      [
        "neigh replace 10.30.0.1 lladdr MAC dev eth0 nud permanent".replace("MAC", doorMac),
        "route add 240.0.0.0/5 via 10.30.0.1 dev eth0",
      ],
      thief.namespace,
    );
    const shown = await node.mustRun("nft", ["list", "map", "bridge", `${node.names.table}_ports`, "address"]);
    const [direct] = /24[0-7]\.[\d.]+/.exec(shown.stdout) ?? [];
    node.process?.child.kill("SIGSTOP");
    try {
      await node.mustRun("nft", ["flush", "ruleset"]);
      for (const url of [`http://${direct}/thief`, "/thief"])
        expect((await thief.ask(url, ["--max-time", "1"])).status).toBe(0);
      expect(await askAs(a, ["--max-time", "1"])).toBe("status 0");
    } finally {
      node.process?.child.kill("SIGCONT");
    }
    await until(rulesAreThere, () => `the rules; log: ${node.log}`, 20_000);
    await until(async () => (await askAs(a)) === self(a), "an answer", 20_000);
    expect(node.thefts).toBe(0);
  });
});
