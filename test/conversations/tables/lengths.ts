import { type Conversation, type Json, post, type SendStep } from "../steps.ts";
import { ALLOCATIONS, allocation, NAMESPACES, NETWORKS, namespace } from "./objects.ts";

const POOLS = "/apis/ipam.holdfast.dev/v1alpha1/namespaces/{id}/addresspools";

const text = (length: number): string => "a".repeat(length);
const texts = (count: number, length: number): string[] => Array.from({ length: count }, () => text(length));

const network = (name: string, more: Json): Json => ({
  apiVersion: "ipam.holdfast.dev/v1alpha1",
  kind: "IPNetwork",
  metadata: { name },
  ...more,
  spec: { network: name, ...more.spec },
});

const pool = (name: string, more: Json): Json => ({
  apiVersion: "ipam.holdfast.dev/v1alpha1",
  kind: "AddressPool",
  metadata: { namespace: "{id}", name },
  ...more,
  spec: { network: "blue", ...more.spec },
});

/** It is refused for this one field. */
const refused = (path: string, object: Json, field: string): SendStep =>
  post(path, object, 422, { reason: "Invalid", details: { causes: [{ field }] } });

const attachments = (count: number): Json =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`${at}/net1`, { node: "n" }]));

const CONDITION = {
  status: "False",
  lastTransitionTime: "2026-01-01T00:00:00Z",
  reason: "Why",
  message: text(32_768),
};

/** As much as a controller writes into one IPNetwork: see PUBLISHED_CHARS_MAX, UNLISTED_MAX, FORMER_MAX, WANTED_MAX. */
const LARGEST_STATUS = {
  subnets: text(176_000),
  definedBy: `AddressPool ${text(63)}/${text(253)}`,
  usedSpace: {
    observed: "2026-01-01T00:00:00.000Z",
    version: "18446744073709551615",
    used: [`ipv4 bits:${text(64_000)}`],
    retained: [`ipv4 bits:${text(64_000)}`],
    cooling: [`ipv4 ${text(64_000)}`],
    unlisted: texts(100, 43 + 1 + 36),
  },
  importedFrom: Array.from({ length: 1_000 }, () => ({
    definition: `${text(63)}/${text(253)}`,
    uid: text(36),
    generation: 1,
  })),
  importWanted: Array.from({ length: 100 }, () => ({ subnets: text(1_000) })),
  recovery: { id: text(16), seconds: 30 },
  conditions: ["Imported", "ImportStalled", "Recovering"].map((type) => ({ type, ...CONDITION })),
};

const ONE_MORE_OF_NETWORK: readonly (readonly [field: string, more: Json])[] = [
  ["spec.network", { spec: { network: text(254) } }],
  ["spec.sharedWith", { spec: { sharedWith: texts(1_001, 1) } }],
  ["status.size", { status: { size: text(65) } }],
  ["status.subnets", { status: { subnets: text(262_145) } }],
  ["status.usedSpace.used", { status: { usedSpace: { used: texts(3, 1) } } }],
  ["status.usedSpace.used", { status: { usedSpace: { used: [text(65_537)] } } }],
  ["status.usedSpace.cooling", { status: { usedSpace: { cooling: [text(65_537)] } } }],
  ["status.usedSpace.unlisted", { status: { usedSpace: { unlisted: texts(101, 1) } } }],
  ["status.pausedClusters", { status: { pausedClusters: texts(10_001, 1) } }],
  ["status.importedFrom", { status: { importedFrom: Array.from({ length: 10_001 }, () => ({})) } }],
  ["status.recovery.id", { status: { recovery: { id: text(65) } } }],
  ["status.importWanted", { status: { importWanted: Array.from({ length: 101 }, () => ({})) } }],
];

const ONE_MORE_OF_ALLOCATION: readonly (readonly [field: string, more: Json])[] = [
  ["spec.network", { spec: { network: text(254) } }],
  ["spec.address", { spec: { address: text(65) } }],
  ["spec.owner.uid", { spec: { owner: { kind: "Pod", uid: text(1_025) } } }],
  ["spec.vm.name", { spec: { vm: { name: text(254) } } }],
  ["spec.mac", { spec: { mac: text(65) } }],
  ["status.node", { status: { node: text(254) } }],
  ["status.attachments", { status: { attachments: attachments(1_001) } }],
];

const ONE_MORE_OF_POOL: readonly (readonly [field: string, more: Json])[] = [
  ["spec.network", { spec: { network: text(254) } }],
  ["spec.ranges", { spec: { ranges: texts(257, 1) } }],
  ["spec.preallocations", { spec: { preallocations: numbered(10_001) } }],
  ["spec.definition", { spec: { definition: numbered(65) } }],
];

function numbered(count: number): Json {
  return Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, "10.0.0.1"]));
}

export const LENGTHS: readonly Conversation[] = [
  {
    title: "the largest IPNetwork that is written is taken, and nothing longer",
    steps: [
      post(NETWORKS, network("{id}", { status: LARGEST_STATUS }), 201, {}),
      ...ONE_MORE_OF_NETWORK.map(([field, more]) => refused(NETWORKS, network("{id}-2", more), field)),
    ],
  },
  {
    title: "the largest IPAllocation that is written is taken, and nothing longer",
    steps: [
      post(
        ALLOCATIONS,
        allocation("{id}", {
          spec: {
            network: text(253),
            address: "2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff/128",
            owner: {
              kind: "Container",
              namespace: text(63),
              name: text(253),
              uid: text(128),
              interface: text(15),
            },
            vm: { name: text(253), uid: text(36) },
            mac: Array.from({ length: 20 }, () => "aa").join(":"),
          },
          status: { state: "Bound", node: text(253), attachments: attachments(1_000) },
        }),
        201,
        {},
      ),
      ...ONE_MORE_OF_ALLOCATION.map(([field, more]) => refused(ALLOCATIONS, allocation("{id}-2", more), field)),
    ],
  },
  {
    title: "the largest AddressPool is taken, and nothing longer",
    steps: [
      post(NAMESPACES, namespace(), 201, {}),
      post(POOLS, pool("one", { spec: { ranges: texts(256, 128), preallocations: numbered(10_000) } }), 201, {}),
      ...ONE_MORE_OF_POOL.map(([field, more]) => refused(POOLS, pool("two", more), field)),
    ],
  },
];
