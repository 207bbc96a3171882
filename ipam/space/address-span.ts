import { type Address, AddressSyntaxError, type Family, familyBits } from "./address.ts";
import { type Cidr, cidrLast, networkOf } from "./cidr.ts";
import { type AddressReader, WRITTEN } from "./written.ts";

/** Addresses from one to another, as other systems write them: whereabouts, Spiderpool and kube-ovn. */
export interface AddressSpan {
  readonly family: Family;
  readonly first: bigint;
  readonly last: bigint;
  /** Of `10.0.0.5-10.0.0.9/24`; null: there is none. */
  readonly prefixLength: number | null;
}

/** Longer than any range there is: the expression takes time in proportion to the square of the text. */
const SPAN_CHARS_MAX = 100;
const SPAN = /^\s*([\d.:a-f]+?)\s*(?:-|\.\.)\s*([\d.:a-f]+?)\s*(?:\/(\d{1,3}))?\s*$/i;

/** Reads `a-b`, `a-b/24`, `a..b` and `10.0.0.90-99`; null: it is none of them. */
export function parseSpan(text: string, reader: AddressReader = WRITTEN): AddressSpan | null {
  // Of ten thousand excluded networks, none is a range.
  if (text.length > SPAN_CHARS_MAX || !(text.includes("-") || text.includes(".."))) return null;
  const parts = SPAN.exec(text);
  if (parts === null) return null;
  const [, from = "", to = "", length] = parts;
  const first = addressIn(from, reader);
  const last = addressIn(/^\d+$/.test(to) ? from.replace(/\d+$/, to) : to, reader);
  if (first === null || last === null || first.family !== last.family || first.value > last.value) return null;
  const prefixLength = length === undefined ? null : Number(length);
  if (prefixLength !== null && prefixLength > familyBits(first.family)) return null;
  return { family: first.family, first: first.value, last: last.value, prefixLength };
}

/** The fewest networks that have exactly these addresses, in order. */
export function networksOf({ family, first, last }: Omit<AddressSpan, "prefixLength">): Cidr[] {
  const networks: Cidr[] = [];
  for (let next = first; next <= last; ) {
    let cidr = networkOf({ family, value: next }, familyBits(family));
    for (let length = cidr.prefixLength - 1; length >= 0; length -= 1) {
      const wider = networkOf({ family, value: next }, length);
      if (wider.base !== next || cidrLast(wider) > last) break;
      cidr = wider;
    }
    networks.push(cidr);
    next = cidrLast(cidr) + 1n;
  }
  return networks;
}

function addressIn(text: string, reader: AddressReader): Address | null {
  try {
    return reader.address(text);
  } catch (error) {
    if (error instanceof AddressSyntaxError) return null;
    throw error;
  }
}
