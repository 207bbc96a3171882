import fc from "fast-check";
import { expect, test } from "vitest";
import { newAllocation, soundAddress } from "../../allocations/allocation-object.ts";
import {
  ABSENT,
  type AddressClaimFact,
  type AddressPoolFact,
  type Facts,
  type Found,
  type MachineAddressFact,
  type NamespaceFact,
  present,
  UNKNOWN,
} from "../../claims/reasons/facts.ts";
import { judge } from "../../claims/reasons/relations.ts";
import type { Verdict } from "../../claims/reasons/verdict.ts";
import { preallocationUid } from "../../ipam/owner.ts";
import { parseAddress } from "../../ipam/space/address.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { allocationName } from "../../kube/object-names.ts";
import type { AllocationOwner, IPAllocation } from "../../kube/objects.ts";
import { NO_CLAIMS, RULES } from "./judged.ts";

const OWNER: AllocationOwner = {
  kind: "IPAddressClaim",
  namespace: "metal",
  name: "m0-blue",
  uid: "c1",
  interface: "",
  cluster: "prod",
};
const ALONE: AllocationOwner = { ...OWNER, cluster: "" };
const DATA: AllocationOwner = { ...OWNER, kind: "Metal3Data", name: "nodes-0", interface: "blue" };
const KEPT: AllocationOwner = { ...ALONE, uid: preallocationUid("p1") };

const OTHER = allocationName("blue", parseAddress("10.0.0.6"));
const ELSEWHERE = allocationName("red", parseAddress("10.0.0.5"));

/** What is known around an allocation of 10.0.0.5 on network blue; absent: unknown. */
interface KnownMachines {
  readonly claim?: Found<AddressClaimFact>;
  readonly data?: Found<{ readonly uid: string }>;
  readonly answer?: Found<MachineAddressFact>;
  readonly cluster?: Found<{ readonly paused: boolean }>;
  readonly wasPaused?: Found<boolean>;
  readonly namespace?: Found<NamespaceFact>;
  readonly pools?: Found<readonly AddressPoolFact[]>;
  /** Who has 10.0.0.6 of network blue; default: the claim. */
  readonly other?: Found<string>;
  /** Who has 10.0.0.5 of network red. */
  readonly elsewhere?: Found<string>;
}

function factsOf(known: KnownMachines): Facts {
  return {
    ...NO_CLAIMS,
    claim: () => UNKNOWN,
    pod: () => UNKNOWN,
    node: () => UNKNOWN,
    wasSeenStopped: () => false,
    guestRunsElsewhere: () => false,
    networkOfNad: () => UNKNOWN,
    podsNaming: () => UNKNOWN,
    addressClaim: () => known.claim ?? UNKNOWN,
    machineData: () => known.data ?? UNKNOWN,
    machineAddress: () => known.answer ?? UNKNOWN,
    boundTo: (name) => {
      if (name === OTHER) return known.other ?? present("c1");
      return name === ELSEWHERE ? (known.elsewhere ?? UNKNOWN) : UNKNOWN;
    },
    cluster: (namespace, name) => (namespace === "metal" && name === "prod" ? (known.cluster ?? UNKNOWN) : UNKNOWN),
    addressPools: () => known.pools ?? UNKNOWN,
    namespace: () => known.namespace ?? UNKNOWN,
    wasPaused: (network, cluster) =>
      network === "blue" && cluster === "metal/prod" ? (known.wasPaused ?? UNKNOWN) : UNKNOWN,
  };
}

const pool = (name = "blue", kind = "AddressPool") => ({ apiGroup: "ipam.holdfast.dev", kind, name });
const claim = (change: Partial<AddressClaimFact> = {}) =>
  present({ uid: "c1", pool: pool(), paused: false, ...change });
const answer = (address: string | null, change: Partial<MachineAddressFact> = {}) =>
  present({ claim: "m0-blue", pool: pool(), address, allocation: null, ...change });
const successor = (change: Partial<AddressClaimFact> = {}) => claim({ uid: "c2", ...change });
const PAUSED = present({ paused: true });
const GOES_ON = present({ paused: false });
const YES = present(true);
const NO = present(false);
const HOME = present({ isEnding: false, creationTimestamp: "2025-12-31T00:00:00Z" });
const ENDING = present({ isEnding: true, creationTimestamp: "2025-12-31T00:00:00Z" });
const AGAIN = present({ isEnding: false, creationTimestamp: "2026-01-01T00:00:01Z" });
const lists = (network: string, address: string): Found<readonly AddressPoolFact[]> =>
  present([{ network, preallocated: (name) => (name === "m0-blue" ? address : null) }]);

const CASES: readonly (readonly [
  reason: string,
  owner: AllocationOwner,
  known: KnownMachines,
  verdict: string,
  clusterGoneReleaseSeconds?: number,
])[] = [
  ["its claim is there", OWNER, { claim: claim(), answer: answer("10.0.0.5") }, "keep claim-exists"],
  ["and not answered yet", OWNER, { claim: claim(), answer: ABSENT }, "keep claim-exists"],
  ["also without a cluster", ALONE, { claim: claim(), answer: ABSENT }, "keep claim-exists"],
  ["its answer cannot be read", OWNER, { claim: claim() }, "keep unknown"],
  [
    "its IPAddress has another address",
    OWNER,
    { claim: claim(), answer: answer("10.0.0.6"), cluster: GOES_ON },
    "release claim-does-not-use after 30",
  ],
  [
    "but somebody else has that one",
    OWNER,
    { claim: claim(), answer: answer("10.0.0.6"), cluster: GOES_ON, other: present("c9") },
    "keep claim-exists",
  ],
  [
    "but nobody has that one",
    OWNER,
    { claim: claim(), answer: answer("10.0.0.6"), cluster: GOES_ON, other: ABSENT },
    "keep claim-exists",
  ],
  [
    "but of that one nothing is known",
    OWNER,
    { claim: claim(), answer: answer("10.0.0.6"), cluster: GOES_ON, other: UNKNOWN },
    "keep unknown",
  ],
  [
    "its IPAddress has the same address of another network, which is its own",
    OWNER,
    {
      claim: claim(),
      answer: answer("10.0.0.5", { allocation: ELSEWHERE }),
      cluster: GOES_ON,
      elsewhere: present("c1"),
    },
    "release claim-does-not-use after 30",
  ],
  [
    "an IPAddress that notes another allocation than its address's tells by its address",
    OWNER,
    { claim: claim(), answer: answer("10.0.0.5", { allocation: OTHER }), cluster: GOES_ON },
    "keep claim-exists",
  ],
  [
    "the same of a claim without a cluster",
    ALONE,
    { claim: claim(), answer: answer("10.0.0.6") },
    "release claim-does-not-use after 30",
  ],
  [
    "but the claim is paused",
    OWNER,
    { claim: claim({ paused: true }), answer: answer("10.0.0.6"), cluster: GOES_ON },
    "keep claim-exists",
  ],
  [
    "but its Cluster is paused",
    OWNER,
    { claim: claim(), answer: answer("10.0.0.6"), cluster: PAUSED },
    "keep claim-exists",
  ],
  [
    "but its Cluster is not there",
    OWNER,
    { claim: claim(), answer: answer("10.0.0.6"), cluster: ABSENT },
    "keep claim-exists",
  ],
  ["but of its Cluster nothing is known", OWNER, { claim: claim(), answer: answer("10.0.0.6") }, "keep unknown"],
  [
    "the IPAddress cannot be parsed",
    OWNER,
    { claim: claim(), answer: answer(null), cluster: GOES_ON },
    "keep claim-exists",
  ],
  [
    "an IPAddress of another claim tells nothing",
    OWNER,
    { claim: claim(), answer: answer("10.0.0.6", { claim: "other" }), cluster: GOES_ON },
    "keep claim-exists",
  ],
  [
    "nor one from another pool",
    OWNER,
    { claim: claim(), answer: answer("10.0.0.6", { pool: pool("red") }), cluster: GOES_ON },
    "keep claim-exists",
  ],
  [
    "nor one from a pool of another kind",
    OWNER,
    { claim: claim(), answer: answer("10.0.0.6", { pool: pool("blue", "IPPool") }), cluster: GOES_ON },
    "keep claim-exists",
  ],
  [
    "a claim of its name takes over",
    OWNER,
    { claim: successor(), answer: ABSENT, cluster: GOES_ON },
    "keep claim-exists",
  ],
  [
    "a claim of its name has taken over",
    OWNER,
    { claim: successor(), answer: answer("10.0.0.5"), cluster: GOES_ON },
    "keep claim-exists",
  ],
  [
    "a claim of its name, of which the answer is not known",
    OWNER,
    { claim: successor(), cluster: GOES_ON },
    "keep unknown",
  ],
  [
    "a claim of its name has another address",
    OWNER,
    { claim: successor(), answer: answer("10.0.0.6"), cluster: GOES_ON },
    "release claim-gone after 30",
  ],
  [
    "a claim of its name is of another pool, and the IPAddress still tells of this address",
    OWNER,
    { claim: successor({ pool: pool("red") }), answer: answer("10.0.0.5"), cluster: GOES_ON },
    "release claim-gone after 30",
  ],
  [
    "the same while the Cluster is paused",
    OWNER,
    { claim: successor({ pool: pool("red") }), answer: answer("10.0.0.5"), cluster: PAUSED },
    "keep claim-moved",
  ],
  [
    "a claim of its name is of another pool, and there is no IPAddress",
    OWNER,
    { claim: successor({ pool: pool("red") }), answer: ABSENT, cluster: GOES_ON },
    "keep claim-exists",
  ],
  [
    "a claim of its name is none of ours",
    OWNER,
    { claim: successor({ pool: pool("blue", "InClusterIPPool") }), cluster: GOES_ON },
    "release claim-gone after 30",
  ],
  [
    "the same while the Cluster is paused",
    OWNER,
    { claim: successor({ pool: pool("blue", "InClusterIPPool") }), cluster: PAUSED },
    "keep claim-moved",
  ],
  ["of the claim nothing is known", OWNER, { cluster: GOES_ON }, "keep unknown"],
  ["the claim is gone", OWNER, { claim: ABSENT, cluster: GOES_ON }, "release claim-gone after 30"],
  ["the claim is gone, and was of no cluster", ALONE, { claim: ABSENT }, "release claim-gone after 30"],
  ["the claim is gone, of its Cluster nothing is known", OWNER, { claim: ABSENT }, "keep unknown"],
  ["the claim is gone while its Cluster is paused", OWNER, { claim: ABSENT, cluster: PAUSED }, "keep claim-moved"],
  [
    "the Cluster is gone, and was paused",
    OWNER,
    { claim: ABSENT, cluster: ABSENT, wasPaused: YES, namespace: HOME },
    "keep claim-moved",
  ],
  [
    "the Cluster is gone, and was paused; what it left behind is deleted",
    OWNER,
    { claim: ABSENT, cluster: ABSENT, wasPaused: YES, namespace: ABSENT },
    "keep claim-moved",
    60,
  ],
  [
    "the Cluster is gone, and nothing tells whether it was paused",
    OWNER,
    { claim: ABSENT, cluster: ABSENT, namespace: ABSENT },
    "keep unknown",
    60,
  ],
  [
    "the Cluster is gone, and nobody saw it go",
    OWNER,
    { claim: ABSENT, cluster: ABSENT, wasPaused: NO, namespace: HOME },
    "keep cluster-gone",
  ],
  [
    "the same, and the operator has set a time",
    OWNER,
    { claim: ABSENT, cluster: ABSENT, wasPaused: NO, namespace: HOME },
    "release cluster-gone after 3600",
    3_600,
  ],
  [
    "the same, and the time is shorter than the grace",
    OWNER,
    { claim: ABSENT, cluster: ABSENT, wasPaused: NO, namespace: HOME },
    "release cluster-gone after 30",
    1,
  ],
  [
    "the namespace is gone",
    OWNER,
    { claim: ABSENT, cluster: ABSENT, wasPaused: NO, namespace: ABSENT },
    "release claim-gone after 30",
  ],
  [
    "the namespace is on its way",
    OWNER,
    { claim: ABSENT, cluster: ABSENT, wasPaused: NO, namespace: ENDING },
    "release claim-gone after 30",
  ],
  [
    "the namespace is gone, and another one has its name",
    OWNER,
    { claim: ABSENT, cluster: ABSENT, wasPaused: NO, namespace: AGAIN },
    "release claim-gone after 30",
  ],
  [
    "the same, of a Cluster that was paused",
    OWNER,
    { claim: ABSENT, cluster: ABSENT, wasPaused: YES, namespace: AGAIN },
    "keep claim-moved",
  ],
  ["of the namespace nothing is known", OWNER, { claim: ABSENT, cluster: ABSENT, wasPaused: NO }, "keep unknown", 60],
  ["its data is there", DATA, { data: present({ uid: "c1" }) }, "keep claim-exists"],
  ["other data of its name takes over", DATA, { data: present({ uid: "c2" }) }, "keep claim-exists"],
  [
    "other data of its name has an address by a claim",
    DATA,
    { data: present({ uid: "c2" }), answer: answer("10.0.0.6", { claim: "nodes-0-blue" }), cluster: GOES_ON },
    "release claim-gone after 30",
  ],
  [
    "but its Cluster is paused",
    DATA,
    { data: present({ uid: "c2" }), answer: answer("10.0.0.6", { claim: "nodes-0-blue" }), cluster: PAUSED },
    "keep claim-moved",
  ],
  [
    "but the IPAddress is another claim's",
    DATA,
    { data: present({ uid: "c2" }), answer: answer("10.0.0.6"), cluster: GOES_ON },
    "keep claim-exists",
  ],
  [
    "its own data has an IPAddress besides",
    DATA,
    { data: present({ uid: "c1" }), answer: answer("10.0.0.6", { claim: "nodes-0-blue" }), cluster: GOES_ON },
    "keep claim-exists",
  ],
  ["its data is gone", DATA, { data: ABSENT, cluster: GOES_ON }, "release claim-gone after 30"],
  ["its data has moved", DATA, { data: ABSENT, cluster: PAUSED }, "keep claim-moved"],
  ["of its data nothing is known", DATA, { cluster: GOES_ON }, "keep unknown"],
  ["a pool keeps it", KEPT, { pools: lists("blue", "10.0.0.5") }, "keep preallocated"],
  ["no pool is there", KEPT, { pools: present([]) }, "release preallocation-gone after 30"],
  ["the pool keeps another address", KEPT, { pools: lists("blue", "10.0.0.6") }, "release preallocation-gone after 30"],
  ["the pool is of another network", KEPT, { pools: lists("red", "10.0.0.5") }, "release preallocation-gone after 30"],
  [
    "the pool lists another claim",
    { ...KEPT, name: "m1-blue" },
    { pools: lists("blue", "10.0.0.5") },
    "release preallocation-gone after 30",
  ],
  ["of the pools nothing is known", KEPT, {}, "keep unknown"],
  ["its owner has no name", { ...OWNER, name: "" }, { claim: ABSENT }, "report owner-incomplete"],
];

for (const [reason, owner, known, verdict, clusterGoneReleaseSeconds = 0] of CASES) {
  test(reason, () => {
    expect(said(judgeWith(owner, known, clusterGoneReleaseSeconds))).toBe(verdict);
  });
}

test.each([
  ["was restored from a backup before its namespace", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"],
  ["passed to a claim of the new namespace", "2026-02-01T00:00:02Z", "2026-01-01T00:00:00Z"],
])("an allocation that %s is not older than the namespace", (_what, since, creationTimestamp) => {
  const bound = allocation(OWNER);
  const object = {
    ...bound,
    metadata: { ...bound.metadata, creationTimestamp },
    status: { ...bound.status, since },
  } as IPAllocation;
  const namespace = present({ isEnding: false, creationTimestamp: "2026-02-01T00:00:01Z" });
  const facts = factsOf({ claim: ABSENT, cluster: ABSENT, wasPaused: NO, namespace });
  expect(said(judge({ object, address: soundAddress(object) }, facts, RULES))).toBe("keep cluster-gone");
});

test.each<readonly [string, AllocationOwner, KnownMachines, string]>([
  [
    "its IPAddress is there, and the claim is gone",
    OWNER,
    { claim: ABSENT, answer: answer("10.0.0.5"), cluster: GOES_ON },
    "withdraw cooling-still-named after 30",
  ],
  ["its claim is there", OWNER, { claim: claim(), answer: answer("10.0.0.5"), cluster: GOES_ON }, "delete"],
  ["of its claim nothing is known", OWNER, { answer: answer("10.0.0.5"), cluster: GOES_ON }, "delete"],
  ["its Cluster is paused", OWNER, { claim: ABSENT, answer: answer("10.0.0.5"), cluster: PAUSED }, "delete"],
  [
    "the IPAddress has another address",
    OWNER,
    { claim: ABSENT, answer: answer("10.0.0.6"), cluster: GOES_ON },
    "delete",
  ],
  [
    "the IPAddress is somebody else's",
    ALONE,
    { claim: ABSENT, answer: answer("10.0.0.5", { pool: pool("blue", "IPPool") }) },
    "delete",
  ],
  ["there is no IPAddress", ALONE, { claim: ABSENT, answer: ABSENT }, "delete"],
  [
    "the IPAddress tells of another network's",
    ALONE,
    { claim: ABSENT, answer: answer("10.0.0.5", { allocation: ELSEWHERE }) },
    "delete",
  ],
])("an address that cools down: %s", (_reason, owner, known, verdict) => {
  const bound = allocation(owner);
  const { finalizers: _, ...metadata } = bound.metadata;
  const object = { ...bound, metadata, status: { ...bound.status, state: "Cooling" } } as IPAllocation;
  expect(said(judge({ object, address: soundAddress(object) }, factsOf(known), RULES))).toMatch(
    new RegExp(`^${verdict}`),
  );
});

test("a machine's address is released on certain facts only, and never while its claim has it", () => {
  const found = <T>(...values: T[]) => fc.constantFrom<Found<T>>(ABSENT, UNKNOWN, ...values.map(present));
  let released = 0;
  fc.assert(
    fc.property(
      fc.constantFrom(OWNER, ALONE, DATA, KEPT),
      fc.record({
        claim: found<AddressClaimFact>(
          { uid: "c1", pool: pool(), paused: false },
          { uid: "c2", pool: pool(), paused: false },
          { uid: "c2", pool: pool("x", "IPPool"), paused: true },
        ),
        data: found({ uid: "c1" }, { uid: "c2" }),
        answer: found<MachineAddressFact>(
          { claim: "m0-blue", pool: pool(), address: "10.0.0.5", allocation: null },
          { claim: "m0-blue", pool: pool(), address: "10.0.0.6", allocation: null },
        ),
        other: found("c1", "c9"),
        cluster: found({ paused: true }, { paused: false }),
        wasPaused: found(true, false),
        namespace: fc.constantFrom<Found<NamespaceFact>>(ABSENT, UNKNOWN, ENDING, HOME, AGAIN),
        pools: fc.constantFrom(UNKNOWN, present([]), lists("blue", "10.0.0.5")),
      }),
      fc.constantFrom(0, 60),
      (owner, known, seconds) => {
        const unknown = new Set<string>();
        const facts = noting(factsOf(known), (what) => unknown.add(what));
        const verdict = judge({ object: allocation(owner), address: "10.0.0.5" }, facts, {
          ...RULES,
          clusterGoneReleaseSeconds: seconds,
        });
        if (verdict.kind !== "release") return;
        released += 1;
        expect([...unknown]).toEqual([]);
        if (verdict.why === "cluster-gone") expect(seconds).toBe(60);
        if (owner === OWNER || owner === ALONE) {
          const isOwn = known.claim.kind === "present" && known.claim.it.uid === "c1";
          if (isOwn) {
            expect(known.answer).toMatchObject({ it: { address: "10.0.0.6" } });
            expect(known.other).toEqual(present("c1"));
          }
        }
        if (owner === OWNER) expect(known.cluster).not.toEqual(PAUSED);
      },
    ),
    { numRuns: 5_000 },
  );
  expect(released).toBeGreaterThan(100);
});

function judgeWith(owner: AllocationOwner, known: KnownMachines, clusterGoneReleaseSeconds: number): Verdict {
  const object = allocation(owner);
  const rules = { ...RULES, clusterGoneReleaseSeconds };
  return judge({ object, address: soundAddress(object) }, factsOf(known), rules);
}

function allocation(owner: AllocationOwner): IPAllocation {
  const one = parseInterfaceAddress("10.0.0.5/24");
  const time = "2026-01-01T00:00:00Z";
  const { metadata, ...rest } = newAllocation("blue", one, { owner, attachment: null }, time);
  return { ...rest, metadata: { ...metadata, creationTimestamp: time } } as IPAllocation;
}

function noting(facts: Facts, unknown: (what: string) => void): Facts {
  const entries = Object.entries(facts).map(([what, ask]) => [
    what,
    (...args: never[]) => {
      const answer = ask(...args);
      if (answer?.kind === "unknown") unknown(what);
      return answer;
    },
  ]);
  return Object.fromEntries(entries);
}

function said(verdict: Verdict): string {
  const after = "afterSeconds" in verdict ? ` after ${verdict.afterSeconds}` : "";
  return `${verdict.kind} ${verdict.why}${after}`;
}
