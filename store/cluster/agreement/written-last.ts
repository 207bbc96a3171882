import type { AttachedHolder } from "../../../allocations/allocation-object.ts";
import { toAllocationOwner } from "../../../allocations/owners.ts";
import type { Attachment } from "../../../allocations/records.ts";
import { RefusalError } from "../../../ipam/refusals.ts";
import { sameAddress } from "../../../ipam/space/address.ts";
import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import type { AllocationAttachment } from "../../../kube/objects.ts";
import { CLAIM_LIST_MAX, listedAddresses } from "../../../kube/views/claim-view.ts";
import { isoTime } from "../../../platform/time.ts";
import type { AttachParts } from "../parts/attach-parts.ts";
import type { ClaimReading } from "../parts/claim-access.ts";
import { objectOf } from "./facts.ts";

/** Limit of a read that no ADD waits for, ms. */
export const READ_MS_MAX = 10_000;

/**
 * etcd's states are prefixes: one that has the last write has all before it. An older state of the same objects is not
 * that write: a backup from before a restore has them too, and need not have what was put back after it.
 */
export async function isAsWritten(parts: AttachParts, attachment: Attachment, version: number): Promise<boolean> {
  const { client, claimAccess, context } = parts;
  const { network, ips, owner } = attachment;
  const deadlineMs = context.clock.monotonicMs() + READ_MS_MAX;
  const holder = holderOfAttachment(attachment);
  const versions: string[] = [];
  const isWritten = () => newestOf(versions) >= version;
  try {
    for (const { address } of ips) {
      const reading = await client.read(network, parseInterfaceAddress(address).address, deadlineMs);
      if (reading === null || objectOf(reading, holder) !== "with-use") return false;
      versions.push(reading.object.metadata.resourceVersion);
    }
    if (owner.kind !== "claim") return isWritten();
    const claim = await claimAccess.read(owner, deadlineMs);
    if (claim === null || claim.uid !== owner.uid) return true;
    versions.push(claim.resourceVersion);
    return listsAll(claim, ips) && isWritten();
  } catch (error) {
    if (error instanceof RefusalError || error instanceof TypeError) return false;
    throw error;
  }
}

/** Whether a claim lists all of these addresses, or has no room for more. */
export function listsAll(
  claim: Pick<ClaimReading, "ips">,
  addresses: readonly { readonly address: string }[],
): boolean {
  const listed = listedAddresses(claim);
  return (
    claim.ips.length >= CLAIM_LIST_MAX ||
    addresses.every(({ address: text }) => {
      const { address } = parseInterfaceAddress(text);
      return listed.some((one) => sameAddress(one.address, address));
    })
  );
}

/** The newest of what was read or written; 0: none has a number. */
export function newestOf(resourceVersions: readonly string[]): number {
  return Math.max(0, ...resourceVersions.map(Number).filter(Number.isSafeInteger));
}

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
