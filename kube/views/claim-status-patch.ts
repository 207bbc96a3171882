import { isDeepStrictEqual } from "node:util";
import { type ClaimCondition, mergeCondition } from "../../ipam/claim-conditions.ts";
import type { ClaimView } from "./claim-view.ts";

export interface DesiredClaimStatus {
  /** CIDR with the subnet's mask. */
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
 * The JSON merge patch (RFC 7386) for the status subresource of a claim that was read as `view`, or null when it would
 * change nothing. It holds only against that very resourceVersion. The schema requires `ips` of every status.
 */
export function claimStatusPatch(
  view: ClaimView,
  { ips, ownerPod, condition, features }: DesiredClaimStatus,
): object | null {
  const changes = {
    ...(features.ownerPod && ownerPod !== null && ownerPod !== view.ownerPod ? { ownerPod: { name: ownerPod } } : {}),
    ...(features.conditions ? conditionsChange(view.conditions, condition) : {}),
  };
  if (isDeepStrictEqual(ips, view.ips) && Object.keys(changes).length === 0) return null;
  return { metadata: { resourceVersion: view.resourceVersion }, status: { ips, ...changes } };
}

function conditionsChange(list: readonly ClaimCondition[], condition: ClaimCondition | null): object {
  if (condition === null) return {};
  const conditions = mergeCondition(list, condition);
  return isDeepStrictEqual(conditions, list) ? {} : { conditions };
}
