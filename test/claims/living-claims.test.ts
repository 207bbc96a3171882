/** The sweep's rows about claims that are there: what they have is kept until another certainly takes its place. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { claimSays } from "../../claims/reasons/claim-says.ts";
import { ABSENT, type Found, type NamingPod, type PodFact, present, UNKNOWN } from "../../claims/reasons/facts.ts";
import { judge } from "../../claims/reasons/relations.ts";
import type { Rules } from "../../claims/reasons/verdict.ts";
import { attachmentsIn } from "../../kube/objects.ts";
import { define } from "../ipam/definitions.ts";
import {
  allocation,
  attached,
  CLAIM,
  claim,
  claimFact,
  definitionWith,
  expectKeptUnknown,
  expectVerdict,
  factsOf,
  type JudgedCase,
  judged,
  type KnownObjects,
  naming,
  pod,
  RULES,
  reported,
  wanted,
} from "./judged.ts";

const SINCE = "2026-01-01T00:00:00Z";
const NODE = present({ unreachable: false });
const LOST_NODE = present({ unreachable: true });
const NOBODY = present([]);
const LISTED = claim(["10.0.0.5/24"]);
const MINE = allocation(CLAIM);
const USED = allocation(CLAIM, [attached()]);

/** Other addresses that the claim has. */
const besides = (...addresses: string[]) =>
  present(addresses.map((address) => judged(allocation(CLAIM, [], { address }))));
const onRed = (...addresses: string[]) =>
  present(addresses.map((address) => judged(allocation(CLAIM, [], { network: "red", address }))));
/** Another address, with a container of a pod of this name, whose UID is `p1`. */
const usedBeside = (address: string) => present([judged(allocation(CLAIM, [attached()], { address }))]);

const STOPPED: KnownObjects = { wants: wanted("blue"), had: NOBODY };
/** It says what it has: .6, and .5 is left from before. */
const REPLACED: KnownObjects = {
  claim: claim(["10.0.0.6/24"]),
  wants: wanted("blue"),
  had: besides("10.0.0.6/24"),
};
const MOVED: KnownObjects = {
  claim: claim(["10.9.0.7/24", "10.0.0.5/24"], { network: "red" }),
  wants: wanted("red"),
  had: onRed("10.9.0.7/24"),
};
/** A launcher of its VM lives where no claim can follow it. */
const LEFT: KnownObjects = {
  claim: LISTED,
  wants: wanted(null, { vmi: "vmi" }),
  had: NOBODY,
  naming: NOBODY,
  launcher: present(true),
};
const TWO_SUBNETS: Partial<Rules> = {
  definitionOf: () => define({ subnets: "10.0.0.0/29,10.1.0.0/29" }, { allowPersistentIPs: true }),
};

const CASES: readonly JudgedCase[] = [
  // Its containers.
  ["what it has is the claim's for ever", MINE, { claim: LISTED, ...STOPPED }, "keep claim-has"],
  [
    "a stopped VM's attachment whose node is gone ended",
    USED,
    { claim: LISTED, ...STOPPED, node: ABSENT, pod: ABSENT },
    "prune node-gone",
  ],
  [
    "a completed pod on a node that is gone ended",
    USED,
    { claim: LISTED, ...STOPPED, node: ABSENT, pod: present(pod({ terminal: true })) },
    "prune node-gone",
  ],
  [
    "a node may be deleted by mistake while its pod lives",
    USED,
    { claim: LISTED, ...STOPPED, node: ABSENT, pod: present(pod()) },
    "keep claim-has",
  ],
  [
    "the daemon of an existing node ends its attachments itself",
    USED,
    { claim: LISTED, ...STOPPED, node: NODE, pod: ABSENT },
    "keep claim-has",
  ],
  [
    "a node that is unreachable has its container, whatever time the operator has set",
    USED,
    { claim: LISTED, ...STOPPED, node: LOST_NODE, pod: ABSENT },
    "keep claim-has",
    { podGoneReleaseSeconds: 900 },
  ],
  [
    "beside one that lives, what has ended with its node is pruned",
    allocation(CLAIM, [attached("n1"), attached("n2", "p2")]),
    { claim: LISTED, ...STOPPED, nodes: { n1: NODE, n2: ABSENT }, pod: present(pod()) },
    "prune node-gone",
  ],
  ["nothing is pruned on an unknown node", USED, { claim: LISTED, ...STOPPED, pod: ABSENT }, "keep unknown"],
  ["of its pod nothing is known", USED, { claim: LISTED, ...STOPPED, node: NODE }, "keep unknown"],
  [
    "deleted by kubectl while bound",
    { ...MINE, metadata: { ...MINE.metadata, deletionTimestamp: SINCE } },
    { claim: LISTED, ...STOPPED },
    "keep claim-has",
  ],
  // What the claim says.
  [
    "its list was emptied, or a paused daemon may publish it still",
    MINE,
    { claim: claim([]), ...STOPPED },
    "keep claim-says-otherwise",
  ],
  [
    "its list names an address that it has not",
    MINE,
    { claim: claim(["10.0.0.6/24"]), ...STOPPED },
    "keep claim-says-otherwise",
  ],
  [
    "an entry more than it has",
    MINE,
    { claim: claim(["10.0.0.5/24", "10.0.0.6/24"]), ...STOPPED },
    "keep claim-says-otherwise",
  ],
  [
    "an entry that cannot be read",
    MINE,
    { claim: claim(["10.0.0.5/24", "x"]), ...STOPPED },
    "keep claim-says-otherwise",
  ],
  ["another prefix length", MINE, { claim: claim(["10.0.0.5/16"]), ...STOPPED }, "keep claim-says-otherwise"],
  [
    "its pointer was edited",
    MINE,
    { claim: claim(["10.0.0.5/24"], { network: "red" }), ...STOPPED },
    "keep claim-says-otherwise",
  ],
  [
    "which does not keep what has ended with its node from being pruned",
    USED,
    { claim: claim([]), ...STOPPED, node: ABSENT, pod: ABSENT },
    "prune node-gone",
  ],
  [
    "where the VM is to be is unknown, and this is all that it has",
    MINE,
    { claim: LISTED, had: NOBODY },
    "keep claim-has",
  ],
  [
    "where the VM is to be is unknown, and it has more",
    MINE,
    { claim: claim(["10.0.0.6/24"]), had: besides("10.0.0.6/24") },
    "keep claim-says-otherwise",
  ],
  ["what else it has is unknown", MINE, { claim: LISTED, wants: wanted("blue") }, "keep unknown"],
  [
    "nothing defines its network",
    MINE,
    { claim: claim([]), ...STOPPED },
    "keep claim-has",
    { definitionOf: () => null },
  ],
  [
    "nothing defines the network of what else it has",
    MINE,
    MOVED,
    "keep unknown",
    { definitionOf: (network) => (network === "red" ? null : definitionWith({})(network)) },
  ],
  // Another of its subnet.
  ["an address that was asked for has taken its place", MINE, REPLACED, "release another-counts"],
  [
    "the VM asks for it again",
    MINE,
    { ...REPLACED, claim: claim(["10.0.0.6/24", "10.0.0.5/24"]), wants: wanted("blue", { asks: ["10.0.0.5"] }) },
    "keep claim-has",
  ],
  [
    "the VM asks for it again, and the list does not say so yet",
    MINE,
    { ...REPLACED, wants: wanted("blue", { asks: ["10.0.0.5"] }) },
    "keep claim-says-otherwise",
  ],
  [
    "the list has both still",
    MINE,
    { ...REPLACED, claim: claim(["10.0.0.6/24", "10.0.0.5/24"]) },
    "keep claim-says-otherwise",
  ],
  ["it is what counts", MINE, { ...REPLACED, claim: LISTED }, "keep claim-has"],
  [
    "a list that somebody has turned round says which one counts, and nothing is released by it alone",
    MINE,
    { ...REPLACED, claim: claim(["10.0.0.5/24", "10.0.0.6/24"]) },
    "keep claim-says-otherwise",
  ],
  [
    "the VM runs with the other one",
    MINE,
    { ...REPLACED, had: usedBeside("10.0.0.6/24"), pod: present(pod({ addresses: reported("10.0.0.6") })) },
    "release another-counts",
  ],
  [
    "the VM runs with the other one, and the list has this one",
    MINE,
    {
      ...REPLACED,
      claim: LISTED,
      had: usedBeside("10.0.0.6/24"),
      pod: present(pod({ addresses: reported("10.0.0.6") })),
    },
    "keep claim-says-otherwise",
  ],
  [
    "of the other one's pod nothing is known",
    MINE,
    { ...REPLACED, had: usedBeside("10.0.0.6/24"), pod: UNKNOWN },
    "keep unknown",
  ],
  ["an ADD under way is attached to it", USED, { ...REPLACED, pod: present(pod()) }, "keep claim-has"],
  ["its container may run on", USED, { ...REPLACED, pod: ABSENT, node: NODE }, "keep claim-has"],
  [
    "its container counts as ended, in the operator's time",
    USED,
    { ...REPLACED, claim: claim(["10.0.0.6/24", "10.0.0.5/24"]), pod: ABSENT, node: LOST_NODE },
    "release another-counts after 900",
    { podGoneReleaseSeconds: 900 },
  ],
  [
    "of another subnet both count",
    allocation(CLAIM, [], { address: "10.0.0.5/29" }),
    { ...REPLACED, claim: claim(["10.0.0.5/29", "10.1.0.6/29"]), had: besides("10.1.0.6/29") },
    "keep claim-has",
    TWO_SUBNETS,
  ],
  [
    "of no subnet any more it counts for itself",
    allocation(CLAIM, [], { address: "10.2.0.5/29" }),
    { ...REPLACED, claim: claim(["10.0.0.6/29", "10.2.0.5/29"]), had: besides("10.0.0.6/29") },
    "keep claim-has",
    TWO_SUBNETS,
  ],
  // Another network.
  ["its VM goes to another network, has an address there, and nobody is left here", MINE, MOVED, "release vm-moved"],
  ["the source of the migration lives", USED, { ...MOVED, pod: present(pod()) }, "keep claim-has"],
  ["the source of the migration may run on", USED, { ...MOVED, pod: ABSENT, node: NODE }, "keep claim-has"],
  [
    "the source of the migration has ended",
    USED,
    { ...MOVED, pod: present(pod({ terminal: true })) },
    "release vm-moved",
  ],
  ["its pointer has not moved", MINE, { ...MOVED, claim: LISTED }, "keep claim-says-otherwise"],
  [
    "its list does not say what it has there",
    MINE,
    { ...MOVED, claim: claim(["10.0.0.5/24"], { network: "red" }) },
    "keep claim-says-otherwise",
  ],
  ["it has nothing there yet", MINE, { ...STOPPED, claim: LISTED, wants: wanted("red") }, "keep claim-has"],
  [
    "the edit was taken back: what it has there is what is left",
    allocation(CLAIM, [], { network: "red", address: "10.9.0.7/24" }),
    {
      claim: claim(["10.0.0.5/24", "10.9.0.7/24"]),
      wants: wanted("blue"),
      had: besides("10.0.0.5/24"),
    },
    "release vm-moved",
  ],
  [
    "on a third network, too",
    MINE,
    { ...MOVED, claim: claim(["10.9.0.7/24", "10.0.0.5/24"], { network: "red" }), wants: wanted("green") },
    "keep claim-has",
  ],
  [
    "a claim without a VM is where it says",
    MINE,
    { claim: claim(["10.0.0.5/24"], { vm: null }), wants: wanted("blue", { nad: "" }), had: NOBODY },
    "keep claim-has",
  ],
  // Where no claim can follow.
  ["its VM runs on a network of others", MINE, LEFT, "release vm-left"],
  ["a pod of it names the claim", MINE, { ...LEFT, naming: naming("2026-01-01T00:00:09Z") }, "keep claim-has"],
  ["its VMI says so, and nothing of it runs yet", MINE, { ...LEFT, launcher: present(false) }, "keep claim-has"],
  ["its VM is stopped, and would run there", MINE, { ...LEFT, wants: wanted(null) }, "keep claim-has"],
  ["a pod is attached to it still", USED, { ...LEFT, pod: present(pod()) }, "keep claim-has"],
  ["its list was emptied by hand", MINE, { ...LEFT, claim: claim([]) }, "keep claim-says-otherwise"],
  ["which pods name it is unknown", MINE, { ...LEFT, naming: UNKNOWN }, "keep unknown"],
  ["whether a launcher lives is unknown", MINE, { ...LEFT, launcher: UNKNOWN }, "keep unknown"],
  [
    "another of its subnet counts, wherever the VM is",
    MINE,
    { ...LEFT, ...REPLACED, wants: wanted(null) },
    "release another-counts",
  ],
  // The claim is being deleted.
  ...([MOVED, REPLACED, LEFT] as const).map(
    (known, at): JudgedCase => [
      `a claim that is being deleted keeps what it has until it is gone (${at + 1})`,
      MINE,
      { ...known, claim: present({ ...claimFact(["10.0.0.5/24"]), isDeleting: true }) },
      "keep claim-has",
    ],
  ),
  [
    "of a claim that is being deleted, what has ended with its node is pruned",
    USED,
    { ...MOVED, claim: claim([], { isDeleting: true }), pod: ABSENT, node: ABSENT },
    "prune node-gone",
  ],
];

for (const [reason, ...one] of CASES) test(reason, () => expectVerdict(one));

test("an address is kept if any fact that its release depends on is unknown", () => {
  expectKeptUnknown(CASES, "release");
  expectKeptUnknown(CASES, "prune");
});

/** UIDs of pods under the one name: what an attachment of `p1` or `p2` finds. */
const pods = fc.record({
  uid: fc.constantFrom("p1", "p2"),
  terminal: fc.boolean(),
  addresses: fc
    .subarray(["10.0.0.5", "10.0.0.6", "10.9.0.7", "10.9.0.5"])
    .chain((ips) =>
      fc.constantFrom("shop/blue", "shop/red", null).map((nad) => ips.flatMap((ip) => reported(ip, nad))),
    ),
  addressesCut: fc.boolean(),
});
const found = <T>(it: fc.Arbitrary<T>): fc.Arbitrary<Found<T>> =>
  fc.oneof({ weight: 1, arbitrary: fc.constant(UNKNOWN) }, { weight: 8, arbitrary: it.map(present) });
const places = fc.array(fc.tuple(fc.constantFrom("n1", "n2"), fc.constantFrom("p1", "p2", null)), { maxLength: 2 });
const owned = fc
  .uniqueArray(
    fc.tuple(
      fc.constantFrom("blue 10.0.0.5/24", "blue 10.0.0.6/24", "red 10.9.0.7/24", "red 10.9.0.8/24"),
      fc.oneof({ weight: 2, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: places }),
    ),
    { minLength: 1, maxLength: 4, selector: ([where]) => where },
  )
  .map((all) =>
    all.map(([where, at]) => {
      const [network, address] = where.split(" ") as [string, string];
      const users = at.map(([node, uid], i) => ({ ...attached(node, uid), containerID: `c${i}` }));
      return allocation(CLAIM, users, { network, address });
    }),
  );

test("what a living claim has is released with nobody attached, by a claim that says what it has, and by known facts alone", () => {
  const seen: Record<string, number> = {};
  fc.assert(
    fc.property(
      owned,
      fc.record({
        network: fc.constantFrom("blue", "red"),
        ips: fc.shuffledSubarray(["10.0.0.5/24", "10.0.0.6/24", "10.9.0.7/24", "x"]),
        isDeleting: fc.integer({ min: 0, max: 9 }).map((one) => one === 0),
      }),
      fc.boolean(),
      found(
        fc.record({
          network: fc.constantFrom("blue", "red", null),
          asks: fc.subarray(["10.0.0.5", "10.9.0.8"]),
          vmi: fc.constantFrom("vmi", null),
          nad: fc.constant("shop/x"),
        }),
      ),
      fc.oneof(fc.constant<Found<PodFact>>(ABSENT), found(pods.map((one) => pod(one)))),
      fc.oneof(fc.constant<Found<{ unreachable: boolean }>>(ABSENT), found(fc.constant({ unreachable: false }))),
      found(fc.constantFrom<readonly NamingPod[]>([], [{ ...pod(), attachedToClaim: () => false }])),
      found(fc.boolean()),
      found(fc.constant(null)),
      (objects, base, isHonest, wants, podFound, node, namingFound, launcher, hadFound) => {
        const [object, ...others] = objects.map(judged) as [ReturnType<typeof judged>, ...ReturnType<typeof judged>[]];
        const had = hadFound.kind === "present" ? present(others) : UNKNOWN;
        const known = { wants, pod: podFound, node, naming: namingFound, launcher, had };
        const facts = factsOf(known);
        const saysOf = (one: ReturnType<typeof claimFact>) =>
          wants.kind === "present" ? claimSays(one, [object, ...others], wants.it, facts, RULES) : UNKNOWN;
        const first = claimFact(base.ips, { network: base.network, isDeleting: base.isDeleting });
        const right = isHonest ? saysOf(first) : UNKNOWN;
        const { ips, network } = right.kind === "present" ? right.it : first;
        const fact = { ...first, ips, network };
        const unknown: string[] = [];
        const note = <T>(what: string, answer: Found<T>): Found<T> => {
          if (answer.kind === "unknown") unknown.push(what);
          return answer;
        };
        const verdict = judge(
          object,
          {
            ...facts,
            claim: () => present(fact),
            wants: () => note("wants", wants),
            had: () => note("had", had),
            pod: () => note("pod", podFound),
            node: () => note("node", node),
            podsNaming: () => note("naming", namingFound),
            launcherLives: () => note("launcher", launcher),
          },
          RULES,
        );
        const word = `${verdict.kind} ${verdict.why}`;
        seen[word] = (seen[word] ?? 0) + 1;
        if (verdict.kind !== "release") return;
        expect([unknown, fact.isDeleting, wants.kind]).toEqual([[], false, "present"]);
        expect(verdict.afterSeconds).toBeGreaterThanOrEqual(RULES.graceSeconds);
        // Nobody is attached who may run.
        for (const { pod: user } of attachmentsIn(object.object)) {
          const isThere = podFound.kind === "present" && podFound.it.uid === user?.uid;
          expect(isThere ? podFound.it.terminal : node.kind === "absent").toBe(true);
        }
        // Neither an edit of the list nor one of the pointer leads here: both are as the allocations have it.
        const says = saysOf(fact);
        expect(says).toMatchObject({ kind: "present", it: { isRight: true, network: fact.network, ips: fact.ips } });
        if (says.kind !== "present" || wants.kind !== "present") return;
        const own = says.it.had.find(({ name }) => name === object.object.metadata.name);
        expect(own?.isReported).toBe(false);
        // It keeps something: of the same subnet, or where its VM is to be, unless its VM has left.
        const rest = says.it.had.filter((one) => one !== own && one.counts);
        const where = verdict.why === "another-counts" ? own?.network : wants.it.network;
        if (verdict.why === "vm-left") expect(where).toBeNull();
        else expect(rest.some((one) => one.network === where && fact.ips.length > 0)).toBe(true);
      },
    ),
    { numRuns: 10_000 },
  );
  for (const why of ["another-counts", "vm-moved", "vm-left"])
    expect(seen[`release ${why}`] ?? 0, JSON.stringify(seen)).toBeGreaterThan(30);
});
