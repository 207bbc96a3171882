import { expect, test } from "vitest";
import { rulesOf } from "./rules.ts";
import { search } from "./search.ts";
import { storyOf } from "./violation.ts";
import { RESTORED } from "./worlds.ts";

/** Of the largest world; as in worlds.test.ts. */
const STATES = 300_132;

test(`nothing goes wrong where a claim is restored: ${RESTORED.restore.about}`, { timeout: 300_000 }, async () => {
  const { violation, states } = await search(rulesOf(RESTORED.restore));
  expect(violation, violation === null ? "" : storyOf(violation)).toBeNull();
  expect(states).toBe(STATES);
});
