import fc from "fast-check";
import { expect, test } from "vitest";
import { periodTitle, type TimePeriod, timeLine, windowOf } from "../../../ui/pictures/time-line.ts";

const HOUR_MS = 3_600_000;
const NOON = Date.UTC(2026, 2, 12, 12);

function period(from: number | null, until: number | null, lane = "vm1"): TimePeriod {
  return { from, until, lane, label: lane, endedBy: until === null ? null : "DEL" };
}

function ticks(from: number, to: number, widthPx: number, utcOffsetMs = 0): string[] {
  return timeLine({ periods: [], window: { from, to }, widthPx, utcOffsetMs }).ticks.map(
    ({ x, label }) => `${label} @${Math.round(x)}`,
  );
}

test("a migration is two bars in two lanes that overlap in time", () => {
  const { lanes, bars } = timeLine({
    periods: [period(NOON + 4 * HOUR_MS, NOON + 10 * HOUR_MS, "new pod"), period(NOON, NOON + 5 * HOUR_MS, "old pod")],
    window: { from: NOON, to: NOON + 10 * HOUR_MS },
    widthPx: 100,
  });
  expect(lanes).toEqual(["old pod", "new pod"]);
  expect(bars.map(({ index, lane, x, width }) => [index, lane, x, width])).toEqual([
    [1, 0, 0, 50],
    [0, 1, 40, 60],
  ]);
});

test("a bar shows whether it began before the window, and whether it goes on", () => {
  const { bars } = timeLine({
    periods: [period(null, NOON), period(NOON, null), period(NOON, NOON + HOUR_MS), period(NOON, NOON + 9 * HOUR_MS)],
    window: { from: NOON - HOUR_MS, to: NOON + HOUR_MS },
    widthPx: 100,
  });
  expect(bars.map(({ startsBefore, endsAfter }) => [startsBefore, endsAfter])).toEqual([
    [true, false],
    [false, true],
    [false, false],
    [false, true],
  ]);
});

test("periods outside the window are left out, with their lanes", () => {
  const periods = [period(NOON - 9 * HOUR_MS, NOON - 8 * HOUR_MS, "past"), period(NOON, null, "now")];
  const line = timeLine({ periods, window: { from: NOON - HOUR_MS, to: NOON + HOUR_MS }, widthPx: 100 });
  expect(line.lanes).toEqual(["now"]);
  expect(line.bars.map(({ index, lane }) => [index, lane])).toEqual([[1, 0]]);
});

test("every bar is inside the picture, and wide enough to be pointed at", () => {
  const time = fc.option(fc.integer({ min: NOON - 99 * HOUR_MS, max: NOON + 99 * HOUR_MS }));
  const periods = fc.array(fc.tuple(time, time, fc.constantFrom("a", "b", "c")));
  fc.assert(
    fc.property(periods, fc.integer({ min: 10, max: 2_000 }), (given, widthPx) => {
      const { bars, lanes } = timeLine({
        periods: given.map(([one, other, lane]) => {
          const isSwapped = one !== null && other !== null && one > other;
          return isSwapped ? period(other, one, lane) : period(one, other, lane);
        }),
        window: { from: NOON - 24 * HOUR_MS, to: NOON + 24 * HOUR_MS },
        widthPx,
      });
      for (const { x, width, lane } of bars) {
        expect(width).toBeGreaterThanOrEqual(4);
        expect(x).toBeGreaterThanOrEqual(0);
        expect(x + width).toBeLessThanOrEqual(widthPx + 1e-6);
        expect(lanes[lane]).toBeDefined();
      }
    }),
  );
});

test("ticks are at whole hours, and midnight has its date", () => {
  expect(ticks(NOON, NOON + 24 * HOUR_MS, 400)).toEqual([
    "12:00 @0",
    "18:00 @100",
    "13 Mar @200",
    "06:00 @300",
    "12:00 @400",
  ]);
  expect(ticks(NOON - HOUR_MS / 2, NOON + HOUR_MS / 2, 200)).toEqual(["11:30 @0", "12:00 @100", "12:30 @200"]);
});

test("ticks of weeks are on Mondays, and those of years have the year", () => {
  expect(ticks(NOON, NOON + 28 * 24 * HOUR_MS, 400)[0]).toBe("16 Mar @50");
  expect(ticks(NOON, NOON + 800 * 24 * HOUR_MS, 400)[0]).toMatch(/^\d+ \w+ 2026 @/);
  expect(ticks(NOON, NOON + 80_000 * 24 * HOUR_MS, 400).length).toBeLessThan(6);
});

test("the shown time may be ahead of UTC", () => {
  expect(ticks(NOON, NOON + 24 * HOUR_MS, 400, 2 * HOUR_MS)[0]).toBe("18:00 @67");
  expect(periodTitle(period(NOON, null), 2 * HOUR_MS)).toBe("vm1: since 2026-03-12 14:00:00, not ended");
});

test("ticks have room for their labels", () => {
  fc.assert(
    fc.property(fc.integer({ min: 60, max: 1e9 }), fc.integer({ min: 100, max: 2_000 }), (seconds, widthPx) => {
      const window = { from: NOON, to: NOON + seconds * 1_000 };
      const places = timeLine({ periods: [], window, widthPx }).ticks.map(({ x }) => x);
      places.slice(1).forEach((x, index) => {
        expect(x - (places[index] ?? 0)).toBeGreaterThanOrEqual(80);
      });
    }),
  );
});

test("the window begins a little before the first period, and is two minutes at least", () => {
  expect(windowOf([period(null, NOON - 100 * HOUR_MS)], NOON)).toEqual({
    from: NOON - 105 * HOUR_MS,
    to: NOON,
  });
  expect(windowOf([], NOON)).toEqual({ from: NOON - HOUR_MS / 30, to: NOON });
});

test.each([
  [period(NOON, NOON + HOUR_MS), "vm1: 2026-03-12 12:00:00 to 2026-03-12 13:00:00, ended by DEL"],
  [period(null, NOON), "vm1: until 2026-03-12 12:00:00, ended by DEL"],
  [period(NOON, null), "vm1: since 2026-03-12 12:00:00, not ended"],
  [period(null, null), "vm1: not ended"],
  [{ ...period(null, NOON), endedBy: null }, "vm1: until 2026-03-12 12:00:00"],
])("a period in a sentence %#", (given, title) => {
  expect(periodTitle(given)).toBe(title);
});
