import { isIPv4, isIPv6 } from "node:net";
import fc from "fast-check";
import { IPv4, IPv6 } from "ip-num";
import { describe, expect, test } from "vitest";
import {
  type Address,
  AddressSyntaxError,
  addressBytes,
  addressFromBytes,
  compareAddresses,
  formatAddress,
  parseAddress,
  sameAddress,
} from "../../ipam/space/address.ts";

const anyIPv4 = fc.bigInt(0n, 0xffff_ffffn).map((value): Address => ({ family: 4, value }));
/** Zero groups are likely, so that runs of them of every length and place appear. */
const anyIPv6 = fc
  .array(fc.oneof(fc.constant(0n), fc.constant(0xfn), fc.bigInt(0n, 0xffffn)), { minLength: 8, maxLength: 8 })
  .map((groups): Address => ({ family: 6, value: groups.reduce((value, group) => (value << 16n) | group, 0n) }))
  .filter(({ value }) => value >> 32n !== 0xffffn);
const anyAddress = fc.oneof(anyIPv4, anyIPv6);

describe("parseAddress accepts", () => {
  test.each([
    ["10.0.0.1", "10.0.0.1", "plain"],
    ["0.0.0.0", "0.0.0.0", "a lone zero is no leading zero"],
    ["255.255.255.255", "255.255.255.255", "the highest"],
    ["::", "::", "all zero"],
    ["FD00::A", "fd00::a", "capitals are allowed on input"],
    ["fd00:0001::0005", "fd00:1::5", "leading zeroes are usual in IPv6 groups"],
    ["fd00:1:0:0:0:0:0:5", "fd00:1::5", "written out"],
    ["1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0", "RFC 5952 4.2.2: one zero group is not shortened"],
    ["64:ff9b::10.0.0.1", "64:ff9b::a00:1", "dotted tail, canonical in hexadecimal"],
  ])("%s as %s: %s", (text, canonical) => {
    expect(formatAddress(parseAddress(text))).toBe(canonical);
  });
});

describe("parseAddress refuses", () => {
  test.each([
    ["", "is empty", "nothing given"],
    [" 10.0.0.1", "white space", "would be trimmed by some and not by others"],
    ["10.0.0.1\n", "white space", "a line read with its end"],
    ["fd00::1 ", "white space", "same in IPv6"],
    ["10.0.0.01", "leading zero", "octal to inet_aton"],
    ["010.0.0.1", "leading zero", "octal to inet_aton"],
    ["10.0.0", "not an IP address", "short form"],
    ["10.0.0.1.2", "not an IP address", "five numbers"],
    ["10.0.0.256", "0 to 255", "number too large"],
    ["10.0.0.-1", "not an IP address", "negative"],
    ["0x0a.0.0.1", "not an IP address", "hexadecimal"],
    ["1e1.0.0.1", "not an IP address", "a number to JavaScript only"],
    ["١.0.0.1", "not an IP address", "digits of another script"],
    ["10.0.0.1/24", "prefix length", "an interface address"],
    ["fe80::1%eth0", "zone id", "means nothing off the node"],
    ["fe80::1%25eth0", "zone id", "escaped zone"],
    ["::ffff:10.0.0.1", "write 10.0.0.1", "the same address in the other family"],
    ["::ffff:a00:1", "write 10.0.0.1", "the same in hexadecimal"],
    ["0:0:0:0:0:FFFF:0a00:0001", "write 10.0.0.1", "the same written out"],
    ["::10.0.0.01", "leading zero", "also in a dotted tail"],
    ["10.0.0.1::", "not an IP", "dotted part in front"],
    ["1::2::3", "not an IPv6", "two gaps"],
    [":::", "not an IPv6", "three colons"],
    ["1:2:3:4:5:6:7", "not an IPv6", "seven groups"],
    ["1:2:3:4:5:6:7:8:9", "not an IPv6", "nine groups"],
    ["1:2:3:4::5:6:7:8", "not an IPv6", "a gap of nothing"],
    ["12345::", "not an IPv6", "five digits"],
    ["g::", "not an IPv6", "not a hexadecimal digit"],
    ["x".repeat(4_000_000), "too long", "a runaway text is not echoed whole"],
    [`fe80::1%${"x".repeat(4000)}`, "zone id", "nor with a zone"],
  ])("%.50s", (text, message) => {
    const refuse = () => parseAddress(text);
    expect(refuse).toThrow(AddressSyntaxError);
    expect(refuse).toThrow(message);
    try {
      refuse();
    } catch (error) {
      expect((error as Error).message.length).toBeLessThan(250);
    }
  });
});

test("a string is accepted exactly when it is an address for Node, without a zone and not IPv4-mapped", () => {
  const part = fc.constantFrom(
    "0",
    "1",
    "00",
    "ffff",
    "abcd",
    "12345",
    ":",
    "::",
    ".",
    "10",
    "256",
    "01",
    "10.0.0.1",
    "%",
    "g",
  );
  fc.assert(
    fc.property(
      fc.array(part, { minLength: 1, maxLength: 16, size: "max" }).map((parts) => parts.join("")),
      (text) => {
        const canonical = isIPv6(text) && !text.includes("%") ? new URL(`http://[${text}]/`).hostname : "";
        const mapped = /^\[::ffff:[0-9a-f]+:[0-9a-f]+\]$/.test(canonical);
        let accepted = true;
        try {
          parseAddress(text);
        } catch (error) {
          expect(error).toBeInstanceOf(AddressSyntaxError);
          accepted = false;
        }
        expect(accepted).toBe(isIPv4(text) || (canonical !== "" && !mapped));
      },
    ),
    { numRuns: 3000 },
  );
});

test("every address reads back from its canonical text", () => {
  fc.assert(
    fc.property(anyAddress, (address) => sameAddress(parseAddress(formatAddress(address)), address)),
    { numRuns: 2000 },
  );
});

test("every spelling of an address is parsed as by the general parser", () => {
  const spellings = ({ family, value }: Address): string[] => {
    const canonical = formatAddress({ family, value });
    if (family === 4) return [canonical];
    const groups = value.toString(16).padStart(32, "0").match(/.{4}/g) as string[];
    const short = groups.map((group) => Number.parseInt(group, 16).toString(16));
    const tail = formatAddress({ family: 4, value: value & 0xffff_ffffn });
    const dotted = [...short.slice(0, 6), tail].join(":");
    return [canonical, canonical.toUpperCase(), groups.join(":"), short.join(":"), dotted, `::${tail}`];
  };
  fc.assert(
    fc.property(anyAddress, (address) => {
      for (const text of spellings(address)) {
        if (text.startsWith("::") && text.includes(".")) {
          expect(parseAddress(text), text).toEqual({ family: 6, value: address.value & 0xffff_ffffn });
          continue;
        }
        const general = address.family === 4 ? new IPv4(text).value : new IPv6(text).value;
        expect(parseAddress(text), text).toEqual({ family: address.family, value: general });
      }
    }),
    { numRuns: 2000 },
  );
});

/** What the general parser takes it for; null: it refuses, or it may mean two things, which is refused here. */
function general(text: string): Address | null {
  if (text.includes("%") || /(^|[.:])0\d+\./.test(text) || /[.]0\d/.test(text)) return null;
  try {
    if (!text.includes(":")) return { family: 4, value: new IPv4(text).value };
    const { value } = new IPv6(text);
    return value >> 32n === 0xffffn ? null : { family: 6, value };
  } catch {
    return null;
  }
}

test("a canonical string with one character changed is parsed as by the general parser, or refused by both", () => {
  const character = fc.constantFrom(..."0123456789abcdefABCDEFg:./% ", "");
  const changed = fc.tuple(anyAddress, fc.nat(), character).map(([address, place, by]) => {
    const text = formatAddress(address);
    const at = place % (text.length + 1);
    return text.slice(0, at) + by + text.slice(at + (by === "" ? 1 : place % 2));
  });
  fc.assert(
    fc.property(changed, (text) => {
      const read = () => parseAddress(text);
      const expected = general(text);
      if (expected === null) expect(read, text).toThrow(AddressSyntaxError);
      else expect(read(), text).toEqual(expected);
    }),
    { numRuns: 5000 },
  );
});

test("IPv6 text is RFC 5952, as the URL parser writes it", () => {
  fc.assert(
    fc.property(anyIPv6, (address) => {
      const written = formatAddress(address);
      const groups = address.value.toString(16).padStart(32, "0").match(/.{4}/g) as string[];
      expect(`[${written}]`).toBe(new URL(`http://[${groups.join(":")}]/`).hostname);
    }),
    { numRuns: 2000 },
  );
});

describe("RFC 5952 examples", () => {
  test.each([
    ["2001:0db8::0001", "2001:db8::1", "4.1 leading zeroes"],
    ["2001:db8:0:0:0:0:2:1", "2001:db8::2:1", "4.2.1 as short as possible"],
    ["2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1", "4.2.2 a single group stays"],
    ["2001:0:0:1:0:0:0:1", "2001:0:0:1::1", "4.2.3 the longest run"],
    ["2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1", "4.2.3 the first of equal runs"],
    ["2001:DB8::ABCD", "2001:db8::abcd", "4.3 lower case"],
    ["0:0:1:2:3:4:0:0", "::1:2:3:4:0:0", "run at the very start"],
    ["1:2:3:4:5:0:0:0", "1:2:3:4:5::", "run at the very end"],
  ])("%s becomes %s: %s", (text, canonical) => {
    expect(formatAddress(parseAddress(text))).toBe(canonical);
  });
});

describe("binary keys", () => {
  test("have one family byte and the address, big end first", () => {
    expect(addressBytes(parseAddress("10.1.2.3")).toString("hex")).toBe("040a010203");
    expect(addressBytes(parseAddress("fd00::1:2")).toString("hex")).toBe("06fd000000000000000000000000010002");
  });

  test("read back, and sort like the addresses", () => {
    fc.assert(
      fc.property(anyAddress, anyAddress, (a, b) => {
        expect(addressFromBytes(addressBytes(a))).toEqual(a);
        const order = Math.sign(Buffer.compare(addressBytes(a), addressBytes(b)));
        expect(order).toBe(Math.sign(compareAddresses(a, b)));
      }),
    );
  });

  test("read back from a view into a larger buffer", () => {
    const page = new Uint8Array([9, 9, 4, 10, 0, 0, 7, 9]);
    expect(formatAddress(addressFromBytes(page.subarray(2, 7)))).toBe("10.0.0.7");
  });

  test.each([
    ["", "nothing"],
    ["040a0000", "too short"],
    ["040a00000100", "too long"],
    ["060a000001", "IPv6 of four bytes"],
    ["05aabbccdd", "no such family"],
    [`04${"00".repeat(16)}`, "IPv4 of sixteen bytes"],
  ])("%s is a broken store: %s", (hex) => {
    expect(() => addressFromBytes(Buffer.from(hex, "hex"))).toThrow("not an address key");
  });

  test("are never made from a number that is no address", () => {
    expect(() => addressBytes({ family: 4, value: 1n << 32n })).toThrow(RangeError);
    expect(() => addressBytes({ family: 6, value: 1n << 128n })).toThrow(RangeError);
    expect(() => addressBytes({ family: 4, value: -1n })).toThrow(RangeError);
  });
});
