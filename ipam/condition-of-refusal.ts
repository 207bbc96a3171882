import { type ClaimCondition, refusedCondition } from "./claim-conditions.ts";
import type { Refusal, RefusalCode } from "./refusals.ts";

/** Refusals that concern who asks, not the addresses that the claim has. */
const ABOUT_THE_REQUEST: readonly RefusalCode[] = ["CLAIM_IN_USE", "REQUEST_MISMATCH", "GATEWAY_HELD"];

/**
 * The condition that tells a claim why its latest request was refused; null for refusals that are none of its
 * business. Published addresses stay allocated whatever is asked for besides, and the status says so.
 * See docs/decisions/0010.
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
