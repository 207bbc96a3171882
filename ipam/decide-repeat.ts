import type { AttachAsk, AttachView, KnownAttachment, KnownClaim } from "./attach-view.ts";
import { type Refusal, refuse } from "./refusals.ts";
import { type Family, formatAddress, sameAddress } from "./space/address.ts";
import { parseInterfaceAddress } from "./space/cidr.ts";

export type RepeatDecision<A extends KnownAttachment> =
  /** It was answered before and gets the same answer. */
  { readonly kind: "repeat"; readonly attachment: A } | { readonly kind: "refuse"; readonly refusal: Refusal };

/**
 * The part of the decision that needs only this node's journal; null: the journal does not decide. Without `claimKnown`
 * the request has not been read yet, and a repeat is recognised by container, interface, network and pod.
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

/** Whether the attachment is the requested one. With another claim or pod, the container ID has been used again. */
export function isRepeat(
  former: KnownAttachment,
  ask: Pick<AttachAsk, "claim" | "pod">,
  { claimKnown }: { readonly claimKnown: boolean },
): boolean {
  if (former.isLost || (claimKnown && former.claimRef !== claimRefOf(ask))) return false;
  const { pod } = ask;
  // Without a UID the pod's name must do: container IDs are not used again by another pod of the same name.
  if (pod !== null && pod.uid === "") return former.pod?.name === pod.name && former.pod.namespace === pod.namespace;
  return (former.pod?.uid ?? null) === (pod?.uid ?? null);
}

/** The requested claim as attachments record it: `namespace/name`, "" for none. */
export function claimRefOf({ claim }: Pick<AttachAsk, "claim">): string {
  return claim === null ? "" : `${claim.namespace}/${claim.name}`;
}

export function supersededBy(ask: Pick<AttachAsk, "containerId" | "interface">, later: string): Refusal {
  const { containerId, interface: interfaceName } = ask;
  return refuse("SUPERSEDED", { containerId, interface: interfaceName, later });
}

/** A CNI result below 0.3.0 would silently drop the second address of a family. */
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
