import { isDeepStrictEqual } from "node:util";
import { type ClaimCondition, mergeCondition } from "../../ipam/claim-conditions.ts";
import { formatInterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { ClaimView } from "./claim-view.ts";

export interface DesiredClaimStatus {
  /** CIDR with the subnet's mask. [] leaves the addresses of a claim as they are. */
  readonly ips: readonly string[];
  /** Name of the pod that uses the claim now; null keeps the last one. */
  readonly ownerPod: string | null;
  /** With the time of now; null leaves the conditions as they are. */
  readonly condition: ClaimCondition | null;
  /** The fields that the installed definition of IPAMClaims has; the API server would drop the others. */
  readonly features: ClaimFeatures;
}

export interface ClaimFeatures {
  /** `status.ownerPod` is an object with a name. */
  readonly ownerPod: boolean;
  readonly conditions: boolean;
}

/**
 * The JSON merge patch (RFC 7386) for the status subresource of a claim that was read as `view`, or null when it
 * would change nothing. It holds only against that very resourceVersion. `ips`, which the schema requires of every
 * status, is write-once: addresses that were read are repeated as they were read. Throws Error when others are to be
 * written, which is a fault of the caller.
 */
export function claimStatusPatch(view: ClaimView, desired: DesiredClaimStatus): object | null {
  if (view.ips.length > 0 && desired.ips.length > 0 && !isDeepStrictEqual(spelled(view.ips), spelled(desired.ips))) {
    throw new Error(
      `IPAMClaim ${view.key} has ${view.ips.join(", ")}, which nobody may overwrite with ${desired.ips.join(", ")}`,
    );
  }
  const changes = {
    ...(desired.features.ownerPod && desired.ownerPod !== null && desired.ownerPod !== view.ownerPod
      ? { ownerPod: { name: desired.ownerPod } }
      : {}),
    ...(desired.features.conditions ? conditionsChange(view.conditions, desired.condition) : {}),
  };
  const publishes = view.ips.length === 0 && desired.ips.length > 0;
  // Every write completes a change of the claim's network: `view.ips` is what it has on the new one.
  const replaces = view.followed?.isListed === false;
  if (!publishes && !replaces && Object.keys(changes).length === 0) return null;
  return {
    metadata: { resourceVersion: view.resourceVersion },
    status: { ips: publishes ? desired.ips : view.ips, ...changes },
  };
}

function conditionsChange(list: readonly ClaimCondition[], condition: ClaimCondition | null): object {
  if (condition === null) return {};
  const conditions = mergeCondition(list, condition);
  return isDeepStrictEqual(conditions, list) ? {} : { conditions };
}

/** Equal for two lists of the same addresses, in any notation and order. */
function spelled(ips: readonly string[]): string[] {
  return [...new Set(ips.map(canonical))].sort();
}

function canonical(text: string): string {
  try {
    return formatInterfaceAddress(parseInterfaceAddress(text));
  } catch {
    return text;
  }
}
