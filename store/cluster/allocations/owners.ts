import type { Owner } from "../../../ipam/owner.ts";
import type { AllocationAttachment, AllocationOwner, OwnerKind } from "../../../kube/objects.ts";
import type { AttachWant } from "../../allocations.ts";

const KINDS: Readonly<Record<Owner["kind"], OwnerKind>> = {
  claim: "IPAMClaim",
  pod: "Pod",
  container: "Container",
};

/** An owner as IPAllocation objects write it. */
export function toAllocationOwner(owner: Owner): AllocationOwner {
  const { namespace, name, uid, interface: interfaceName } = owner;
  return { kind: KINDS[owner.kind], namespace, name, uid, interface: interfaceName };
}

export function fromAllocationOwner(owner: AllocationOwner): Owner {
  const kind = owner.kind === "IPAMClaim" ? "claim" : owner.kind === "Pod" ? "pod" : "container";
  const { uid, namespace = "", name = "", interface: interfaceName = "" } = owner;
  return { kind, uid, interface: interfaceName, namespace, name };
}

/** The owner of an attachment that uses no claim. */
export function podOrContainer(want: AttachWant): Owner {
  const { containerId, interface: interfaceName, pod } = want;
  if (pod === null) {
    return { kind: "container", uid: containerId, interface: interfaceName, namespace: "", name: "" };
  }
  return { kind: "pod", uid: pod.uid, interface: interfaceName, namespace: pod.namespace, name: pod.name };
}

/** The attachment as the allocation's object records it. `time` is RFC 3339, for people. */
export function attachmentOfWant(want: AttachWant, node: string, time: string): AllocationAttachment {
  const { containerId, interface: interfaceName, pod } = want;
  return {
    containerID: containerId,
    interface: interfaceName,
    node,
    ...(pod === null ? {} : { pod }),
    since: time,
  };
}
