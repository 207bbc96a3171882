// The allocator's decision: choose and commit one address, in memory.
import { decideAdd } from "../ipam/decide-add.ts";
import { type NetworkDefinition, parsePluginConfig } from "../ipam/network-definition.ts";
import { Pool } from "../ipam/pool.ts";

const DECISIONS = 20_000;
const WARM_UP = 30_000;

let state = 12_345;
/** The same numbers in every run. */
function random(): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return state / 2 ** 32;
}

function network(ipam: object): { definition: NetworkDefinition; pool: Pool } {
  const definition = parsePluginConfig({ name: "bench", ipam: { type: "holdfast-ipam", ...ipam } });
  const [rangeSet] = definition.rangeSets;
  if (!rangeSet) throw new Error("a network without ranges");
  return { definition, pool: new Pool(rangeSet) };
}

function decide({ definition, pool }: { definition: NetworkDefinition; pool: Pool }): bigint {
  const decision = decideAdd({
    definition,
    pools: [pool],
    held: [],
    requested: [],
    seed: null,
    nowMs: 1,
    holderOf: () => null,
  });
  if (decision.kind !== "allocate") throw new Error(JSON.stringify(decision));
  for (const value of decision.slots[0]?.candidates ?? []) {
    pool.allocate(value, { moveCursor: true });
    return value;
  }
  throw new Error("no candidate");
}

/** Mean microseconds of one decision; each address is given back at once (`back`) or when all are timed. */
function meanUs(one: { definition: NetworkDefinition; pool: Pool }, back: boolean): number {
  const given: bigint[] = [];
  const start = performance.now();
  for (let index = 0; index < DECISIONS; index += 1) {
    const value = decide(one);
    if (back) one.pool.release(value, 0, 1);
    else given.push(value);
  }
  const us = ((performance.now() - start) * 1000) / DECISIONS;
  for (const value of given) one.pool.release(value, 0, 1);
  return us;
}

function filled(
  ipam: object,
  count: number,
  at: (index: number) => bigint,
): { definition: NetworkDefinition; pool: Pool } {
  const one = network(ipam);
  for (let index = 0; index < count; index += 1) one.pool.allocate(at(index), { moveCursor: false });
  return one;
}

/** Excludes all of 10.0.0.0/8 but one address, with one CIDR of each size. */
function allButOne(): string {
  const keep = 0x0a4d4d4d;
  return Array.from({ length: 24 }, (_, index) => {
    const length = index + 9;
    const sibling = ((keep ^ (1 << (32 - length))) >>> (32 - length)) << (32 - length);
    return `${[24, 16, 8, 0].map((shift) => (sibling >>> shift) & 255).join(".")}/${length}`;
  }).join(",");
}

/** Every case with its mean, microseconds. Given back at once where the free space must stay as it is. */
export function measureDecisions(): { name: string; us: number; sameAs?: string }[] {
  const v4 = 10n << 24n;
  const v6 = 0xfd00n << 112n;
  const warm = network({ subnets: "10.0.0.0/16" });
  for (let index = 0; index < WARM_UP; index += 1) decide(warm);
  const cases: [string, boolean, () => ReturnType<typeof network>, string?][] = [
    ["/24 empty", true, () => network({ subnets: "10.0.0.0/24" })],
    [
      "/24 one free",
      true,
      () => filled({ subnets: "10.0.0.0/24" }, 253, (i) => v4 + BigInt(i + 1)),
      "/24 empty",
    ],
    ["/16 empty", false, () => network({ subnets: "10.0.0.0/16" })],
    [
      "/16 half of it taken, at random",
      false,
      () => filled({ subnets: "10.0.0.0/16" }, 45_000, () => v4 + BigInt(1 + Math.floor(random() * 65_534))),
    ],
    ["/8 empty", true, () => network({ subnets: "10.0.0.0/8" })],
    ["/8 one free", true, () => network({ subnets: "10.0.0.0/8", excludeSubnets: allButOne() }), "/8 empty"],
    [
      "/8 with 500,000 taken at random",
      false,
      () =>
        filled({ subnets: "10.0.0.0/8" }, 500_000, () => v4 + BigInt(1 + Math.floor(random() * 16_777_213))),
    ],
    [
      "/8 with 10,000 excludes",
      false,
      () =>
        network({
          subnets: "10.0.0.0/8",
          excludeSubnets: Array.from(
            { length: 10_000 },
            (_, i) => `10.${(i >> 6) & 255}.${(i & 63) * 4}.0/30`,
          ),
        }),
    ],
    ["/64 empty", false, () => network({ subnets: "fd00::/64" })],
    [
      "/64 with 100,000 taken at random",
      false,
      () =>
        filled(
          { subnets: "fd00::/64" },
          100_000,
          () =>
            v6 +
            (BigInt(Math.floor(random() * 2 ** 32)) << 32n) +
            BigInt(Math.floor(random() * 2 ** 32)) +
            1n,
        ),
    ],
  ];
  return cases.map(([name, back, make, sameAs]) => {
    const one = make();
    meanUs(one, back);
    const us = [meanUs(one, back), meanUs(one, back), meanUs(one, back)].sort((a, b) => a - b)[1] as number;
    return { name, us, ...(sameAs === undefined ? {} : { sameAs }) };
  });
}
