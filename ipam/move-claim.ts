import type { AttachView, ClaimUser, Fact, KnownAttachment, KnownClaim } from "./attach-view.ts";
import type { HeldAddress } from "./decide-addresses.ts";
import type { RequestedAddress } from "./definition/requested-address.ts";
import { formatAddress, sameAddress } from "./space/address.ts";

/**
 * What becomes of a claim with addresses when its VM asks for others. See docs/decisions/0066.
 *
 *   it asks for none that the claim does not have   as-is   the claim's addresses
 *   it is the claim of no VM                        as-is   which refuses the request
 *   a container of it may run with what it lists    stays   its addresses, and a warning that says what to do
 *   otherwise                                       moves   those asked for, in place of those of their subnets
 */
export function moveClaim<A extends KnownAttachment, C extends KnownClaim>(
  view: Pick<AttachView<A, C>, "mayMove" | "mayRunWithListed">,
  claim: C,
  asked: {
    readonly held: readonly HeldAddress[];
    readonly requested: readonly RequestedAddress[];
    /** Whoever is attached with the claim's addresses, but for what the new attachment replaces. */
    readonly users: readonly ClaimUser[];
  },
): Fact<"as-is" | "stays" | "moves"> {
  const { held, requested, users } = asked;
  const isHeld = ({ address }: RequestedAddress) => held.some((one) => sameAddress(one.address, address));
  if (held.length === 0 || requested.every(isHeld) || !view.mayMove(claim)) return "as-is";
  for (const user of users) {
    const mayRun = view.mayRunWithListed(user, claim);
    if (mayRun === undefined) return undefined;
    if (mayRun) return "stays";
  }
  return "moves";
}

/** For the VM's owner: what it asks for is given at its next start. */
export function describeKept(held: readonly HeldAddress[], requested: readonly RequestedAddress[]): string {
  const list = (all: readonly Pick<HeldAddress, "address">[]) =>
    all.map(({ address }) => formatAddress(address)).join(", ");
  const sources = [...new Set(requested.map(({ source }) => source))].join(" and ");
  return `${sources} asks for ${list(requested)}, but the VM runs with ${list(held)} and keeps it; stop and start the VM to give it what it asks for`;
}
