import { describe, expect, onTestFinished } from "vitest";
import type { ServedDaemon } from "../harness/daemon.ts";
import { PortClient, untilLogged, wantedNow, withMetadata } from "../harness/port-client.ts";
import {
  addressesOf,
  errorOf,
  expectDone,
  network,
  processTest,
  restart,
  test,
  testWith,
} from "./fixtures.ts";

/*
 * 169.254.169.254 is not on the VM's subnet. The route to it goes by the address that the network reserves for its
 * listener: without a gateway of its own, the bridge plugin would send it to the router.
 */

const ROUTE = { dst: "169.254.169.254/32", gw: "10.10.0.254" };

function listen(daemon: ServedDaemon): PortClient {
  const client = PortClient.start(daemon);
  onTestFinished(() => client.stop());
  return client;
}

describe("the route to the metadata", () => {
  test.for([["0.3.0"], ["0.3.1"], ["0.4.0"], ["1.0.0"], ["1.1.0"]])(
    "in a result of %s",
    async ([cniVersion], { daemon }) => {
      listen(daemon);
      const answer = await daemon.cni("ADD", "c1", { config: withMetadata("blue", {}, { cniVersion }) });
      expect(answer.json()).toMatchObject({ cniVersion, routes: [ROUTE] });
    },
  );

  test.for([["0.1.0"], ["0.2.0"]])("in a result of %s", async ([cniVersion], { daemon }) => {
    listen(daemon);
    const config = withMetadata("blue", { subnets: "10.10.0.0/24,fd10::/64" }, { cniVersion });
    expect((await daemon.cni("ADD", "c1", { config })).json()).toEqual({
      cniVersion,
      ip4: { ip: "10.10.0.1/24", routes: [ROUTE] },
      ip6: { ip: "fd10::1/64" },
      dns: {},
    });
  });

  test("comes after the network's own routes", async ({ daemon }) => {
    listen(daemon);
    const routes = [{ dst: "0.0.0.0/0" }, { dst: "10.99.0.0/16", gw: "10.10.0.9" }];
    const answer = await daemon.cni("ADD", "c1", { config: withMetadata("blue", { routes }) });
    expect(answer.json().routes).toEqual([...routes, ROUTE]);
  });

  test("is the network's own where that has one", async ({ daemon }) => {
    listen(daemon);
    const routes = [{ dst: "169.254.169.254/32", gw: "10.10.0.7" }];
    const answer = await daemon.cni("ADD", "c1", { config: withMetadata("blue", { routes }) });
    expect(answer.json().routes).toEqual(routes);
  });

  test("has the configured address as gateway", async ({ daemon }) => {
    listen(daemon);
    const config = withMetadata("blue", { metadata: { address: "10.10.0.7" } });
    expect((await daemon.cni("ADD", "c1", { config })).json().routes).toEqual([
      { ...ROUTE, gw: "10.10.0.7" },
    ]);
  });

  test("is absent on a network without metadata", async ({ daemon }) => {
    const answer = await daemon.cni("ADD", "c1", { config: network("blue") });
    expect(answer.json()).not.toHaveProperty("routes");
  });

  processTest(
    "is in the answer to an exact repeat, byte for byte, also after a restart",
    async ({ daemon }) => {
      listen(daemon);
      const config = withMetadata("blue");
      const first = await daemon.cni("ADD", "c1", { config });
      const second = await daemon.cni("ADD", "c1", { config });
      await restart(daemon, "SIGKILL");
      const third = await daemon.cni("ADD", "c1", { config });
      expect([second.stdout, third.stdout]).toEqual([first.stdout, first.stdout]);
    },
  );

  test("CHECK and DEL of its container succeed", async ({ daemon }) => {
    listen(daemon);
    const config = withMetadata("blue") as Record<string, unknown>;
    const prevResult = (await daemon.cni("ADD", "c1", { config })).json();
    expectDone(await daemon.cni("CHECK", "c1", { config: { ...config, prevResult } }));
    expectDone(await daemon.cni("DEL", "c1", { config: { ...config, prevResult } }));
  });
});

describe("the route on two networks of one container", () => {
  processTest("is on the first only, because a second one would make it multipath", async ({ daemon }) => {
    listen(daemon);
    const add = async (containerId: string, name: string, ifname: string) =>
      (await daemon.cni("ADD", containerId, { config: withMetadata(name), ifname })).json().routes;
    expect(await add("c1", "blue", "net1")).toEqual([ROUTE]);
    expect(await add("c1", "green", "net2")).toBeUndefined();
    expect(await add("c2", "green", "net1")).toEqual([ROUTE]);
    expect(await add("c2", "green", "net2"), "another interface on the same network").toBeUndefined();
    await restart(daemon, "SIGTERM");
    expect(await add("c1", "green", "net2"), "the repeat").toBeUndefined();
    expect(await add("c1", "blue", "net1"), "the repeat").toEqual([ROUTE]);
  });

  test("is on the second where the first has no metadata", async ({ daemon }) => {
    listen(daemon);
    await daemon.cni("ADD", "c1", { config: network("plain"), ifname: "eth0" });
    const macvlan = withMetadata("macvlan", {}, { type: "macvlan" });
    await daemon.cni("ADD", "c1", { config: macvlan, ifname: "net1" });
    const answer = await daemon.cni("ADD", "c1", { config: withMetadata("blue"), ifname: "net2" });
    expect(answer.json().routes).toEqual([ROUTE]);
  });
});

describe("there is no route, and a warning is logged", () => {
  test.for<[string, object, object, string]>([
    ["macvlan", {}, { type: "macvlan", master: "eth0" }, 'the plugin is \\"macvlan\\"'],
    ["ipvlan", {}, { type: "ipvlan" }, 'the plugin is \\"ipvlan\\"'],
    ["sriov", {}, { type: "sriov" }, 'the plugin is \\"sriov\\"'],
    ["ovs", {}, { type: "ovs", bridge: "br1" }, 'the plugin is \\"ovs\\"'],
    ["trunk", {}, { vlanTrunk: [{ id: 7 }] }, "vlanTrunk"],
    ["six", { subnets: "fd10::/64" }, {}, "it has no IPv4 subnet"],
    ["full", { subnets: "10.10.0.7/32" }, {}, "no address of 10.10.0.7/32 is left"],
  ])("%s", async ([name, ipam, plugin, reason], { daemon }) => {
    const answer = await daemon.cni("ADD", "c1", { config: withMetadata(name, ipam, plugin) });
    expect(addressesOf(answer)).toHaveLength(1);
    expect(answer.json()).not.toHaveProperty("routes");
    await untilLogged(daemon, `network ${name} gives no metadata here`);
    await untilLogged(daemon, reason);
    expect((await wantedNow(daemon)).ports).toEqual([]);
  });

  test("where the interface's address is not on the listener's subnet", async ({ daemon }) => {
    listen(daemon);
    const ranges = [[{ subnet: "10.10.0.0/24" }, { subnet: "10.20.0.0/24" }]];
    const config = {
      ...withMetadata("blue", { subnets: undefined, ranges }),
      args: { cni: { ips: ["10.20.0.9"] } },
    };
    const answer = await daemon.cni("ADD", "c1", { config });
    expect(addressesOf(answer)).toEqual(["10.20.0.9/24"]);
    expect(answer.json()).not.toHaveProperty("routes");
    await untilLogged(daemon, "another subnet");
  });
});

describe("the reserved address", () => {
  test("is given to nobody, and counted as excluded", async ({ daemon }) => {
    listen(daemon);
    const config = withMetadata("tiny", { subnets: "10.10.0.0/30" });
    expect(addressesOf(await daemon.cni("ADD", "c1", { config }))).toEqual(["10.10.0.1/30"]);
    expect(errorOf(await daemon.cni("ADD", "c2", { config }))).toMatchObject({ code: 11 });
    const args = "IP=10.10.0.2";
    expect(errorOf(await daemon.cni("ADD", "c3", { config, args }))).toMatchObject({ code: 122 });
    const [range] = (await daemon.get("/v1/networks/tiny")).json().ranges;
    expect(range).toMatchObject({ size: "4", allocated: "1", free: "0", excluded: "3" });
  });

  test("that is already held leaves the network without metadata, and its holder is named", async ({
    daemon,
  }) => {
    listen(daemon);
    const before = network("blue", { cooldownSeconds: 0 }, { bridge: "br-blue" });
    addressesOf(await daemon.cni("ADD", "old", { config: before, args: "IP=10.10.0.254" }));
    const config = withMetadata("blue", { cooldownSeconds: 0 });
    const answer = await daemon.cni("ADD", "c1", { config });
    expect(answer.json()).not.toHaveProperty("routes");
    await untilLogged(daemon, "10.10.0.254 is held by container old (eth0)");
    expect((await wantedNow(daemon)).ports).toEqual([]);
    expectDone(await daemon.cni("DEL", "old", { config }));
    expect((await daemon.cni("ADD", "c2", { config })).json().routes).toEqual([ROUTE]);
    expect((await wantedNow(daemon)).ports).toHaveLength(1);
  });

  test("may be configured where the default one is held", async ({ daemon }) => {
    listen(daemon);
    addressesOf(await daemon.cni("ADD", "old", { config: network("blue"), args: "IP=10.10.0.254" }));
    const config = withMetadata("blue", { metadata: { address: "10.10.0.253" } });
    expect((await daemon.cni("ADD", "c1", { config })).json().routes).toEqual([
      { ...ROUTE, gw: "10.10.0.253" },
    ]);
  });
});

const offTest = testWith("--metadata", "off");

offTest(
  "with metadata off on the node no listener is wanted, and no network has the route",
  async ({ daemon }) => {
    const answer = await daemon.cni("ADD", "c1", { config: withMetadata("blue") });
    expect(addressesOf(answer)).toEqual(["10.10.0.1/24"]);
    expect(answer.json()).not.toHaveProperty("routes");
    expect((await wantedNow(daemon)).ports).toEqual([]);
  },
);
