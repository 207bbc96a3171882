import { expect, test } from "vitest";
import {
  COOLDOWN_SECONDS_DEFAULT,
  cooldownEndMs,
  cooldownSeconds,
  hasCooledDown,
  retainSeconds,
} from "../../ipam/space/cooldown.ts";

test("a network without a definition has the default cool-down", () => {
  expect(cooldownSeconds(null)).toBe(COOLDOWN_SECONDS_DEFAULT);
  expect(cooldownEndMs(null, 5)).toBe(5 + COOLDOWN_SECONDS_DEFAULT * 1_000);
  expect(hasCooledDown(null, 0)).toBe(false);
});

test("a network without a definition retains nothing new", () => {
  expect(retainSeconds(null)).toBe(0);
  expect(retainSeconds({ cooldownSeconds: 60, retainSeconds: 5 })).toBe(5);
});

test.for<[number, number, boolean]>([
  [30, 29_999, false],
  [30, 30_000, true],
  [0, 0, true],
  [0, -1, false],
  [30, Number.NaN, false],
])("with %i s, an address that has been cooling for %d ms has cooled down: %s", ([seconds, ms, expected]) => {
  expect(hasCooledDown({ cooldownSeconds: seconds }, ms)).toBe(expected);
});
