import { isDeepStrictEqual } from "node:util";

/** The addresses of a claim on one network, as its status has them. */
export interface NetworkAddresses {
  readonly network: string;
  /** CIDR with the subnet's mask. */
  readonly ips: readonly string[];
}

/** What a claim says of what it had before its VM went to another network, or asked for other addresses. */
export interface FollowedNetwork {
  /** Where it was, and what it had there. */
  readonly former: NetworkAddresses;
  /** The change is under way: what the annotation says counts, whatever the status lists. */
  readonly isOpen: boolean;
  /** `status.ips` lists what the claim has on its present network. */
  readonly isListed: boolean;
}

const ARROW = "->";

/*
 * `spec.network` and `status.ips` cannot be written at once, because a status has a write of its own. So the annotation
 * that is written together with `spec.network` says what the claim has on either network, and the list in the status
 * only repeats it (docs/decisions/0067):
 *
 *   blue 192.168.10.5/24 -> red 10.9.0.7/24      spec.network is red; status.ips becomes 10.9.0.7/24
 *   blue 192.168.10.5/24                         status.ips is written; what the claim had before
 */

/** The annotation of a change that begins. */
export function openChange(former: NetworkAddresses, present: NetworkAddresses): string {
  return [...wordsOf(former), ARROW, ...wordsOf(present)].join(" ");
}

/** The annotation when the status is written. */
export function closedChange(former: NetworkAddresses): string {
  return wordsOf(former).join(" ");
}

function wordsOf({ network, ips }: NetworkAddresses): [string, string] {
  // libcni admits no name that this changes; whoever calls the plugin without it may have a space in one.
  return [encodeURIComponent(network), ips.join(",")];
}

/** Of a claim with this network and list. `ips`: what it has there. A text of another form or network says nothing. */
export function readFollowed(
  text: string | undefined,
  claim: NetworkAddresses,
): { readonly followed: FollowedNetwork | null; readonly ips: readonly string[] } {
  const [network, list, arrow, present, presentList, ...more] = text?.split(" ") ?? [];
  const own = encodeURIComponent(claim.network);
  if (!network || !list || more.length > 0) return { followed: null, ips: claim.ips };
  const former = { network: decoded(network), ips: list.split(",") };
  if (arrow === undefined) return { followed: { former, isOpen: false, isListed: true }, ips: claim.ips };
  if (arrow !== ARROW || present !== own || !presentList) return { followed: null, ips: claim.ips };
  const ips = presentList.split(",");
  return { followed: { former, isOpen: true, isListed: isDeepStrictEqual(ips, claim.ips) }, ips };
}

function decoded(word: string): string {
  try {
    return decodeURIComponent(word);
  } catch {
    return word;
  }
}
