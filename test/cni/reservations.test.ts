import { describe, expect } from "vitest";
import type { ServedDaemon } from "../harness/daemon.ts";
import { addressesOf, errorOf, network, tableTest as test, testWith } from "./fixtures.ts";

/** Addresses of certain MACs: whoever comes with one has its address, and nobody else does. */

const MAC = "02:00:00:00:00:0a";
const reservations = [
  { mac: MAC, ips: ["10.10.0.50", "fd10::50"] },
  { mac: "02:00:00:00:00:0b", ips: ["10.10.0.1"] },
];
const IPAM = { subnets: "10.10.0.0/24,fd10::/64", reservations };

const PLACES: [string, (config: object, mac: string) => { config: object; args?: string }][] = [
  ["runtimeConfig.mac", (config, mac) => ({ config: { ...config, runtimeConfig: { mac } } })],
  ["args.cni.mac", (config, mac) => ({ config: { ...config, args: { cni: { mac } } } })],
  ["mac of the plugin", (config, mac) => ({ config: { ...config, mac } })],
  ["CNI_ARGS MAC", (config, mac) => ({ config, args: `MAC=${mac}` })],
];

let number = 0;
function named(): { name: string; config: object; id: (what: string) => string } {
  number += 1;
  const name = `reserving-${number}`;
  return { name, config: network(name, IPAM), id: (what) => `${what}-${name}` };
}

const add = (daemon: ServedDaemon, id: string, options: { config: object; args?: string }) =>
  daemon.cni("ADD", id, options);

describe("by the MAC in", () => {
  test.for(PLACES)("%s", async ([, asking], { daemon }) => {
    const { config, id } = named();
    const other = await add(daemon, id("other"), { config });
    expect(addressesOf(other), "the first one is reserved, too").toEqual(["10.10.0.2/24", "fd10::1/64"]);
    const own = await add(daemon, id("own"), asking(config, MAC.toUpperCase().replaceAll(":", "-")));
    expect(addressesOf(own)).toEqual(["10.10.0.50/24", "fd10::50/64"]);
    const next = await add(daemon, id("next"), asking(config, "02:00:00:00:00:0c"));
    expect(addressesOf(next)).toEqual(["10.10.0.3/24", "fd10::2/64"]);
  });
});

test("what is reserved is refused to others, and two wishes of its owner are", async ({ daemon }) => {
  const { name, config, id } = named();
  const asking = (ip: string, mac?: string) => ({
    config: { ...config, runtimeConfig: { ips: [ip], ...(mac === undefined ? {} : { mac }) } },
  });
  expect(errorOf(await add(daemon, id("thief"), asking("10.10.0.50")))).toMatchObject({
    code: 132,
    msg: `10.10.0.50 of network ${name} is reserved for ${MAC}`,
    details: "ask for another address, or give the interface that MAC address",
  });
  expect(errorOf(await add(daemon, id("two"), asking("10.10.0.77", MAC)))).toMatchObject({
    code: 7,
    msg: `the reservation of ${MAC} is 10.10.0.50: runtimeConfig.ips asks for 10.10.0.77 already, and one address is given from 10.10.0.0/24`,
  });
  expect(addressesOf(await add(daemon, id("same"), asking("10.10.0.50", MAC)))).toEqual([
    "10.10.0.50/24",
    "fd10::50/64",
  ]);
  // Two machines with one MAC: the second is told by whom it is used.
  const twice = { config: { ...config, runtimeConfig: { mac: MAC } } };
  expect(errorOf(await add(daemon, id("twice"), twice))).toMatchObject({
    code: 120,
    msg: `10.10.0.50 is held by container ${id("same")} (eth0) on network ${name}`,
  });
});

test("its owner has it again after a DEL at once, and the network counts it as excluded meanwhile", async ({
  daemon,
}) => {
  const { name, config, id } = named();
  const options = { config: { ...config, runtimeConfig: { mac: MAC } } };
  const excluded = async () => {
    const { ranges } = (await daemon.get(`/v1/networks/${name}`)).json();
    return ranges.map((range: { excluded: string }) => range.excluded);
  };
  await add(daemon, id("first"), options);
  expect(await excluded()).toEqual(["3", "1"]);
  await daemon.cni("DEL", id("first"), options);
  const next = await add(daemon, id("second"), options);
  expect(addressesOf(next)).toEqual(["10.10.0.50/24", "fd10::50/64"]);
});

describe("two containers with one MAC", () => {
  const bare = testWith();
  bare("are a finding of check as long as both are attached", async ({ daemon }) => {
    const config = network("blue");
    for (const id of ["one", "two"]) await add(daemon, id, { config, args: `MAC=${MAC}` });
    const found = async () => (await daemon.get("/v1/check")).json().findings;
    expect(await found()).toMatchObject([
      {
        invariant: "mac",
        message: `${MAC} is the MAC address of container one (eth0) and of container two (eth0) on network blue`,
      },
    ]);
    await daemon.cni("DEL", "two", { config, args: `MAC=${MAC}` });
    expect(await found()).toEqual([]);
  });
});
