import fc from "fast-check";
import { expect, test } from "vitest";
import { addressCells, addressMapCells, columnsFor, pictureOf } from "../../../ui/pictures/address-map.ts";
import { cellAt, cellBox, mapLayout, moveCursor } from "../../../ui/pictures/map-layout.ts";
import { countByTile, heatLevel, tileFirst, tileIndex, tilesOf } from "../../../ui/pictures/tiles.ts";

test.each([
  [4, 24, "addresses"],
  [4, 22, "addresses"],
  [4, 21, "tiles"],
  [4, 8, "tiles"],
  [4, 7, "intervals"],
  [6, 118, "addresses"],
  [6, 117, "intervals"],
  [6, 64, "intervals"],
] as const)("an IPv%i /%i is shown as %s", (family, prefixLength, picture) => {
  expect(pictureOf({ family, prefixLength })).toBe(picture);
});

test("a /24 is a square of 16 columns, a larger subnet has 32", () => {
  expect([16, 256, 257, 1_024].map(columnsFor)).toEqual([16, 16, 32, 32]);
  const cells = addressCells({
    first: 0x0a00_0000n,
    size: 256,
    stateOf: (value) => (value === 0x0a00_0011n ? "in-use" : "free"),
  });
  expect(cells).toHaveLength(256);
  expect(cells[17]).toEqual({ column: 1, row: 1, state: "in-use", value: 0x0a00_0011n });
  expect(cells.at(-1)).toEqual({ column: 15, row: 15, state: "free", value: 0x0a00_00ffn });
  const { columns, values } = addressMapCells(cells);
  expect(columns).toBe(16);
  expect([...values.subarray(16, 19)]).toEqual([6, 0, 6]);
});

test("a map has at most 1,024 addresses", () => {
  expect(() => addressCells({ first: 0n, size: 1_025, stateOf: () => "free" })).toThrow(RangeError);
});

test.each([
  [0, 0],
  [1, 1],
  [25, 1],
  [26, 2],
  [128, 2],
  [230, 3],
  [231, 4],
  [256, 4],
])("a tile with %i held addresses has level %i", (used, level) => {
  expect(heatLevel(used)).toBe(level);
});

test("each /24 is a tile", () => {
  const first = 0x0a00_0000n;
  const held = [0x0a00_0001n, 0x0a00_0002n, 0x0a00_01ffn, 0x0a00_ffffn];
  const tiles = tilesOf(first, 16, countByTile(first, held));
  expect(tiles.columns).toBe(16);
  expect(tiles.values).toHaveLength(256);
  expect([tiles.used[0], tiles.used[1], tiles.used[2], tiles.used[255]]).toEqual([2, 1, 0, 1]);
  expect([tiles.values[0], tiles.values[2]]).toEqual([1, 0]);
  expect(tilesOf(first, 21, new Map())).toMatchObject({ columns: 4, values: new Uint8Array(8) });
});

test("subnets smaller than a tile, or with too many, have no tiles", () => {
  for (const prefixLength of [25, 7]) expect(() => tilesOf(0n, prefixLength, new Map())).toThrow(RangeError);
});

test("every held address is counted in the one tile that contains it", () => {
  const subnet = fc.integer({ min: 8, max: 24 }).chain((prefixLength) =>
    fc.record({
      prefixLength: fc.constant(prefixLength),
      offsets: fc.uniqueArray(fc.integer({ min: 0, max: 2 ** (32 - prefixLength) - 1 })),
    }),
  );
  fc.assert(
    fc.property(subnet, ({ prefixLength, offsets }) => {
      const first = 0x0a00_0000n;
      const held = offsets.map((offset) => first + BigInt(offset));
      const { used, values, columns } = tilesOf(first, prefixLength, countByTile(first, held));
      expect(used.length).toBe(2 ** (24 - prefixLength));
      expect(used.length % columns).toBe(0);
      expect(used.reduce((sum, count) => sum + count, 0)).toBe(held.length);
      for (const value of held) {
        const index = tileIndex(first, value);
        expect(tileFirst(first, index) <= value && value < tileFirst(first, index + 1)).toBe(true);
        expect(values[index]).toBeGreaterThan(0);
      }
    }),
  );
});

test("a map fits its width, and its cells do not grow beyond what a finger needs", () => {
  const layout = mapLayout({ count: 65_536, columns: 256, widthPx: 400, ratio: 2 });
  expect(layout).toMatchObject({ rows: 256, pitch: 3, gap: 0 });
  expect(mapLayout({ count: 256, columns: 16, widthPx: 1_280, ratio: 1 })).toMatchObject({
    pitch: 28,
    gap: 1,
  });
  expect(mapLayout({ count: 65_536, columns: 256, widthPx: 100, ratio: 1 }).pitch).toBe(1);
});

test("the middle of a cell is in that cell", () => {
  const map = fc.record({
    count: fc.integer({ min: 1, max: 2_000 }),
    columns: fc.constantFrom(4, 16, 32, 256),
    widthPx: fc.integer({ min: 256, max: 1_280 }),
    ratio: fc.constantFrom(1, 1.25, 2, 3),
  });
  fc.assert(
    fc.property(map, fc.nat(), (input, any) => {
      const layout = mapLayout(input);
      const index = any % input.count;
      const { x, y, size } = cellBox(layout, index);
      expect(cellAt(layout, x + size / 2, y + size / 2)).toBe(index);
      expect(x + size).toBeLessThanOrEqual(input.widthPx);
      expect(cellAt(layout, -1, y)).toBe(-1);
      expect(cellAt(layout, x, 1e6)).toBe(-1);
    }),
  );
});

test.each([
  ["ArrowLeft", false, 0, 0],
  ["ArrowLeft", false, 16, 15],
  ["ArrowRight", false, 99, 99],
  ["ArrowUp", false, 5, 5],
  ["ArrowDown", false, 5, 21],
  ["ArrowDown", false, 90, 99],
  ["Home", false, 21, 16],
  ["End", false, 21, 31],
  ["End", false, 97, 99],
  ["Home", true, 21, 0],
  ["End", true, 21, 99],
  ["PageDown", false, 0, 96],
  ["PageDown", false, 5, 99],
  ["PageUp", false, 99, 3],
  ["Tab", false, 5, null],
  ["toString", false, 5, null],
])("%s (Control: %s) moves the cursor from %i to %s of 100 cells in rows of 16", (key, control, from, to) => {
  expect(moveCursor(key, control, from, { columns: 16, count: 100 })).toBe(to);
});
