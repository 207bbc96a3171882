import { describe, expect, onTestFinished } from "vitest";
import type { ServedDaemon } from "../harness/daemon.ts";
import { PortClient, wantedNow, withMetadata } from "../harness/port-client.ts";
import { addressesOf, errorOf, expectDone, network, processTest, restart, test, testWith } from "./fixtures.ts";

/*
 * The route in the answer of an ADD, on link: the node answers for 169.254.169.254 at the guest's own port.
 * guests/guest-route.test.ts has every case.
 */

const ROUTE = { dst: "169.254.169.254/32" };

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
    const routes = [{ dst: "10.98.0.0/16" }, { dst: "10.99.0.0/16", gw: "10.10.0.9" }];
    const answer = await daemon.cni("ADD", "c1", { config: withMetadata("blue", { routes }) });
    expect(answer.json().routes).toEqual([...routes, ROUTE]);
  });

  test("is not needed beside the network's own to the same address", async ({ daemon }) => {
    listen(daemon);
    const routes = [{ dst: "169.254.169.254/32", gw: "10.10.0.7" }];
    const answer = await daemon.cni("ADD", "c1", { config: withMetadata("blue", { routes }) });
    expect(answer.json().routes).toEqual(routes);
    expect((await wantedNow(daemon)).ports).toHaveLength(1);
  });

  test.for([["0.0.0.0/0"], ["169.254.0.0/16"]])(
    "is on link beside one to %s, whose gateway may be down",
    async ([dst], { daemon }) => {
      listen(daemon);
      const routes = [{ dst, gw: "10.10.0.7" }];
      const answer = await daemon.cni("ADD", "c1", { config: withMetadata("blue", { routes }) });
      expect(answer.json().routes).toEqual([...routes, ROUTE]);
    },
  );

  test("goes by the bridge where the plugin makes that the default gateway", async ({ daemon }) => {
    listen(daemon);
    const config = withMetadata("blue", { gateway: "10.10.0.1" }, { isDefaultGateway: true });
    expect((await daemon.cni("ADD", "c1", { config })).json()).toMatchObject({
      ips: [{ gateway: "10.10.0.1" }],
      routes: [{ ...ROUTE, gw: "10.10.0.1" }],
    });
  });

  test("is on link where plugins would put the gateway in", async ({ daemon }) => {
    listen(daemon);
    const ipam = { gateway: "10.10.0.1" };
    const answer = await daemon.cni("ADD", "c1", { config: withMetadata("blue", ipam) });
    expect(answer.json()).toMatchObject({ ips: [{ address: "10.10.0.2/24" }], routes: [ROUTE] });
    expect(answer.json().ips[0]).not.toHaveProperty("gateway");
  });

  test("is absent on a network without metadata", async ({ daemon }) => {
    const answer = await daemon.cni("ADD", "c1", { config: network("blue") });
    expect(answer.json()).not.toHaveProperty("routes");
  });

  processTest("is in the answer to an exact repeat, byte for byte, also after a restart", async ({ daemon }) => {
    listen(daemon);
    const config = withMetadata("blue");
    const first = await daemon.cni("ADD", "c1", { config });
    const second = await daemon.cni("ADD", "c1", { config });
    await restart(daemon, "SIGKILL");
    const third = await daemon.cni("ADD", "c1", { config });
    expect([second.stdout, third.stdout]).toEqual([first.stdout, first.stdout]);
  });

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

  test("is on a later one where those before have no metadata, or no IPv4", async ({ daemon }) => {
    listen(daemon);
    await daemon.cni("ADD", "c1", { config: network("plain"), ifname: "eth0" });
    const six = withMetadata("six", { subnets: "fd10::/64" });
    await daemon.cni("ADD", "c1", { config: six, ifname: "net1" });
    const answer = await daemon.cni("ADD", "c1", { config: withMetadata("blue"), ifname: "net2" });
    expect(answer.json().routes).toEqual([ROUTE]);
  });
});

test("a guest with IPv6 only gets none, and its port is wanted", async ({ daemon }) => {
  listen(daemon);
  const answer = await daemon.cni("ADD", "c1", { config: withMetadata("six", { subnets: "fd10::/64" }) });
  expect(answer.json()).not.toHaveProperty("routes");
  expect((await wantedNow(daemon)).ports).toMatchObject([{ network: "six", addresses: ["fd10::1"] }]);
});

test("every address of a network with metadata can be allocated", async ({ daemon }) => {
  listen(daemon);
  const config = withMetadata("tiny", { subnets: "10.10.0.0/30" });
  expect(addressesOf(await daemon.cni("ADD", "c1", { config }))).toEqual(["10.10.0.1/30"]);
  expect(addressesOf(await daemon.cni("ADD", "c2", { config }))).toEqual(["10.10.0.2/30"]);
  expect(errorOf(await daemon.cni("ADD", "c3", { config }))).toMatchObject({ code: 11 });
  const { ranges, metadata } = (await daemon.get("/v1/networks/tiny")).json();
  expect(ranges).toMatchObject([{ size: "4", allocated: "2", free: "0", excluded: "2" }]);
  expect(metadata).toEqual({ tokens: "optional" });
  expect((await daemon.cli("show", "tiny")).stdout).toMatch(/^Metadata: +on, tokens optional$/m);
});

const offTest = testWith("--metadata", "off");

offTest("with metadata off on the node no port is wanted, and no network has the route", async ({ daemon }) => {
  const answer = await daemon.cni("ADD", "c1", { config: withMetadata("blue") });
  expect(addressesOf(answer)).toEqual(["10.10.0.1/24"]);
  expect(answer.json()).not.toHaveProperty("routes");
  expect((await wantedNow(daemon)).ports).toEqual([]);
});

const defaultTest = testWith("--metadata-default", "on");

defaultTest(
  "a network whose configuration does not say has metadata where the node has it by default",
  async ({ daemon }) => {
    listen(daemon);
    const silent = network("silent", { subnets: "10.11.0.0/24" });
    expect((await daemon.cni("ADD", "c1", { config: silent })).json().routes).toEqual([ROUTE]);
    expect((await wantedNow(daemon)).ports).toMatchObject([{ network: "silent" }]);
    const no = network("no", { subnets: "10.12.0.0/24", metadata: false });
    expect((await daemon.cni("ADD", "c2", { config: no })).json()).not.toHaveProperty("routes");
    expect((await wantedNow(daemon)).ports).toHaveLength(1);
    const identity = await daemon.get("/v1/identity?container=c1");
    expect(identity.json().identity.interfaces[0].metadata).toMatchObject({ tokens: "optional" });
  },
);
