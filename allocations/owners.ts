import type { AttachAsk } from "../ipam/attach-view.ts";
import {
  describeOwner,
  describeRetained,
  isRetainedFor,
  kindOfObject,
  knownKindOf,
  OWNER_KINDS,
  type Owner,
  succeeds,
} from "../ipam/owner.ts";
import type { AllocationAttachment, AllocationOwner, IPAllocation } from "../kube/objects.ts";

/** An owner in the form of IPAllocation objects. */
export function toAllocationOwner(owner: Owner): AllocationOwner {
  const { namespace, name, uid, interface: interfaceName, cluster } = owner;
  return {
    kind: OWNER_KINDS[owner.kind].object,
    namespace,
    name,
    uid,
    interface: interfaceName,
    ...(cluster === undefined ? {} : { cluster }),
  };
}

export function fromAllocationOwner(owner: AllocationOwner): Owner {
  const kind = kindOfObject(owner.kind);
  const { uid, namespace = "", name = "", interface: interfaceName = "", cluster } = owner;
  return { kind, uid, interface: interfaceName, namespace, name, ...(cluster ? { cluster } : {}) };
}

/** As `succeeds`, of owners as IPAllocations name them. */
export function succeedsHolder(owner: AllocationOwner, former: AllocationOwner): boolean {
  return succeeds(fromAllocationOwner(owner), fromAllocationOwner(former));
}

/** Whether a Retained allocation is reserved for an owner. */
export function isReservedFor({ spec, status }: IPAllocation, owner: AllocationOwner): boolean {
  return status?.state === "Retained" && isRetainedFor(fromAllocationOwner(owner), fromAllocationOwner(spec.owner));
}

/** The holder of an allocation, for people: of a Retained one, until when. */
export function describeHolding({ spec, status }: IPAllocation): string {
  const holder = describeHolder(spec.owner);
  return status?.state === "Retained" ? describeRetained(holder, status.retainedUntil ?? "") : holder;
}

/** As describeOwner; an owner of a kind that only a later release knows is named by its object. */
export function describeHolder(owner: AllocationOwner): string {
  if (knownKindOf(owner.kind) !== undefined) return describeOwner(fromAllocationOwner(owner));
  return `${owner.kind} ${owner.namespace}/${owner.name}`;
}

type AttachmentWant = Pick<AttachAsk, "containerId" | "interface" | "pod"> & Pick<AllocationAttachment, "migratedFrom">;

/** The attachment in the form of the allocation's object. `time` is RFC 3339, for people. */
export function attachmentOfWant(want: AttachmentWant, node: string, time: string): AllocationAttachment {
  const { containerId, interface: interfaceName, pod, migratedFrom } = want;
  return {
    containerID: containerId,
    interface: interfaceName,
    node,
    ...(pod === null ? {} : { pod }),
    ...(migratedFrom === undefined ? {} : { migratedFrom }),
    since: time,
  };
}
