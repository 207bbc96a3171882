/*
 * ui/pictures/: data in, shapes out; nothing here knows a framework
 *
 *   states, addresses             the states of an address and how each looks; IP addresses as numbers
 *   bar                           how a network's addresses are divided between the states
 *   address-map, tiles, intervals   a subnet address by address, as one tile for each /24, or as held intervals
 *   time-line                     periods of time in lanes, and sensible times on their axis
 *   full-in                       when a network will be full
 *   map-layout, map-canvas        where the cells of a map are, and how they are painted
 *   elements, map-element         custom elements that draw these, and how they are registered
 *   shadow                        shadow roots, SVG elements and patterns that the elements use
 */

export type AddressState = "in-use" | "idle" | "cooling" | "reserved" | "gateway" | "excluded" | "free";

/** Drawn over the colour, so that nobody needs the colour to tell states apart. The strokes are in shadow.ts. */
export type Pattern = "solid" | "diagonal" | "dots" | "cross" | "rows" | "back-diagonal";

export interface Swatch {
  /** For people: "in use". */
  readonly label: string;
  /** Written into cells that are large enough; "": none. */
  readonly letter: string;
  readonly light: string;
  readonly dark: string;
  readonly pattern: Pattern;
}

/** In the order in which a bar shows them. The place of a state in it is its number in `MapCells.values`. */
export const ADDRESS_STATES: readonly AddressState[] = [
  "in-use",
  "idle",
  "cooling",
  "reserved",
  "gateway",
  "excluded",
  "free",
];

/** Okabe and Ito's palette, which people with any kind of colour vision can tell apart. */
export const STATE_SWATCHES: Readonly<Record<AddressState, Swatch>> = {
  "in-use": swatch("in use", "U", "#0072B2", "#0072B2", "solid"),
  idle: swatch("idle", "I", "#56B4E9", "#56B4E9", "diagonal"),
  cooling: swatch("cooling down", "C", "#E69F00", "#E69F00", "dots"),
  reserved: swatch("reserved", "R", "#CC79A7", "#CC79A7", "cross"),
  gateway: swatch("gateway", "G", "#009E73", "#009E73", "rows"),
  excluded: swatch("excluded", "X", "#A3A8AE", "#7A828B", "back-diagonal"),
  // A shade off the background, so that the cells of an empty network can be seen.
  free: swatch("free", "", "#E9ECEF", "#262C33", "solid"),
};

export function swatch(label: string, letter: string, light: string, dark: string, pattern: Pattern): Swatch {
  return { label, letter, light, dark, pattern };
}

/** A CSS colour, by the `color-scheme` of the element. */
export function cssColour({ light, dark }: Swatch): string {
  return `light-dark(${light}, ${dark})`;
}
