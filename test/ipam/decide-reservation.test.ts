import { describe, expect, test } from "vitest";
import { type AddressRequest, decideReservation, definitionFor } from "../../ipam/decide-reservation.ts";
import { parseRequestedAddress } from "../../ipam/definition/requested-address.ts";
import { type Owner, searchSeed, succeeds } from "../../ipam/owner.ts";
import { formatAddress, parseAddress } from "../../ipam/space/address.ts";
import { formatInterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { IntervalSet } from "../../ipam/space/interval-set.ts";
import { Pool } from "../../ipam/space/pool.ts";
import { define } from "./definitions.ts";

/** Two IPv4 range sets with the addresses .2 and .3 of each, and an IPv6 one. */
const network = define({
  ranges: [
    [{ subnet: "10.0.0.0/29", rangeStart: "10.0.0.2", rangeEnd: "10.0.0.3" }],
    [{ subnet: "10.0.1.0/29", rangeStart: "10.0.1.2", rangeEnd: "10.0.1.3" }],
    [{ subnet: "fd00::/125", rangeStart: "fd00::2", rangeEnd: "fd00::3" }],
  ],
});

interface Given {
  /** What the owner has Bound, and what of its own cools down. */
  readonly bound?: readonly string[];
  readonly own?: readonly string[];
  /** What is Bound to an owner that this one succeeds. */
  readonly former?: readonly string[];
  /** What it has Bound and brought along. */
  readonly adopted?: readonly string[];
  readonly taken?: readonly string[];
  readonly seed?: string;
  readonly request: AddressRequest;
}

/** What is kept, and what the slots give when each takes its first candidate that nobody has; or the refusal's code. */
function outcome({ bound = [], own = [], former = [], adopted = [], taken = [], seed, request }: Given): string {
  const definition = definitionFor(network, request);
  const pools = definition.rangeSets.map((set) => new Pool(set));
  const poolOf = (text: string) => {
    const address = parseAddress(text.split("/")[0] as string);
    const pool = pools.find(
      ({ rangeSet }) => rangeSet.family === address.family && rangeSet.extent.contains(address.value),
    );
    return { pool: pool as Pool, value: address.value };
  };
  for (const { pool, value } of [...bound, ...own, ...former, ...adopted, ...taken].map(poolOf))
    pool.allocate(value, { moveCursor: false });
  for (const { pool, value } of own.map(poolOf)) pool.release(value, 1_000, 0);
  const held = (texts: readonly string[], state: "bound" | "cooling") =>
    texts.map((text) => ({ ...parseInterfaceAddress(text), state, adopted: false }));
  const decision = decideReservation({
    definition,
    pools,
    held: [
      ...former.map(
        (text) => ({ ...parseInterfaceAddress(text), state: "bound", adopted: false, former: true }) as const,
      ),
      ...held(bound, "bound"),
      ...held(adopted, "bound").map((one) => ({ ...one, adopted: true })),
      ...held(own, "cooling"),
    ],
    request,
    seed: seed ?? null,
    nowMs: 0,
    holderOf: () => "pod shop/web-0 (eth0)",
  });
  if (decision.kind === "refuse") return decision.refusal.code;
  const given = decision.slots.map(({ rangeSetIndex, candidates, moveCursor }) => {
    const pool = pools[rangeSetIndex] as Pool;
    for (const value of candidates) {
      const address = formatAddress({ family: pool.rangeSet.family, value });
      const passes = former.some((text) => text.startsWith(`${address}/`));
      if (pool.stateOf(value, 0) === "allocated" && !passes) continue;
      pool.allocate(value, { moveCursor });
      return address;
    }
    return "none";
  });
  return `${decision.kept.map(formatInterfaceAddress).join(" ")} + ${given.join(" ")}`.trim();
}

function count(v4: number, v6 = 0): AddressRequest {
  return { kind: "count", perFamily: { 4: v4, 6: v6 } };
}

function exactly(...texts: string[]): AddressRequest {
  return { kind: "addresses", addresses: texts.map(parseInterfaceAddress) };
}

describe("a number of addresses per family", () => {
  test.each<[Given, string, string]>([
    [{ request: count(1, 1) }, "+ 10.0.0.2 fd00::2", "the next of each"],
    [{ request: count(2) }, "+ 10.0.0.2 10.0.1.2", "of each range set one, before any gives two"],
    [{ request: count(4) }, "+ 10.0.0.2 10.0.1.2 10.0.0.3 10.0.1.3", "then each a second one"],
    [{ request: count(0) }, "+", "nothing is nothing"],
    [{ taken: ["10.0.0.2", "10.0.0.3"], request: count(1) }, "+ 10.0.1.2", "the set that has one left"],
    [{ bound: ["10.0.0.3/29"], request: count(1) }, "10.0.0.3/29 +", "what is held counts: a repeat"],
    [{ bound: ["10.0.0.3/29"], request: count(1, 1) }, "10.0.0.3/29 + fd00::2", "what was left unfinished"],
    [
      { bound: ["10.0.0.2/29", "10.0.1.2/29"], request: count(1) },
      "10.0.0.2/29 10.0.1.2/29 +",
      "nothing is taken away",
    ],
    [{ own: ["10.0.0.3/29"], request: count(1) }, "+ 10.0.0.3", "its own that cools down comes first"],
    [
      { own: ["10.0.0.2/29", "10.0.0.3/29"], taken: ["10.0.1.2", "10.0.1.3"], request: count(2) },
      "+ 10.0.0.2 10.0.0.3",
      "no two slots begin with the same of its own",
    ],
    [
      { taken: ["10.0.0.2", "10.0.0.3", "10.0.1.2", "10.0.1.3"], request: count(1) },
      "POOL_FULL",
      "no range set has one left",
    ],
  ])("%o comes to %s: %s", (given, wanted) => {
    expect(outcome(given)).toBe(wanted);
  });
});

describe("given addresses", () => {
  test.each<[Given, string, string]>([
    [{ request: exactly("10.0.0.3/29", "fd00::3/125") }, "+ 10.0.0.3 fd00::3", "and no others"],
    [{ request: exactly("10.0.0.3/29", "10.0.0.2/29") }, "+ 10.0.0.3 10.0.0.2", "also two of one range set"],
    [{ bound: ["10.0.0.3/29"], request: exactly("10.0.0.3/29") }, "10.0.0.3/29 +", "a repeat"],
    [
      { bound: ["10.0.0.3/29"], request: exactly("10.0.0.3/29", "10.0.1.2/29") },
      "10.0.0.3/29 + 10.0.1.2",
      "what was left unfinished",
    ],
    [{ own: ["10.0.0.3/29"], request: exactly("10.0.0.3/29") }, "+ 10.0.0.3", "its own that cools down"],
    [{ taken: ["10.0.0.3"], request: exactly("10.0.0.3/29") }, "ADDRESS_TAKEN", "another has it"],
    [{ request: exactly("10.0.0.2/29", "10.9.0.1/29") }, "ADDRESS_OUTSIDE", "in no range"],
    [{ request: exactly("10.0.0.2/24") }, "CONFIG_INVALID", "another prefix length than its subnet has"],
  ])("%o comes to %s: %s", (given, wanted) => {
    expect(outcome(given)).toBe(wanted);
  });
});

/** One address of the whole network, of 10.0.0.3 and 10.0.1.2 alone, or a requested one of these. */
function single(requested: string | null = null, { all = false } = {}): AddressRequest {
  const texts = all ? ["10.0.0.2", "10.0.0.3", "10.0.1.2", "10.0.1.3"] : ["10.0.0.3", "10.0.1.2"];
  const within = IntervalSet.from(
    texts.map((text) => {
      const { value } = parseAddress(text);
      return { first: value, last: value };
    }),
  );
  const asked = requested === null ? null : parseRequestedAddress(requested, "the annotation");
  return { kind: "single", family: 4, within, automatic: within, requested: asked };
}

describe("one address of a part of the network", () => {
  test.each<[Given, string, string]>([
    [{ taken: ["10.0.0.3"], request: single() }, "+ 10.0.1.2", "of whichever range set has one"],
    [{ taken: ["10.0.0.3", "10.0.1.2"], request: single() }, "POOL_FULL", "although the network has others"],
    [
      { bound: ["10.0.0.3/29", "10.0.1.2/29"], request: single() },
      "10.0.0.3/29 +",
      "the lowest of two that a race left",
    ],
    [
      {
        bound: ["10.0.0.3/29", "10.0.1.2/29"],
        request: { ...single(), preferred: parseAddress("10.0.1.2") } as AddressRequest,
      },
      "10.0.1.2/29 +",
      "the one that is preferred of two",
    ],
    [
      {
        bound: ["10.0.0.3/29"],
        request: { ...single(), preferred: parseAddress("10.0.1.2") } as AddressRequest,
      },
      "10.0.0.3/29 +",
      "what is held before what is preferred",
    ],
    [{ bound: ["10.0.0.2/29"], request: single() }, "10.0.0.2/29 +", "what is held counts outside of it too"],
    [{ bound: ["10.0.0.3/29"], request: single("10.0.1.2") }, "10.0.0.3/29 +", "and before what is requested"],
    [{ adopted: ["10.0.0.3/29"], request: single() }, "10.0.0.3/29 +", "what it brought along"],
    [{ adopted: ["10.0.0.2/29"], request: single() }, "+ 10.0.0.3", "unless that is outside"],
    [{ former: ["10.0.1.2/29"], request: single() }, "+ 10.0.1.2", "that of its former self"],
    [{ former: ["10.0.1.2/29"], own: ["10.0.0.3/29"], request: single() }, "+ 10.0.0.3", "its own before it"],
    [{ former: ["10.0.0.2/29"], request: single() }, "+ 10.0.0.3", "not where that is outside"],
    [{ former: ["10.0.1.2/29"], request: single("10.0.1.2") }, "+ 10.0.1.2", "also by request"],
    [{ former: ["10.0.1.2/29"], request: single("10.0.0.3") }, "+ 10.0.0.3", "the requested one before it"],
    [{ request: single("10.0.0.2") }, "ADDRESS_OUTSIDE", "in the network, but not in the part"],
    [{ request: single("fd00::2") }, "ADDRESS_OUTSIDE", "of the other family"],
    [{ taken: ["10.0.1.2"], request: single("10.0.1.2") }, "ADDRESS_TAKEN", "another has it"],
    [{ request: single("10.0.1.2/24") }, "CONFIG_INVALID", "another prefix length than its subnet has"],
  ])("%o comes to %s: %s", (given, wanted) => {
    expect(outcome(given)).toBe(wanted);
  });
});

test("a machine's search begins at the hash of its name, whatever object has the name", () => {
  const machine: Owner = { kind: "addressClaim", uid: "u1", interface: "", namespace: "fleet", name: "m1" };
  const begin = (owner: Owner) =>
    outcome({ seed: searchSeed(owner, "blue") as string, request: single(null, { all: true }) });
  expect(begin({ ...machine, uid: "u2" })).toBe(begin(machine));
  const names = Array.from({ length: 50 }, (_, index) => `m${index}`);
  expect(new Set(names.map((name) => begin({ ...machine, name }))).size).toBe(4);
  expect(searchSeed(machine, "red")).not.toBe(searchSeed(machine, "blue"));
  expect(searchSeed({ ...machine, kind: "claim" }, "blue")).toBe("u1");
  expect(searchSeed({ ...machine, kind: "pod" }, "blue")).toBeNull();
});

test("only the object of the same kind, namespace, name and interface succeeds another", () => {
  const former: Owner = { kind: "machineData", uid: "u1", interface: "lan", namespace: "fleet", name: "m1" };
  const next = { ...former, uid: "u2" };
  expect(succeeds(next, former)).toBe(true);
  expect(succeeds(former, former)).toBe(false);
  for (const change of [
    { name: "m2" },
    { namespace: "other" },
    { interface: "wan" },
    { kind: "addressClaim" as const },
  ])
    expect(succeeds({ ...next, ...change }, former)).toBe(false);
  expect(succeeds({ ...next, kind: "claim" }, { ...former, kind: "claim" })).toBe(false);
});
