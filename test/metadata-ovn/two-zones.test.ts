import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { until } from "../harness/wait.ts";
import { BalancingNode } from "./balancing-node.ts";
import { type Pod, whyNoOvn, Zone } from "./zone.ts";

// Two nodes of OVN-Kubernetes in interconnect mode: a database each, and one network across both through geneve.

const BLUE = "cluster_udn_blue";
const SWITCH = "cluster_udn_blue_ovn_layer2_switch";

const zones: Zone[] = [];
const nodes: BalancingNode[] = [];
const guests: Pod[] = [];

describe.skipIf(whyNoOvn() !== null)("two nodes", () => {
  beforeAll(async () => {
    zones.push(await Zone.start("node-a", { encapAddress: "192.168.50.1" }));
    zones.push(await Zone.start("node-b", { encapAddress: "192.168.50.2" }));
    const [a, b] = zones as [Zone, Zone];
    await a.connect(b, ["192.168.50.1", "192.168.50.2"]);
    for (const zone of zones) await zone.network(BLUE, { net: 20 });
    for (const [i, zone] of zones.entries()) {
      guests.push(await zone.pod(SWITCH, `10.20.0.${5 + i}`));
      const backend = await zone.pod(SWITCH, `10.20.0.${30 + i}`);
      await zone.answerIn(backend, zone.name);
      for (const pod of [guests[i] as Pod, backend]) await (i === 0 ? b : a).remotePod(SWITCH, pod, zone);
      nodes.push(await BalancingNode.start(zone.name, zone.central.northbound));
    }
  });
  afterAll(async () => {
    for (const node of nodes) await node.stop();
    for (const zone of zones) await zone.stop();
  });

  test("a guest reaches the other node's through a tunnel, and at the metadata address its own node's backend only", async () => {
    const [here, there] = guests as [Pod, Pod];
    const { answer } = await reached(here, there.address);
    expect(answer).toBe(true);
    await Promise.all(nodes.map((node, i) => node.want({ [BLUE]: [`10.20.0.${30 + i}:8080`] })));
    for (const [i, guest] of guests.entries()) {
      const expected = `src=10.20.0.${5 + i} at=${zones[i]?.name}`;
      await until(async () => (await guest.asks(1)) === expected, expected);
      const answers = await Promise.all(Array.from({ length: 15 }, () => guest.asks(10)));
      expect(new Set(answers)).toEqual(new Set([expected]));
    }
  });

  test("where a node has no ready endpoint its guests are refused, and the other node's are answered", async () => {
    const [, b] = nodes as [BalancingNode, BalancingNode];
    const [here, there] = guests as [Pod, Pod];
    await b.want({ [BLUE]: [] });
    await until(async () => (await there.connects()) === "refused", "the refusal on node-b");
    expect(await here.asks(10)).toBe("src=10.20.0.5 at=node-a");
  });
});

async function reached(from: Pod, address: string): Promise<{ answer: boolean }> {
  const ping = async () => (await from.run("ping", ["-c1", "-W1", address])).code === 0;
  await until(ping, `${from.address} to reach ${address}`);
  return { answer: true };
}
