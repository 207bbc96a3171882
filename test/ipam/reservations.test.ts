/** Whatever others do, an address that is reserved for a MAC is that MAC's. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { decideAddresses } from "../../ipam/decide-addresses.ts";
import { canonicalMac } from "../../ipam/definition/mac.ts";
import { formatAddress, parseAddress } from "../../ipam/space/address.ts";
import { Pool } from "../../ipam/space/pool.ts";
import { define } from "./definitions.ts";

const macOf = (at: number) => `02:00:00:00:00:0${at}`;
const addressOf = (at: number) => `10.0.0.${at}`;
const asker = fc.record({
  mac: fc.option(fc.nat(5), { nil: undefined }),
  requested: fc.option(fc.nat(15), { nil: undefined }),
});

test("nobody but its MAC gets it, however full the network is", () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.integer({ min: 1, max: 14 }), { minLength: 1, maxLength: 5 }),
      fc.array(asker, { maxLength: 30 }),
      (reserved, askers) => {
        const reservations = reserved.map((at, index) => ({ mac: macOf(index), ips: [addressOf(at)] }));
        const definition = define({ subnets: "10.0.0.0/28", reservations });
        const [rangeSet] = definition.rangeSets;
        if (rangeSet === undefined) throw new Error("no ranges");
        const pool = new Pool(rangeSet);
        for (const [number, { mac, requested }] of askers.entries()) {
          const own = mac === undefined ? undefined : macOf(mac);
          const asked = requested === undefined ? [] : [addressOf(requested)];
          const decision = decideAddresses({
            definition,
            pools: [pool],
            held: [],
            requested: asked.map((text) => ({
              address: parseAddress(text),
              prefixLength: null,
              source: "a",
            })),
            mac: own,
            seed: number % 2 === 0 ? null : String(number),
            nowMs: 0,
            holderOf: () => null,
          });
          if (decision.kind !== "allocate") continue;
          const [value] = decision.slots[0]?.candidates ?? [];
          if (value === undefined) continue;
          const owner = reservations.find(({ ips }) => ips[0] === formatAddress({ family: 4, value }));
          if (owner !== undefined) expect(owner.mac).toBe(own);
          pool.allocate(value);
        }
      },
    ),
  );
});

test("a MAC in any spelling, and nothing else", () => {
  expect(["02:00:00:00:00:0A", "02-00-00-00-00-0a", "0200.0000.000A"].map(canonicalMac)).toEqual(
    Array(3).fill("02:00:00:00:00:0a"),
  );
  for (const text of [
    "",
    "02:00:00:00:00",
    "02:00:00:00:00:0g",
    "02:00-00:00:00:0a",
    "02000000000a",
    "02:00:00:00:00:0a:0b:0c",
  ])
    expect(canonicalMac(text), text).toBeNull();
});
