import { formatInterfaceAddress, type InterfaceAddress } from "../../ipam/space/cidr.ts";
import type { AttachWant } from "../allocations.ts";
import type { AttachParts } from "./parts/attach-parts.ts";
import type { ClaimReading } from "./parts/claim-access.ts";

/**
 * Publishes in a claim what is reserved for it. A claim that follows its VM, or moves to what it asks for, is moved
 * first, and says in the same write what it has on the new network, so that an ADD that ends in between leaves nothing
 * that could be misread: reserve, `spec.network`, `status.ips`, answer (docs/decisions/0067). A claim that lists its
 * addresses already needs nothing. `changed`: the claim is not as it was read. Throws ApiAway and RefusalError.
 */
export async function publish(
  { claimAccess, context }: Pick<AttachParts, "claimAccess" | "context">,
  want: AttachWant,
  seen: ClaimReading,
  addresses: readonly InterfaceAddress[],
  { deadlineMs, wrote }: { readonly deadlineMs: number; wrote(resourceVersion: string): void },
): Promise<"published" | "changed"> {
  const { network } = want;
  const ips = addresses.map(formatInterfaceAddress);
  const isMoved = seen.followsFrom !== undefined;
  const claim = isMoved ? await claimAccess.changeNetwork(seen, { network, ips }, want, deadlineMs) : seen;
  if (claim === "changed") return "changed";
  if (isMoved) context.killPoint?.("after-network");
  if (claim.ips.length > 0 && !claim.followed?.isOpen) return "published";
  const written = await claimAccess.publish(claim, ips, want, deadlineMs);
  if (written === "changed") return "changed";
  wrote(written.resourceVersion);
  if (claim.followed?.isOpen) {
    context.killPoint?.("after-list");
    await claimAccess.closeChange(claim, deadlineMs);
  }
  return "published";
}
