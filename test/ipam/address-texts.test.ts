import { IPv4, IPv6 } from "ip-num";
import { expect, test } from "vitest";
import { type Address, parseAddress } from "../../ipam/space/address.ts";
import { type Random, seededRandom } from "../faults/random.ts";

// Texts as a network's definition may have them, by the hundred thousand. `address.test.ts` has each rule by itself.

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

function own(text: string): Address | null {
  try {
    return parseAddress(text);
  } catch {
    return null;
  }
}

function ofLibrary(text: string): Address | null {
  try {
    return text.includes(":")
      ? { family: 6, value: new IPv6(text).value }
      : { family: 4, value: new IPv4(text).value };
  } catch {
    return null;
  }
}

test("of 500,000 texts each that is accepted is the same address to ip-num", { timeout: 600_000 }, () => {
  const random = seededRandom("address texts");
  const wrong: string[] = [];
  const accepted = { 4: 0, 6: 0 };
  for (const [write, count] of [
    [anything, 300_000],
    [quads, 100_000],
    [groups, 100_000],
  ] as const)
    for (let at = 0; at < count; at++) {
      const text = write(random);
      const mine = own(text);
      if (mine === null) continue;
      accepted[mine.family] += 1;
      const theirs = ofLibrary(text);
      if (theirs?.family !== mine.family || theirs.value !== mine.value) wrong.push(text);
    }
  expect(wrong.slice(0, 10)).toEqual([]);
  // It is no agreement about nothing.
  expect(accepted[4]).toBeGreaterThan(10_000);
  expect(accepted[6]).toBeGreaterThan(10_000);
});
