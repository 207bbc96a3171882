import { RECORDED_OWNER_ANNOTATION } from "../../../networks/network-owner.ts";
import { type AdmissionCase, altered, changed, type Written } from "./objects.ts";

const FINALIZER = "ipam.holdfast.dev/network";
const GONE = { apiVersion: "v1", kind: "Node", name: "gone", uid: "0" };
const recordedAs = (owner: string) => ({ [RECORDED_OWNER_ANNOTATION]: owner });

const API_VERSION = "ipam.holdfast.dev/v1alpha1";
const network = (spec: object = {}, more: { metadata?: object; status?: object } = {}) => ({
  apiVersion: API_VERSION,
  kind: "IPNetwork",
  metadata: { name: "blue", finalizers: [FINALIZER], ...more.metadata },
  spec: { network: "blue", ...spec },
  ...(more.status && { status: more.status }),
});
/** As a daemon or the controller has recorded it. */
const recorded = network({ definedIn: "shop" }, { metadata: { annotations: recordedAs("shop") } });
/** As an administrator has moved it. */
const moved = network({ definedIn: "shop" });
const condition = (type: string) => ({
  ...{ type, status: "True", reason: "Because", message: "" },
  lastTransitionTime: "2026-01-01T00:00:00Z",
});
const imported = { conditions: [condition("Imported")] };
/** What a daemon has to tell. */
const told = {
  conditions: [condition("Imported"), condition("Recovering")],
  importWanted: [{ subnets: "10.31.0.0/24" }],
  recovery: { id: "0123456789abcdef", seconds: 30 },
};
const counted = network({}, { status: { size: "10", pausedClusters: ["shop/machines"] } });
/** A name that needs a hash. */
const SHORTENED = "a-b-0123456789abcdef";

const METADATA = /a node sets no owner references/;
const WHOSE = /whose a network is, an administrator changes/;
const RECORD = /a node records an owner with the annotation/;
const KEPT = /labels and annotations of an IPNetwork stay/;
const SHARED = /whom a network is shared with/;
const PROTECTED = /an IPNetwork is created with the finalizer/;
const NAMED = /an IPNetwork is named after its network/;
const IMPORTED = /what is imported of an IPNetwork is written by the controller/;
const COUNTS = /counts and paused clusters of an IPNetwork/;

const NETWORKS: readonly [string, Written, RegExp | null][] = [
  ["create one that nobody owns yet", { after: network() }, null],
  ["create one with its owner", { after: recorded }, null],
  [
    "create the administrators' own",
    { after: network({ definedIn: "" }, { metadata: { annotations: recordedAs("") } }) },
    null,
  ],
  ["create one that asks for an import", { after: network({}, { status: { importWanted: told.importWanted } }) }, null],
  ["create one with the note that all is imported", { after: network({}, { status: imported }) }, IMPORTED],
  ["note that all is imported", { before: network(), after: network({}, { status: imported }) }, IMPORTED],
  [
    "take the note away that all is imported",
    { before: network({}, { status: imported }), after: network({}, { status: { conditions: [] } }) },
    IMPORTED,
  ],
  [
    "say why an import cannot go on",
    { before: network(), after: network({}, { status: { conditions: [condition("ImportStalled")] } }) },
    IMPORTED,
  ],
  [
    "say what is covered",
    {
      before: network(),
      after: network({}, { status: { importedFrom: [{ definition: "shop/blue", uid: "1", generation: 1 }] } }),
    },
    COUNTS,
  ],
  [
    "create one of a network whose name is no name of an object",
    { after: network({ network: "a b" }, { metadata: { name: SHORTENED } }) },
    null,
  ],
  [
    "tell that allocations are gone, and ask for an import",
    { before: network({}, { status: imported }), after: network({}, { status: told }) },
    null,
  ],
  ["record the owner of one that has none", { before: network(), after: recorded }, null],
  [
    "record the owner where a former one has left the annotation",
    { before: network({}, { metadata: { annotations: recordedAs("old") } }), after: recorded },
    null,
  ],
  [
    "tell of one that has no finalizer yet",
    {
      before: network({}, { metadata: { finalizers: [] }, status: imported }),
      after: network({}, { metadata: { finalizers: [] }, status: told }),
    },
    null,
  ],
  [
    "leave alone what an administrator has written",
    {
      before: network(
        { definedIn: "shop", sharedWith: ["bank"] },
        { metadata: { labels: { rack: "7" } }, status: imported },
      ),
      after: network(
        { definedIn: "shop", sharedWith: ["bank"] },
        { metadata: { labels: { rack: "7" } }, status: told },
      ),
    },
    null,
  ],
  ["use a token that is bound to no node", { node: null, after: network() }, /the token is not bound to a node/],
  [
    "give one to another namespace",
    {
      before: recorded,
      after: network({ definedIn: "thief" }, { metadata: { annotations: recordedAs("shop") } }),
    },
    WHOSE,
  ],
  [
    "take the owner from one",
    { before: recorded, after: network({}, { metadata: { annotations: recordedAs("shop") } }) },
    WHOSE,
  ],
  ["create one as if an administrator had", { after: moved }, RECORD],
  [
    "create one for another owner than the annotation says",
    { after: network({ definedIn: "thief" }, { metadata: { annotations: recordedAs("shop") } }) },
    RECORD,
  ],
  ["record an owner as if an administrator had", { before: network(), after: moved }, RECORD],
  [
    "record an owner that another one has left the annotation of",
    {
      before: network({}, { metadata: { annotations: recordedAs("old") } }),
      after: network({ definedIn: "thief" }, { metadata: { annotations: recordedAs("old") } }),
    },
    RECORD,
  ],
  ["say that no administrator has moved one", { before: moved, after: recorded }, KEPT],
  ["say that an administrator has moved one", { before: recorded, after: moved }, KEPT],
  [
    "create one with the annotation alone",
    { after: network({}, { metadata: { annotations: recordedAs("shop") } }) },
    KEPT,
  ],
  [
    "add an annotation",
    changed(recorded, ({ metadata }) => {
      metadata.annotations.x = "y";
    }),
    KEPT,
  ],
  [
    "add a label",
    changed(recorded, ({ metadata }) => {
      metadata.labels = { x: "y" };
    }),
    KEPT,
  ],
  [
    "share one",
    {
      before: recorded,
      after: altered(recorded, ({ spec }) => {
        spec.sharedWith = ["thief"];
      }),
    },
    SHARED,
  ],
  [
    "share one of which it records the owner",
    {
      before: network(),
      after: altered(recorded, ({ spec }) => {
        spec.sharedWith = ["thief"];
      }),
    },
    SHARED,
  ],
  [
    "create one that is shared",
    {
      after: altered(recorded, ({ spec }) => {
        spec.sharedWith = ["thief"];
      }),
    },
    SHARED,
  ],
  [
    "make one that of another network",
    { before: network(), after: network({ network: "red" }) },
    /an IPNetwork stays that of its network/,
  ],
  ["create one under another network's name", { after: network({ network: "red" }) }, NAMED],
  ["create one of a long name under another network's name", { after: network({ network: "a b" }) }, NAMED],
  [
    "create one without the finalizer that keeps it",
    { after: network({}, { metadata: { finalizers: [] } }) },
    PROTECTED,
  ],
  [
    "create one with a finalizer that nobody removes",
    { after: network({}, { metadata: { finalizers: [FINALIZER, "evil.example/x"] } }) },
    PROTECTED,
  ],
  [
    "take the finalizer from one",
    {
      before: recorded,
      after: altered(recorded, ({ metadata }) => {
        metadata.finalizers = [];
      }),
    },
    PROTECTED,
  ],
  [
    "keep one for ever by a finalizer",
    changed(recorded, ({ metadata }) => {
      metadata.finalizers.push("evil.example/x");
    }),
    PROTECTED,
  ],
  [
    "have the garbage collector delete one",
    changed(recorded, ({ metadata }) => {
      metadata.ownerReferences = [GONE];
    }),
    METADATA,
  ],
  [
    "create one that the garbage collector deletes",
    {
      after: altered(network(), ({ metadata }) => {
        metadata.ownerReferences = [GONE];
      }),
    },
    METADATA,
  ],
  [
    "write a count",
    changed(counted, ({ status }) => {
      status.size = "11";
    }),
    COUNTS,
  ],
  [
    "have a paused cluster forgotten, whose machines' addresses are kept",
    changed(counted, ({ status }) => {
      status.pausedClusters = [];
    }),
    COUNTS,
  ],
  ["create one with paused clusters, whose machines' addresses would be kept", { after: counted }, COUNTS],
];

const withIps = (...ips: string[]) => ({
  apiVersion: "k8s.cni.cncf.io/v1alpha1",
  kind: "IPAMClaim",
  metadata: { name: "vm", namespace: "default" },
  spec: { network: "blue", interface: "net1" },
  status: { ips },
});
const withoutStatus = altered(withIps(), (copy) => {
  delete copy.status;
});
const APPEND = /a node only appends to what a claim lists, at most 16 entries/;
const [FIRST, SECOND, THIRD] = ["10.0.0.5/24", "fd00::5/64", "10.0.0.6/24"] as const;
/** As many as a node may list. */
const FULL = Array.from({ length: 16 }, (_, index) => `10.0.0.${index}/24`);
const from = (...ips: string[]) => ({
  to: (...after: string[]): Written => ({ before: withIps(...ips), after: withIps(...after) }),
});

const CLAIMS: readonly [string, Written, RegExp | null][] = [
  ["publish the first addresses", { before: withoutStatus, after: withIps(FIRST) }, null],
  ["append to an empty list, after a refusal", from().to(FIRST, SECOND), null],
  ["append an address", from(FIRST).to(FIRST, SECOND), null],
  ["append several", from(FIRST).to(FIRST, SECOND, THIRD), null],
  ["append to what nobody can read", from("10.0.0.5,10.0.0.6").to("10.0.0.5,10.0.0.6", FIRST), null],
  ["fill the list", from(...FULL.slice(0, 15)).to(...FULL), null],
  [
    "write another pod",
    changed(withIps(FIRST), ({ status }) => {
      status.ownerPod = { name: "p" };
    }),
    null,
  ],
  [
    "write another pod of a claim that lists too many",
    changed(withIps(...FULL, SECOND), ({ status }) => {
      status.ownerPod = { name: "p" };
    }),
    null,
  ],
  ["use a token that is bound to no node", { node: null, ...from().to(FIRST) }, /the token is not bound to a node/],
  ["replace an address", from(FIRST).to(THIRD), APPEND],
  ["replace one and append one", from(FIRST, SECOND).to(THIRD, SECOND, FIRST), APPEND],
  ["replace the last one and append one", from(FIRST, SECOND).to(FIRST, THIRD, SECOND), APPEND],
  ["put an address before the others", from(FIRST).to(THIRD, FIRST), APPEND],
  ["put them in another order", from(FIRST, SECOND).to(SECOND, FIRST), APPEND],
  ["remove one", from(FIRST, SECOND).to(FIRST), APPEND],
  ["remove all", from(FIRST).to(), APPEND],
  ["take the status away", { before: withIps(FIRST), after: withoutStatus }, APPEND],
  ["write two entries as one", from(FIRST, SECOND).to(`${FIRST},${SECOND}`), APPEND],
  ["write two entries as one, and append to it", from(FIRST, SECOND).to(`${FIRST},${SECOND}`, THIRD, THIRD), APPEND],
  ["write one entry as two", from(`${FIRST},${SECOND}`).to(FIRST, SECOND), APPEND],
  ["append something to an entry", from(FIRST).to(`${FIRST},${SECOND}`, SECOND), APPEND],
  ["list too many at once", from().to(...FULL, SECOND), APPEND],
  ["append to a full list", from(...FULL).to(...FULL, SECOND), APPEND],
];

export const NETWORK_CASES: readonly AdmissionCase[] = NETWORKS.map(
  ([name, written, refused]) => ({ resource: "ipnetworks", name, refused, ...written }) as const,
);
export const CLAIM_CASES: readonly AdmissionCase[] = CLAIMS.map(
  ([name, written, refused]) => ({ resource: "ipamclaims", name, refused, ...written }) as const,
);
