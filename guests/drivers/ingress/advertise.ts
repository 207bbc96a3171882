import { parseAddress } from "../../../ipam/space/address.ts";
import { METADATA_IPV6 } from "../driver.ts";
import { rawAddress } from "../nft/claims.ts";

/** A neighbour advertisement: solicited, and in place of what was known. */
const ADVERTISEMENT = "8800000060000000";
/** Its option: the target's MAC, in a unit of 8 bytes. */
const TARGET_MAC = "0201";
const SOURCE_MAC_OPTION = "0x0101";
const ICMPV6 = 58;

/**
 * A neighbour solicitation for METADATA_IPV6 in one of the two forms that systems send: with the asker's MAC, or bare.
 */
export interface Solicitation {
  /** Name of the chain that answers it. */
  readonly chain: string;
  /** Follows "icmpv6 type nd-neighbor-solicit". */
  readonly match: string;
  /** Makes it the advertisement, but for the MACs of the frame. */
  readonly answer: readonly string[];
}

/**
 * Solicitations that are answered in place: the listener hears of none, so that no guest can fill the table of
 * neighbours, which all namespaces of a node share.
 */
export function solicitations(serviceMac: string): readonly Solicitation[] {
  return [true, false].map((hasOption) => {
    const mac = serviceMac.replaceAll(":", "");
    const option = hasOption ? `${TARGET_MAC}${mac}` : "";
    const body = `${ADVERTISEMENT}${hexOf(METADATA_IPV6)}${option}`;
    const checksum = checksumOf(body);
    const target = `@th,64,128 ${rawAddress(METADATA_IPV6)}`;
    const form = `ip6 nexthdr icmpv6 ip6 length ${body.length / 2}`;
    return {
      chain: hasOption ? "advertise" : "advertise_bare",
      match: `ip6 hoplimit 255 ${form} ${target}${hasOption ? ` @th,192,16 ${SOURCE_MAC_OPTION}` : ""}`,
      answer: [
        // nft corrects the checksum by what changes in an address that it knows as one, and by nothing that is written
        // as raw bytes. So: the checksum of an answer to METADATA_IPV6, corrected for the asker's address.
        `ip6 daddr set ${METADATA_IPV6}`,
        [
          "@th,0,16 set 0x8800 @th,32,32 set 0x60000000",
          ...(hasOption ? [`@th,192,16 set 0x${TARGET_MAC} @th,208,48 set 0x${mac}`] : []),
          `@th,16,16 set 0x${checksum.toString(16)}`,
        ].join(" "),
        "ip6 daddr set ip6 saddr",
        `@nh,64,64 set 0x${hexOf(METADATA_IPV6).slice(0, 16)} @nh,128,64 set 0x${hexOf(METADATA_IPV6).slice(16)}`,
      ],
    };
  });
}

/** Of an ICMPv6 message from METADATA_IPV6 to the same. `body`: in hex, with the checksum zero. */
function checksumOf(body: string): number {
  const length = (body.length / 2).toString(16).padStart(8, "0");
  const pseudo = `${hexOf(METADATA_IPV6)}${hexOf(METADATA_IPV6)}${length}${ICMPV6.toString(16).padStart(8, "0")}`;
  let sum = 0;
  for (const [word] of `${pseudo}${body}`.matchAll(/..../g)) sum += Number.parseInt(word, 16);
  while (sum > 0xffff) sum = (sum & 0xffff) + Math.floor(sum / 0x10000);
  return ~sum & 0xffff;
}

function hexOf(address: string): string {
  return parseAddress(address).value.toString(16).padStart(32, "0");
}
