/** The parts of the tests are called by the words of CONTRIBUTING.md. */
import { expect, test } from "vitest";
import { read, tracked } from "./tracked.ts";

/** Every class and interface of the tests. */
function declared(): { readonly file: string; readonly name: string }[] {
  return tracked(/^test\/.*\.ts$/).flatMap((file) =>
    [...read(file).matchAll(/^(?:export )?(?:abstract )?(?:class|interface) (\w+)/gm)].map((match) => ({
      file,
      name: match[1] as string,
    })),
  );
}

test("no class or interface of the tests is named Stage, Scene or Scenario", () => {
  expect(declared().filter(({ name }) => /(Stage|Scene|Scenario)$/.test(name))).toEqual([]);
});

test("no test is called by the number of a row in a list that is not here", () => {
  // `A9: no name` and `wt-03: …`; the rules I1 to I5 are those of `check`.
  const number = /["'`](?!I[1-5]:)(?:[A-Z]\d{1,2}|[a-z]{2,6}-\d{2}): |\bid: "?[a-z]{2,6}-\d{2}\b/;
  const files = tracked(/^test\/.*\.(ts|ya?ml|json)$/);
  expect(files.length).toBeGreaterThan(500);
  const called = files.flatMap((file) =>
    read(file)
      .split("\n")
      .filter((line) => number.test(line))
      .map((line) => `${file}: ${line.trim()}`),
  );
  expect(called.filter((one) => !one.startsWith("test/tidy/"))).toEqual([]);
});

test("each class of the list in CONTRIBUTING.md is there, once", () => {
  const section = read("CONTRIBUTING.md")
    .split("\n## ")
    .find((text) => text.startsWith("The words of the tests"));
  const names = [...(section ?? "").matchAll(/`([A-Z]\w+)`/g)].map((match) => match[1] as string);
  expect(names.length).toBeGreaterThan(20);
  const known = declared();
  const wrong = names
    .map((name) => ({ name, files: known.filter((one) => one.name === name).map(({ file }) => file) }))
    .filter(({ files }) => files.length !== 1);
  expect(wrong).toEqual([]);
});
