import { describe, expect } from "vitest";
import { addressesOf, counts, held, network, processTest, restart, test, until } from "./fixtures.ts";

/**
 * A released address cools down, so that ARP caches, conntrack and DNS forget its last holder; then round robin goes
 * on.
 */

const SMALL = { subnets: "192.0.2.0/29" }; // .1 to .6
const blue = (more: object = {}) => network("blue", { ...SMALL, ...more });

describe("a released address", () => {
  test("is given again only after the others", async ({ daemon }) => {
    const config = blue();
    await daemon.cni("ADD", "c1", { config });
    await daemon.cni("DEL", "c1", { config });
    const given = [];
    for (let i = 2; i <= 6; i++) given.push(...addressesOf(await daemon.cni("ADD", `c${i}`, { config })));
    expect(given).toEqual(["192.0.2.2/29", "192.0.2.3/29", "192.0.2.4/29", "192.0.2.5/29", "192.0.2.6/29"]);
    expect(await counts(daemon, "blue")).toEqual({ allocated: 5, cooling: 1, free: 0, excluded: 2 });
  });

  test("is given during its cooldown when nothing else is free, the longest released first", async ({ daemon }) => {
    const config = blue();
    for (let i = 1; i <= 6; i++) await daemon.cni("ADD", `c${i}`, { config });
    for (const id of ["c5", "c2", "c4"]) await daemon.cni("DEL", id, { config });
    const given = [];
    for (const id of ["d1", "d2", "d3"]) given.push(...addressesOf(await daemon.cni("ADD", id, { config })));
    expect(given).toEqual(["192.0.2.5/29", "192.0.2.2/29", "192.0.2.4/29"]);
  });

  processTest("continues its cooldown after a restart", async ({ daemon }) => {
    const config = blue();
    for (const id of ["c1", "c2"]) await daemon.cni("ADD", id, { config });
    await daemon.cni("DEL", "c1", { config });
    await restart(daemon, "SIGKILL");
    expect(await counts(daemon, "blue")).toMatchObject({ allocated: 1, cooling: 1 });
    for (let i = 3; i <= 6; i++) {
      expect(addressesOf(await daemon.cni("ADD", `c${i}`, { config }))).toEqual([`192.0.2.${i}/29`]);
    }
    expect(addressesOf(await daemon.cni("ADD", "c7", { config }))).toEqual(["192.0.2.1/29"]);
  });

  test("is free after its cooldown, and its row is gone", async ({ daemon }) => {
    const config = blue({ cooldownSeconds: 1 });
    await daemon.cni("ADD", "c1", { config });
    await daemon.cni("DEL", "c1", { config });
    await until(async () => (await counts(daemon, "blue")).free === 6, "the end of the rest");
    await until(async () => (await held(daemon, "blue")).length === 0, "housekeeping");
    expect(addressesOf(await daemon.cni("ADD", "c2", { config, args: "IP=192.0.2.1" }))).toEqual(["192.0.2.1/29"]);
  });

  test("is free at once where the network has no cooldown", async ({ daemon }) => {
    const config = blue({ cooldownSeconds: 0 });
    await daemon.cni("ADD", "c1", { config });
    await daemon.cni("DEL", "c1", { config });
    expect(await held(daemon, "blue")).toEqual([]);
    expect(await counts(daemon, "blue")).toEqual({ allocated: 0, cooling: 0, free: 6, excluded: 2 });
  });

  test("is given to its former owner before anybody else", async ({ daemon }) => {
    const config = blue();
    for (const id of ["c1", "c2"]) await daemon.cni("ADD", id, { config });
    await daemon.cni("DEL", "c1", { config });
    expect(addressesOf(await daemon.cni("ADD", "c1", { config }))).toEqual(["192.0.2.1/29"]);
    // And the round robin goes on where it was.
    expect(addressesOf(await daemon.cni("ADD", "c3", { config }))).toEqual(["192.0.2.3/29"]);
  });
});

describe("round robin", () => {
  processTest.for(["SIGTERM", "SIGKILL"] as const)(
    "continues after the last address after %s",
    async (signal, { daemon }) => {
      const config = blue({ cooldownSeconds: 0 });
      for (const id of ["c1", "c2", "c3"]) await daemon.cni("ADD", id, { config });
      await daemon.cni("DEL", "c1", { config });
      await restart(daemon, signal);
      expect(addressesOf(await daemon.cni("ADD", "c4", { config }))).toEqual(["192.0.2.4/29"]);
    },
  );

  test("wraps around to freed addresses", async ({ daemon }) => {
    const config = blue({ cooldownSeconds: 0 });
    for (let i = 1; i <= 5; i++) await daemon.cni("ADD", `c${i}`, { config });
    for (const id of ["c2", "c4"]) await daemon.cni("DEL", id, { config });
    const given = [];
    for (const id of ["d1", "d2", "d3"]) given.push(...addressesOf(await daemon.cni("ADD", id, { config })));
    expect(given).toEqual(["192.0.2.6/29", "192.0.2.2/29", "192.0.2.4/29"]);
  });

  test("advances for each family separately", async ({ daemon }) => {
    const config = network("blue", { subnets: "192.0.2.0/29,fd10::/64", cooldownSeconds: 0 });
    for (let i = 1; i <= 6; i++) await daemon.cni("ADD", `c${i}`, { config });
    await daemon.cni("DEL", "c1", { config });
    expect(addressesOf(await daemon.cni("ADD", "c7", { config }))).toEqual(["192.0.2.1/29", "fd10::7/64"]);
  });
});
