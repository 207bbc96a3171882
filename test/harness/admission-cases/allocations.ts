import {
  cooled,
  newAllocation,
  retained,
  takenOver,
  withAttachment,
  withNode,
  withoutAttachments,
} from "../../../allocations/allocation-object.ts";
import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import type { IPAllocation } from "../../../kube/objects.ts";
import { keptByOthers, METADATA_REFUSED, restingWithLabel } from "./allocation-metadata.ts";
import {
  ADDRESS,
  type AdmissionCase,
  altered,
  attachment,
  changed,
  keyOn,
  LABELS,
  ofClaim,
  ofPod,
  pod,
  stored,
  TIME,
  type Written,
} from "./objects.ts";

/** Of a pod that runs on a node and was never attached by us. */
const imported = (node: string) =>
  stored(newAllocation("blue", ADDRESS, { owner: pod("1"), attachment: null, node }, TIME));

/** The claim that was created again. */
const again = { owner: { ...ofClaim().spec.owner, uid: "claim-2" }, attachment: attachment("a") };

const deleted = altered(stored(ofPod("a")), ({ metadata }) => {
  metadata.deletionTimestamp = TIME;
}) as IPAllocation;

const allowed: readonly [string, Written][] = [
  ["create one that its container uses", { after: ofPod("a") }],
  ["create one of a claim", { after: ofClaim("a") }],
  ["create one without attachment (import)", { after: ofClaim() }],
  ["attach to a claim's address that nothing uses", { before: ofClaim(), after: ofClaim("a") }],
  ["attach the target of a migration", { before: ofClaim("b"), after: ofClaim("b", "a") }],
  ["end its own attachment", { before: ofClaim("a"), after: withoutAttachments(ofClaim("a"), [keyOn("a")]) }],
  [
    "end its own attachment beside another node's",
    { before: ofClaim("a", "b"), after: withoutAttachments(ofClaim("a", "b"), [keyOn("a")]) },
  ],
  ["release what its own pod used", { before: ofPod("a"), after: cooled(ofPod("a"), TIME) }],
  ["release what is being deleted", { before: deleted, after: cooled(deleted, TIME) }],
  [
    "take over what cools down, from another node's pod",
    {
      before: stored(cooled(ofPod("b"), TIME)),
      after: takenOver(
        stored(cooled(ofPod("b"), TIME)),
        ADDRESS,
        { owner: pod("2"), attachment: attachment("a") },
        TIME,
      ),
    },
  ],
  [
    "take over what is retained for the claim's name",
    {
      before: stored(retained(ofClaim(), TIME, TIME)),
      after: takenOver(stored(retained(ofClaim(), TIME, TIME)), ADDRESS, again, TIME),
    },
  ],
  [
    "attach a new sandbox of its pod in the place of the old one",
    {
      before: ofPod("a"),
      after: withAttachment(withoutAttachments(ofPod("a"), [keyOn("a")]), attachment("a", "second")),
    },
  ],
  [
    "attach a pod to an address that was recorded on its node without an attachment",
    { before: imported("a"), after: withAttachment(imported("a"), attachment("a")) },
  ],
  [
    "take over what cools down, of an address that another system recorded, and with an administrator's label",
    {
      before: restingWithLabel,
      after: takenOver(restingWithLabel, ADDRESS, { owner: pod("2"), attachment: attachment("a") }, TIME),
    },
  ],
  [
    "release what its own pod used, beside a finalizer of an administrator's",
    { before: keptByOthers, after: cooled(keptByOthers, TIME) },
  ],
  [
    "take an address of a network whose name is no label",
    { after: newAllocation("a b", ADDRESS, { owner: pod("1"), attachment: attachment("a") }, TIME) },
  ],
];

const FOREIGN = /attachments of another node's containers are ended by/;
const OWN_ONLY = /a node writes attachments of its own containers only/;
const OWNER = /the owner of a Bound address changes only after its release/;
const RELEASE = /a node releases what only its own containers used/;
const STATUS = /of the status of a Bound address a node changes attachments only/;
const ELSEWHERE = /only a claim's address is used on another node than before/;

const refused: readonly [string, Written, RegExp][] = [
  ["use a token that is bound to no node", { after: ofPod(""), node: null }, /the token is not bound to a node/],
  ["create one for another node's container", { after: ofPod("b") }, OWN_ONLY],
  ["add an attachment of another node", { before: ofClaim("a"), after: ofClaim("a", "b") }, OWN_ONLY],
  [
    "make another node's attachment its own",
    changed(ofClaim("b"), ({ status }) => {
      status.attachments[keyOn("b")].node = "a";
    }),
    FOREIGN,
  ],
  [
    "change another node's attachment",
    changed(ofClaim("b"), ({ status }) => {
      status.attachments[keyOn("b")].pod.uid = "another";
    }),
    FOREIGN,
  ],
  [
    "end another node's attachment",
    { before: ofClaim("b"), after: withoutAttachments(ofClaim("b"), [keyOn("b")]) },
    FOREIGN,
  ],
  ["release another node's address", { before: ofPod("b"), after: cooled(ofPod("b"), TIME) }, RELEASE],
  [
    "retain a stopped VM's address",
    { before: ofClaim(), after: retained(ofClaim(), TIME, TIME) },
    /an allocation is Bound or Cooling/,
  ],
  [
    "end a retention",
    {
      before: stored(retained(ofClaim(), TIME, TIME)),
      after: cooled(stored(retained(ofClaim(), TIME, TIME)), TIME),
    },
    RELEASE,
  ],
  ["release a stopped VM's address", { before: ofClaim(), after: cooled(ofClaim(), TIME) }, RELEASE],
  [
    "release a claim's address that it uses itself",
    { before: ofClaim("a"), after: cooled(ofClaim("a"), TIME) },
    RELEASE,
  ],
  [
    "end a cool-down by an old date",
    changed(stored(cooled(ofPod("a"), TIME)), ({ status }) => {
      status.since = "1970-01-01T00:00:00Z";
    }),
    RELEASE,
  ],
  [
    "give a Bound address to its own pod",
    {
      before: ofClaim(),
      after: takenOver(ofClaim(), ADDRESS, { owner: pod("2"), attachment: attachment("a") }, TIME),
    },
    OWNER,
  ],
  [
    "say that another VM stands behind an address",
    changed(ofClaim("a"), ({ spec }) => {
      spec.vm = { name: "other", uid: "vm-2" };
    }),
    OWNER,
  ],
  [
    "take the VM from an address",
    changed(ofClaim("a"), ({ spec }) => {
      delete spec.vm;
    }),
    OWNER,
  ],
  [
    "move an allocation to another network",
    {
      before: stored(cooled(ofPod("a"), TIME)),
      after: altered(ofPod("a"), ({ spec }) => {
        spec.network = "red";
      }),
    },
    /an allocation stays that of its network and address/,
  ],
  [
    "hide an address from those who list a network",
    changed(ofClaim("b"), ({ metadata }) => {
      metadata.labels["ipam.holdfast.dev/network"] = "red";
    }),
    LABELS,
  ],
  [
    "hide an address by taking its label",
    changed(ofClaim("b"), ({ metadata }) => {
      delete metadata.labels["ipam.holdfast.dev/network"];
    }),
    LABELS,
  ],
  [
    "let a Bound address be deleted",
    changed(ofClaim("b"), ({ metadata }) => {
      metadata.finalizers = [];
    }),
    /the finalizer keeps a Bound address/,
  ],
  ["create one that cools down", { after: cooled(ofPod("a"), TIME) }, RELEASE],
  [
    "leave one without a state",
    changed(ofPod("a"), (copy) => {
      delete copy.status;
    }),
    /an allocation is Bound or Cooling/,
  ],
  [
    "write an attachment without a node",
    changed(ofPod("a"), ({ status }) => {
      status.attachments["odd/net1"] = { since: TIME };
    }),
    OWN_ONLY,
  ],
  [
    "make the object of one address that of another",
    {
      before: stored(cooled(ofPod("a"), TIME)),
      after: takenOver(
        stored(cooled(ofPod("a"), TIME)),
        { ...ADDRESS, address: parseInterfaceAddress("10.0.0.6/24").address },
        { owner: pod("2"), attachment: attachment("a") },
        TIME,
      ),
    },
    /an allocation stays that of its network and address/,
  ],
  [
    "say that a stopped pod's address is on a node that is gone",
    { before: imported("b"), after: withNode(imported("b"), "gone") },
    STATUS,
  ],
  [
    "say that a stopped pod's address is on its own node",
    { before: imported("b"), after: withNode(imported("b"), "a") },
    STATUS,
  ],
  ["have a stopped pod's node forgotten", { before: imported("b"), after: withNode(imported("b"), "") }, STATUS],
  [
    "say since when a Bound address is in use",
    changed(ofPod("b"), ({ status }) => {
      status.since = "1970-01-01T00:00:00Z";
    }),
    STATUS,
  ],
  [
    "use the address of another node's pod, and release it then",
    { before: imported("b"), after: withAttachment(imported("b"), attachment("a")) },
    ELSEWHERE,
  ],
  [
    "use the address of a pod that runs on another node",
    { before: ofPod("b"), after: withAttachment(ofPod("b"), attachment("a")) },
    ELSEWHERE,
  ],
  [
    "give another prefix length to a Bound address",
    changed(ofClaim("b"), ({ spec }) => {
      spec.address = spec.address.replace(/\/.*/, "/30");
    }),
    OWNER,
  ],
  [
    "give another prefix length to the address that it attaches to",
    {
      before: ofClaim(),
      after: altered(ofClaim("a"), ({ spec }) => {
        spec.address = spec.address.replace(/\/.*/, "/30");
      }),
    },
    OWNER,
  ],
  [
    "take from a Bound address which VM it is of",
    changed(ofClaim("b"), ({ spec }) => {
      delete spec.vm;
    }),
    OWNER,
  ],
  [
    "say which MAC an address has",
    changed(ofClaim("b"), ({ spec }) => {
      spec.mac = "02:00:00:00:00:01";
    }),
    OWNER,
  ],
  ...METADATA_REFUSED,
];

export const ALLOCATION_CASES: readonly AdmissionCase[] = [
  ...allowed.map(([name, written]) => ({ resource: "ipallocations", name, refused: null, ...written }) as const),
  ...refused.map(([name, written, rule]) => ({ resource: "ipallocations", name, refused: rule, ...written }) as const),
];
