/** What is free, for people: as the allocator sees it. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { parseAddress } from "../../ipam/space/address.ts";
import { parseCidr, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { FREE_RUNS_MAX, type FreeQuestion, type FreeRange, freeRange } from "../../ipam/space/free-space.ts";
import { Pool } from "../../ipam/space/pool.ts";
import { firstRangeSet } from "./definitions.ts";

const NOW_MS = 1_000;

function free(pool: Pool, question: Partial<FreeQuestion> = {}): FreeRange | null {
  pool.expire(NOW_MS);
  return freeRange(pool, { count: 5, within: null, isNext: true, ...question });
}

const spans = (range: FreeRange | null) => range?.runs.map(({ first, last }) => `${first}-${last}`);

const SUBNETS = ["10.0.0.0/27", "10.0.0.0/24", "fd00::/122", "fd00::/64"];
const action = fc.record({
  at: fc.nat(70),
  what: fc.constantFrom("allocate", "release", "rest", "retain"),
});

test("the next ones are what the following requests get, and no run has an address that is held or cools down", () => {
  fc.assert(
    fc.property(fc.constantFrom(...SUBNETS), fc.array(action, { maxLength: 60 }), (subnets, actions) => {
      const pool = new Pool(firstRangeSet({ subnets }));
      const base = parseCidr(subnets).base;
      for (const { at, what } of actions) {
        const value = base + BigInt(at);
        if (what === "allocate") pool.allocate(value);
        else if (what === "retain") pool.retain(value);
        else pool.release(value, what === "rest" ? NOW_MS + 50 : 0, NOW_MS);
      }
      const found = free(pool, { count: 12 });
      let previous = -1n;
      let total = 0n;
      for (const { first, last, size } of found?.runs ?? []) {
        const [from, to] = [parseAddress(first).value, parseAddress(last).value];
        expect(from > previous + 1n || previous < 0n, "runs do not touch").toBe(true);
        expect(to - from + 1n).toBe(BigInt(size));
        expect([from, to].map((one) => pool.stateOf(one, NOW_MS))).toEqual(["free", "free"]);
        for (const beside of [from - 1n, to + 1n])
          if (pool.rangeSet.automatic.contains(beside)) expect(pool.stateOf(beside, NOW_MS)).not.toBe("free");
        previous = to;
        total += BigInt(size);
      }
      expect(String(total)).toBe(found?.free);
      expect(total).toBe(pool.counts().free);
      const given: bigint[] = [];
      for (const value of pool.candidates(NOW_MS)) {
        if (given.length === 12 || pool.stateOf(value, NOW_MS) !== "free") break;
        given.push(value);
      }
      expect(found?.next.map((text) => parseInterfaceAddress(text).address.value)).toEqual(given);
    }),
  );
});

test("of a subnet: its runs, cut at its edges, and its own next ones", () => {
  const pool = new Pool(firstRangeSet({ subnets: "10.0.0.0/24" }));
  for (const text of ["10.0.0.1", "10.0.0.66", "10.0.0.130"]) pool.allocate(parseAddress(text).value);
  const part = free(pool, { within: parseCidr("10.0.0.64/26") });
  expect(spans(part)).toEqual(["10.0.0.64-10.0.0.65", "10.0.0.67-10.0.0.127"]);
  expect(part).toMatchObject({ subnets: ["10.0.0.64/26"], free: "63", moreRuns: 0 });
  // The search goes on behind .130, and wraps around.
  expect(part?.next).toEqual(["64", "65", "67", "68", "69"].map((end) => `10.0.0.${end}/24`));
  expect(free(pool, { within: parseCidr("10.0.1.0/26") })).toBeNull();
  expect(free(pool, { within: parseCidr("10.0.0.0/23") }), "wider than the network").toBeNull();
  expect(free(pool, { within: parseCidr("fd00::/64") })).toBeNull();
  expect(free(pool, { count: 0 })?.next).toEqual([]);
  expect(free(pool, { isNext: false })?.next[0]).toBe("10.0.0.2/24");
  expect(free(pool)?.next[0]).toBe("10.0.0.131/24");
});

test("many runs: the first of them, and how many more there are", () => {
  const pool = new Pool(firstRangeSet({ subnets: "10.0.0.0/16" }));
  const base = parseCidr("10.0.0.0/16").base;
  for (let at = 2n; at < 6_000n; at += 2n) pool.allocate(base + at, { moveCursor: false });
  const found = free(pool);
  expect(found?.runs).toHaveLength(FREE_RUNS_MAX);
  expect(found?.moreRuns).toBe(3_000 - FREE_RUNS_MAX);
  expect(found?.free).toBe(String(65_534n - 2_999n));
});

test("nothing is enumerated: a whole /8 of IPv4 and a /64 of IPv6 are one run each", () => {
  for (const [subnets, first] of [
    ["10.0.0.0/8", "10.0.0.1/8"],
    ["fd00::/64", "fd00::1/64"],
  ] as const) {
    const found = free(new Pool(firstRangeSet({ subnets })));
    expect(found?.runs).toHaveLength(1);
    expect(found?.next[0]).toBe(first);
  }
});
