import { describe, expect, test } from "vitest";
import { formatAddress } from "../../ipam/space/address.ts";
import { Pool } from "../../ipam/space/pool.ts";
import { RunIndex } from "../../ipam/space/run-index.ts";
import { define, firstRangeSet, ip, runs } from "./definitions.ts";

/** CIDRs that together cover a network but for one address: the siblings on the way down to it. */
function allBut(prefixLength: number, kept: string): string[] {
  const address = ip(kept);
  return Array.from({ length: 32 - prefixLength }, (_, i) => {
    const hostBits = BigInt(31 - prefixLength - i);
    const sibling = ((address >> hostBits) ^ 1n) << hostBits;
    return `${formatAddress({ family: 4, value: sibling })}/${prefixLength + i + 1}`;
  });
}

describe("a /8 with one free address", () => {
  const set = firstRangeSet({ subnets: "10.0.0.0/8", excludeSubnets: allBut(8, "10.77.77.77") });

  test("has a single run, which is found from any start, and is full afterwards", () => {
    expect(set.usable.size).toBe(1n);
    expect(new RunIndex(set.automatic).shape).toEqual({ runs: 1, chunks: 1 });
    const pool = new Pool(set);
    for (const startAt of ["10.0.0.0", "10.77.77.77", "10.77.77.78", "10.255.255.255"]) {
      expect([...pool.candidates(0, ip(startAt))]).toEqual([ip("10.77.77.77")]);
    }
    pool.allocate(ip("10.77.77.77"));
    expect(pool.isExhausted).toBe(true);
    expect(pool.counts()).toMatchObject({
      free: 0n,
      allocated: 1n,
      excluded: (1n << 24n) - 1n,
      size: 1n << 24n,
    });
  });

  test("has a single run when the other addresses were allocated run by run", () => {
    const pool = new Pool(firstRangeSet({ subnets: "10.0.0.0/20" }));
    for (const value of pool.candidates(0)) if (value !== ip("10.0.7.7")) pool.allocate(value);
    expect([...pool.candidates(0)]).toEqual([ip("10.0.7.7")]);
    expect(pool.counts()).toMatchObject({ free: 1n, allocated: 4093n, excluded: 2n });
  });
});

test("2001:db8::/30 with a /32 excluded is one run, and gives the first address behind it", () => {
  // 2001:db8::/30 reaches from 2001:db8:: to 2001:dbb:ffff:….
  const set = firstRangeSet({ subnets: "2001:db8::/30", excludeSubnets: "2001:db8::/32" });
  expect(runs(set, set.usable)).toBe("2001:db9::-2001:dbb:ffff:ffff:ffff:ffff:ffff:ffff");
  const pool = new Pool(set);
  const [first] = pool.candidates(0);
  expect(first).toBe(ip("2001:db9::"));
  expect(pool.counts()).toEqual({
    size: 1n << 98n,
    allocated: 0n,
    retained: 0n,
    cooling: 0n,
    free: 3n << 96n,
    excluded: 1n << 96n,
    outside: 0n,
  });
});

test("a decision in a /64 with 100,000 random holes sees two chunks at most, and all holes close again", () => {
  const set = firstRangeSet({ subnets: "fd00::/64" });
  const index = new RunIndex(set.automatic);
  const holes = new Set<bigint>();
  let state = 42n;
  while (holes.size < 100_000) {
    state = (state * 6364136223846793005n + 1442695040888963407n) & ((1n << 64n) - 1n);
    holes.add(ip("fd00::") + (state === 0n ? 1n : state));
  }
  expect([...holes].every((hole) => index.take(hole))).toBe(true);
  expect(index.count).toBe((1n << 64n) - 1n - 100_000n);
  expect(index.shape.runs).toBeGreaterThan(99_000);
  // Chunks hold 129 to 512 runs, so a search reads some 10 + 9 numbers.
  expect(index.shape.chunks).toBeLessThan(100_001 / 128);
  expect(index.shape.chunks).toBeGreaterThan(100_000 / 513);
  for (const hole of [...holes].slice(0, 1_000)) {
    const next = index.nextFrom(hole) as bigint;
    expect(next).toBeGreaterThan(hole);
    for (let value = hole; value < next; value++) expect(holes.has(value)).toBe(true);
  }
  expect([...holes].every((hole) => index.give(hole))).toBe(true);
  expect([...index.intervals()]).toEqual([...set.automatic.intervals()]);
  expect(index.shape.chunks).toBe(1);
});

describe("ten thousand unsorted, overlapping exclusions", () => {
  const text = (value: number) => formatAddress({ family: 4, value: ip("10.0.0.0") + BigInt(value) });
  // Every 64th address a /30, and again as its four /32, scattered.
  const excludes = Array.from({ length: 10_000 }, (_, i) => {
    const scattered = (i * 7_919) % 10_000;
    const block = Math.floor(scattered / 5) * 64;
    return scattered % 5 === 0 ? `${text(block)}/30` : `${text(block + (scattered % 5) - 1)}/32`;
  });

  test("become two thousand gaps", () => {
    const set = firstRangeSet({ subnets: "10.0.0.0/8", excludeSubnets: excludes });
    expect(set.usable.intervalCount).toBe(2_000);
    expect(set.usable.size).toBe((1n << 24n) - 8_000n - 1n);
    expect(set.usable.first).toBe(ip("10.0.0.4"));
    expect(new Pool(set).counts()).toMatchObject({ free: (1n << 24n) - 8_001n, excluded: 8_001n });
  });

  test("mean the same as a string with commas, and in another order", () => {
    const list = define({ subnets: "10.0.0.0/8", excludeSubnets: excludes });
    const sorted = define({ subnets: "10.0.0.0/8", excludeSubnets: [...excludes].sort().join(",") });
    expect(sorted.fingerprint).toBe(list.fingerprint);
  });

  test("six thousand exclusions with six thousand reserved subnets are combined in a bounded number of steps", () => {
    const blocks = Array.from({ length: 6_000 }, (_, i) => i * 8);
    const set = firstRangeSet({
      subnets: "10.0.0.0/8",
      excludeSubnets: blocks.map((block) => `${text(block)}/31`),
      reservedSubnets: blocks.map((block) => `${text(block + 2)}/31`),
    });
    expect(set.usable.intervalCount).toBe(6_000);
    expect(set.usable.size - set.automatic.size).toBe(12_000n);
  });
});
