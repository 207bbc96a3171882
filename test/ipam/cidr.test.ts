import { BlockList } from "node:net";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AddressSyntaxError, formatAddress, parseAddress } from "../../ipam/space/address.ts";
import {
  cidrContains,
  cidrFirst,
  cidrLast,
  cidrSize,
  formatCidr,
  formatInterfaceAddress,
  networkOf,
  parseCidr,
  parseInterfaceAddress,
} from "../../ipam/space/cidr.ts";

describe("parseCidr accepts", () => {
  test.each([
    ["10.0.0.0/24", "10.0.0.0/24", 256n, "usual"],
    ["0.0.0.0/0", "0.0.0.0/0", 1n << 32n, "everything, as in a default route"],
    ["::/0", "::/0", 1n << 128n, "everything in IPv6"],
    ["10.0.0.7/32", "10.0.0.7/32", 1n, "one address"],
    ["FD00:0::/64", "fd00::/64", 1n << 64n, "canonical on output"],
    ["fd00::1/128", "fd00::1/128", 1n, "one IPv6 address"],
  ])("%s", (text, canonical, size) => {
    const cidr = parseCidr(text);
    expect(formatCidr(cidr)).toBe(canonical);
    expect(cidrSize(cidr)).toBe(size);
    expect(cidrLast(cidr) - cidrFirst(cidr) + 1n).toBe(size);
  });
});

describe("parseCidr refuses", () => {
  test.each([
    ["10.0.0.5/24", "10.0.0.5/24 has host bits; the network is 10.0.0.0/24", "names the right one"],
    ["fd00::1/64", "the network is fd00::/64", "same in IPv6"],
    ["10.0.0.7", "write 10.0.0.7/32", "a bare address is not guessed at"],
    ["fd00::7", "write fd00::7/128", "same in IPv6"],
    ["10.0.0.0/33", "IPv4 takes /0 to /32", "longer than the address"],
    ["fd00::/129", "IPv6 takes /0 to /128", "longer than the address"],
    ["10.0.0.0/", "bad prefix length", "nothing behind the slash"],
    ["10.0.0.0/024", "bad prefix length", "leading zero"],
    ["10.0.0.0/-1", "bad prefix length", "negative"],
    ["10.0.0.0/ 24", "bad prefix length", "space"],
    ["10.0.0.0/255.255.255.0", "bad prefix length", "a mask"],
    ["10.128.0.0/14/23", "bad prefix length", "OVN-Kubernetes layer 3 with its host length"],
    ["/24", "is empty", "no address"],
    ["", "is empty", "nothing"],
    ["10.0.0/24", "not an IP address", "short form"],
    ["::ffff:10.0.0.0/120", "write 10.0.0.0", "IPv4-mapped"],
  ])("%s", (text, message) => {
    expect(() => parseCidr(text)).toThrow(AddressSyntaxError);
    expect(() => parseCidr(text)).toThrow(message);
  });
});

test("an interface address keeps its host bits and needs a prefix length", () => {
  expect(formatInterfaceAddress(parseInterfaceAddress("10.0.0.5/24"))).toBe("10.0.0.5/24");
  expect(formatInterfaceAddress(parseInterfaceAddress("FD00::5/64"))).toBe("fd00::5/64");
  expect(() => parseInterfaceAddress("10.0.0.5")).toThrow("10.0.0.5/24");
});

const anyCidr = fc
  .tuple(fc.bigInt(0n, 0xffff_ffffn), fc.integer({ min: 0, max: 32 }))
  .map(([value, prefixLength]) => networkOf({ family: 4, value }, prefixLength));

test("a CIDR contains what Node's BlockList contains", () => {
  fc.assert(
    fc.property(anyCidr, fc.bigInt(0n, 0xffff_ffffn), fc.boolean(), (cidr, any, near) => {
      const value = near ? cidrFirst(cidr) + (any % (2n * cidrSize(cidr))) : any;
      const address = { family: 4, value: value & 0xffff_ffffn } as const;
      const list = new BlockList();
      list.addSubnet(formatAddress({ family: 4, value: cidr.base }), cidr.prefixLength);
      expect(cidrContains(cidr, address)).toBe(list.check(formatAddress(address)));
    }),
  );
});

test("a CIDR contains nothing of the other family", () => {
  expect(cidrContains(parseCidr("0.0.0.0/0"), parseAddress("::1"))).toBe(false);
  expect(cidrContains(parseCidr("::/0"), parseAddress("10.0.0.1"))).toBe(false);
});
