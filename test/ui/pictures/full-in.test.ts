import { expect, test } from "vitest";
import { fullInMs, type HeldPeriod } from "../../../ui/pictures/full-in.ts";

const HOUR_MS = 3_600_000;
const NOW = Date.UTC(2026, 2, 12, 12);

/** Hours ago. */
function period(from: number | null, until: number | null = null): HeldPeriod {
  return {
    fromMs: from === null ? null : NOW - from * HOUR_MS,
    untilMs: until === null ? null : NOW - until * HOUR_MS,
  };
}

function fullInHours(periods: readonly HeldPeriod[], free: bigint, held = periods.length): number | null {
  const ms = fullInMs({ held, free, periods, nowMs: NOW });
  return ms === null ? null : ms / HOUR_MS;
}

test("with 24 addresses in a day, 48 free ones last for two days", () => {
  const old = [period(100), period(200)];
  const today = Array.from({ length: 24 }, (_, hour) => period(hour + 0.5));
  expect(fullInHours([...old, ...today], 48n)).toBe(48);
});

test("of a network that is younger than a day, its own age counts", () => {
  expect(fullInHours([period(2), period(1)], 10n)).toBe(10);
});

test("what ended in the day is no growth", () => {
  expect(fullInHours([period(100), period(5, 1)], 10n)).toBeNull();
  expect(fullInHours([period(100, 3), period(5)], 10n)).toBeNull();
  expect(fullInHours([period(100, 3), period(5), period(4)], 10n)).toBe(240);
});

test("a period that began before everything recorded is not new", () => {
  expect(fullInHours([period(100), period(null, 3), period(5), period(4)], 10n)).toBe(240);
});

test("a network that shrinks is never full", () => {
  expect(fullInHours([period(100, 3), period(100, 2), period(1)], 10n)).toBeNull();
});

test("less than an hour of history says nothing", () => {
  expect(fullInHours([period(0.9), period(0.5)], 10n)).toBeNull();
  expect(fullInHours([], 10n)).toBeNull();
  expect(fullInHours([period(null)], 10n)).toBeNull();
});

test("no more was added than is held", () => {
  expect(fullInHours([period(24), period(20), period(10)], 10n, 1)).toBe(240);
});

test("a full network is full now, and a /64 is not full for long", () => {
  expect(fullInHours([period(100), period(5)], 0n)).toBe(0);
  expect(fullInHours([period(100), period(5)], 1n << 64n)).toBeGreaterThan(1e19);
});
