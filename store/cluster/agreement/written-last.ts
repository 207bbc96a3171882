import { RefusalError } from "../../../ipam/refusals.ts";
import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import type { AllocationAttachment } from "../../../kube/objects.ts";
import { isoTime } from "../../../platform/time.ts";
import type { Attachment } from "../../records.ts";
import type { AttachedHolder } from "../allocations/allocation-object.ts";
import { toAllocationOwner } from "../allocations/owners.ts";
import type { AttachParts } from "../parts/attach-parts.ts";
import { objectOf } from "./facts.ts";

const READ_MS_MAX = 10_000;

/**
 * Whether the API server has what this node wrote for an attachment. etcd's states are prefixes: one that has the last write
 * has all before it.
 */
export async function isAsWritten(parts: AttachParts, attachment: Attachment): Promise<boolean> {
  const { client, claimAccess, context } = parts;
  const { network, ips, owner } = attachment;
  const deadlineMs = context.clock.monotonicMs() + READ_MS_MAX;
  const holder = holderOfAttachment(attachment);
  try {
    for (const { address } of ips) {
      const reading = await client.read(network, parseInterfaceAddress(address).address, deadlineMs);
      if (objectOf(reading, holder) !== "with-use") return false;
    }
    if (owner.kind !== "claim") return true;
    const claim = await claimAccess.read(owner, deadlineMs);
    return claim === null || claim.uid !== owner.uid || claim.ips.length > 0;
  } catch (error) {
    if (error instanceof RefusalError || error instanceof TypeError) return false;
    throw error;
  }
}

/** The holder of an attachment's addresses, as its ADD recorded it. */
export function holderOfAttachment(attachment: Attachment): AttachedHolder {
  const { containerId, interface: interfaceName, node, pod, sinceMs } = attachment;
  const ours: AllocationAttachment = {
    containerID: containerId,
    interface: interfaceName,
    node,
    ...(pod === null ? {} : { pod }),
    since: isoTime(sinceMs),
  };
  return { owner: toAllocationOwner(attachment.owner), attachment: ours };
}
