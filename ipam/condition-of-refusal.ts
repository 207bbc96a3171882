import { type ClaimCondition, refusedCondition } from "./claim-conditions.ts";
import type { Refusal, RefusalCode } from "./refusals.ts";

/** Refusals about who makes the request, or what it asks for, not about the addresses that the claim has. */
const ABOUT_THE_REQUEST: readonly RefusalCode[] = [
  "ADDRESS_COOLING",
  "ADDRESS_EXCLUDED",
  "ADDRESS_OUTSIDE",
  "ADDRESS_RESERVED",
  "ADDRESS_TAKEN",
  "CLAIM_IN_USE",
  "GATEWAY_HELD",
  "REQUEST_MISMATCH",
];

/**
 * The condition that tells a claim why its latest request was refused; null for refusals that do not concern the claim.
 * What a claim has stays allocated whatever a later request says, and the condition says so. See docs/decisions/0093.
 */
export function conditionOfRefusal(
  refusal: Refusal,
  claim: { readonly hasAddresses: boolean; readonly asksForAddresses: boolean },
  time: string,
): ClaimCondition | null {
  const unusableRequest = refusal.code === "CONFIG_INVALID" && claim.asksForAddresses;
  const reason = refusal.claimReason ?? (unusableRequest ? "RequestedIPOutsideSubnet" : undefined);
  if (reason === undefined) return null;
  const condition = refusedCondition(reason, refusal.message, time);
  const stays = claim.hasAddresses && ABOUT_THE_REQUEST.includes(refusal.code);
  return stays ? { ...condition, status: "True" } : condition;
}
