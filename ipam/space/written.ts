import { IPv4, IPv4CidrRange, IPv4Prefix, IPv6, IPv6CidrRange, IPv6Prefix } from "ip-num";
import { type Address, parseAddress, refuseAmbiguous, refuseMapped, refuseText } from "./address.ts";
import { type Cidr, cidrFirst, cidrLast, parseNetworkAround, parseSlash, refuseHostBits } from "./cidr.ts";

export interface WrittenNetwork {
  readonly cidr: Cidr;
  readonly hasHostBits: boolean;
  readonly first: bigint;
  readonly last: bigint;
}

/** Reads what people write. All throw AddressSyntaxError, in the same words whichever reader it is. */
export interface AddressReader {
  readonly address: (text: string) => Address;
  /** The network around an address. */
  readonly around: (text: string) => WrittenNetwork;
  /** The same; host bits are refused. */
  readonly subnet: (text: string) => WrittenNetwork;
}

/**
 * Entries of a list that are read with ip-num. It takes 12 µs for an address of IPv6 and 50 µs for a network, fifty
 * times our reader's, and whoever may write a definition chooses how many there are. See docs/decisions/0094.
 */
const LIBRARY_ENTRIES_MAX = 8;

function readerOf(address: AddressReader["address"], around: AddressReader["around"]): Readonly<AddressReader> {
  return { address, around, subnet: (text) => refuseHostBits(text, around(text)) };
}

export const WRITTEN = readerOf(readAddress, readAround);

/** Reads as what we wrote ourselves is read. */
export const FAST = readerOf(parseAddress, (text) => {
  const network = parseNetworkAround(text);
  return { ...network, first: cidrFirst(network.cidr), last: cidrLast(network.cidr) };
});

/** The reader for a list that people write: ip-num, unless it has very many entries. */
export function readerFor(entries: number): AddressReader {
  return entries <= LIBRARY_ENTRIES_MAX ? WRITTEN : FAST;
}

function readAddress(text: string): Address {
  refuseAmbiguous(text);
  const { family, value } = parsed(text) ?? refuseText(text);
  return { family, value: family === 4 ? value : refuseMapped(text, value) };
}

/** null: ip-num refuses it, in words that do not name the text. */
function parsed(text: string): Address | null {
  try {
    return text.includes(":") ? { family: 6, value: new IPv6(text).value } : { family: 4, value: new IPv4(text).value };
  } catch {
    return null;
  }
}

/** From the number: ip-num reads neither /0 of IPv4 nor a dotted tail in a CIDR. */
function readAround(text: string): WrittenNetwork {
  const { address, prefixLength } = parseSlash(text, "network", readAddress);
  const { family, value } = address;
  const length = BigInt(prefixLength);
  const range =
    family === 4
      ? new IPv4CidrRange(new IPv4(value), new IPv4Prefix(length))
      : new IPv6CidrRange(new IPv6(value), new IPv6Prefix(length));
  const first = range.getFirst().value;
  // getLast() computes the mask once more, for as long again.
  const last = first + range.getSize() - 1n;
  return { cidr: { family, base: first, prefixLength }, hasHostBits: first !== value, first, last };
}
