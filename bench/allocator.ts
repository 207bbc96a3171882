import { decideAddresses } from "../ipam/decide-addresses.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { parsePluginConfig } from "../ipam/definition/plugin-config.ts";
import { Pool } from "../ipam/space/pool.ts";
import { atMost, type Line, type Measurement, number } from "./line.ts";
import { median, sum } from "./statistics.ts";

const WARM_UP = 2_000;
const DECISIONS = 20_000;
const MEAN_US_MAX = 5;
/** A last free address may cost this many times what the first one costs. */
const LAST_FREE_FACTOR_MAX = 3;
/** Random holes at most: half of a /8 would only cost memory. */
const HOLES_MAX = 500_000;

interface Range {
  readonly name: string;
  readonly ipam: object;
}

const RANGES: readonly Range[] = [
  { name: "/24", ipam: { subnets: "10.0.0.0/24" } },
  { name: "/16", ipam: { subnets: "10.0.0.0/16" } },
  { name: "/8", ipam: { subnets: "10.0.0.0/8" } },
  { name: "/64", ipam: { subnets: "fd00::/64" } },
];

const RIDDLED: readonly Range[] = [
  { name: "/8 with 10,000 excludes", ipam: { subnets: "10.0.0.0/8", excludeSubnets: excludes(ipv4Exclude) } },
  { name: "/64 with 10,000 excludes", ipam: { subnets: "fd00::/64", excludeSubnets: excludes(ipv6Exclude) } },
];

/** The decision of an ADD alone: which address, and taking it out of the pool. No store, no request. */
export const allocator: Measurement = async () => {
  warmUp();
  return [...RANGES.flatMap(inEveryState), ...RIDDLED.map(empty)];
};

function inEveryState(range: Range): Line[] {
  const first = decisionsUs(new Bench(range.ipam));
  const holes = new Bench(range.ipam);
  const holeCount = holes.takeAtRandom(HOLES_MAX);
  const half = decisionsUs(holes);
  const last = decisionsUs(lastFree(range));
  const against = `mean of ${number(DECISIONS)} after ${number(WARM_UP)}`;
  const ratio = median(last) / median(first);
  return [
    atMost(Math.max(mean(first), mean(half), mean(last)), MEAN_US_MAX, "µs", {
      what: `decision in a ${range.name}: empty, ${number(holeCount)} taken at random, one free`,
      against: `${against}; the slowest of the three`,
      beside: [first, half, last].map((us) => number(mean(us))).join(", "),
    }),
    atMost(ratio, LAST_FREE_FACTOR_MAX, "×", {
      what: `last free address of a ${range.name}, median`,
      against: "the first address of an empty one",
      beside: `${number(median(last))} and ${number(median(first))} µs`,
    }),
  ];
}

function empty(range: Range): Line {
  const startMs = performance.now();
  const bench = new Bench(range.ipam);
  const readMs = performance.now() - startMs;
  return atMost(mean(decisionsUs(bench)), MEAN_US_MAX, "µs", {
    what: `decision in a ${range.name}`,
    against: `mean of ${number(DECISIONS)} after ${number(WARM_UP)}`,
    beside: `reading the configuration took ${number(readMs)} ms`,
  });
}

/** Every address but one taken. Nobody can do that with a /64, so one that excludes leave 65,536 addresses of. */
function lastFree({ name, ipam }: Range): Bench {
  const bench = new Bench(name === "/64" ? { ...ipam, excludeSubnets: ALL_BUT_A_112 } : ipam);
  bench.takeAllButOne();
  return bench;
}

/** fd00::/64 without fd00::1:0/112: the other half of every prefix between. */
const ALL_BUT_A_112 = Array.from({ length: 48 }, (_, index) => {
  const base = 0xfd00n << 112n;
  const bit = 1n << BigInt(63 - index);
  return `${ipv6(index === 47 ? base : base | bit)}/${65 + index}`;
}).join(",");

class Bench {
  readonly #definition: NetworkDefinition;
  readonly #pool: Pool;

  constructor(ipam: object) {
    this.#definition = parsePluginConfig({ name: "bench", ipam: { type: "holdfast-ipam", ...ipam } });
    const [rangeSet] = this.#definition.rangeSets;
    if (rangeSet === undefined) throw new Error("no range set");
    this.#pool = new Pool(rangeSet);
  }

  /** Decides and takes one address. */
  take(): bigint {
    const decision = decideAddresses({
      definition: this.#definition,
      pools: [this.#pool],
      held: [],
      requested: [],
      seed: null,
      nowMs: 0,
      holderOf: () => null,
    });
    if (decision.kind !== "allocate") throw new Error(`decided to ${decision.kind}`);
    for (const value of decision.slots[0]?.candidates ?? []) {
      this.#pool.allocate(value);
      return value;
    }
    throw new Error("no candidate");
  }

  /** Without a rest, so that the pool is as before but for its cursor. */
  give(value: bigint): void {
    this.#pool.release(value, 0, 0);
  }

  /** Takes half of the addresses, or as many as said. Returns how many. */
  takeAtRandom(atMost: number): number {
    const { automatic } = this.#pool.rangeSet;
    const half = automatic.size / 2n;
    const wanted = half < BigInt(atMost) ? Number(half) : atMost;
    let seed = 1n;
    for (let taken = 0; taken < wanted; ) {
      seed = (seed * 6364136223846793005n + 1442695040888963407n) & 0xffff_ffff_ffff_ffffn;
      const value = automatic.at((seed >> 11n) % automatic.size);
      if (this.#pool.stateOf(value) !== "free") continue;
      this.#pool.allocate(value);
      taken += 1;
    }
    return wanted;
  }

  takeAllButOne(): void {
    const { automatic } = this.#pool.rangeSet;
    const spared = automatic.at(automatic.size / 2n);
    for (const { first, last } of automatic.intervals()) {
      for (let value = first; value <= last; value += 1n) if (value !== spared) this.#pool.allocate(value);
    }
  }
}

/** Microseconds of each decision; what was taken is given back in between. */
function decisionsUs(bench: Bench, count = DECISIONS): number[] {
  const took = new Array<number>(count);
  for (let turn = -WARM_UP; turn < count; turn += 1) {
    const startMs = performance.now();
    const value = bench.take();
    const us = (performance.now() - startMs) * 1_000;
    bench.give(value);
    if (turn >= 0) took[turn] = us;
  }
  return took;
}

/** Compiles the code with every shape of pool, so that the order of the measurements does not matter. */
function warmUp(): void {
  for (const { ipam } of [...RANGES, ...RIDDLED]) decisionsUs(new Bench(ipam), WARM_UP);
}

function mean(values: readonly number[]): number {
  return sum(values) / values.length;
}

function excludes(cidr: (index: number) => string): string {
  return Array.from({ length: 10_000 }, (_, index) => cidr(index)).join(",");
}

function ipv4Exclude(index: number): string {
  const value = index * 1_600 + 64;
  return `10.${(value >>> 16) & 255}.${(value >>> 8) & 255}.${value & 0xfc}/30`;
}

function ipv6Exclude(index: number): string {
  return `${ipv6((0xfd00n << 112n) | (BigInt(index * 3 + 1) << 32n))}/96`;
}

function ipv6(value: bigint): string {
  return (value.toString(16).padStart(32, "0").match(/.{4}/g) ?? []).join(":");
}
