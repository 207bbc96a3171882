/** An address as it is compared: family and value, without its mask, whatever notation it came in. */
export interface ReadAddress {
  /** `4 3232238085`, `6 …`: equal exactly when the addresses are. */
  readonly key: string;
  /** As it was written, for sentences. */
  readonly text: string;
  readonly prefixLength: number | null;
}

/** Reads `10.1.2.3`, `10.1.2.3/24`, `fd10::5/64`; null: it is none. By nobody's code but its own. */
export function readAddress(text: string): ReadAddress | null {
  const slash = text.indexOf("/");
  const bare = slash < 0 ? text : text.slice(0, slash);
  const isSix = bare.includes(":");
  const value = isSix ? valueOfSix(bare) : valueOfFour(bare);
  if (value === null) return null;
  const prefixLength = slash < 0 ? null : Number(text.slice(slash + 1));
  if (prefixLength !== null && !(Number.isInteger(prefixLength) && prefixLength <= (isSix ? 128 : 32))) return null;
  return { key: `${isSix ? 6 : 4} ${value}`, text: bare, prefixLength };
}

function valueOfFour(text: string): bigint | null {
  const parts = text.split(".");
  if (parts.length !== 4) return null;
  let value = 0n;
  for (const part of parts) {
    if (!/^\d{1,3}$/.test(part) || Number(part) > 255) return null;
    value = value * 256n + BigInt(part);
  }
  return value;
}

function valueOfSix(text: string): bigint | null {
  const halves = text.split("::");
  if (halves.length > 2) return null;
  const [head, tail] = halves.map(groupsOf);
  if (head === null || head === undefined || tail === null) return null;
  const missing = 8 - head.length - (tail?.length ?? 0);
  if (tail === undefined ? missing !== 0 : missing < 1) return null;
  const groups = [...head, ...Array<number>(missing).fill(0), ...(tail ?? [])];
  return groups.reduce((value, group) => value * 65536n + BigInt(group), 0n);
}

/** 16 bits each; the last ones may be written as an IPv4 address. */
function groupsOf(text: string): number[] | null {
  if (text === "") return [];
  const groups: number[] = [];
  const parts = text.split(":");
  for (const [index, part] of parts.entries()) {
    const four = part.includes(".") && index === parts.length - 1 ? valueOfFour(part) : null;
    if (four !== null) groups.push(Number(four >> 16n), Number(four & 0xffffn));
    else if (/^[0-9a-fA-F]{1,4}$/.test(part)) groups.push(Number.parseInt(part, 16));
    else return null;
  }
  return groups;
}

/** Whether both lie in one subnet, as the mask of one of them has it. */
export function inOneSubnet(a: string, b: string): boolean {
  const [one, other] = [readAddress(a), readAddress(b)];
  if (one === null || other === null) return false;
  return [one.prefixLength, other.prefixLength].some((length) => length !== null && sharePrefix(one, other, length));
}

/** Whether a text `CIDR` contains an address. */
export function contains(cidr: string, address: string): boolean {
  const [base, one] = [readAddress(cidr.trim()), readAddress(address)];
  if (base === null || base.prefixLength === null || one === null) return false;
  return sharePrefix(base, one, base.prefixLength);
}

function sharePrefix(a: ReadAddress, b: ReadAddress, length: number): boolean {
  const [[familyA, valueA], [familyB, valueB]] = [partsOf(a), partsOf(b)];
  const bits = BigInt((familyA === "6" ? 128 : 32) - length);
  return familyA === familyB && valueA >> bits === valueB >> bits;
}

function partsOf({ key }: ReadAddress): [family: string, value: bigint] {
  const [family = "", value = ""] = key.split(" ");
  return [family, BigInt(value)];
}
