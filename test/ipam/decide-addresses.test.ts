import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type AddressQuestion, decideAddresses, type HeldAddress } from "../../ipam/decide-addresses.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { parseRequestedAddress } from "../../ipam/definition/requested-address.ts";
import { type Address, formatAddress } from "../../ipam/space/address.ts";
import { cidrContains, formatInterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { Pool } from "../../ipam/space/pool.ts";
import { define, ip } from "./definitions.ts";

const dual = define({
  subnets: "10.0.0.0/29,fd00::/125",
  gateway: "10.0.0.1",
  excludeSubnets: "10.0.0.2/32",
  reservedSubnets: "10.0.0.5/32",
});

interface Given {
  readonly definition?: NetworkDefinition;
  readonly allocated?: readonly string[];
  readonly cooling?: readonly string[];
  readonly retained?: readonly string[];
  readonly bound?: readonly string[];
  readonly own?: readonly string[];
  readonly adopted?: readonly string[];
  readonly requested?: readonly string[];
  readonly seed?: string;
  readonly renews?: boolean;
}

function question(given: Given): AddressQuestion {
  const definition = given.definition ?? dual;
  const pools = definition.rangeSets.map((set) => new Pool(set));
  const each = (texts: readonly string[] = [], act: (pool: Pool, value: bigint) => void) => {
    for (const text of texts) {
      const { address } = parseInterfaceAddress(text.includes("/") ? text : `${text}/${text.includes(":") ? 128 : 32}`);
      for (const pool of pools) if (pool.rangeSet.family === address.family) act(pool, address.value);
    }
  };
  const held = (texts: readonly string[] = [], state: "bound" | "cooling", adopted = false): HeldAddress[] =>
    texts.map((text) => ({ ...parseInterfaceAddress(text), state, adopted }));
  each([...(given.allocated ?? []), ...(given.bound ?? []), ...(given.adopted ?? [])], (pool, value) =>
    pool.allocate(value),
  );
  each(given.retained, (pool, value) => {
    pool.allocate(value, { moveCursor: false });
    pool.retain(value);
  });
  each([...(given.cooling ?? []), ...(given.own ?? [])], (pool, value) => {
    pool.allocate(value, { moveCursor: false });
    pool.release(value, 1_000, 0);
  });
  return {
    definition,
    pools,
    held: [...held(given.bound, "bound"), ...held(given.adopted, "bound", true), ...held(given.own, "cooling")],
    requested: (given.requested ?? []).map((text) => parseRequestedAddress(text, "runtimeConfig.ips")),
    seed: given.seed ?? null,
    renews: given.renews ?? false,
    nowMs: 0,
    holderOf: (address) => (formatAddress(address) === "10.0.0.3" ? "pod shop/web-0" : null),
  };
}

/** What the decision comes to: the addresses, all candidates of each slot, or the refusal. */
function outcome(given: Given): string {
  const asked = question(given);
  const decision = decideAddresses(asked);
  if (decision.kind === "refuse") return `${decision.refusal.code}: ${decision.refusal.message}`;
  const kept = decision.kind === "reuse" ? decision.addresses.map(formatInterfaceAddress).join(" ") : "";
  if (decision.kind === "reuse" && decision.slots.length === 0) return `reuse ${kept}`;
  const slots = decision.slots.map(({ rangeSetIndex, candidates }) => {
    const family = asked.pools[rangeSetIndex]?.rangeSet.family ?? 4;
    return [...candidates].map((value) => formatAddress({ family, value })).join(" ");
  });
  return `${kept === "" ? "" : `reuse ${kept} and `}${slots.join(" | ")}`;
}

describe("a first use", () => {
  test.each<[Given, string, string]>([
    [
      {},
      "10.0.0.3 10.0.0.4 10.0.0.6 | fd00::1 fd00::2 fd00::3 fd00::4 fd00::5 fd00::6 fd00::7",
      "one slot for each range set",
    ],
    [{ allocated: ["10.0.0.3"] }, "10.0.0.4 10.0.0.6 | fd00::1", "the next one"],
    [{ cooling: ["10.0.0.3"] }, "10.0.0.4 10.0.0.6 10.0.0.3 | fd00::1", "what cools down comes last"],
    [{ requested: ["10.0.0.4"] }, "10.0.0.4 | fd00::1", "asked for: that or nothing; the other family as usual"],
    [{ requested: ["10.0.0.4/29", "fd00::6/125"] }, "10.0.0.4 | fd00::6", "both asked for, with the right masks"],
    [{ requested: ["10.0.0.5"] }, "10.0.0.5 | fd00::1", "reserved, but asked for"],
    [{ requested: ["10.0.0.4", "10.0.0.4/29"] }, "10.0.0.4 | fd00::1", "the same twice is one request"],
    [
      { own: ["10.0.0.6/29", "fd00::7/125"] },
      "10.0.0.6 10.0.0.3 10.0.0.4 | fd00::7 fd00::1",
      "its own cooling ones first",
    ],
    [{ own: ["10.0.0.6/29"] }, "10.0.0.6 10.0.0.3 10.0.0.4 | fd00::1", "its own of one family"],
    [{ own: ["10.0.0.6/29"], requested: ["10.0.0.4"] }, "10.0.0.4 | fd00::1", "a request wins over its own"],
    [{ own: ["10.0.0.6/29"], requested: ["10.0.0.6"] }, "10.0.0.6 | fd00::1", "a request for its own cooling one"],
    [
      { own: ["10.0.0.2/29", "10.9.0.1/24"] },
      "10.0.0.3 10.0.0.4 10.0.0.6 | fd00::1",
      "its own, but excluded or outside since",
    ],
    [
      { own: ["10.0.0.6/29"], allocated: ["10.0.0.3", "10.0.0.4"] },
      "10.0.0.6 | fd00::1",
      "its own cooling one is the last: no candidate is named twice",
    ],
    [
      { own: ["10.0.0.5/29"], allocated: ["10.0.0.3", "10.0.0.4", "10.0.0.6"] },
      "10.0.0.5 | fd00::1",
      "its own reserved one, when nothing else is left",
    ],
    [
      { allocated: ["10.0.0.3", "10.0.0.4"], cooling: ["10.0.0.6"] },
      "10.0.0.6 | fd00::1",
      "better a cooling one than none",
    ],
  ])("%o gives %s: %s", (given, wanted) => {
    expect(outcome(given).startsWith(wanted)).toBe(true);
  });

  test("the round robin advances only by addresses that it chose", () => {
    const moves = (given: Given) => {
      const decision = decideAddresses(question(given));
      return decision.kind === "allocate" ? decision.slots.map(({ moveCursor }) => moveCursor) : null;
    };
    expect(moves({})).toEqual([true, true]);
    expect(moves({ seed: "uid" })).toEqual([false, false]);
    expect(moves({ requested: ["10.0.0.4"] })).toEqual([false, true]);
    expect(moves({ own: ["fd00::7/125"] })).toEqual([true, false]);
  });

  test("a claim's search starts at the hash of its UID and covers everything", () => {
    const wide = define({ subnets: "10.0.0.0/24" });
    const asked = question({ definition: wide, seed: "6ba7b810-9dad-11d1-80b4-00c04fd430c8" });
    const decision = decideAddresses(asked);
    const candidates = decision.kind === "allocate" ? [...(decision.slots[0]?.candidates ?? [])] : [];
    expect(candidates[0]).toBe(asked.pools[0]?.hashStart("6ba7b810-9dad-11d1-80b4-00c04fd430c8"));
    expect(new Set(candidates).size).toBe(254);
    expect(asked.pools[0]?.cursor).toBe(ip("10.0.0.1"));
  });
});

describe("bound addresses are kept", () => {
  test.each<[Given, string, string]>([
    [{ bound: ["10.0.0.4/29", "fd00::3/125"] }, "reuse 10.0.0.4/29 fd00::3/125", "as it is"],
    [{ bound: ["fd00::3/125", "10.0.0.4/29"] }, "reuse 10.0.0.4/29 fd00::3/125", "in the order of the range sets"],
    [{ bound: ["10.0.0.4/29"] }, "reuse 10.0.0.4/29", "the families it has, even if the network has more now"],
    [{ bound: ["10.0.0.4/24", "fd00::3/64"] }, "reuse 10.0.0.4/24 fd00::3/64", "the masks it has"],
    [
      { bound: ["fd09::3/64", "10.9.0.4/24"] },
      "reuse 10.9.0.4/24 fd09::3/64",
      "outside the ranges since they were edited",
    ],
    [{ bound: ["10.0.0.1/29"] }, "reuse 10.0.0.1/29", "the gateway since the network was edited"],
    [
      { bound: ["10.0.0.4/29"], own: ["fd00::3/125"] },
      "reuse 10.0.0.4/29",
      "what cools down does not come back with it",
    ],
    [{ bound: ["10.0.0.4/29"], requested: ["10.0.0.4"] }, "reuse 10.0.0.4/29", "asked for what it has"],
    [{ bound: ["10.0.0.4/29"], requested: ["10.0.0.4/29"] }, "reuse 10.0.0.4/29", "with its mask"],
    [{ adopted: ["10.0.0.4/29"] }, "reuse 10.0.0.4/29", "brought in from outside, and inside a subnet"],
    [{ adopted: ["10.0.0.4/24"] }, "reuse 10.0.0.4/29", "with the prefix length that its subnet has now"],
    [
      { adopted: ["10.0.0.1/29"] },
      "ADDRESS_EXCLUDED: 10.0.0.1 is excluded in network blue",
      "brought in, and never given by this network",
    ],
    [
      { definition: define({}), bound: ["10.0.0.4/29"] },
      "reuse 10.0.0.4/29",
      "even if nobody defines the network any more",
    ],
    [{ definition: define({}), adopted: ["10.0.0.4/29"] }, "reuse 10.0.0.4/29", "then nothing can be outside"],
    [
      {
        definition: define({
          ranges: [
            [{ subnet: "10.0.0.0/24", rangeEnd: "10.0.0.99" }],
            [{ subnet: "10.0.0.0/24", rangeStart: "10.0.0.100", gateway: "10.0.0.200" }],
          ],
        }),
        bound: ["10.0.0.150/24", "10.0.0.50/24"],
      },
      "reuse 10.0.0.50/24 10.0.0.150/24",
      "two windows of one subnet: each in the place of its own",
    ],
  ])("%o gives %s: %s", (given, wanted) => {
    expect(outcome(given)).toBe(wanted);
  });
});

describe("refused", () => {
  const v4Full = ["10.0.0.3", "10.0.0.4", "10.0.0.6"];
  test.each<[Given, string, string]>([
    [
      { allocated: v4Full },
      "POOL_FULL: no free address in 10.0.0.0/29 of network blue",
      "one family full: all or nothing; .5 is reserved",
    ],
    [
      { allocated: ["fd00::1", "fd00::2", "fd00::3", "fd00::4", "fd00::5", "fd00::6", "fd00::7"] },
      "POOL_FULL: no free address in fd00::/125 of network blue",
      "the other family full",
    ],
    [
      { allocated: ["10.0.0.3", "10.0.0.4"], retained: ["10.0.0.6"] },
      "POOL_FULL: no free address in 10.0.0.0/29 (1 retained for claims that were deleted) of network blue",
      "of which one is retained",
    ],
    [
      { requested: ["10.0.0.4"], retained: ["10.0.0.4"] },
      "ADDRESS_TAKEN: 10.0.0.4 is held by another owner on network blue",
      "retained for a claim of another name",
    ],
    [
      { requested: ["10.0.0.3"], allocated: ["10.0.0.3"] },
      "ADDRESS_TAKEN: 10.0.0.3 is held by pod shop/web-0 on network blue",
      "with its holder",
    ],
    [
      { requested: ["10.0.0.4"], allocated: ["10.0.0.4"] },
      "ADDRESS_TAKEN: 10.0.0.4 is held by another owner on network blue",
      "holder unknown",
    ],
    [
      { requested: ["10.0.0.5"], allocated: ["10.0.0.5"] },
      "ADDRESS_TAKEN: 10.0.0.5 is held by another owner on network blue",
      "reserved and taken",
    ],
    [
      { requested: ["10.0.0.3"], cooling: ["10.0.0.3"] },
      "ADDRESS_COOLING: 10.0.0.3 of network blue was released a short time ago and is still cooling down",
      "cools down, and was another's",
    ],
    [{ requested: ["10.0.0.2"] }, "ADDRESS_EXCLUDED: 10.0.0.2 is excluded in network blue", "excluded"],
    [{ requested: ["10.0.0.1"] }, "ADDRESS_EXCLUDED: 10.0.0.1 is excluded in network blue", "the gateway"],
    [{ requested: ["10.0.0.0"] }, "ADDRESS_EXCLUDED: 10.0.0.0 is excluded in network blue", "the network address"],
    [
      { requested: ["10.0.0.8"] },
      "ADDRESS_OUTSIDE: 10.0.0.8 is not in 10.0.0.0/29, fd00::/125 of network blue",
      "just behind the subnet",
    ],
    [
      { requested: ["fd01::1"] },
      "ADDRESS_OUTSIDE: fd01::1 is not in 10.0.0.0/29, fd00::/125 of network blue",
      "another IPv6 network",
    ],
    [
      { requested: ["10.0.0.4/24"] },
      "CONFIG_INVALID: runtimeConfig.ips is 10.0.0.4/24: its subnet is 10.0.0.0/29, so write 10.0.0.4/29 or omit the prefix length",
      "another mask than the subnet's",
    ],
    [
      { requested: ["10.0.0.3", "10.0.0.4"] },
      "CONFIG_INVALID: runtimeConfig.ips is 10.0.0.4: runtimeConfig.ips asks for 10.0.0.3 already, and one address is given from 10.0.0.0/29",
      "two of one subnet",
    ],
    [
      { requested: ["fd00::2", "10.0.0.3"], allocated: ["10.0.0.3"] },
      "ADDRESS_TAKEN: 10.0.0.3 is held by pod shop/web-0 on network blue",
      "one of two taken: all or nothing",
    ],
    [
      { bound: ["10.0.0.4/29", "fd00::3/125"], requested: ["10.0.0.3"] },
      "REQUEST_MISMATCH: runtimeConfig.ips asks for 10.0.0.3, but 10.0.0.4, fd00::3 is held already on network blue",
      "never overwritten",
    ],
    [
      { bound: ["10.0.0.4/29"], requested: ["10.0.0.4/24"] },
      "CONFIG_INVALID: runtimeConfig.ips is 10.0.0.4/24: it is held, so write 10.0.0.4/29 or omit the prefix length",
      "the address it has, with another mask",
    ],
    [
      { adopted: ["10.0.0.4/29", "10.9.0.4/24"] },
      "ADDRESS_OUTSIDE: 10.9.0.4 is not in 10.0.0.0/29, fd00::/125 of network blue",
      "brought in from outside, and outside",
    ],
    [
      { adopted: ["10.0.0.3/29", "10.0.0.4/29"] },
      "REQUEST_INVALID: status.ips is 10.0.0.4/29: an interface has one address of each subnet",
      "brought in from outside, two of one subnet",
    ],
    [{ definition: define({}) }, "NETWORK_UNDEFINED: network blue has no ranges", "nobody defines the network"],
    [
      {
        definition: define({ subnet: "10.0.0.0/24", rangeStart: "10.0.0.10", rangeEnd: "10.0.0.20" }),
        requested: ["10.0.0.30"],
      },
      "ADDRESS_OUTSIDE: 10.0.0.30 is not in 10.0.0.0/24 (10.0.0.10 to 10.0.0.20) of network blue",
      "in the subnet but not in host-local's range",
    ],
  ])("%o: %s: %s", (given, wanted) => {
    expect(outcome(given)).toBe(wanted);
  });
});

test("pools that do not match the definition are an internal error", () => {
  expect(() => decideAddresses({ ...question({}), pools: [] })).toThrow("one pool per range set");
});

describe("over any state", () => {
  const values = Array.from({ length: 10 }, (_, i) => ip("10.0.0.0") + BigInt(i));
  const state = fc.constantFrom("free", "allocated", "cooling", "own", "own");
  const anyRequest = fc.option(fc.constantFrom(...values), { nil: null });
  const v4 = define({
    subnets: "10.0.0.0/29",
    excludeSubnets: "10.0.0.2/32",
    reservedSubnets: "10.0.0.5/32",
  });

  test("a decision gives only free addresses, the requested ones or none, and changes nothing", () => {
    fc.assert(
      fc.property(
        fc.array(state, { minLength: 10, maxLength: 10 }),
        anyRequest,
        fc.boolean(),
        (states, request, hashed) => {
          const of = (wanted: string) => values.filter((_, i) => states[i] === wanted);
          const text = (value: bigint) => formatAddress({ family: 4, value });
          const asked = question({
            definition: v4,
            allocated: of("allocated").map(text),
            cooling: of("cooling").map(text),
            own: of("own").map((value) => `${text(value)}/29`),
            requested: request === null ? [] : [text(request)],
            ...(hashed && { seed: "uid" }),
          });
          const [pool] = asked.pools as [Pool];
          const before = values.map((value) => pool.stateOf(value));
          const decision = decideAddresses(asked);
          const [set] = v4.rangeSets;
          const usable = (value: bigint) => set?.usable.contains(value) === true;
          const mayHave = (value: bigint) => usable(value) && !of("allocated").includes(value);
          if (decision.kind === "allocate") {
            const candidates = [...(decision.slots[0]?.candidates ?? [])];
            expect(candidates.length).toBeGreaterThan(0);
            expect(new Set(candidates).size).toBe(candidates.length);
            expect(candidates.every(mayHave)).toBe(true);
            if (request !== null) expect(candidates).toEqual([request]);
            else {
              const own = of("own").filter(usable);
              expect(candidates.slice(0, own.length)).toEqual(own);
              const automatic = values.filter((value) => set?.automatic.contains(value) && mayHave(value));
              expect(candidates).toEqual(expect.arrayContaining(automatic));
            }
          } else if (request === null) {
            expect(values.filter((value) => set?.automatic.contains(value) && mayHave(value))).toEqual([]);
          } else {
            expect(mayHave(request) && !of("cooling").includes(request)).toBe(false);
          }
          expect(values.map((value) => pool.stateOf(value))).toEqual(before);
          expect(pool.cursor).toBe(question({ definition: v4, allocated: of("allocated").map(text) }).pools[0]?.cursor);
        },
      ),
      { numRuns: 500 },
    );
  });

  test("a decision returns all bound addresses, each once, IPv4 first", () => {
    const anyBound = fc.uniqueArray(
      fc.constantFrom("10.0.0.3/29", "10.0.0.1/29", "fd00::2/125", "10.77.0.1/16", "fd77::1/64"),
      { minLength: 1 },
    );
    fc.assert(
      fc.property(anyBound, (bound) => {
        const decision = decideAddresses(question({ bound }));
        const texts = decision.kind === "reuse" ? decision.addresses.map(formatInterfaceAddress) : [];
        expect([...texts].sort()).toEqual([...bound].sort());
        const families =
          decision.kind === "reuse"
            ? decision.addresses.map(({ address }: { address: Address }) => address.family)
            : [];
        expect(families).toEqual([...families].sort());
      }),
    );
  });
});

test("decisions for different owners never give the same address", () => {
  const definition = define({ subnets: "10.0.0.0/26,fd00::/122" });
  fc.assert(
    fc.property(
      fc.array(fc.option(fc.string(), { nil: null }), { minLength: 1, maxLength: 80, size: "max" }),
      (seeds) => {
        const pools = definition.rangeSets.map((set) => new Pool(set));
        const given = new Set<string>();
        for (const seed of seeds) {
          const decision = decideAddresses({
            definition,
            pools,
            held: [],
            requested: [],
            seed,
            nowMs: 0,
            holderOf: () => null,
          });
          if (decision.kind !== "allocate") {
            expect(given.size).toBe(2 * 62);
            continue;
          }
          for (const { rangeSetIndex, candidates, moveCursor } of decision.slots) {
            const pool = pools[rangeSetIndex] as Pool;
            const [value] = candidates as Iterable<bigint> as [bigint];
            const address = { family: pool.rangeSet.family, value };
            expect(definition.rangeSets[rangeSetIndex]?.subnets.some(({ cidr }) => cidrContains(cidr, address))).toBe(
              true,
            );
            expect(given.has(formatAddress(address))).toBe(false);
            given.add(formatAddress(address));
            pool.allocate(value, { moveCursor });
          }
        }
      },
    ),
    { numRuns: 50 },
  );
});

describe("a guest that starts again on a network that was changed", () => {
  const single = define({ subnets: "10.0.0.0/29" });
  test.each<[Given, string, string]>([
    [{ bound: ["10.0.0.4/24", "fd00::3/64"] }, "reuse 10.0.0.4/29 fd00::3/125", "the subnets' prefix lengths"],
    [{ definition: single, bound: ["10.0.0.4/30"] }, "reuse 10.0.0.4/29", "of an enlarged subnet"],
    [{ bound: ["10.0.0.4/29"], seed: "x" }, "reuse 10.0.0.4/29 and *", "a second family beside the first"],
    [
      { bound: ["10.0.0.4/29"], requested: ["10.0.0.4", "fd00::3"] },
      "reuse 10.0.0.4/29 and fd00::3",
      "the address of it that was requested",
    ],
    [
      { bound: ["10.0.0.4/29"], requested: ["fd00::3"], allocated: ["fd00::3"] },
      "REQUEST_MISMATCH: *",
      "never another one than the requested",
    ],
    [
      { bound: ["10.0.0.4/29"], allocated: ["1", "2", "3", "4", "5", "6", "7"].map((n) => `fd00::${n}`) },
      "reuse 10.0.0.4/29",
      "what it had where the new family is full",
    ],
    [{ bound: ["10.9.0.4/24"], definition: single }, "reuse 10.9.0.4/24", "its address in no subnet any more"],
    [{ bound: ["10.0.0.2/24", "fd00::3/125"] }, "reuse 10.0.0.2/24 fd00::3/125", "an excluded one as it was"],
    [{ bound: ["10.0.0.1/24", "fd00::3/125"] }, "reuse 10.0.0.1/24 fd00::3/125", "and what is a gateway now"],
    [
      { bound: ["10.0.0.4/24"], definition: define({ subnets: "10.0.0.0/29,10.1.0.0/29" }) },
      "reuse 10.0.0.4/29",
      "no second address of a family that it has",
    ],
  ])("%#: %s (%s)", (given, expected) => {
    const text = outcome({ ...given, renews: true });
    if (expected.endsWith("*")) expect(text.startsWith(expected.slice(0, -1)), text).toBe(true);
    else expect(text).toBe(expected);
  });
});
