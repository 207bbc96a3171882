import { expect, test } from "vitest";
import type { NetworkView } from "../../allocations/records.ts";
import { OTHERS, seriesOf } from "../../daemon/network-series.ts";

// Tenants make networks, and a monitoring system keeps every time series that it ever saw.

function network(name: string, attachments = 0, subnets = ["10.0.0.0/24"], ranges = 1): NetworkView {
  const range = {
    subnets,
    gateways: [],
    size: "256",
    allocated: "2",
    retained: "1",
    cooling: "1",
    free: "250",
    excluded: "2",
  };
  return { name, attachments, ranges: Array.from({ length: ranges }, () => range) } as unknown as NetworkView;
}

test("each of a few networks has series of its own", () => {
  const { attachments, ranges } = seriesOf([network("red"), network("blue", 2)]);
  expect([...attachments]).toEqual([
    ["blue", 2],
    ["red", 0],
  ]);
  expect(ranges).toContainEqual({
    network: "red",
    subnets: "10.0.0.0/24",
    size: 256,
    states: { allocated: 2, retained: 1, cooling: 1, free: 250, excluded: 2 },
  });
});

test("of 100,000 networks those that this node uses have series, and the rest is one sum", () => {
  const many = Array.from({ length: 100_000 }, (_, index) => network(`n${index}`, index === 99_999 ? 7 : 0));
  const { attachments, ranges } = seriesOf(many);
  expect(ranges).toHaveLength(501);
  expect(attachments.size).toBe(501);
  expect(attachments.get("n99999")).toBe(7);
  expect(attachments.get(OTHERS)).toBe(0);
  expect(ranges.at(-1)).toEqual({
    network: OTHERS,
    subnets: "",
    size: 256 * 99_500,
    states: {
      allocated: 2 * 99_500,
      retained: 99_500,
      cooling: 99_500,
      free: 250 * 99_500,
      excluded: 2 * 99_500,
    },
  });
});

test("networks without ranges, and one with very many, are bounded alike", () => {
  const none = Array.from({ length: 2_000 }, (_, index) => network(`n${index}`, 1, [], 0));
  expect(seriesOf(none).attachments.size).toBe(501);
  const { ranges } = seriesOf([network("wide", 1, ["10.0.0.0/24"], 5_000), network("blue")]);
  expect(ranges.map((one) => one.network).sort()).toEqual([OTHERS, "blue"]);
});

test("a label is bounded, and two with one beginning stay different", () => {
  const long = Array.from({ length: 10_000 }, (_, index) => `10.${index >> 8}.${index & 255}.0/24`);
  const { ranges } = seriesOf([network("a", 0, long), network("a", 0, [...long, "fd00::/64"])]);
  const labels = ranges.map(({ subnets }) => subnets);
  expect(new Set(labels).size).toBe(2);
  for (const label of labels) expect(label.length).toBeLessThan(230);
});
