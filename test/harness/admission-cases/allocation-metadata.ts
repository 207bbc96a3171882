import { cooled, newAllocation, takenOver } from "../../../allocations/allocation-object.ts";
import { nodeLabel } from "../../../kube/object-names.ts";
import type { IPAllocation } from "../../../kube/objects.ts";
import {
  ADDRESS,
  altered,
  attachment,
  changed,
  LABELS,
  ofClaim,
  ofPod,
  pod,
  stored,
  TIME,
  type Written,
} from "./objects.ts";

const METADATA = /a node sets no owner references/;
const FINALIZERS = /finalizers of others stay/;
const OTHERS = /labels and annotations of others stay/;
const NODES = /a node adds and removes the label of one node/;
const TAKEN = /labels of an address that is taken/;
/** An owner that does not exist. */
const GONE = { apiVersion: "v1", kind: "Node", name: "gone", uid: "0" };
const newOfPod = newAllocation("blue", ADDRESS, { owner: pod("1"), attachment: attachment("a") }, TIME);
export const keptByOthers = stored(
  altered(ofPod("a"), ({ metadata }) => {
    metadata.finalizers.push("shop.example/audit");
  }),
);
export const restingWithLabel = stored(
  cooled(
    altered(ofPod("b"), ({ metadata }) => {
      metadata.labels["shop.example/rack"] = "7";
      metadata.annotations = { "ipam.holdfast.dev/imported-from": "IPPool kube-system/x" };
    }) as IPAllocation,
    TIME,
  ),
);

/** Of a stolen token of node a, and which rule refuses it. */
export const METADATA_REFUSED: readonly [string, Written, RegExp][] = [
  [
    "have the garbage collector delete another node's address",
    changed(ofPod("b"), ({ metadata }) => {
      metadata.ownerReferences = [GONE];
    }),
    METADATA,
  ],
  [
    "take the owner reference of an administrator's from an address",
    changed(
      altered(ofPod("b"), ({ metadata }) => {
        metadata.ownerReferences = [GONE];
      }),
      ({ metadata }) => {
        delete metadata.ownerReferences;
      },
    ),
    METADATA,
  ],
  [
    "create one that the garbage collector deletes",
    {
      after: altered(newOfPod, ({ metadata }) => {
        metadata.ownerReferences = [GONE];
      }),
    },
    METADATA,
  ],
  [
    "create one under a name that the server chooses",
    {
      after: altered(newOfPod, ({ metadata }) => {
        delete metadata.name;
        metadata.generateName = "x-";
      }),
    },
    METADATA,
  ],
  [
    "keep another node's address for ever by a finalizer",
    changed(ofPod("b"), ({ metadata }) => {
      metadata.finalizers.push("evil.example/x");
    }),
    FINALIZERS,
  ],
  [
    "keep an address that it releases for ever by a finalizer",
    {
      before: ofPod("a"),
      after: altered(cooled(ofPod("a"), TIME), ({ metadata }) => {
        metadata.finalizers = ["evil.example/x"];
      }),
    },
    FINALIZERS,
  ],
  [
    "take an administrator's finalizer from an address",
    changed(keptByOthers, ({ metadata }) => {
      metadata.finalizers = ["ipam.holdfast.dev/bound"];
    }),
    FINALIZERS,
  ],
  [
    "create one with a finalizer that nobody removes",
    {
      after: altered(newOfPod, ({ metadata }) => {
        metadata.finalizers.push("evil.example/x");
      }),
    },
    FINALIZERS,
  ],
  [
    "release an address and leave the finalizer of those in use",
    {
      before: ofPod("a"),
      after: altered(cooled(ofPod("a"), TIME), ({ metadata }) => {
        metadata.finalizers = ["ipam.holdfast.dev/bound"];
      }),
    },
    /an address that is released has no finalizer, unless its object is being deleted/,
  ],
  [
    "add a label to an address that it takes",
    {
      after: altered(newOfPod, ({ metadata }) => {
        metadata.labels["evil.example/x"] = "x";
      }),
    },
    OTHERS,
  ],
  [
    "have many nodes read an address that it takes as theirs",
    {
      after: altered(newOfPod, ({ metadata }) => {
        for (const node of ["b", "c"]) metadata.labels[nodeLabel(node)] = "";
      }),
    },
    NODES,
  ],
  [
    "hide an address from the nodes that use it",
    {
      before: ofClaim("b", "c"),
      after: altered(ofClaim("b", "c"), ({ metadata }) => {
        for (const node of ["b", "c"]) delete metadata.labels[nodeLabel(node)];
      }),
    },
    NODES,
  ],
  [
    "add an annotation to an address that it takes",
    {
      after: altered(newOfPod, ({ metadata }) => {
        metadata.annotations = { "evil.example/x": "x" };
      }),
    },
    OTHERS,
  ],
  [
    "take an administrator's label from an address that it takes over",
    {
      before: restingWithLabel,
      after: altered(
        takenOver(restingWithLabel, ADDRESS, { owner: pod("2"), attachment: attachment("a") }, TIME),
        ({ metadata }) => {
          delete metadata.labels["shop.example/rack"];
        },
      ),
    },
    OTHERS,
  ],
  [
    "write a state into the label of a Bound address that it has not",
    changed(ofClaim("b"), ({ metadata }) => {
      metadata.labels["ipam.holdfast.dev/state"] = "Cooling";
    }),
    LABELS,
  ],
  ...(
    [
      ["hide an address that it takes from those who list its network", "network", "red"],
      ["hide an address that it takes from its owner", "owner-uid", "2"],
      ["say by the label that an address cools down which it takes", "state", "Cooling"],
    ] as const
  ).map(([name, label, value]): [string, Written, RegExp] => [
    name,
    {
      after: altered(newOfPod, ({ metadata }) => {
        metadata.labels[`ipam.holdfast.dev/${label}`] = value;
      }),
    },
    TAKEN,
  ]),
  [
    "label an address of a network whose name is no label with a label of its own",
    {
      after: altered(
        newAllocation("a b", ADDRESS, { owner: pod("1"), attachment: attachment("a") }, TIME),
        ({ metadata }) => {
          metadata.labels["ipam.holdfast.dev/network"] = "a-b";
        },
      ),
    },
    TAKEN,
  ],
];
