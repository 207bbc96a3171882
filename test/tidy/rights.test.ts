import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { run } from "../harness/daemon.ts";
import { shippedRights, titleOf } from "../harness/rights/shipped.ts";
import { problemsOf } from "../harness/rights/unused.ts";

/** The verdict on rights that nothing uses, which the reporter gives at the end of a run of the project `worlds`. */

const ROOT = join(import.meta.dirname, "../..");
/** What the tests have to use. */
const NEEDED = problemsOf(new Set()).map((problem) => problem.replace(/^.*: /, ""));
const [LAST = "", ...OTHERS] = [...NEEDED].reverse();

let project: string;
beforeAll(() => {
  project = mkdtempSync(join(tmpdir(), "holdfast-rights-"));
  symlinkSync(join(ROOT, "node_modules"), join(project, "node_modules"));
  const reporter = JSON.stringify(join(ROOT, "test/harness/closing-line-reporter.ts"));
  const projects = JSON.stringify([{ test: { name: "worlds", include: ["*.test.mjs"] } }]);
  const config = `export default { test: { reporters: [${reporter}], projects: ${projects} } };\n`;
  writeFileSync(join(project, "vitest.config.mjs"), config);
});
afterAll(() => rmSync(project, { recursive: true, force: true }));

/** A test file of that project in which these rights are used, and whether its test passes. */
function file(name: string, used: readonly string[], { fails = false } = {}): void {
  const lines = [
    'import { afterAll, expect, test } from "vitest";',
    `afterAll(({}, file) => { file.meta.usedRights = ${JSON.stringify(used)}; });`,
    `test("${name}", () => expect(${fails}).toBe(false));`,
    'test("another", () => {});',
  ];
  writeFileSync(join(project, `${name}.test.mjs`), lines.join("\n"));
}

async function judged(...words: readonly string[]): Promise<string> {
  const vitest = join(ROOT, "node_modules/vitest/vitest.mjs");
  const { code, stdout } = await run(process.execPath, [vitest, "run", "--root", project, ...words]);
  const lines = stdout.split("\n").filter((line) => /^FAILED|passed,/.test(line));
  return [`exit ${code}`, ...lines].join("; ");
}

const UNUSED = `FAILED no test uses this right of deploy/, so nothing seems to need it: ${LAST}`;

test("a right that no file of the whole project uses fails the run by its name", async () => {
  file("one", OTHERS.slice(0, 10));
  file("two", OTHERS.slice(10));
  expect(await judged()).toBe(`exit 1; ${UNUSED}; 4 passed, 1 failed`);
});

test("the uses of all files count together", async () => {
  file("one", OTHERS);
  file("two", [LAST]);
  expect(await judged()).toBe("exit 0; 4 passed, 0 failed");
});

test("a part of the project, or one that failed, is not judged", async () => {
  file("one", []);
  file("two", []);
  expect(await judged("one")).toBe("exit 0; 2 passed, 0 failed");
  expect(await judged("-t", "another")).toBe("exit 0; 2 passed, 0 failed, 2 skipped");
  file("two", [], { fails: true });
  expect(await judged()).toMatch(/^exit 1; FAILED two.test.mjs > two: .*; 3 passed, 1 failed$/);
});

test("a row of a right that is used, or that nobody has, is superfluous", () => {
  const finalizers = "holdfast-controller update addresspools/finalizers.ipam.holdfast.dev";
  expect(problemsOf(new Set([...NEEDED, finalizers]))).toEqual([
    `not a right that only admission asks for: ${finalizers}`,
  ]);
  const without = shippedRights()
    .map(titleOf)
    .filter((title) => title !== finalizers);
  expect(problemsOf(new Set(NEEDED), without)).toEqual([`not a right that only admission asks for: ${finalizers}`]);
});
