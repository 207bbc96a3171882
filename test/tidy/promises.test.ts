import { expect, test } from "vitest";
import { statementsIn } from "./pages.ts";
import { PROMISES } from "./promises.ts";
import { read, tracked } from "./tracked.ts";

/** The pages about threats say nothing that no test holds, unless it is said here why. */

const files = new Set(tracked(/^test\//));

test.each(Object.keys(PROMISES))("each statement of %s has a row, and each row a statement", (page) => {
  const { sections, promises, untested } = PROMISES[page] as (typeof PROMISES)[string];
  const beginnings = [...promises.map(({ says }) => says), ...Object.keys(untested)];
  const statements = sections.flatMap((section) => statementsIn(page, section));
  const rowsOf = (statement: string) => beginnings.filter((one) => statement.startsWith(one));
  expect(statements.filter((one) => rowsOf(one).length !== 1)).toEqual([]);
  expect(beginnings.filter((one) => !statements.some((text) => text.startsWith(one)))).toEqual([]);
});

test.each(Object.keys(PROMISES))("the tests that hold the promises of %s exist", (page) => {
  const { promises } = PROMISES[page] as (typeof PROMISES)[string];
  const missing = promises.flatMap(({ says, heldBy }) =>
    heldBy
      .filter(([file, title]) => !files.has(`test/${file}`) || !read(`test/${file}`).includes(title))
      .map(([file, title]) => `${says}: ${file} has no "${title}"`),
  );
  expect(missing).toEqual([]);
  expect(promises.filter(({ heldBy }) => heldBy.length === 0)).toEqual([]);
});
