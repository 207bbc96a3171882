import type { Family } from "./addresses.ts";
import { ADDRESS_STATES, type AddressState } from "./states.ts";

export interface AddressCell {
  readonly column: number;
  readonly row: number;
  readonly state: AddressState;
  readonly value: bigint;
}

/** What `<address-map>` draws, row by row. */
export interface MapCells {
  readonly kind: "address" | "tile";
  readonly columns: number;
  /** For each cell: the place of its state in ADDRESS_STATES, or of its level in HEAT_SWATCHES. */
  readonly values: Uint8Array;
  /** Written into cells that have room for it, where it is not 0. */
  readonly numbers?: Uint16Array;
}

/** More cells than these are too many to find one by eye. */
export const MAP_ADDRESSES_MAX = 1_024;

/** A /24 in rows of 16 is a square, and the last hexadecimal digit of an address is its column. */
const COLUMNS_OF_A_24 = 16;
const COLUMNS_OF_LARGER = 32;

/** The smallest and the largest IPv4 subnet drawn as tiles: 8 of them, and 65,536. */
const TILES_PREFIX_MIN = 8;

export function pictureOf(subnet: {
  readonly family: Family;
  readonly prefixLength: number;
}): "addresses" | "tiles" | "intervals" {
  const hostBits = (subnet.family === 4 ? 32 : 128) - subnet.prefixLength;
  if (2 ** hostBits <= MAP_ADDRESSES_MAX) return "addresses";
  return subnet.family === 4 && subnet.prefixLength >= TILES_PREFIX_MIN ? "tiles" : "intervals";
}

export function columnsFor(size: number): number {
  return size <= 256 ? COLUMNS_OF_A_24 : COLUMNS_OF_LARGER;
}

/** One cell for each address of a subnet of at most MAP_ADDRESSES_MAX, in their order. */
export function addressCells(subnet: {
  readonly first: bigint;
  readonly size: number;
  readonly stateOf: (value: bigint) => AddressState;
  readonly columns?: number;
}): AddressCell[] {
  const { first, size, stateOf, columns = columnsFor(size) } = subnet;
  if (size > MAP_ADDRESSES_MAX) throw new RangeError(`${size} addresses are too many for a map`);
  return Array.from({ length: size }, (_, index) => {
    const value = first + BigInt(index);
    return { column: index % columns, row: Math.floor(index / columns), state: stateOf(value), value };
  });
}

export function addressMapCells(cells: readonly AddressCell[], columns: number = columnsFor(cells.length)): MapCells {
  return {
    kind: "address",
    columns,
    values: Uint8Array.from(cells, ({ state }) => ADDRESS_STATES.indexOf(state)),
  };
}
