import fc from "fast-check";
import { expect, test } from "vitest";
import * as server from "../../../ipam/space/address.ts";
import { compareAddresses, formatAddress, parseAddress, parseCidr } from "../../../ui/pictures/addresses.ts";

const ipv4 = fc.record({ family: fc.constant(4 as const), value: fc.bigInt({ min: 0n, max: 0xffff_ffffn }) });
/** Groups are often zero, so that all kinds of `::` occur. */
const ipv6 = fc
  .array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 0xffff })), { minLength: 8, maxLength: 8 })
  .map((groups) => ({
    family: 6 as const,
    value: groups.reduce((value, group) => value * 0x1_0000n + BigInt(group), 0n),
  }));
const address = fc.oneof(ipv4, ipv6);

test("an address that is formatted and parsed is the same", () => {
  fc.assert(
    fc.property(address, (one) => {
      expect(parseAddress(formatAddress(one))).toEqual(one);
    }),
  );
});

test("an address is written as the server writes it", () => {
  fc.assert(
    fc.property(address, (one) => {
      expect(formatAddress(one)).toBe(server.formatAddress(one));
    }),
  );
});

test.each([
  ["0.0.0.0", 0n],
  ["192.168.10.7", 0xc0a8_0a07n],
  ["255.255.255.255", 0xffff_ffffn],
  ["::", 0n],
  ["::1", 1n],
  ["fd00::", 0xfd00n << 112n],
  ["1:2:3:4:5:6:7:8", 0x1_0002_0003_0004_0005_0006_0007_0008n],
])("%s is an address", (text, value) => {
  expect(parseAddress(text)?.value).toBe(value);
});

test.each([
  "",
  "10.0.0",
  "10.0.0.1.2",
  "10.0.0.256",
  "10.0.0.01",
  "10.0.0.-1",
  "10.0.0.1 ",
  ":",
  ":::",
  "1::2::3",
  "1:2:3:4:5:6:7",
  "1:2:3:4:5:6:7:8:9",
  "1:2:3:4::5:6:7:8",
  "12345::",
  "g::",
  "10.0.0.0/24",
  "1".repeat(100),
])("%j is no address", (text) => {
  expect(parseAddress(text)).toBeNull();
});

test("a CIDR has the subnet of its address", () => {
  expect(parseCidr("10.0.0.5/24")).toEqual({
    family: 4,
    value: 0x0a00_0005n,
    prefixLength: 24,
    first: 0x0a00_0000n,
    last: 0x0a00_00ffn,
  });
  expect(parseCidr("fd00::/64")).toMatchObject({ family: 6, first: 0xfd00n << 112n, prefixLength: 64 });
  expect(parseCidr("10.1.2.3/32")).toMatchObject({ first: 0x0a01_0203n, last: 0x0a01_0203n });
  expect(parseCidr("0.0.0.0/0")).toMatchObject({ first: 0n, last: 0xffff_ffffn });
});

test.each(["10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/024", "10.0.0.0/8/8", "fd00::/129", "/24"])(
  "%j is no CIDR",
  (text) => {
    expect(parseCidr(text)).toBeNull();
  },
);

test("IPv4 sorts before IPv6, then by number", () => {
  const sorted = ["9.0.0.0", "10.0.0.0", "::", "::1"];
  const shuffled = ["::1", "10.0.0.0", "::", "9.0.0.0"].map((text) => parseAddress(text) ?? expect.fail());
  expect(shuffled.sort(compareAddresses).map(formatAddress)).toEqual(sorted);
});
