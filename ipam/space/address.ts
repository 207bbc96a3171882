import { Buffer } from "node:buffer";

export type Family = 4 | 6;

/** One IP address: its version and its number. Plain data; compare with `sameAddress`. */
export interface Address {
  readonly family: Family;
  readonly value: bigint;
}

/** A text is not an address, CIDR or prefix length. The message names the text and what is wrong with it. */
export class AddressSyntaxError extends Error {
  override readonly name = "AddressSyntaxError";
}

/** Longest IPv6 text there is: eight groups with a dotted IPv4 tail. Refuses a runaway text before any parsing. */
const ADDRESS_CHARS_MAX = 45;

const IPV6_GROUPS = 8;
type EightGroups = [number, number, number, number, number, number, number, number];
const ZERO = "0".charCodeAt(0);
const DOT = ".".charCodeAt(0);
const COLON = ":".charCodeAt(0);
const LETTER_A = "a".charCodeAt(0);
const IPV4_SHAPE = /^\d{1,3}(\.\d{1,3}){3}$/;
/** The bit in which small letters differ from capitals. */
const SMALL = 0x20;

/** `::ffff:0:0/96`, the IPv4-mapped addresses, without their 32 low bits. */
const IPV4_MAPPED_HIGH_BITS = 0xffffn;

export function familyBits(family: Family): number {
  return family === 4 ? 32 : 128;
}

function familyLast(family: Family): bigint {
  return family === 4 ? 0xffff_ffffn : (1n << 128n) - 1n;
}

/**
 * Reads one address in any spelling of RFC 4291, and nothing that could mean two things: zone ids, octets with a
 * leading zero (octal to some parsers), IPv4-mapped addresses (the same address in the other family), white space.
 * What people write is read by ip-num, if it is not thousands of texts (`written.ts`): this takes a twentieth to a
 * fiftieth of the time, and a controller reads hundreds of thousands. Throws AddressSyntaxError.
 */
export function parseAddress(text: string): Address {
  if (text.length > ADDRESS_CHARS_MAX) refuseAmbiguous(text);
  if (!text.includes(":")) {
    const value = parsePlainIPv4(text);
    if (value !== null) return { family: 4, value: BigInt(value) };
  } else {
    const value = parsePlainIPv6(text.includes(".") ? withHexTail(text) : text);
    if (value !== null) return { family: 6, value: refuseMapped(text, value) };
  }
  refuseAmbiguous(text);
  return refuseText(text);
}

/** Refuses what some parsers take and others do not, or for something else, in words that name it. */
export function refuseAmbiguous(text: string): void {
  if (text === "") throw new AddressSyntaxError("the address is empty");
  if (text.length > ADDRESS_CHARS_MAX && !text.includes("%")) {
    throw new AddressSyntaxError(`"${text.slice(0, ADDRESS_CHARS_MAX)}…" is too long for an address`);
  }
  if (/\s/.test(text)) throw new AddressSyntaxError(`"${text}" contains white space`);
  if (text.includes("/")) throw new AddressSyntaxError(`"${text}" has a prefix length; expected an address alone`);
  if (text.includes(":") && text.includes("%"))
    throw new AddressSyntaxError(`"${text.slice(0, 80)}" has a zone id; write the address without it`);
  const dotted = text.slice(text.lastIndexOf(":") + 1);
  if (IPV4_SHAPE.test(dotted) && /(^|\.)0\d/.test(dotted)) {
    throw new AddressSyntaxError(`"${dotted}" has a number with a leading zero, which some programs read as octal`);
  }
}

/** Of a text that is not ambiguous: what it is not. */
export function refuseText(text: string): never {
  const dotted = text.slice(text.lastIndexOf(":") + 1);
  if (IPV4_SHAPE.test(dotted) && parsePlainIPv4(dotted) === null)
    throw new AddressSyntaxError(`"${dotted}" is not an IPv4 address: each number goes from 0 to 255`);
  const isDotted = dotted.includes(".") && !IPV4_SHAPE.test(dotted);
  if (!text.includes(":") || isDotted) throw new AddressSyntaxError(`"${dotted}" is not an IP address`);
  throw new AddressSyntaxError(`"${text}" is not an IPv6 address`);
}

/** The number of an IPv6 address, if it is not also one of IPv4. */
export function refuseMapped(text: string, value: bigint): bigint {
  if (value >> 32n !== IPV4_MAPPED_HIGH_BITS) return value;
  const mapped = formatIPv4(Number(value & 0xffff_ffffn));
  throw new AddressSyntaxError(`"${text}" is an IPv4-mapped IPv6 address; write ${mapped}`);
}

function parsePlainIPv4(text: string): number | null {
  let value = 0;
  let octet = -1;
  let octets = 0;
  for (let i = 0; i <= text.length; i++) {
    const code = i === text.length ? DOT : text.charCodeAt(i);
    if (code === DOT) {
      if (octet < 0 || octet > 255 || octets === 4) return null;
      value = value * 256 + octet;
      octets += 1;
      octet = -1;
    } else if (code >= ZERO && code <= ZERO + 9 && octet !== 0) {
      octet = (octet < 0 ? 0 : octet * 10) + code - ZERO;
    } else return null;
  }
  return octets === 4 ? value : null;
}

/** `::10.0.0.1` as `::a00:1`; "" when its tail is no IPv4 address. */
function withHexTail(text: string): string {
  const cut = text.lastIndexOf(":") + 1;
  const tail = parsePlainIPv4(text.slice(cut));
  if (tail === null) return "";
  return `${text.slice(0, cut)}${Math.floor(tail / 0x1_0000).toString(16)}:${(tail % 0x1_0000).toString(16)}`;
}

function parsePlainIPv6(text: string): bigint | null {
  const gap = text.indexOf("::");
  const head = readGroups(text, 0, gap < 0 ? text.length : gap);
  const tail = gap < 0 ? [] : readGroups(text, gap + 2, text.length);
  if (head === null || tail === null) return null;
  const missing = IPV6_GROUPS - head.length - tail.length;
  if (gap < 0 ? missing !== 0 : missing < 1) return null;
  while (head.length + tail.length < IPV6_GROUPS) head.push(0);
  const [a, b, c, d, e, f, g, h] = [...head, ...tail] as EightGroups;
  // Of three numbers, which hold 48 bits exactly: eight bigints would cost more than all the rest.
  const high = BigInt(a * 2 ** 32 + b * 2 ** 16 + c);
  const middle = BigInt(d * 2 ** 32 + e * 2 ** 16 + f);
  return (high << 80n) | (middle << 32n) | BigInt(g * 2 ** 16 + h);
}

/** The groups between two places of a text, none where they are one; null: something else is there. */
function readGroups(text: string, from: number, to: number): number[] | null {
  const groups: number[] = [];
  let group = 0;
  let digits = 0;
  for (let i = from; i < to; i++) {
    const code = text.charCodeAt(i);
    if (code === COLON) {
      if (digits === 0 || i === to - 1) return null;
      groups.push(group);
      group = 0;
      digits = 0;
    } else {
      const digit = hexDigit(code);
      if (digit < 0 || digits === 4) return null;
      group = group * 16 + digit;
      digits += 1;
    }
  }
  if (digits > 0) groups.push(group);
  return groups;
}

/** -1: it is none. */
function hexDigit(code: number): number {
  if (code >= ZERO && code <= ZERO + 9) return code - ZERO;
  const letter = (code | SMALL) - LETTER_A;
  return letter >= 0 && letter < 6 ? letter + 10 : -1;
}

/** The one canonical spelling of an address: dotted decimal, or RFC 5952 for IPv6 (section 5's mixed form never). */
export function formatAddress(address: Address): string {
  return address.family === 4 ? formatIPv4(Number(address.value)) : formatIPv6(address.value);
}

function formatIPv4(value: number): string {
  return `${value >>> 24}.${(value >>> 16) & 255}.${(value >>> 8) & 255}.${value & 255}`;
}

function formatIPv6(value: bigint): string {
  // As in parsePlainIPv6: three numbers of at most 48 bits cost a third of eight bigints or of a text to cut.
  const high = Number(value >> 80n);
  const middle = Number((value >> 32n) & 0xffff_ffff_ffffn);
  const low = Number(value & 0xffff_ffffn);
  const numbers = [
    ...[high / 2 ** 32, (high / 2 ** 16) % 2 ** 16, high % 2 ** 16],
    ...[middle / 2 ** 32, (middle / 2 ** 16) % 2 ** 16, middle % 2 ** 16],
    ...[low / 2 ** 16, low % 2 ** 16],
  ];
  const groups: string[] = [];
  let runStart = 0;
  let runLength = 0;
  let zeros = 0;
  for (let i = 0; i < 8; i++) {
    const group = Math.floor(numbers[i] as number);
    groups.push(group.toString(16));
    zeros = group === 0 ? zeros + 1 : 0;
    // Strictly longer: of two equal runs the first is shortened (RFC 5952, 4.2.3).
    if (zeros > runLength) {
      runLength = zeros;
      runStart = i - zeros + 1;
    }
  }
  // A single zero group stays as it is (RFC 5952, 4.2.2).
  if (runLength < 2) return groups.join(":");
  return `${groups.slice(0, runStart).join(":")}::${groups.slice(runStart + runLength).join(":")}`;
}

export function sameAddress(a: Address, b: Address): boolean {
  return a.family === b.family && a.value === b.value;
}

/** Order of addresses: IPv4 before IPv6, then by number; the order of `addressBytes`. */
export function compareAddresses(a: Address, b: Address): number {
  if (a.family !== b.family) return a.family - b.family;
  return a.value < b.value ? -1 : a.value > b.value ? 1 : 0;
}

/** The binary key of an address: one byte 4 or 6, then its 4 or 16 bytes. Sorts like `compareAddresses`. */
export function addressBytes(address: Address): Buffer {
  const { family, value } = address;
  if (value < 0n || value > familyLast(family)) throw new RangeError(`no IPv${family} address has number ${value}`);
  const bytes = Buffer.allocUnsafe(family === 4 ? 5 : 17);
  bytes[0] = family;
  if (family === 4) {
    bytes.writeUInt32BE(Number(value), 1);
  } else {
    bytes.writeBigUInt64BE(value >> 64n, 1);
    bytes.writeBigUInt64BE(value & 0xffff_ffff_ffff_ffffn, 9);
  }
  return bytes;
}

/** The address of a binary key. Anything that `addressBytes` cannot have written is a broken store, and throws. */
export function addressFromBytes(bytes: Uint8Array): Address {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.length === 5 && view[0] === 4) return { family: 4, value: BigInt(view.readUInt32BE(1)) };
  if (view.length === 17 && view[0] === 6) {
    return { family: 6, value: (view.readBigUInt64BE(1) << 64n) | view.readBigUInt64BE(9) };
  }
  throw new Error(`not an address key: ${view.toString("hex").slice(0, 80)} (${view.length} bytes)`);
}
