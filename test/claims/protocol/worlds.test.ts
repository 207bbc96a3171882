import { expect, test } from "vitest";
import { rulesOf, type SmallWorld } from "./rules.ts";
import { search } from "./search.ts";
import { storyOf } from "./violation.ts";
import { PEACE, REACH, STRANGERS, VARIANTS } from "./worlds.ts";

/** A search that has fewer states than before has lost a step that somebody may take. */
const STATES: Readonly<Record<string, number>> = {
  "first-crash-restart": 7_160,
  migrate: 627,
  follow: 4_553,
  ask: 3_636,
  "follow-controller": 13_181,
  "follow-crash-controller": 11_576,
  "ask-controller": 8_841,
  left: 3_688,
  "lost-node": 5_480,
  stranger: 69_563,
  "stranger-crash": 1_527,
  "stranger-controller": 6_482,
  "stranger-asks": 18_247,
  "stranger-first": 27_108,
  "stranger-follow": 14_155,
  leftover: 13_535,
  wish: 2_950,
  token: 55_905,
  retaining: 11_462,
  "full-list": 99_808,
  "appending-nodes": 73_022,
  "without-vm": 47_854,
};

const worlds: readonly (readonly [string, SmallWorld])[] = Object.entries({
  ...PEACE,
  ...STRANGERS,
  ...REACH,
  ...VARIANTS,
});

test.each(worlds.map(([name, world]) => [name, world.about, world] as const))(
  "nothing goes wrong in the world %s: %s",
  async (name, _, world) => {
    const { violation, states } = await search(rulesOf(world));
    expect(violation, violation === null ? "" : storyOf(violation)).toBeNull();
    expect(states).toBe(STATES[name]);
  },
);
