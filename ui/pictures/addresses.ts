/** IP addresses as the server writes them, to numbers and back. A text from people goes to the server instead. */

export type Family = 4 | 6;

export interface Address {
  readonly family: Family;
  readonly value: bigint;
}

/** An address with the subnet that its prefix length puts it in. */
export interface Cidr extends Address {
  readonly prefixLength: number;
  readonly first: bigint;
  readonly last: bigint;
}

/** Eight groups of four digits with seven colons: the longest text that the server writes. */
const ADDRESS_CHARS_MAX = 39;
const GROUPS = 8;

/** null: the text is no address. */
export function parseAddress(text: string): Address | null {
  if (text.length > ADDRESS_CHARS_MAX) return null;
  const family = text.includes(":") ? 6 : 4;
  const value = family === 4 ? parseIPv4(text) : parseIPv6(text);
  return value === null ? null : { family, value };
}

/** `10.0.0.5/24`, `fd00::/64`. null: the text is neither a subnet nor an address in one. */
export function parseCidr(text: string): Cidr | null {
  const [, addressText = "", lengthText = ""] = /^([^/]+)\/(0|[1-9]\d{0,2})$/.exec(text) ?? [];
  const address = parseAddress(addressText);
  const prefixLength = Number(lengthText);
  if (address === null) return null;
  const hostBits = (address.family === 4 ? 32 : 128) - prefixLength;
  if (hostBits < 0) return null;
  const first = (address.value >> BigInt(hostBits)) << BigInt(hostBits);
  return { ...address, prefixLength, first, last: first + (1n << BigInt(hostBits)) - 1n };
}

/** Dotted decimal, or RFC 5952 (section 5's mixed form never, as the server). */
export function formatAddress({ family, value }: Address): string {
  return family === 4 ? formatIPv4(Number(value)) : formatIPv6(value);
}

/** IPv4 before IPv6, then by number. */
export function compareAddresses(a: Address, b: Address): number {
  if (a.family !== b.family) return a.family - b.family;
  return a.value < b.value ? -1 : a.value > b.value ? 1 : 0;
}

function parseIPv4(text: string): bigint | null {
  const octets = text.split(".");
  if (octets.length !== 4 || !octets.every((octet) => /^(0|[1-9]\d{0,2})$/.test(octet))) return null;
  const numbers = octets.map(Number);
  if (numbers.some((number) => number > 255)) return null;
  return BigInt(numbers.reduce((value, number) => value * 256 + number, 0));
}

function parseIPv6(text: string): bigint | null {
  const halves = text.split("::");
  if (halves.length > 2) return null;
  const [head = [], tail = []] = halves.map((half) => (half === "" ? [] : half.split(":")));
  const missing = GROUPS - head.length - tail.length;
  if (halves.length === 1 ? missing !== 0 : missing < 1) return null;
  const groups = [...head, ...new Array<string>(missing).fill("0"), ...tail];
  if (!groups.every((group) => /^[0-9a-f]{1,4}$/i.test(group))) return null;
  return BigInt(`0x${groups.map((group) => group.padStart(4, "0")).join("")}`);
}

function formatIPv4(value: number): string {
  return `${value >>> 24}.${(value >>> 16) & 255}.${(value >>> 8) & 255}.${value & 255}`;
}

function formatIPv6(value: bigint): string {
  const digits = value.toString(16).padStart(32, "0");
  const text = (digits.match(/.{4}/g) ?? []).map((group) => group.replace(/^0+(?=.)/, "")).join(":");
  // The longest run of zero groups is shortened, of equal ones the first; a single zero stays (RFC 5952, 4.2).
  let run = "";
  let runAt = 0;
  for (const match of text.matchAll(/\b0(?::0)+\b/g)) {
    if (match[0].length <= run.length) continue;
    run = match[0];
    runAt = match.index;
  }
  if (run === "") return text;
  return `${text.slice(0, runAt)}::${text.slice(runAt + run.length)}`.replace(/:{3,}/, "::");
}
