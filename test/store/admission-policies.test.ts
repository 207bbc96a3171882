import { describe, expect, test } from "vitest";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { AllocationAttachment, IPAllocation } from "../../kube/objects.ts";
import { RECORDED_OWNER_ANNOTATION } from "../../networks/network-owner.ts";
import {
  cooled,
  newAllocation,
  takenOver,
  withAttachment,
  withoutAttachments,
} from "../../store/cluster/allocations/allocation-object.ts";
import { type AdmissionRequest, review, shippedPolicies } from "../harness/admission.ts";
import type { KubeObject } from "../harness/kube-api.ts";

/*
 * deploy/admission: what the API server lets a daemon write that has the token of its node. The objects are those that the
 * daemon makes; every rule has what it lets pass and what it stops.
 */

const TIME = "2026-01-01T00:00:00Z";
const ADDRESS = parseInterfaceAddress("10.0.0.5/24");
const DAEMON = "system:serviceaccount:holdfast-system:holdfast-node";
const NODE_NAME = "authentication.kubernetes.io/node-name";

const pod = (uid: string) =>
  ({ kind: "Pod", namespace: "shop", name: `pod-${uid}`, uid, interface: "net1" }) as const;
const claim = {
  kind: "IPAMClaim",
  namespace: "shop",
  name: "vm.blue",
  uid: "claim-1",
  interface: "",
} as const;
const attachment = (node: string, containerID = `on-${node}`): AllocationAttachment => ({
  containerID,
  interface: "net1",
  node,
  pod: { namespace: "shop", name: "pod", uid: "pod-1" },
  since: TIME,
});

/** An object as the server has it. */
function stored(object: object): IPAllocation {
  const copy = structuredClone(object) as IPAllocation;
  return { ...copy, metadata: { ...copy.metadata, uid: "u", resourceVersion: "1" } };
}

const ofPod = (node: string, uid = "1") =>
  stored(newAllocation("blue", ADDRESS, { owner: pod(uid), attachment: attachment(node) }, TIME));
const ofClaim = (...nodes: string[]) => {
  const vm = { name: "vm", uid: "vm-1" };
  const none = stored(newAllocation("blue", ADDRESS, { owner: claim, vm, attachment: null }, TIME));
  return nodes.reduce((object, node) => stored(withAttachment(object, attachment(node))), none);
};
const keyOn = (node: string) => `on-${node}.net1`;

interface Written {
  readonly before?: object | null;
  readonly after: object;
  readonly node?: string | null;
  readonly user?: string;
  readonly resource?: string;
}

function refusals({ before = null, after, node = "a", user = DAEMON, resource = "ipallocations" }: Written) {
  const claims = resource === "ipamclaims";
  const request: AdmissionRequest = {
    operation: before === null ? "CREATE" : "UPDATE",
    resource: { group: claims ? "k8s.cni.cncf.io" : "ipam.holdfast.dev", resource },
    ...(claims ? { subResource: "status" } : {}),
    userInfo: { username: user, ...(node === null ? {} : { extra: { [NODE_NAME]: [node] } }) },
    object: after as KubeObject,
    oldObject: before as KubeObject | null,
  };
  return review(request).refusals;
}

/** The object with something else in it. */
function altered(object: IPAllocation, change: (copy: KubeObject) => void): KubeObject {
  const copy = structuredClone(object) as KubeObject;
  change(copy);
  return copy;
}

describe("a daemon may change an IPAllocation:", () => {
  const cases: [string, Written][] = [
    ["create one that its container uses", { after: ofPod("a") }],
    ["create one of a claim", { after: ofClaim("a") }],
    ["create one without attachment (import)", { after: ofClaim() }],
    ["attach to a claim's address that nothing uses", { before: ofClaim(), after: ofClaim("a") }],
    ["attach the target of a migration", { before: ofClaim("b"), after: ofClaim("b", "a") }],
    [
      "end its own attachment",
      { before: ofClaim("a"), after: withoutAttachments(ofClaim("a"), [keyOn("a")]) },
    ],
    [
      "end its own attachment beside another node's",
      { before: ofClaim("a", "b"), after: withoutAttachments(ofClaim("a", "b"), [keyOn("a")]) },
    ],
    ["release what its own pod used", { before: ofPod("a"), after: cooled(ofPod("a"), TIME) }],
    [
      "take over what rests, from another node's pod",
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
      "attach a new sandbox of its pod in the place of the old one",
      {
        before: ofPod("a"),
        after: withAttachment(withoutAttachments(ofPod("a"), [keyOn("a")]), attachment("a", "second")),
      },
    ],
    [
      "use an adopted address, which is not marked so any more",
      {
        before: altered(ofClaim(), ({ spec }) => {
          spec.adopted = true;
        }),
        after: ofClaim("a"),
      },
    ],
  ];

  test.each(cases)("%s", (_, written) => expect(refusals(written)).toEqual([]));
});

const FOREIGN = /attachments of another node's containers are ended by/;
const OWN_ONLY = /a node writes attachments of its own containers only/;
const OWNER = /the owner of a Bound address changes only after its release/;
const RELEASE = /a node releases what only its own containers used/;
const LABELS = /labels and annotations of a Bound address/;

describe("a stolen token of node a may not change an IPAllocation:", () => {
  const cases: [string, Written, RegExp][] = [
    [
      "use a token that is bound to no node",
      { after: ofPod(""), node: null },
      /the token is not bound to a node/,
    ],
    ["create one for another node's container", { after: ofPod("b") }, OWN_ONLY],
    ["add an attachment of another node", { before: ofClaim("a"), after: ofClaim("a", "b") }, OWN_ONLY],
    [
      "make another node's attachment its own",
      {
        before: ofClaim("b"),
        after: altered(ofClaim("b"), ({ status }) => {
          status.attachments[keyOn("b")].node = "a";
        }),
      },
      FOREIGN,
    ],
    [
      "change another node's attachment",
      {
        before: ofClaim("b"),
        after: altered(ofClaim("b"), ({ status }) => {
          status.attachments[keyOn("b")].pod.uid = "another";
        }),
      },
      FOREIGN,
    ],
    [
      "end another node's attachment",
      { before: ofClaim("b"), after: withoutAttachments(ofClaim("b"), [keyOn("b")]) },
      FOREIGN,
    ],
    ["release another node's address", { before: ofPod("b"), after: cooled(ofPod("b"), TIME) }, RELEASE],
    ["release a stopped VM's address", { before: ofClaim(), after: cooled(ofClaim(), TIME) }, RELEASE],
    [
      "release a claim's address that it uses itself",
      { before: ofClaim("a"), after: cooled(ofClaim("a"), TIME) },
      RELEASE,
    ],
    [
      "end a rest by an old date",
      {
        before: stored(cooled(ofPod("a"), TIME)),
        after: altered(stored(cooled(ofPod("a"), TIME)), ({ status }) => {
          status.since = "1970-01-01T00:00:00Z";
        }),
      },
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
      {
        before: ofClaim("a"),
        after: altered(ofClaim("a"), ({ spec }) => {
          spec.vm = { name: "other", uid: "vm-2" };
        }),
      },
      OWNER,
    ],
    [
      "take the VM from an address",
      {
        before: ofClaim("a"),
        after: altered(ofClaim("a"), ({ spec }) => {
          delete spec.vm;
        }),
      },
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
      /an allocation stays on its network/,
    ],
    [
      "hide an address from those who list a network",
      {
        before: ofClaim("b"),
        after: altered(ofClaim("b"), ({ metadata }) => {
          metadata.labels["ipam.holdfast.dev/network"] = "red";
        }),
      },
      LABELS,
    ],
    [
      "hide an address by taking its label",
      {
        before: ofClaim("b"),
        after: altered(ofClaim("b"), ({ metadata }) => {
          delete metadata.labels["ipam.holdfast.dev/network"];
        }),
      },
      LABELS,
    ],
    [
      "write another address into the annotation that lists read",
      {
        before: ofClaim("b"),
        after: altered(ofClaim("b"), ({ metadata }) => {
          metadata.annotations["ipam.holdfast.dev/address"] = "10.0.0.6/24";
        }),
      },
      LABELS,
    ],
    [
      "let a Bound address be deleted",
      {
        before: ofClaim("b"),
        after: altered(ofClaim("b"), ({ metadata }) => {
          metadata.finalizers = [];
        }),
      },
      /the finalizer keeps a Bound address/,
    ],
    ["create one that rests", { after: cooled(ofPod("a"), TIME) }, RELEASE],
    [
      "leave one without a state",
      {
        before: ofPod("a"),
        after: altered(ofPod("a"), (copy) => {
          delete copy.status;
        }),
      },
      /an allocation is Bound or Cooling/,
    ],
    [
      "write an attachment without a node",
      {
        before: ofPod("a"),
        after: altered(ofPod("a"), ({ status }) => {
          status.attachments.odd = { containerID: "odd" };
        }),
      },
      OWN_ONLY,
    ],
  ];

  test.each(cases)("%s", (_, written, message) => {
    const found = refusals(written);
    expect(found.join("\n")).toMatch(message);
  });

  test("each rule refuses a case here that no other rule refuses", () => {
    const rules = shippedPolicies()[0]?.spec.validations as { message: string }[];
    for (const { message } of rules) {
      const alone = cases.filter(([, written]) => {
        const found = refusals(written);
        return found.length === 1 && found[0]?.startsWith(message);
      });
      expect(alone.length, message).toBeGreaterThan(0);
    }
  });
});

describe("an IPNetwork", () => {
  const network = (spec: object, status: object = {}, annotations?: object) => ({
    metadata: { name: "blue", ...(annotations && { annotations }) },
    spec: { network: "blue", ...spec },
    status,
  });
  const resource = "ipnetworks";

  test.each<[string, Written]>([
    ["created", { resource, after: network({ definedIn: "shop" }) }],
    [
      "imported",
      { resource, before: network({}), after: network({}, { conditions: [{ type: "Imported" }] }) },
    ],
    [
      "whose owner is recorded now",
      { resource, before: network({}), after: network({ definedIn: "shop", sharedWith: ["b"] }) },
    ],
    [
      "whose owner is recorded now, with a note that says so",
      {
        resource,
        before: network({}),
        after: network({ definedIn: "shop" }, {}, { [RECORDED_OWNER_ANNOTATION]: "shop" }),
      },
    ],
    [
      "of an owner that stays",
      { resource, before: network({ definedIn: "" }), after: network({ definedIn: "" }, { size: "1" }) },
    ],
  ])("%s may be written", (_, written) => expect(refusals(written)).toEqual([]));

  test.each<[string, Written]>([
    ["by a token of no node", { resource, node: null, after: network({}) }],
    [
      "given to another namespace",
      { resource, before: network({ definedIn: "shop" }), after: network({ definedIn: "thief" }) },
    ],
    ["without an owner again", { resource, before: network({ definedIn: "shop" }), after: network({}) }],
    [
      "shared with a thief",
      {
        resource,
        before: network({ definedIn: "shop" }),
        after: network({ definedIn: "shop", sharedWith: ["thief"] }),
      },
    ],
    ["for another network", { resource, before: network({}), after: network({ network: "red" }) }],
    [
      "as if no administrator had moved it",
      {
        resource,
        before: network({ definedIn: "shop" }),
        after: network({ definedIn: "shop" }, {}, { [RECORDED_OWNER_ANNOTATION]: "shop" }),
      },
    ],
  ])("%s is refused", (_, written) => expect(refusals(written)).toHaveLength(1));
});

describe("the status of an IPAMClaim", () => {
  const resource = "ipamclaims";
  const withIps = (...ips: string[]) => ({ metadata: { name: "vm" }, status: { ips } });

  test.each<[string, Written]>([
    ["the first addresses", { resource, before: { metadata: {} }, after: withIps("10.0.0.5/24") }],
    [
      "addresses after a refusal",
      { resource, before: withIps(), after: withIps("10.0.0.5/24", "fd00::5/64") },
    ],
    [
      "another pod and condition",
      {
        resource,
        before: withIps("10.0.0.5/24"),
        after: { ...withIps("10.0.0.5/24"), status: { ips: ["10.0.0.5/24"], ownerPod: { name: "p" } } },
      },
    ],
  ])("%s may be written", (_, written) => expect(refusals(written)).toEqual([]));

  test.each<[string, Written]>([
    ["by a token of no node", { resource, node: null, before: withIps(), after: withIps("10.0.0.5/24") }],
    ["with other addresses", { resource, before: withIps("10.0.0.5/24"), after: withIps("10.0.0.6/24") }],
    [
      "with an address more",
      { resource, before: withIps("10.0.0.5/24"), after: withIps("10.0.0.5/24", "10.0.0.6/24") },
    ],
    ["without its addresses", { resource, before: withIps("10.0.0.5/24"), after: withIps() }],
    ["without its status", { resource, before: withIps("10.0.0.5/24"), after: { metadata: {} } }],
  ])("%s is refused", (_, written) => expect(refusals(written)).toHaveLength(1));
});

test("the policies do not restrict the controller and administrators", () => {
  for (const user of ["system:serviceaccount:holdfast-system:holdfast-controller", "kubernetes-admin"])
    expect(refusals({ user, node: null, before: ofClaim("b"), after: cooled(ofClaim("b"), TIME) })).toEqual(
      [],
    );
});

test("the policies have every field that Kubernetes 1.30 requires, and use no reserved word of CEL as a name", () => {
  const reserved =
    /\.(as|break|const|continue|else|for|function|if|import|let|loop|package|namespace|return|var|void|while)\b/;
  for (const { apiVersion, spec } of shippedPolicies()) {
    expect(apiVersion).toBe("admissionregistration.k8s.io/v1");
    expect(spec.failurePolicy).toBe("Fail");
    const all = [...spec.matchConditions, ...(spec.variables ?? []), ...spec.validations];
    for (const { expression } of all) expect(expression).not.toMatch(reserved);
    for (const { reason, message } of spec.validations) {
      // Any other reason is answered 422, which the daemon takes for an object that changed meanwhile.
      expect(reason).toBe("Forbidden");
      expect(message).toMatch(/^[a-z]/);
    }
    const names = (spec.variables ?? []).map(({ name }: KubeObject) => name);
    for (const [, name] of JSON.stringify(spec).matchAll(/variables\.(\w+)/g)) expect(names).toContain(name);
  }
});
