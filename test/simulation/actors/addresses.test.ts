import { expect, test } from "vitest";
import { Chance } from "../engine/chance.ts";
import { addressIn } from "./addresses.ts";

test("an address of an IPv4 subnet lies in it, behind the first ones, and has its prefix length", () => {
  for (let seed = 0; seed < 200; seed += 1) {
    const address = addressIn("10.5.0.8/29", new Chance(seed));
    expect(address).toMatch(/^10\.5\.0\.(1[0-4])\/29$/);
  }
});

test("an address of an IPv6 subnet is one of its first", () => {
  for (let seed = 0; seed < 200; seed += 1)
    expect(addressIn("fd06::/120", new Chance(seed))).toMatch(/^fd06::[0-9a-f]{1,2}\/120$/);
});
