import { describe, expect } from "vitest";
import { addressesOf, counts, errorOf, expectDone, held, network, processTest, restart, test } from "./fixtures.ts";
import { addressesIn, send } from "./wire.ts";

/** At the edge of a network: nobody has an address twice, nobody is given half, and whoever is refused is told why. */

const containers = (count: number) => Array.from({ length: count }, (_, i) => `c${i}`);
/** 64 addresses less network, broadcast and two excluded. */
const SIXTY = network("blue", { subnets: "10.10.0.0/26", excludeSubnets: "10.10.0.2/31" });

describe("64 parallel ADDs for 60 free addresses", () => {
  test("get 60 distinct addresses and 4 refusals", async ({ daemon }) => {
    const answers = await Promise.all(containers(64).map((id) => daemon.cni("ADD", id, { config: SIXTY })));
    const given = answers.filter(({ code }) => code === 0).flatMap(addressesOf);
    const refused = answers.filter(({ code }) => code !== 0).map(errorOf);
    expect(given).toHaveLength(60);
    expect(new Set(given).size).toBe(60);
    expect(refused).toHaveLength(4);
    for (const error of refused) {
      expect(error).toMatchObject({ code: 11, msg: "no free address in 10.10.0.0/26 of network blue" });
    }
    expect(await held(daemon, "blue")).toHaveLength(60);
    expect(await counts(daemon, "blue")).toEqual({ allocated: 60, cooling: 0, free: 0, excluded: 4 });
  });

  processTest("hold what was answered when DELs run among them", async ({ daemon }) => {
    await Promise.all(containers(30).map((id) => daemon.cni("ADD", id, { config: SIXTY })));
    const adding = Array.from({ length: 64 }, (_, i) => daemon.cni("ADD", `new${i}`, { config: SIXTY }));
    const ending = containers(30).map((id) => daemon.cni("DEL", id, { config: SIXTY }));
    for (const answer of await Promise.all(ending)) expectDone(answer);
    const given = (await Promise.all(adding)).filter(({ code }) => code === 0).flatMap(addressesOf);
    expect(new Set(given).size).toBe(given.length);
    const bound = (await held(daemon, "blue")).filter((one) => one.includes("Bound"));
    expect(bound.map((one) => one.split(" ")[0]).sort()).toEqual([...given].sort());
    await restart(daemon, "SIGKILL");
    expect((await counts(daemon, "blue")).allocated).toBe(given.length);
  });

  test("get distinct addresses or refusals when 500 requests come at once on the socket", async ({ daemon }) => {
    const config = network("blue", { subnets: "10.10.0.0/24" });
    const answers = await Promise.all(
      containers(500).map((containerId) => send(daemon, "ADD", { containerId, config })),
    );
    const given = answers.filter(({ status }) => status === 200).flatMap(addressesIn);
    expect(given).toHaveLength(254);
    expect(new Set(given).size).toBe(254);
    expect(answers.filter(({ status }) => status === 503)).toHaveLength(500 - 254);
  });
});

test("the refusal names network, range, what became of its addresses, and the remedy", async ({ daemon }) => {
  const config = network("blue", {
    subnets: "10.10.0.0/28,fd10::/64",
    excludeSubnets: "10.10.0.4/30",
    reservedSubnets: "10.10.0.14/31",
    cooldownSeconds: 3_600,
  });
  for (const id of containers(9)) addressesOf(await daemon.cni("ADD", id, { config }));
  // One that is reserved cools down, and is not given without being asked for.
  expect(addressesOf(await daemon.cni("ADD", "asks", { config, args: "IP=10.10.0.14" }))).toContain("10.10.0.14/28");
  expectDone(await daemon.cni("DEL", "asks", { config }));
  const error = errorOf(await daemon.cni("ADD", "late", { config }));
  expect(error).toMatchObject({ code: 11, msg: "no free address in 10.10.0.0/28 of network blue" });
  expect(error.details).toContain(
    "of 16 addresses 9 allocated, 1 cooling, 6 excluded or reserved. holdfast show blue lists the holders; add a subnet, ",
  );
});

describe("dual stack with one family full", () => {
  const NARROW_V4 = network("blue", { subnets: "192.0.2.0/31,fd10::/64" });
  const NARROW_V6 = network("blue", { subnets: "10.10.0.0/24,fd10::/127" });

  test.for([
    ["IPv4", NARROW_V4, "192.0.2.0/31"],
    ["IPv6", NARROW_V6, "fd10::/127"],
  ] as const)("%s is refused, and nothing of the other family is kept", async ([, config, subnet], { daemon }) => {
    for (const id of ["c1", "c2"]) expect(addressesOf(await daemon.cni("ADD", id, { config }))).toHaveLength(2);
    for (const id of ["c3", "c4", "c3"]) {
      const error = errorOf(await daemon.cni("ADD", id, { config }));
      expect(error).toMatchObject({ code: 11, msg: `no free address in ${subnet} of network blue` });
    }
    expect(await held(daemon, "blue")).toHaveLength(4);
    await daemon.cni("DEL", "c1", { config });
    expect(addressesOf(await daemon.cni("ADD", "c3", { config }))).toHaveLength(2);
  });

  test("refused ADDs do not advance the other family's round robin", async ({ daemon }) => {
    for (const id of ["c1", "c2", "c3", "c4"]) await daemon.cni("ADD", id, { config: NARROW_V4 });
    const wide = network("blue", { subnets: "fd10::/64" });
    expect(addressesOf(await daemon.cni("ADD", "c5", { config: wide }))).toEqual(["fd10::3/64"]);
  });
});

describe("the smallest networks", () => {
  const SMALL: [string, string[]][] = [
    ["192.0.2.7/32", ["192.0.2.7/32"]],
    ["192.0.2.6/31", ["192.0.2.6/31", "192.0.2.7/31"]],
    ["192.0.2.4/30", ["192.0.2.5/30", "192.0.2.6/30"]],
    ["fd10::7/128", ["fd10::7/128"]],
    ["fd10::6/127", ["fd10::6/127", "fd10::7/127"]],
    ["fd10::4/126", ["fd10::5/126", "fd10::6/126", "fd10::7/126"]],
  ];
  test.for(SMALL)("%s holds %j and not one more", async ([subnets, addresses], { daemon }) => {
    const config = network("blue", { subnets });
    for (const [i, address] of addresses.entries()) {
      expect(addressesOf(await daemon.cni("ADD", `c${i}`, { config }))).toEqual([address]);
    }
    expect(errorOf(await daemon.cni("ADD", "one-more", { config }))).toMatchObject({ code: 11 });
  });
});

describe("the largest networks", () => {
  test.for([
    ["10.0.0.0/8", "10.0.0.1/8"],
    ["128.0.0.0/2", "128.0.0.1/2"],
    ["fd10::/48", "fd10::1/48"],
    ["2000::/3", "2000::1/3"],
  ] as const)("%s is served at once", async ([subnets, address], { daemon }) => {
    const config = network("blue", { subnets });
    expect(addressesOf(await daemon.cni("ADD", "c1", { config }))).toEqual([address]);
    expectDone(await daemon.cni("DEL", "c1", { config }));
    expect(addressesOf(await daemon.cni("ADD", "c2", { config }))).not.toEqual([address]);
  });
});
