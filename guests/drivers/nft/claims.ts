import { parseAddress } from "../../../ipam/space/address.ts";
import { METADATA_IPV4, METADATA_IPV6 } from "../driver.ts";
import { type ChainText, chainText } from "./ruleset.ts";

/** EC2's address of IPv6: nothing here serves it, and nobody at a port of a guest may. */
const EC2_IPV6 = "fd00:ec2::254";
const BOTH_6 = `{ ${METADATA_IPV6}, ${EC2_IPV6} }`;
/** The same in the middle of a header. */
const RAW_6 = `{ ${[METADATA_IPV6, EC2_IPV6].map(rawAddress).join(", ")} }`;
/** Messages with a target address. */
const TARGETED = "{ nd-neighbor-solicit, nd-neighbor-advert, nd-redirect }";

/** What the service takes of IPv4. No fragment but the first has a type of ICMP. */
export const SERVED_TCP = "ip protocol tcp";
export const SERVED_PING = "icmp type echo-request";

/**
 * Drops what claims or asks for an address of a metadata service, and accepts all else: as sender or destination, as
 * the target of a neighbour solicitation or advertisement, as either address of a redirect. "meta protocol": what nft
 * would put there by itself in family bridge does not see through a priority tag.
 */
export const CLAIMS: ChainText = chainText("claims", "", [
  `meta protocol arp arp saddr ip ${METADATA_IPV4} drop`,
  `meta protocol arp arp daddr ip ${METADATA_IPV4} drop`,
  `meta protocol ip ip saddr ${METADATA_IPV4} drop`,
  `meta protocol ip6 ip6 saddr ${BOTH_6} drop`,
  `meta protocol ip6 ip6 daddr ${BOTH_6} drop`,
  `meta protocol ip6 icmpv6 type ${TARGETED} @th,64,128 ${RAW_6} drop`,
  `meta protocol ip6 icmpv6 type nd-redirect @th,192,128 ${RAW_6} drop`,
  // In fragments these are ignored by whoever follows RFC 6980; some old receiver does not.
  "meta protocol ip6 exthdr frag exists icmpv6 type 133-137 drop",
  // The rules above see through one tag. A receiver takes off a second one for priority too, and the older frame of
  // IEEE 802 (LLC, SNAP).
  "meta protocol { 8021q, 8021ad } @nh,4,12 0 drop",
  "meta protocol 0x0004 @nh,0,48 0xaaaa03000000 drop",
  "accept",
]);

/** At a port whose guest nobody answers: questions are dropped, too. */
export const SHUT: readonly string[] = [`meta protocol ip ip daddr ${METADATA_IPV4} drop`, "goto claims"];

/** An address as a number, to be compared with raw bytes of a frame. */
export function rawAddress(text: string): string {
  return `0x${parseAddress(text).value.toString(16)}`;
}
