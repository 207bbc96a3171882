import { describe, expect, test } from "vitest";
import { type AddressRequest, decideReservation } from "../../ipam/decide-reservation.ts";
import { formatAddress, parseAddress } from "../../ipam/space/address.ts";
import { formatInterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
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
  /** What the owner has Bound, and what of its own rests. */
  readonly bound?: readonly string[];
  readonly own?: readonly string[];
  readonly taken?: readonly string[];
  readonly request: AddressRequest;
}

/** What is kept, and what the slots give when each takes its first candidate that nobody has; or the refusal's code. */
function outcome({ bound = [], own = [], taken = [], request }: Given): string {
  const pools = network.rangeSets.map((set) => new Pool(set));
  const poolOf = (text: string) => {
    const address = parseAddress(text.split("/")[0] as string);
    const pool = pools.find(
      ({ rangeSet }) => rangeSet.family === address.family && rangeSet.extent.contains(address.value),
    );
    return { pool: pool as Pool, value: address.value };
  };
  for (const { pool, value } of [...bound, ...own, ...taken].map(poolOf))
    pool.allocate(value, { moveCursor: false });
  for (const { pool, value } of own.map(poolOf)) pool.release(value, 1_000, 0);
  const held = (texts: readonly string[], state: "bound" | "cooling") =>
    texts.map((text) => ({ ...parseInterfaceAddress(text), state, adopted: false }));
  const decision = decideReservation({
    definition: network,
    pools,
    held: [...held(bound, "bound"), ...held(own, "cooling")],
    request,
    seed: null,
    nowMs: 0,
    holderOf: () => "pod shop/web-0 (eth0)",
  });
  if (decision.kind === "refuse") return decision.refusal.code;
  const given = decision.slots.map(({ rangeSetIndex, candidates, moveCursor }) => {
    const pool = pools[rangeSetIndex] as Pool;
    for (const value of candidates) {
      if (pool.stateOf(value, 0) === "allocated") continue;
      pool.allocate(value, { moveCursor });
      return formatAddress({ family: pool.rangeSet.family, value });
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
    [{ own: ["10.0.0.3/29"], request: count(1) }, "+ 10.0.0.3", "its own that rests comes first"],
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
    [{ own: ["10.0.0.3/29"], request: exactly("10.0.0.3/29") }, "+ 10.0.0.3", "its own that rests"],
    [{ taken: ["10.0.0.3"], request: exactly("10.0.0.3/29") }, "ADDRESS_TAKEN", "another has it"],
    [{ request: exactly("10.0.0.2/29", "10.9.0.1/29") }, "ADDRESS_OUTSIDE", "in no range"],
    [{ request: exactly("10.0.0.2/24") }, "CONFIG_INVALID", "another prefix length than its subnet has"],
  ])("%o comes to %s: %s", (given, wanted) => {
    expect(outcome(given)).toBe(wanted);
  });
});
