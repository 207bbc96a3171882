import type { AttachView, Fact, KnownAttachment, KnownClaim } from "./attach-view.ts";
import { type Refusal, refuse } from "./refusals.ts";

/**
 * A claim that a request on another network names: KubeVirt 1.9 lets the network of a running VM be edited, and the
 * target of its migration names the VM's claim on the new network (VEP 140). kubevirt/ipam-extensions leaves
 * `spec.network` of a claim as it is, so the claim is moved here: it has nothing on the new network yet, unless it was
 * there before. Whoever uses its addresses on the former network goes on. See docs/decisions/0067.
 *
 * A claim whose network is "" is of a definition without a name, which the extension copies as it is written: it is of
 * the network of its VM's interface.
 *
 *   the new network has no persistent addresses     refuse   CLAIM_OTHER_NETWORK
 *   it lists addresses of no network                refuse   CLAIM_OTHER_NETWORK
 *   the claim is not certainly of the pod's VM      refuse   CLAIM_OTHER_NETWORK
 *   the VM is not to be on this network (any more)  refuse   CLAIM_OTHER_NETWORK
 *   the pod uses it on another interface            refuse   CLAIM_OTHER_NETWORK
 *   otherwise                                       the claim follows
 */
export function followNetwork<A extends KnownAttachment, C extends KnownClaim>(
  { ask, definition, mayFollow }: Pick<AttachView<A, C>, "ask" | "definition"> & { mayFollow(): Fact<boolean> },
  claim: C,
): Fact<C | Refusal> {
  const isUnnamed = claim.network === "";
  const follows = definition.allowPersistentIPs && !(isUnnamed && claim.ips.length > 0) && mayFollow();
  if (follows === undefined) return undefined;
  if (follows) {
    const ipRequests = isUnnamed ? claim.ipRequests : [];
    return { ...claim, ips: [], ipRequests, followsFrom: claim.network };
  }
  return refuse("CLAIM_OTHER_NETWORK", {
    claim: `${claim.namespace}/${claim.name}`,
    claimNetwork: claim.network || '""',
    network: ask.network,
  });
}
