import { expect } from "vitest";
import { untilSaid } from "../harness/wait.ts";
import { addressesOf, counts, errorOf, expectDone, network, processTest, restart, test } from "./fixtures.ts";
import { apply, claim, claimNamed, conditionOf, nad, withClaim } from "./manifests.ts";

/** A bridge with isGateway puts the gateway's address on itself, whatever defines the network. */

const BARE = { subnets: undefined };
const APPLIED = nad("blue-net", network("blue", { subnets: "10.20.0.0/29" }));
/** The runtime's configuration: the ranges are applied, the bridge is the gateway. */
const ON_BRIDGE = network("blue", BARE, { bridge: "br-blue", isGateway: true });
/** The same network through a plugin that has no address of its own. */
const BESIDE = network("blue", BARE, { type: "macvlan" });
const EVERY_HOST = [2, 3, 4, 5, 6].map((host) => `10.20.0.${host}/29`);

processTest(
  "for an applied definition without a gateway the bridge's address is the gateway, and is never given",
  async ({ daemon }) => {
    await apply(daemon, APPLIED);
    const first = (await daemon.cni("ADD", "c1", { config: ON_BRIDGE })).json();
    expect(first.ips).toEqual([{ address: "10.20.0.2/29", gateway: "10.20.0.1" }]);
    const given = [first.ips[0].address];
    // Once a bridge has the address, it is nobody's through another plugin either, and not after a restart.
    for (const id of ["c2", "c3"]) given.push(...addressesOf(await daemon.cni("ADD", id, { config: BESIDE })));
    await restart(daemon, "SIGKILL");
    given.push(...addressesOf(await daemon.cni("ADD", "c4", { config: BESIDE })));
    given.push(...addressesOf(await daemon.cni("ADD", "c5", { config: ON_BRIDGE })));
    expect(given.sort()).toEqual(EVERY_HOST);
    expect(errorOf(await daemon.cni("ADD", "c6", { config: BESIDE }))).toMatchObject({ code: 11 });
    expect(await counts(daemon, "blue")).toEqual({ allocated: 5, cooling: 0, free: 0, excluded: 3 });
  },
);

test("a request for the bridge's address is refused, and the missing gateway is logged once", async ({ daemon }) => {
  await apply(daemon, APPLIED);
  const config = { ...ON_BRIDGE, isGateway: false, isDefaultGateway: true };
  expect(errorOf(await daemon.cni("ADD", "c1", { config, args: "IP=10.20.0.1" }))).toMatchObject({
    code: 122,
  });
  for (const id of ["c2", "c3"]) addressesOf(await daemon.cni("ADD", id, { config }));
  const said = "10.20.0.1 is the node's and is not given";
  await untilSaid(() => daemon.log, said);
  expect(daemon.log.split(said).length - 1).toBe(1);
});

test("a container that already holds the bridge's address is named, and keeps it until it ends", async ({ daemon }) => {
  await apply(daemon, APPLIED);
  expect(addressesOf(await daemon.cni("ADD", "early", { config: BESIDE }))).toEqual(["10.20.0.1/29"]);
  expect(errorOf(await daemon.cni("ADD", "late", { config: ON_BRIDGE }))).toMatchObject({
    code: 128,
    msg: expect.stringMatching(/^10\.20\.0\.1, the gateway's address of network blue, is held by container early/),
  });
  const { findings } = (await daemon.get("/v1/check")).json();
  expect(findings).toMatchObject([
    {
      invariant: "gateway",
      message: "10.20.0.1 is the gateway of network blue, and container early (eth0) holds it",
    },
  ]);
  expectDone(await daemon.cni("DEL", "early", { config: BESIDE }));
  expect(addressesOf(await daemon.cni("ADD", "late", { config: ON_BRIDGE }))).toEqual(["10.20.0.2/29"]);
  // Its own address of before cools down, and is the bridge's now.
  expect(addressesOf(await daemon.cni("ADD", "early", { config: BESIDE }))).toEqual(["10.20.0.3/29"]);
});

test("a claim that holds the bridge's address has a condition about it", async ({ daemon }) => {
  const ipam = { subnets: "10.20.0.0/29" };
  await apply(daemon, claim("vm1", { ipRequests: ["10.20.0.1"] }));
  addressesOf(await daemon.cni("ADD", "run1", { config: withClaim("vm1", ipam, { type: "macvlan" }) }));
  expect((await claimNamed(daemon, "vm1")).status?.ips).toEqual(["10.20.0.1/29"]);
  expectDone(await daemon.cni("DEL", "run1", {}));
  const onBridge = withClaim("vm1", ipam, { isGateway: true });
  expect(errorOf(await daemon.cni("ADD", "run2", { config: onBridge }))).toMatchObject({
    code: 128,
    msg: expect.stringContaining("claim default/vm1"),
  });
  expect(await conditionOf(daemon, "vm1")).toBe("True IPAddressConflict");
  expect((await daemon.delete("/v1/claims/default/vm1")).status).toBe(200);
});

processTest(
  "with two configurations of the runtime for one network, no address of one's bridge is given by the other",
  async ({ daemon }) => {
    const ipam = { subnets: "10.20.0.0/29" };
    const onBridge = network("blue", ipam, { isGateway: true });
    const beside = network("blue", ipam, { type: "macvlan" });
    const given = [];
    for (const [index, config] of [onBridge, beside, beside, onBridge, beside].entries()) {
      given.push(...addressesOf(await daemon.cni("ADD", `c${index}`, { config })));
    }
    expect(given.sort()).toEqual(EVERY_HOST);
    expect(errorOf(await daemon.cni("ADD", "one-more", { config: beside }))).toMatchObject({ code: 11 });
  },
);
