import type { MapCells } from "./address-map.ts";
import { type Swatch, swatch } from "./states.ts";

/** Bits within a tile: each is a /24. */
const TILE_BITS = 8;
const TILE_SIZE = 256;
/** A /8. More are no longer a picture. */
const TILES_MAX = 65_536;

/** By level: how full a tile is. The colours go from the background to the one of addresses in use, and past it. */
export const HEAT_SWATCHES: readonly Swatch[] = [
  swatch("nothing held", "", "#E9ECEF", "#262C33", "solid"),
  swatch("up to 10 % held", "1", "#BFDDF2", "#1D5B86", "solid"),
  swatch("up to 50 %", "2", "#73B6E0", "#0B6BA3", "solid"),
  swatch("up to 90 %", "3", "#1F83BF", "#3FA0DC", "solid"),
  swatch("more than 90 %", "4", "#004A75", "#A9DCFA", "solid"),
];
/** The most that a level has, in parts of a tile: what is nearly empty or nearly full is what people look for. */
const LEVELS_MAX = [0, 0.1, 0.5, 0.9, 1];

export interface Tiles extends MapCells {
  readonly kind: "tile";
  readonly first: bigint;
  /** For each tile: how many of its 256 addresses are held. */
  readonly used: Uint16Array;
}

/** A tile for each /24 of an IPv4 subnet of /8 to /24, in rows. `counts`: held ones by the tile's index; absent: 0. */
export function tilesOf(first: bigint, prefixLength: number, counts: ReadonlyMap<number, number>): Tiles {
  const bits = 32 - TILE_BITS - prefixLength;
  const size = 2 ** bits;
  if (bits < 0 || size > TILES_MAX) throw new RangeError(`a /${prefixLength} has no map of tiles`);
  const used = new Uint16Array(size);
  const values = new Uint8Array(size);
  for (const [index, count] of counts) {
    used[index] = count;
    values[index] = heatLevel(count);
  }
  // A square, or two.
  return { kind: "tile", columns: 2 ** Math.ceil(bits / 2), values, first, used, numbers: used };
}

export function countByTile(first: bigint, held: Iterable<bigint>): Map<number, number> {
  const counts = new Map<number, number>();
  for (const value of held) {
    const index = tileIndex(first, value);
    counts.set(index, (counts.get(index) ?? 0) + 1);
  }
  return counts;
}

export function tileIndex(first: bigint, value: bigint): number {
  return Math.floor(Number(value - first) / TILE_SIZE);
}

export function tileFirst(first: bigint, index: number): bigint {
  return first + BigInt(index * TILE_SIZE);
}

/** 0: nothing is held. */
export function heatLevel(used: number): number {
  return LEVELS_MAX.findIndex((most) => used <= most * TILE_SIZE);
}
