import { fstatSync } from "node:fs";
import { expect, test } from "vitest";
import { isJournal, withPriority } from "../../platform/log.ts";

test.each([
  [20, 7],
  [30, 6],
  [40, 4],
  [50, 3],
  [60, 2],
  [35, 6],
])("level %i goes to the journal as priority %i", (level, priority) => {
  expect(withPriority(`{"level":${level},"msg":"x"}\n`)).toBe(`<${priority}>{"level":${level},"msg":"x"}\n`);
});

test("the journal's stream is recognised by its device and inode", () => {
  const { dev, ino } = fstatSync(1);
  expect(isJournal(`${dev}:${ino}`, 1)).toBe(true);
  expect(isJournal(`${dev}:${ino + 1}`, 1)).toBe(false);
  expect(isJournal(undefined, 1)).toBe(false);
  expect(isJournal("9:8", -1)).toBe(false);
});
