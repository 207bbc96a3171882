import { describe, expect, test } from "vitest";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import type { Owner } from "../../ipam/owner.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { NodeConfigurations } from "../../networks/node-configurations.ts";
import { ManualClock } from "../harness/manual-clock.ts";

const RANGES = { subnets: "10.30.0.0/24" };
const ROUTED = { ...RANGES, routes: [{ dst: "0.0.0.0/0" }] };
const BRIDGE = { isGateway: true };
const HOLDER: Owner = { kind: "pod", uid: "u", interface: "net1", namespace: "shop", name: "web-0" };

type Keys = Readonly<Record<string, unknown>>;

function configuration(ipam: Keys, plugin: Keys = {}) {
  return {
    cniVersion: "1.0.0",
    name: "podnet",
    type: "bridge",
    ...plugin,
    ipam: { type: "holdfast-ipam", ...ipam },
  };
}

class Node {
  readonly clock = new ManualClock();
  isUsed = false;
  defined: Keys | null;
  held = new Set<string>();
  readonly configurations = new NodeConfigurations(this.clock);

  constructor(defined: Keys | null) {
    this.defined = defined;
  }

  /** An ADD whose interface has no NAD. */
  add(conf: Keys): void {
    const ownDefinition = () => ({ definition: parsePluginConfig(conf) });
    this.configurations.note({ network: "podnet", conf, ownDefinition });
  }

  async findings(): Promise<string[]> {
    const definitionOf = () =>
      this.defined && { definition: parsePluginConfig(this.defined), by: "evil/x", source: "" };
    const found = await this.configurations.findings({
      catalog: { definitionOf },
      node: "node-a",
      isUsed: () => this.isUsed,
      holderOf: async (_, address) => (this.held.has(formatAddress(address)) ? HOLDER : null),
    });
    return found.map(({ invariant, message, hint }) => `${invariant}: ${message}; do: ${hint}`);
  }
}

async function findings(own: Keys, defined: Keys | null): Promise<string[]> {
  const node = new Node(defined);
  node.add(own);
  return node.findings();
}

describe("the node's own configuration beside the definition that counts", () => {
  test("other ranges are named, with both definitions and what to do", async () => {
    expect(await findings(configuration(RANGES), configuration({ subnets: "10.31.0.0/24" }))).toEqual([
      "network: the configuration on node node-a defines network podnet differently from " +
        "NetworkAttachmentDefinition evil/x, which counts (ranges 10.30.0.0/24 here, 10.31.0.0/24 there): ADDs that come " +
        "by it are refused; do: make them the same, or remove the ranges from the nodes' configuration; where the network " +
        "is the nodes' own, an administrator takes it from evil: holdfast networks own podnet --administrators",
    ]);
  });

  test.each([
    [{ ...RANGES, excludeSubnets: "10.30.0.0/28" }, RANGES, "(other ranges)"],
    [
      { ...RANGES, gateway: "10.30.0.1" },
      { ...RANGES, gateway: "10.30.0.66" },
      "(gateway 10.30.0.1 here, 10.30.0.66 there)",
    ],
    [RANGES, ROUTED, "(other routes)"],
  ])("%j beside %j", async (own, defined, what) => {
    expect((await findings(configuration(own), configuration(defined))).join()).toContain(what);
  });

  test.each([
    [configuration({}), configuration(RANGES), "no ranges of its own"],
    [configuration(ROUTED), configuration(ROUTED), "the same"],
    [configuration(RANGES), null, "no other definition"],
    [configuration(RANGES, BRIDGE), configuration(RANGES, BRIDGE), "both say isGateway"],
    [configuration(RANGES, { type: "ptp" }), configuration(RANGES, BRIDGE), "ptp is as good as isGateway"],
  ])("%j beside %j is in order", async (own, defined, reason) => {
    expect(await findings(own, defined), reason).toEqual([]);
  });

  test("a bridge whose own address the definition gives to pods is named, with the owner of the address", async () => {
    const node = new Node(configuration(RANGES));
    node.add(configuration({}, BRIDGE));
    const lacks =
      "gateway: the configuration of network podnet on node node-a makes the node its gateway (isGateway, or ptp), and NetworkAttachmentDefinition evil/x, " +
      "which counts, does not: 10.30.0.1 is the node's there, and other nodes may give it; " +
      'do: write "isGateway": true, or the gateway, into NetworkAttachmentDefinition evil/x';
    expect(await node.findings()).toEqual([lacks]);
    node.held.add("10.30.0.1");
    expect(await node.findings()).toEqual([
      lacks,
      expect.stringContaining("10.30.0.1 is the gateway of network podnet, and pod shop/web-0 (net1) holds it"),
    ]);
  });

  test("a configuration that is refused, or has ranges nowhere, is named with the refusal", async () => {
    expect(await findings(configuration({ subnets: "10.30.0.300/24" }), null)).toEqual([
      expect.stringMatching(
        /^network: the configuration of network podnet on node node-a is refused: .*10\.30\.0\.300/,
      ),
    ]);
    expect(await findings(configuration({}), null)).toEqual([expect.stringContaining("is refused: ")]);
  });
});

test("the latest configuration counts; it is forgotten when no container uses the network and no ADD comes any more", async () => {
  const node = new Node(configuration({ subnets: "10.31.0.0/24" }));
  node.add(configuration(RANGES));
  node.clock.nowMs += 3_600_000;
  node.isUsed = true;
  expect(await node.findings()).toHaveLength(1);
  node.isUsed = false;
  expect(await node.findings()).toEqual([]);
  node.add(configuration(RANGES));
  expect(await node.findings()).toHaveLength(1);
  node.defined = configuration(RANGES);
  expect(await node.findings()).toEqual([]);
  node.defined = configuration({ subnets: "10.31.0.0/24" });
  node.add(configuration({ subnets: "10.31.0.0/24" }));
  expect(await node.findings()).toEqual([]);
});
