import type { AttachAsk, AttachView, KnownAttachment, KnownClaim } from "./attach-view.ts";
import { type Refusal, refuse } from "./refusals.ts";
import { type Family, formatAddress, sameAddress } from "./space/address.ts";
import { parseInterfaceAddress } from "./space/cidr.ts";

/** What the journal of this node knows of a request already. */
export type RepeatDecision<A extends KnownAttachment> =
  /** It was answered before: the same answer. */
  | { readonly kind: "repeat"; readonly attachment: A }
  | { readonly kind: "refuse"; readonly refusal: Refusal };

/**
 * The part of a decision that needs nothing but this node's journal; null: it does not tell. Without `claimKnown` the request has not been
 * read so far, and a repeat is known by container, interface, network and pod.
 */
export function decideRepeat<A extends KnownAttachment>(
  { ask, hasLaterDel, former }: Pick<AttachView<A, KnownClaim>, "ask" | "hasLaterDel" | "former">,
  { claimKnown }: { readonly claimKnown: boolean },
): RepeatDecision<A> | null {
  if (hasLaterDel) return no(supersededBy(ask, "a later DEL"));
  if (former === null || !isRepeat(former, ask, { claimKnown })) return null;
  const addresses = former.ips.map((ip) => parseInterfaceAddress(ip.address).address);
  const narrow = whyTooNarrow(
    ask,
    addresses.map(({ family }) => family),
  );
  if (narrow !== null) return no(narrow);
  const other = ask.requested.find((one) => !addresses.some((address) => sameAddress(address, one.address)));
  if (other === undefined) return { kind: "repeat", attachment: former };
  const held = addresses.map(formatAddress).join(", ");
  const { address: requested, source } = other;
  return no(refuse("REQUEST_MISMATCH", { requested, source, held, network: ask.network }));
}

/** Whether an attachment is what is asked for. A claim or pod that differs means that the container ID is used again. */
export function isRepeat(
  former: KnownAttachment,
  ask: Pick<AttachAsk, "claim" | "pod">,
  { claimKnown }: { readonly claimKnown: boolean },
): boolean {
  if (former.isLost || (claimKnown && former.claimRef !== claimRefOf(ask))) return false;
  const { pod } = ask;
  // A runtime that does not tell the pod's UID is believed its name: container IDs are not used again by another pod of it.
  if (pod !== null && pod.uid === "")
    return former.pod?.name === pod.name && former.pod.namespace === pod.namespace;
  return (former.pod?.uid ?? null) === (pod?.uid ?? null);
}

/** The claim that is asked for as attachments record it: `namespace/name`, "" for none. */
export function claimRefOf({ claim }: Pick<AttachAsk, "claim">): string {
  return claim === null ? "" : `${claim.namespace}/${claim.name}`;
}

export function supersededBy(ask: Pick<AttachAsk, "containerId" | "interface">, later: string): Refusal {
  const { containerId, interface: interfaceName } = ask;
  return refuse("SUPERSEDED", { containerId, interface: interfaceName, later });
}

/** A result below 0.3.0 would silently leave the second address of a family out. */
export function whyTooNarrow(
  { onePerFamily, network }: Pick<AttachAsk, "onePerFamily" | "network">,
  families: readonly Family[],
): Refusal | null {
  if (!onePerFamily || new Set(families).size === families.length) return null;
  return refuse("VERSION_TOO_NARROW", { version: "below 0.3.0", count: families.length, network });
}

function no(refusal: Refusal): { readonly kind: "refuse"; readonly refusal: Refusal } {
  return { kind: "refuse", refusal };
}
