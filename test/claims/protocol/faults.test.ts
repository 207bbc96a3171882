import { expect, test } from "vitest";
import { AS_FIRST_THOUGHT, FAULTS } from "./faults.ts";
import { FAULT_NAMES, rulesOf } from "./rules.ts";
import { search } from "./search.ts";
import { keyOf } from "./state-key.ts";
import { storyOf } from "./violation.ts";
import { WORLDS, type WorldName } from "./worlds.ts";

test.each(FAULT_NAMES.map((name) => [name, FAULTS[name].why, FAULTS[name]] as const))(
  "the fault %s is found: %s",
  { timeout: 300_000 },
  async (name, _, { world, violates }) => {
    const { violation } = await search(rulesOf(WORLDS[world], [name]));
    expect(violation?.property).toBe(violates);
  },
);

test.each<WorldName>([
  ...(["ask", "ask-controller", "stranger", "stranger-crash", "stranger-controller"] as const),
  ...(["stranger-asks", "stranger-first", "stranger-follow", "leftover", "token"] as const),
])("the idea before it was corrected fails in the world %s", async (world) => {
  const { violation } = await search(rulesOf(WORLDS[world], AS_FIRST_THOUGHT));
  expect(violation).not.toBeNull();
});

test("what is found is told as the shortest way to it", async () => {
  const { violation } = await search(rulesOf(WORLDS.token, AS_FIRST_THOUGHT));
  expect(violation && storyOf(violation)).toMatchInlineSnapshot(`
    "another-address: VM 0 was answered 1 on network 0, stayed there, and 0 is reserved for it
       1  VM 0 starts on network 0
       2  a node's token: claim 0 lists [0]
       3  ADD 0: reads claim 0: network 0, lists [0]
       4  ADD 0: reads [0] of network 0: has []
       5  ADD 0: holds 0 of network 0"
  `);
});

test("the text of a state leaves nothing of it out", async () => {
  for (const world of [WORLDS["ask-controller"], WORLDS["lost-node"], WORLDS.wish]) {
    const rules = rulesOf(world);
    const whole = await search(rules, (state) => JSON.stringify(state));
    expect(await search(rules, keyOf)).toEqual(whole);
  }
});
