import { describe, expect } from "vitest";
import type { ServedDaemon } from "../harness/daemon.ts";
import { addressesOf, network, test } from "./fixtures.ts";
import { apply, nad } from "./manifests.ts";

/** What `holdfast check` notes about definitions, and that it goes when they are corrected. */

async function notes(daemon: ServedDaemon): Promise<string[]> {
  return (await daemon.get("/v1/check")).json().notes ?? [];
}

describe("a runtime's configuration that disagrees with the applied definition", () => {
  test("is named until one of them is corrected", async ({ daemon }) => {
    const applied = { subnets: "192.168.10.0/24" };
    await apply(daemon, nad("blue-net", network("blue", applied)));
    const other = network("blue", { subnets: "192.168.99.0/24" });
    expect(addressesOf(await daemon.cni("ADD", "c1", { config: other }))).toEqual(["192.168.10.1/24"]);
    expect(await notes(daemon)).toEqual([
      "the runtime's configuration of network blue is not the applied default/blue-net, which counts (192.168.99.0/24 there, 192.168.10.0/24 applied): containers get what was applied; correct the configuration (in /etc/cni/net.d) or remove its ranges, or apply another definition",
    ]);
    await daemon.cni("ADD", "c2", { config: network("blue", applied) });
    expect(await notes(daemon)).toEqual([]);
  });

  test("is none where it has no ranges at all", async ({ daemon }) => {
    await apply(daemon, nad("blue-net", network("blue", { subnets: "192.168.10.0/24" })));
    const bare = { ...network("blue"), ipam: { type: "holdfast-ipam" } };
    await daemon.cni("ADD", "c1", { config: bare });
    expect(await notes(daemon)).toEqual([]);
  });
});

describe("a definition that says what counts for nothing", () => {
  const SAYS = { subnets: "10.0.0.0/24,", excludeSubnets: "10.9.0.0/30" };
  const read = (by: string) => [
    `network blue (${by}): ipam.excludeSubnets: 10.9.0.0/30 is not inside the subnets of the network (10.0.0.0/24), and excludes nothing elsewhere`,
    `network blue (${by}): ipam.subnets ends with a comma, which counts for nothing`,
  ];
  const printed = async (daemon: ServedDaemon) => {
    const { code, stdout } = await daemon.cli("check");
    expect([code, stdout.split("\n")[0]]).toEqual([0, expect.stringMatching(/^ok: /)]);
    return stdout.split("\n").filter((line) => line.startsWith("note: "));
  };

  test("is named by the command until it is corrected", async ({ daemon }) => {
    await apply(daemon, nad("blue-net", network("blue", SAYS)));
    expect(await printed(daemon)).toEqual(read("default/blue-net").map((one) => `note: ${one}`));
    await apply(daemon, nad("blue-net", network("blue", { subnets: "10.0.0.0/24" })));
    expect(await printed(daemon)).toEqual([]);
  });

  test("is named also where it is the runtime's", async ({ daemon }) => {
    addressesOf(await daemon.cni("ADD", "c1", { config: network("blue", SAYS) }));
    expect(await notes(daemon)).toEqual(read("runtime configuration"));
  });

  test("is named with its first five", async ({ daemon }) => {
    const excludeSubnets = Array.from({ length: 9 }, (_, at) => `10.9.${at}.0/30`).join();
    await apply(daemon, nad("blue-net", network("blue", { subnets: "10.0.0.0/24", excludeSubnets })));
    const all = await notes(daemon);
    expect(all).toHaveLength(6);
    expect(all[5]).toBe("network blue (default/blue-net): 4 more of this kind");
  });
});

describe("two networks with one range", () => {
  const both = (one: object, other: object, subnets = "10.1.0.0/16") => [
    nad("one-net", network("one", { subnets: "10.1.2.0/24" }, one)),
    nad("two-net", network("two", { subnets }, other)),
  ];

  test.for<[string, object, object, string]>([
    ["bridge", { type: "bridge", bridge: "br0" }, { type: "bridge", bridge: "br0" }, "bridge br0"],
    ["bridge that neither names", { type: "bridge" }, { type: "bridge" }, "bridge cni0"],
    ["bridge of cnv-bridge", { type: "cnv-bridge", bridge: "br1" }, { type: "bridge", bridge: "br1" }, "bridge br1"],
    [
      "bridge of a plugin that nobody knows",
      { type: "my-bridge", bridge: "br1" },
      { type: "my-bridge", bridge: "br1" },
      "bridge br1",
    ],
    [
      "master of a plugin that nobody knows",
      { type: "my-vlan", master: "eth1", vlan: 7 },
      { type: "vlan", master: "eth1", vlanId: 7 },
      "master eth1 with VLAN 7",
    ],
    ["master", { type: "macvlan", master: "eth1" }, { type: "ipvlan", master: "eth1" }, "master eth1"],
    [
      "VLAN",
      { type: "ovs", bridge: "br1", vlan: 5 },
      { type: "ovs", bridge: "br1", vlan: 5 },
      "bridge br1 with VLAN 5",
    ],
  ])("on one %s are named until one of them is changed", async ([_what, one, other, link], { daemon }) => {
    await apply(daemon, ...both(one, other));
    expect(await notes(daemon)).toEqual([
      expect.stringContaining(
        `networks one (default/one-net) and two (default/two-net) give addresses of 10.1.2.0/24 on one ${link}, so`,
      ),
    ]);
    await apply(daemon, ...both(one, other, "10.2.0.0/16"));
    expect(await notes(daemon)).toEqual([]);
  });

  test.for<[string, object, object]>([
    ["bridges", { type: "bridge", bridge: "br0" }, { type: "bridge", bridge: "br1" }],
    ["VLANs", { type: "bridge", bridge: "br0", vlan: 5 }, { type: "bridge", bridge: "br0", vlan: 6 }],
    ["places that nobody can compare", { type: "host-device" }, { type: "host-device" }],
  ])("on two %s are in order", async ([_what, one, other], { daemon }) => {
    await apply(daemon, ...both(one, other));
    expect(await notes(daemon)).toEqual([]);
  });

  test("on one bridge are in order where each leaves the other's part out", async ({ daemon }) => {
    await apply(
      daemon,
      nad("one-net", network("one", { subnets: "10.1.0.0/24", excludeSubnets: "10.1.0.0/25" })),
      nad("two-net", network("two", { subnets: "10.1.0.0/24", excludeSubnets: "10.1.0.128/25" })),
    );
    expect(await notes(daemon)).toEqual([]);
  });
});
