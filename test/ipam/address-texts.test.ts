import { IPv4, IPv4CidrRange, IPv4Prefix, IPv6, IPv6CidrRange, IPv6Prefix, RangedSet } from "ip-num";
import { expect, onTestFinished, test, vi } from "vitest";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import { RefusalError } from "../../ipam/refusals.ts";
import { type Address, formatAddress } from "../../ipam/space/address.ts";
import { parseSpan } from "../../ipam/space/address-span.ts";
import { cidrContains, networkOf } from "../../ipam/space/cidr.ts";
import * as written from "../../ipam/space/written.ts";
import { type Random, seededRandom } from "../faults/random.ts";

// What people write is read with ip-num, long lists and what we wrote ourselves with a fast reader of our own: they
// agree on every text, by the hundred thousand. `address.test.ts` has each rule by itself.

const { FAST, WRITTEN } = written;
const CHARACTERS = [..."0123456789abcdefABCDEF", ...".....", ...":::::::", ..."g/% "];

function anything(random: Random): string {
  return Array.from({ length: 2 + random.below(18) }, () => random.pick(CHARACTERS)).join("");
}

/** Four numbers, of which some are too large. */
function quads(random: Random): string {
  return Array.from({ length: 4 }, () => random.below(300)).join(".");
}

/** Up to eight groups of which at most one side of a gap is empty, at times with a dotted tail. */
function groups(random: Random): string {
  const all = Array.from({ length: 1 + random.below(8) }, () => random.below(0x10000).toString(16));
  if (random.chance(0.9)) all.splice(random.below(all.length + 1), 0, "");
  if (random.chance(0.2)) all.push(quads(random));
  return all.join(":");
}

/** An address in one of its spellings. */
function sound(random: Random): string {
  const address = anAddress(random);
  const canonical = formatAddress(address);
  if (address.family === 4) return canonical;
  const full = address.value.toString(16).padStart(32, "0").match(/.{4}/g) as string[];
  const tail = formatAddress({ family: 4, value: address.value & 0xffff_ffffn });
  return random.pick([
    ...[canonical, canonical.toUpperCase(), full.join(":"), full.map((one) => one.replace(/^0+(?=.)/, "")).join(":")],
    ...[[...full.slice(0, 6), tail].join(":"), `::${tail}`, `::ffff:${tail}`],
  ]);
}

/** One with a character more, less or other. */
function nearly(random: Random): string {
  const text = sound(random);
  const at = random.below(text.length + 1);
  return text.slice(0, at) + random.pick([...CHARACTERS, ""]) + text.slice(at + random.below(2));
}

function anAddress(random: Random): Address {
  if (random.chance(0.5)) return { family: 4, value: BigInt(random.below(2 ** 32)) };
  let value = 0n;
  for (let at = 0; at < 8; at++) value = (value << 16n) | BigInt(random.chance(0.4) ? 0 : random.below(0x10000));
  return { family: 6, value };
}

/** What a reader makes of a text, or why it refuses it. */
function outcome<T>(read: () => T): T | string {
  try {
    return read();
  } catch (error) {
    return (error as Error).message;
  }
}

const TEXTS = [
  [anything, 150_000],
  [quads, 30_000],
  [groups, 30_000],
  [sound, 20_000],
  [nearly, 50_000],
] as const;

test("of 280,000 texts both readers make the same address, or refuse it in the same words", {
  timeout: 600_000,
}, () => {
  const random = seededRandom("address texts");
  const wrong: object[] = [];
  const accepted = { 4: 0, 6: 0 };
  for (const [write, count] of TEXTS)
    for (let at = 0; at < count; at++) {
      const text = write(random);
      const [library, own] = [WRITTEN, FAST].map(({ address }) => outcome(() => address(text)));
      if (typeof own === "object") accepted[own.family] += 1;
      if (JSON.stringify(plain(library)) !== JSON.stringify(plain(own))) wrong.push({ text, library, own });
    }
  expect(wrong.slice(0, 10)).toEqual([]);
  // It is no agreement about nothing.
  expect(accepted[4]).toBeGreaterThan(10_000);
  expect(accepted[6]).toBeGreaterThan(10_000);
});

const plain = (value: unknown) =>
  typeof value === "string" ? value : Object.values(value as object).map((one) => JSON.stringify(one, bigints));
const bigints = (_: string, value: unknown) => (typeof value === "bigint" ? `${value}` : value);

test("of 10,000 networks both readers make the same first and last address, and hold the same addresses", {
  timeout: 600_000,
}, () => {
  const random = seededRandom("networks");
  let accepted = 0;
  for (let at = 0; at < 10_000; at++) {
    const length = random.chance(0.9) ? random.below(130) : random.pick(["", "033", "-1", " 8", "1/2", "x"]);
    const text = `${random.chance(0.8) ? sound(random) : nearly(random)}${random.chance(0.95) ? "/" : ""}${length}`;
    for (const how of ["around", "subnet"] as const)
      expect(
        outcome(() => WRITTEN[how](text)),
        text,
      ).toEqual(outcome(() => FAST[how](text)));
    const own = outcome(() => FAST.around(text));
    if (typeof own === "string") continue;
    accepted += 1;
    const { family, prefixLength } = own.cidr;
    const [inside, ...outside] = [own.first, own.first - 1n, own.last + 1n].filter(
      (value) => value >= 0n && value >> BigInt(family === 4 ? 32 : 128) === 0n,
    ) as [bigint, ...bigint[]];
    for (const value of [inside, own.last, ...outside, anAddress(random).value & (own.last | own.first)]) {
      const range = rangeOfLibrary({ family, value: inside }, prefixLength);
      const held = range.contains((family === 4 ? new IPv4(value) : new IPv6(value)) as IPv4 & IPv6);
      expect(cidrContains(own.cidr, { family, value }), `${text} ${value}`).toBe(held);
    }
  }
  expect(accepted).toBeGreaterThan(2_500);
});

function rangeOfLibrary({ family, value }: Address, length: number): IPv4CidrRange | IPv6CidrRange {
  return family === 4
    ? new IPv4CidrRange(new IPv4(value), new IPv4Prefix(BigInt(length)))
    : new IPv6CidrRange(new IPv6(value), new IPv6Prefix(BigInt(length)));
}

test("of 20,000 ranges each has the ends that ip-num gives it", { timeout: 600_000 }, () => {
  const random = seededRandom("ranges");
  let accepted = 0;
  for (let at = 0; at < 20_000; at++) {
    const first = anAddress(random);
    const near = networkOf(first, random.below(first.family === 4 ? 33 : 129)).base;
    const end = random.chance(0.8) ? { family: first.family, value: near } : anAddress(random);
    const text = [first, end].map(formatAddress).join(random.pick(["-", " - "]));
    const span = parseSpan(text);
    const isMapped = [first, end].some(({ family, value }) => family === 6 && value >> 32n === 0xffffn);
    const library = isMapped ? "mapped" : outcome(() => RangedSet.fromRangeString(text));
    if (typeof library === "string") expect(span, text).toBeNull();
    else {
      accepted += 1;
      expect([span?.first, span?.last], text).toEqual([library.getFirst().value, library.getLast().value]);
    }
  }
  expect(accepted).toBeGreaterThan(2_000);
});

/** A definition of few entries, now and then with one that is wrong. */
function aDefinition(random: Random): object {
  const net = `10.${random.below(3)}`;
  const inside = () => (random.chance(0.03) ? nearly(random) : `${net}.${random.below(2)}.${random.below(256)}`);
  const network = () =>
    random.chance(0.03) ? `${sound(random)}/${random.below(33)}` : `${inside()}/${26 + random.below(7)}`;
  const subnet = `${net}.0.0/${random.pick([16, 23, 24])}`;
  const six = `${random.pick(["FD00::", "fd00:0:0:0::", "fd00::0.0.0.0"])}/${64 + random.below(60)}`;
  const some = <T>(key: string, value: T) => (random.chance(0.6) ? { [key]: value } : {});
  const lists = {
    ...some("excludeSubnets", Array.from({ length: 1 + random.below(5) }, network)),
    ...some("reservedSubnets", [network()]),
  };
  const ends = {
    ...some("rangeStart", `${net}.0.${random.below(9)}`),
    ...some("rangeEnd", inside()),
    ...some("gateway", inside()),
  };
  return random.chance(0.5)
    ? { subnets: random.chance(0.5) ? [subnet, six] : subnet, ...some("gateway", inside()), ...lists }
    : { ranges: [[{ subnet, ...ends }], ...(random.chance(0.5) ? [[{ subnet: six }]] : [])], ...lists };
}

test("2,000 definitions mean the same, or are refused in the same words, through either reader", () => {
  const random = seededRandom("definitions");
  const readerFor = vi.spyOn(written, "readerFor");
  onTestFinished(() => readerFor.mockRestore());
  const verdict = (ipam: object, reader: written.AddressReader) => {
    readerFor.mockReturnValue(reader);
    const { fingerprint, notes, message } = outcomeOf(() =>
      parsePluginConfig({ name: "blue", type: "bridge", ipam: { type: "holdfast-ipam", ...ipam } }),
    );
    return [fingerprint, notes, message];
  };
  let accepted = 0;
  for (let at = 0; at < 2_000; at++) {
    const ipam = aDefinition(random);
    const own = verdict(ipam, FAST);
    expect(verdict(ipam, WRITTEN), JSON.stringify(ipam)).toEqual(own);
    if (own[0] !== undefined) accepted += 1;
  }
  expect(accepted).toBeGreaterThan(200);
  expect(accepted).toBeLessThan(2_000);
});

function outcomeOf(read: () => { fingerprint: string; notes: readonly string[] }): {
  fingerprint?: string;
  notes?: readonly string[];
  message?: string;
} {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof RefusalError)) throw error;
    return { message: error.message };
  }
}
