import fc from "fast-check";
import { expect, test } from "vitest";
import { cooled, retained } from "../../allocations/allocation-object.ts";
import {
  ABSENT,
  type Facts,
  type Found,
  type NodeFact,
  type PodFact,
  present,
  UNKNOWN,
} from "../../claims/reasons/facts.ts";
import { judge } from "../../claims/reasons/relations.ts";
import type { Rules } from "../../claims/reasons/verdict.ts";
import type { AllocationOwner, IPAllocation } from "../../kube/objects.ts";
import {
  allocation,
  attached,
  CLAIM,
  claim,
  claimFact,
  definitionWith,
  expectKeptUnknown,
  expectVerdict,
  type JudgedCase,
  judged,
  NO_CLAIMS,
  NO_MACHINES,
  naming,
  POD,
  pod,
  RULES,
  reported,
} from "./judged.ts";

const SINCE = "2026-01-01T00:00:00Z";
const CONTAINER: AllocationOwner = {
  kind: "Container",
  namespace: "",
  name: "",
  uid: "x/net1",
  interface: "net1",
};

/** The kubelet's own UID of a static pod: a hash. */
const STATIC = { ...POD, uid: "0123456789abcdef0123456789abcdef" };
const NODE = present({ unreachable: false });
const LOST_NODE = present({ unreachable: true });
const NOBODY = present([]);
const cooling = (owner: AllocationOwner) => cooled(allocation(owner), SINCE) as IPAllocation;
const withFinalizer = (object: IPAllocation): IPAllocation => ({
  ...object,
  metadata: { ...object.metadata, finalizers: ["ipam.holdfast.dev/bound"] },
});

const RETAINING: Partial<Rules> = { definitionOf: definitionWith({ cooldownSeconds: 60, retainSeconds: 600 }) };

/** RULES' clock shows the first second of 2026. */
function kept(until: string): IPAllocation {
  return retained(allocation(CLAIM), SINCE, until) as IPAllocation;
}

const CASES: readonly JudgedCase[] = [
  ["a deleted claim that nobody uses", allocation(CLAIM), { claim: ABSENT, naming: NOBODY }, "release claim-gone"],
  [
    "a claim deleted while its pod lives",
    allocation(CLAIM, [attached()]),
    { claim: ABSENT, naming: NOBODY, pod: present(pod()) },
    "keep pod-alive",
  ],
  [
    "a living pod names the deleted claim",
    allocation(CLAIM),
    { claim: ABSENT, naming: naming("2026-01-01T00:00:05Z") },
    "keep pod-names-claim",
  ],
  [
    "its guest goes on in another namespace",
    allocation(CLAIM),
    { claim: ABSENT, naming: NOBODY, hasMigrated: true },
    "keep guest-migrated",
  ],
  [
    "its pod completed",
    allocation(CLAIM, [attached()]),
    { claim: ABSENT, naming: NOBODY, pod: present(pod({ terminal: true })) },
    "release claim-gone",
  ],
  [
    "its pod was force-deleted and may run on a partitioned node",
    allocation(CLAIM, [attached()]),
    { claim: ABSENT, naming: NOBODY, pod: ABSENT, node: NODE },
    "keep container-may-run",
  ],
  [
    "another pod has the name now",
    allocation(CLAIM, [attached()]),
    { claim: ABSENT, naming: NOBODY, pod: present(pod({ uid: "p2" })), node: NODE },
    "keep container-may-run",
  ],
  [
    "the node went with it",
    allocation(CLAIM, [attached()]),
    { claim: ABSENT, naming: NOBODY, pod: ABSENT, node: ABSENT },
    "release claim-gone",
  ],
  [
    "the operator's time for pods that are gone, on a node that is unreachable",
    allocation(CLAIM, [attached()]),
    { claim: ABSENT, naming: NOBODY, pod: ABSENT, node: LOST_NODE },
    "release claim-gone after 900",
    { podGoneReleaseSeconds: 900 },
  ],
  [
    "a node that is reachable ends its attachments itself, whatever time the operator has set",
    allocation(CLAIM, [attached()]),
    { claim: ABSENT, naming: NOBODY, pod: ABSENT, node: NODE },
    "keep container-may-run",
    { podGoneReleaseSeconds: 900 },
  ],
  [
    "that time never applies without a pod to be gone",
    allocation(CLAIM, [attached("n1", null)]),
    { claim: ABSENT, naming: NOBODY, node: LOST_NODE },
    "keep container-may-run",
    { podGoneReleaseSeconds: 900 },
  ],
  [
    "the claim was made anew",
    allocation(CLAIM),
    { claim: claim([], { uid: "c2" }), naming: NOBODY },
    "release claim-gone",
  ],
  [
    "a pod older than the new claim may use the old one",
    allocation(CLAIM),
    { claim: claim([], { uid: "c2" }), naming: naming("2026-01-01T00:00:09Z") },
    "keep pod-names-claim",
  ],
  [
    "a pod older than the new claim that reports nothing waits for it",
    allocation(CLAIM),
    { claim: claim([], { uid: "c2" }), naming: naming("2026-01-01T00:00:09Z", null, []) },
    "release claim-gone",
  ],
  [
    "a pod younger than the new claim uses the new one",
    allocation(CLAIM),
    { claim: claim([], { uid: "c2" }), naming: naming("2026-01-01T00:00:11Z") },
    "release claim-gone",
  ],
  [
    "a pod older than the new claim may wait for it, and what the old one had is retained for it",
    allocation(CLAIM),
    { claim: claim([], { uid: "c2" }), naming: naming("2026-01-01T00:00:09Z") },
    "release claim-gone",
    RETAINING,
  ],
  [
    "a retaining network waits for the claim to exist again",
    allocation(CLAIM),
    { claim: ABSENT, naming: naming("2026-01-01T00:00:05Z") },
    "keep pod-names-claim",
    RETAINING,
  ],
  [
    "a retaining network waits for the containers of the claim that is gone",
    allocation(CLAIM, [attached()]),
    { claim: claim([], { uid: "c2" }), pod: ABSENT, node: NODE, naming: naming("2026-01-01T00:00:09Z") },
    "keep container-may-run",
    RETAINING,
  ],
  ["it is retained until its time", kept("2026-01-01T00:00:01Z"), {}, "keep retained", RETAINING],
  ["its time is over", kept("2026-01-01T00:00:00Z"), {}, "release retention-over", RETAINING],
  ["a time that cannot be read is over", kept("soon"), {}, "release retention-over", RETAINING],
  ["its network retains nothing any more", kept("2026-01-01T00:00:01Z"), {}, "release retention-over"],
  [
    "its network has no definition now",
    kept("2026-01-01T00:00:01Z"),
    {},
    "keep retained",
    { definitionOf: () => null },
  ],
  [
    "made in one second: nobody knows which came first",
    allocation(CLAIM),
    { claim: claim([], { uid: "c2" }), naming: naming("2026-01-01T00:00:10Z") },
    "keep pod-names-claim",
  ],
  [
    "made in one second, but attached to the new claim",
    allocation(CLAIM),
    { claim: claim([], { uid: "c2" }), naming: naming("2026-01-01T00:00:10Z", "c2") },
    "release claim-gone",
  ],
  [
    "older than the new claim, but attached to it: it waited for it",
    allocation(CLAIM),
    { claim: claim([], { uid: "c2" }), naming: naming("2026-01-01T00:00:09Z", "c2") },
    "release claim-gone",
  ],
  ["a running pod", allocation(POD, [attached()]), { pod: present(pod()) }, "keep pod-alive"],
  [
    "a static pod, known to the runtime by another UID",
    allocation(POD, [attached()]),
    { pod: present(pod({ uid: "mirror", staticUid: "p1" })) },
    "keep pod-alive",
  ],
  [
    "a completed pod",
    allocation(POD, [attached()]),
    { pod: present(pod({ terminal: true })) },
    "release pod-completed",
  ],
  [
    "a pod from before Holdfast whose kubelet ended its containers",
    allocation(POD, [], { node: "n1" }),
    { pod: ABSENT, node: NODE, stopped: ["p1"] },
    "release pod-gone",
  ],
  ["one whose node is not recorded, too", allocation(POD), { pod: ABSENT, stopped: ["p1"] }, "release pod-gone"],
  [
    "its stateful set has made the successor",
    allocation(POD, [], { node: "n1" }),
    { pod: present(pod({ uid: "p2" })), node: NODE, stopped: ["p1"] },
    "release pod-gone",
  ],
  [
    "a pod from before Holdfast that nobody saw end may run on its node",
    allocation(POD, [], { node: "n1" }),
    { pod: ABSENT, node: NODE, stopped: ["p2"] },
    "keep container-may-run",
  ],
  [
    "a successor under its name says nothing of it",
    allocation(POD, [], { node: "n1" }),
    { pod: present(pod({ uid: "p2" })), node: NODE },
    "keep container-may-run",
  ],
  [
    "a pod from before Holdfast, gone with its node",
    allocation(POD, [], { node: "n1" }),
    { pod: ABSENT, node: ABSENT },
    "release pod-gone",
  ],
  [
    "a pod from before Holdfast, the operator's time",
    allocation(POD, [], { node: "n1" }),
    { pod: ABSENT, node: LOST_NODE },
    "release pod-gone after 900",
    { podGoneReleaseSeconds: 900 },
  ],
  [
    "that time needs a node that is unreachable",
    allocation(POD, [], { node: "n1" }),
    { pod: ABSENT, node: NODE },
    "keep container-may-run",
    { podGoneReleaseSeconds: 900 },
  ],
  [
    "made by hand without a node, or imported when the pod named none, and nobody saw the pod end",
    allocation(POD),
    { pod: ABSENT, node: LOST_NODE },
    "keep container-may-run",
    { podGoneReleaseSeconds: 900 },
  ],
  [
    "made by hand without a node, or imported when the pod named none, and the pod names one now",
    allocation(POD),
    { pod: present(pod()) },
    "record node-not-recorded",
  ],
  [
    "a pod from before Holdfast that lives",
    allocation(POD, [], { node: "n1" }),
    { pod: present(pod()) },
    "keep pod-alive",
  ],
  ["a pod that has no node yet", allocation(POD), { pod: present(pod({ node: null })) }, "keep pod-alive"],
  [
    "force-deleted, the container may run",
    allocation(POD, [attached()]),
    { pod: ABSENT, node: NODE },
    "keep container-may-run",
  ],
  [
    "force-deleted, the operator's time",
    allocation(POD, [attached()]),
    { pod: ABSENT, node: LOST_NODE },
    "release pod-gone after 900",
    { podGoneReleaseSeconds: 900 },
  ],
  [
    "force-deleted, on a node that is reachable, which would put its address back",
    allocation(POD, [attached()]),
    { pod: ABSENT, node: NODE },
    "keep container-may-run",
    { podGoneReleaseSeconds: 900 },
  ],
  [
    "force-deleted, on two nodes of which one is reachable",
    allocation(POD, [attached("n1"), attached("n2")]),
    { pod: ABSENT, nodes: { n1: LOST_NODE, n2: NODE } },
    "keep container-may-run",
    { podGoneReleaseSeconds: 900 },
  ],
  ["gone with its node", allocation(POD, [attached()]), { pod: ABSENT, node: ABSENT }, "release pod-gone"],
  [
    "a static pod whose object was deleted runs on, whatever time the operator has set",
    allocation(STATIC, [attached("n1", STATIC.uid)]),
    { pod: ABSENT, node: LOST_NODE },
    "keep container-may-run",
    { podGoneReleaseSeconds: 900 },
  ],
  [
    "a static pod whose name another pod has taken in the API runs on",
    allocation(STATIC, [attached("n1", STATIC.uid)]),
    { pod: present(pod()), node: LOST_NODE },
    "keep container-may-run",
    { podGoneReleaseSeconds: 900 },
  ],
  [
    "a static pod from before Holdfast, without its object",
    allocation(STATIC, [], { node: "n1" }),
    { pod: ABSENT, node: LOST_NODE, stopped: [STATIC.uid] },
    "keep container-may-run",
    { podGoneReleaseSeconds: 900 },
  ],
  ["one whose node is not recorded, without its object", allocation(STATIC), { pod: ABSENT }, "keep container-may-run"],
  [
    "a static pod from before Holdfast, gone with its node",
    allocation(STATIC, [], { node: "n1" }),
    { pod: ABSENT, node: ABSENT },
    "release pod-gone",
  ],
  [
    "a static pod from before Holdfast whose manifest was changed",
    allocation(STATIC, [], { node: "n1" }),
    { pod: present(pod({ uid: "mirror-2", staticUid: "fedcba9876543210fedcba9876543210" })), node: NODE },
    "release pod-gone",
  ],
  [
    "a static pod whose object was made again",
    allocation(STATIC, [attached("n1", STATIC.uid)]),
    { pod: present(pod({ uid: "mirror-2", staticUid: STATIC.uid })) },
    "keep pod-alive",
  ],
  [
    "a static pod whose manifest was changed",
    allocation(STATIC, [attached("n1", STATIC.uid)]),
    {
      pod: present(pod({ uid: "mirror-2", staticUid: "fedcba9876543210fedcba9876543210" })),
      node: LOST_NODE,
    },
    "release pod-gone after 900",
    { podGoneReleaseSeconds: 900 },
  ],
  [
    "a static pod, gone with its node",
    allocation(STATIC, [attached("n1", STATIC.uid)]),
    { pod: ABSENT, node: ABSENT },
    "release pod-gone",
  ],
  [
    "a container on a node of the cluster",
    allocation(CONTAINER, [attached("n1", null)]),
    { node: NODE },
    "keep container-may-run",
  ],
  [
    "a container on a node that is gone",
    allocation(CONTAINER, [attached("n1", null)]),
    { node: ABSENT },
    "release node-gone",
  ],
  [
    "another system's record of a container holds its address",
    {
      ...allocation(CONTAINER),
      metadata: {
        ...allocation(CONTAINER).metadata,
        annotations: { "ipam.holdfast.dev/imported-from": "IPPool kube-system/x" },
      },
    },
    {},
    "keep recorded-elsewhere",
  ],
  ["nobody knows where the container ran", allocation(CONTAINER), {}, "report container-without-attachment"],
  ["cooling", cooling(CLAIM), {}, "delete cooling-expired after 660"],
  [
    "cooling as its network says",
    cooling(CLAIM),
    {},
    "delete cooling-expired after 605",
    { definitionOf: definitionWith({ cooldownSeconds: 5 }) },
  ],
  [
    "cooling on a network that nothing defines",
    cooling(CLAIM),
    {},
    "delete cooling-expired after 660",
    { definitionOf: () => null },
  ],
  ["somebody's edit put the finalizer back", withFinalizer(cooling(CLAIM)), {}, "repair cooling-with-finalizer"],
  [
    "deleted by kubectl while it was bound, and released since",
    { ...cooling(CLAIM), metadata: { ...withFinalizer(cooling(CLAIM)).metadata, deletionTimestamp: SINCE } },
    {},
    "repair cooling-with-finalizer after 60",
  ],
  [
    "somebody deletes it already, and another's finalizer holds it",
    { ...cooling(CLAIM), metadata: { ...cooling(CLAIM).metadata, deletionTimestamp: SINCE } },
    {},
    "keep being-deleted",
  ],
  [
    "an object under a name that is not its address's",
    { ...allocation(CLAIM), metadata: { ...allocation(CLAIM).metadata, name: "x" } },
    { claim: ABSENT, naming: NOBODY },
    "report unsound",
  ],
  ["no state", { ...allocation(CLAIM), status: {} }, { claim: ABSENT, naming: NOBODY }, "report unsound"],
  ["no spec", { ...allocation(CLAIM), spec: undefined as never }, {}, "report unsound"],
  [
    "an owner without a name cannot be looked up",
    allocation({ ...CLAIM, name: "" }),
    { claim: ABSENT, naming: NOBODY },
    "report owner-incomplete",
  ],
  ["an attachment that names no node", allocation(POD, [attached("")]), { pod: ABSENT, node: ABSENT }, "keep unknown"],
];

for (const [reason, ...one] of CASES) test(reason, () => expectVerdict(one));

test("an address is kept if any fact that its release depends on is unknown", () => {
  expectKeptUnknown(CASES, "release");
});

test("no address is released while any fact that was requested is unknown", () => {
  const pods = fc.record({
    uid: fc.constantFrom("p1", "p2"),
    node: fc.constantFrom("n1", null),
    staticUid: fc.constantFrom(null, "p1"),
    terminal: fc.boolean(),
    creationTimestamp: fc.constantFrom("2026-01-01T00:00:05Z", "2026-01-01T00:00:10Z", "2026-01-01T00:00:15Z"),
    addresses: fc.subarray([...reported("10.0.0.5"), ...reported("10.0.0.6"), ...reported("10.0.0.5", "shop/red")]),
    addressesCut: fc.constant(false),
  });
  const claims = fc.subarray(["10.0.0.5/24", "10.0.0.6/24"]).map((ips) => claimFact(ips, { uid: "c2" }));
  const found = <T>(it: fc.Arbitrary<T>): fc.Arbitrary<Found<T>> =>
    fc.oneof(fc.constant(ABSENT), fc.constant(UNKNOWN), it.map(present));
  const seen: Record<string, number> = {};
  fc.assert(
    fc.property(
      fc.constantFrom(CLAIM, POD, CONTAINER),
      fc.array(fc.tuple(fc.constantFrom("n1", "n2", ""), fc.constantFrom("p1", "p2", null)), {
        maxLength: 2,
      }),
      fc.record({ claim: found(claims), pods: fc.array(found(pods), { minLength: 6, maxLength: 6 }) }),
      fc.array(found(fc.record({ unreachable: fc.boolean() })), { minLength: 2, maxLength: 2 }),
      found(fc.array(pods, { maxLength: 2 })),
      fc.record({ podGoneReleaseSeconds: fc.constantFrom(0, 900), wasSeenStopped: fc.boolean() }),
      (
        owner,
        places,
        { claim: claimFound, pods: podsFound },
        nodes,
        namingFound,
        { podGoneReleaseSeconds, wasSeenStopped },
      ) => {
        const object = allocation(
          owner,
          places.map(([node, uid], i) => ({ ...attached(node, uid), containerID: `c${i}` })),
          { node: "n1" },
        );
        const unknown: string[] = [];
        const note = <T>(what: string, answer: Found<T>): Found<T> => {
          if (answer.kind === "unknown") unknown.push(what);
          return answer;
        };
        const facts: Facts = {
          ...NO_MACHINES,
          ...NO_CLAIMS,
          claim: () => note("claim", claimFound),
          pod: (_, name) => note("pod", podsFound[name.length % 6] as Found<PodFact>),
          networkOfNad: (nad) => (nad === "shop/red" ? present("red") : present("blue")),
          node: (name) => note("node", nodes[name === "n1" ? 0 : 1] as Found<NodeFact>),
          wasSeenStopped: () => wasSeenStopped,
          guestRunsElsewhere: () => false,
          podsNaming: () =>
            note(
              "naming",
              namingFound.kind === "present"
                ? present(namingFound.it.map((one) => ({ ...one, attachedToClaim: () => false })))
                : namingFound,
            ),
        };
        const verdict = judge(judged(object), facts, { ...RULES, podGoneReleaseSeconds });
        seen[verdict.kind] = (seen[verdict.kind] ?? 0) + 1;
        if (verdict.kind === "release") expect(unknown).toEqual([]);
        if (verdict.kind === "release") expect(verdict.afterSeconds).toBeGreaterThanOrEqual(RULES.graceSeconds);
      },
    ),
    { numRuns: 5_000 },
  );
  expect(seen.release ?? 0).toBeGreaterThan(100);
});
