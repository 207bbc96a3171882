import { newAllocation, withAttachment } from "../../../allocations/allocation-object.ts";
import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import type { AllocationAttachment, IPAllocation } from "../../../kube/objects.ts";
import type { AdmissionRequest } from "../admission.ts";
import type { KubeObject } from "../kube-api.ts";

/*
 * What the API server lets a daemon write that has the token of its node (deploy/admission), as tables: every rule has
 * what it lets pass and what it stops. test/store has them judged by the evaluator in JavaScript, test/kube by a real
 * API server.
 */

export const DAEMON = "system:serviceaccount:holdfast-system:holdfast-node";
const NODE_NAME = "authentication.kubernetes.io/node-name";

/** A write of node a's daemon. */
export interface Written {
  /** Absent: the object is new. */
  readonly before?: object;
  readonly after: object;
  /** Of the token; null: it is bound to none. Default: a. */
  readonly node?: string | null;
  readonly user?: string;
}

export interface AdmissionCase extends Written {
  readonly resource: "ipallocations" | "ipnetworks" | "ipamclaims";
  readonly name: string;
  /** Of the rule that refuses it; null: it is let pass. */
  readonly refused: RegExp | null;
}

export function requestOf({ before, after, node = "a", user = DAEMON, resource }: AdmissionCase) {
  const claims = resource === "ipamclaims";
  const request: AdmissionRequest = {
    operation: before === undefined ? "CREATE" : "UPDATE",
    resource: { group: claims ? "k8s.cni.cncf.io" : "ipam.holdfast.dev", resource },
    ...(claims ? { subResource: "status" } : {}),
    userInfo: { username: user, ...(node === null ? {} : { extra: { [NODE_NAME]: [node] } }) },
    object: after as KubeObject,
    oldObject: (before ?? null) as KubeObject | null,
  };
  return request;
}

/** The object with something else in it. */
export function altered(object: object, change: (copy: KubeObject) => void): KubeObject {
  const copy = structuredClone(object) as KubeObject;
  change(copy);
  return copy;
}

export const TIME = "2026-01-01T00:00:00Z";
export const ADDRESS = parseInterfaceAddress("10.0.0.5/24");

export const pod = (uid: string) =>
  ({ kind: "Pod", namespace: "shop", name: `pod-${uid}`, uid, interface: "net1" }) as const;
const claim = {
  kind: "IPAMClaim",
  namespace: "shop",
  name: "vm.blue",
  uid: "claim-1",
  interface: "",
} as const;
export const attachment = (node: string, containerID = `on-${node}`): AllocationAttachment => ({
  containerID,
  interface: "net1",
  node,
  pod: { namespace: "shop", name: "pod", uid: "pod-1" },
  since: TIME,
});

/** An object as the server has it. */
export function stored(object: object): IPAllocation {
  const copy = structuredClone(object) as IPAllocation;
  return { ...copy, metadata: { ...copy.metadata, uid: "u", resourceVersion: "1" } };
}

export const ofPod = (node: string, uid = "1") =>
  stored(newAllocation("blue", ADDRESS, { owner: pod(uid), attachment: attachment(node) }, TIME));
export const ofClaim = (...nodes: string[]) => {
  const vm = { name: "vm", uid: "vm-1" };
  const none = stored(newAllocation("blue", ADDRESS, { owner: claim, vm, attachment: null }, TIME));
  return nodes.reduce((object, node) => stored(withAttachment(object, attachment(node))), none);
};
export const keyOn = (node: string) => `on-${node}/net1`;

/** A change of an object that is there. */
export const changed = (before: object, change: (copy: KubeObject) => void): Written => ({
  before,
  after: altered(before, change),
});

/** The rule that refuses it. */
export const LABELS = /labels and annotations of a Bound address/;
