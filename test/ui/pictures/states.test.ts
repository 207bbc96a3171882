import { expect, test } from "vitest";
import { ADDRESS_STATES, STATE_SWATCHES } from "../../../ui/pictures/states.ts";
import { HEAT_SWATCHES } from "../../../ui/pictures/tiles.ts";

const states = ADDRESS_STATES.map((state) => STATE_SWATCHES[state]);

test("each state differs from the others in its letter, its pattern and its colours", () => {
  for (const key of ["label", "letter", "light"] as const)
    expect(new Set(states.map((swatch) => swatch[key])).size, key).toBe(states.length);
  const patterns = states.map(({ pattern }) => pattern);
  // Addresses in use and free ones are both plain: one is the darkest colour, the other the background.
  expect(new Set(patterns).size).toBe(states.length - 1);
});

test("every state but free has a letter", () => {
  expect(ADDRESS_STATES.filter((state) => STATE_SWATCHES[state].letter.length !== 1)).toEqual(["free"]);
});

test.each(["light", "dark"] as const)(
  "levels of heat go from the background to strong colours in the %s theme",
  (theme) => {
    const lightness = HEAT_SWATCHES.map((swatch) => {
      const [red = 0, green = 0, blue = 0] =
        swatch[theme]
          .slice(1)
          .match(/../g)
          ?.map((hex) => Number.parseInt(hex, 16)) ?? [];
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    });
    const sorted = lightness.toSorted((a, b) => (theme === "light" ? b - a : a - b));
    expect(lightness).toEqual(sorted);
  },
);
