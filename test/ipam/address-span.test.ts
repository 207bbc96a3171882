import fc from "fast-check";
import { expect, test } from "vitest";
import { formatAddress } from "../../ipam/space/address.ts";
import { networksOf, parseSpan } from "../../ipam/space/address-span.ts";
import { cidrFirst, cidrLast, cidrSize, formatCidr } from "../../ipam/space/cidr.ts";

test.each([
  ["10.0.0.5-10.0.0.9", "10.0.0.5 10.0.0.9 -"],
  [" 10.0.0.5 - 10.0.0.9 ", "10.0.0.5 10.0.0.9 -"],
  ["10.0.0.5-10.0.0.9/24", "10.0.0.5 10.0.0.9 24"],
  ["10.1.0.100..10.1.0.110", "10.1.0.100 10.1.0.110 -"],
  ["10.1.0.90-99", "10.1.0.90 10.1.0.99 -"],
  ["fd00::5-fd00::9", "fd00::5 fd00::9 -"],
])("%j is a range", (text, expected) => {
  const { family, first, last, prefixLength } = parseSpan(text) ?? expect.fail();
  const ends = [first, last].map((value) => formatAddress({ family, value }));
  expect(`${ends.join(" ")} ${prefixLength ?? "-"}`).toBe(expected);
});

test.each(["", "-", "10.0.0.5", "10.0.0.0/24", "10.0.0.9-10.0.0.5", "10.0.0.5-fd00::1", "a-b", "10.0.0.5-10.0.0.9/33"])(
  "%j is none",
  (text) => {
    expect(parseSpan(text)).toBeNull();
  },
);

test("a text of any length is looked at for no longer than a short one", () => {
  // Half a minute and more, where each dot is tried as the middle.
  expect(parseSpan(`${".".repeat(250_000)}x`)).toBeNull();
});

test("a range is the fewest networks that have exactly its addresses", () => {
  expect(networksOf({ family: 4, first: 0x0a000005n, last: 0x0a000009n }).map(formatCidr)).toEqual([
    "10.0.0.5/32",
    "10.0.0.6/31",
    "10.0.0.8/31",
  ]);
  const end = fc.bigInt({ min: 0n, max: 0xffff_ffffn });
  fc.assert(
    fc.property(end, end, (a, b) => {
      const [first, last] = a < b ? [a, b] : [b, a];
      const networks = networksOf({ family: 4, first, last });
      expect(cidrFirst(networks[0] ?? expect.fail())).toBe(first);
      expect(cidrLast(networks.at(-1) ?? expect.fail())).toBe(last);
      expect(networks.reduce((sum, one) => sum + cidrSize(one), 0n)).toBe(last - first + 1n);
    }),
  );
});
