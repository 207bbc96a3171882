import { type Address, formatAddress } from "./space/address.ts";

/** Type of the condition about the claim's addresses and its latest request. */
const IPS_ALLOCATED = "IPsAllocated";
/** Type of the condition about a network that was changed since; only claims that stay behind, or did, have it. */
const NETWORK_UP_TO_DATE = "NetworkUpToDate";

/** In what a holder's addresses differ from what its network's definition would give it now. */
export type FormerPart = "outside" | "prefix-length" | "family" | "gateway";

/** Reasons of that condition with status False: in what the claim stays behind. */
const FORMER_REASONS: Readonly<Record<FormerPart, { readonly reason: string; readonly say: string }>> = {
  outside: {
    reason: "AddressOutsideNetwork",
    say: "it has an address that the network does not give any more, and keeps it",
  },
  "prefix-length": {
    reason: "PrefixLengthChanged",
    say: "it has another prefix length than its subnet has now; the next start of the VM gives it",
  },
  family: {
    reason: "FamilyAdded",
    say: "it has no address of a family that the network has now; the next start of the VM gives one",
  },
  gateway: { reason: "GatewayChanged", say: "the network has another gateway now" },
};

/** Reasons of that condition. The first goes with status True, all others with status False. */
export const CLAIM_REASONS = [
  "SuccessfulAllocation",
  "SubnetExhausted",
  "IPAddressConflict",
  "RequestedIPOutsideSubnet",
  "NetworkNotFound",
  "PersistenceNotAllowed",
  "ClaimInUse",
  "NetworkLeft",
  "InternalError",
] as const;

export type ClaimReason = (typeof CLAIM_REASONS)[number];

/** One entry of `status.conditions` (metav1.Condition). Entries of other writers are kept unchanged. */
export interface ClaimCondition {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  readonly reason: string;
  readonly message: string;
  /** RFC 3339. */
  readonly lastTransitionTime: string;
  readonly observedGeneration?: number;
}

/** Longest message that the schema of IPAMClaim accepts, in characters. */
export const CONDITION_MESSAGE_CHARS_MAX = 32_768;
export function allocatedCondition(time: string): ClaimCondition {
  return goodCondition("IP addresses successfully allocated", time);
}

export function adoptedCondition(time: string): ClaimCondition {
  return goodCondition("IP addresses adopted from the applied status", time);
}

export function forcedCondition(time: string): ClaimCondition {
  return refusedCondition("InternalError", "an operator released the addresses of this claim by force", time);
}

export function conflictCondition(address: Address, holder: string, time: string): ClaimCondition {
  const message = `the claim lists ${formatAddress(address)}, which is held by ${holder}`;
  return refusedCondition("IPAddressConflict", message, time);
}

/** The condition of a claim whose VM runs on a network where it cannot follow: what it had is released. */
export function leftCondition(
  left: { readonly network: string; readonly ips: readonly string[]; readonly nad: string },
  time: string,
): ClaimCondition {
  const message = `its VM runs on NetworkAttachmentDefinition ${left.nad}, where no claim can follow it; ${left.ips.join(", ")} of network ${left.network} is released`;
  return refusedCondition("NetworkLeft", message, time);
}

/** The claim lists another owner's address. A refused later request leaves the status True (`conditionOfRefusal`). */
export function isConflict({ type, status, reason }: ClaimCondition): boolean {
  return type === IPS_ALLOCATED && status === "False" && reason === ("IPAddressConflict" satisfies ClaimReason);
}

/** What a claim is told about its network, which may have been changed under it; null: nothing, or nothing new. */
export function standingCondition(
  list: readonly ClaimCondition[],
  parts: readonly FormerPart[],
  network: string,
  time: string,
): ClaimCondition | null {
  const known = list.find(({ type }) => type === NETWORK_UP_TO_DATE);
  const [first] = parts;
  if (first === undefined && known === undefined) return null;
  const condition: ClaimCondition = {
    type: NETWORK_UP_TO_DATE,
    status: first === undefined ? "True" : "False",
    reason: first === undefined ? "UpToDate" : FORMER_REASONS[first].reason,
    message:
      first === undefined
        ? `the claim has what network ${network} gives`
        : `network ${network} was changed: ${parts.map((part) => FORMER_REASONS[part].say).join("; ")}`,
    lastTransitionTime: time,
  };
  return known?.status === condition.status && known.message === condition.message ? null : condition;
}

function goodCondition(message: string, time: string): ClaimCondition {
  const reason: ClaimReason = "SuccessfulAllocation";
  return { type: IPS_ALLOCATED, status: "True", reason, message, lastTransitionTime: time };
}

export function refusedCondition(reason: ClaimReason, message: string, time: string): ClaimCondition {
  return { type: IPS_ALLOCATED, status: "False", reason, message, lastTransitionTime: time };
}

/**
 * Puts a condition into a list that the API server does not merge by itself: it replaces the condition of its type, or
 * is appended; duplicates of that type are removed. `lastTransitionTime` is kept while the status stays the same, so
 * that an unchanged condition leaves an equal list.
 */
export function mergeCondition(list: readonly ClaimCondition[], condition: ClaimCondition): ClaimCondition[] {
  const known = list.find(({ type }) => type === condition.type);
  const merged = { ...condition, message: cutMessage(condition.message, CONDITION_MESSAGE_CHARS_MAX) };
  const entry =
    known?.status === condition.status ? { ...merged, lastTransitionTime: known.lastTransitionTime } : merged;
  if (known === undefined) return [...list, entry];
  return list.flatMap((other) => (other === known ? [entry] : other.type === condition.type ? [] : [other]));
}

/** Cuts to at most `charsMax` characters, and never inside a surrogate pair, which JSON could not carry. */
export function cutMessage(message: string, charsMax: number): string {
  if (message.length <= charsMax) return message;
  return `${message.slice(0, charsMax - 1).replace(/[\ud800-\udbff]$/, "")}…`;
}
