/** The parts of the tests are called by the words of CONTRIBUTING.md. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const read = (file: string) => readFileSync(join(ROOT, file), "utf8");

/** Every class and interface of the tests. */
function declared(): { readonly file: string; readonly name: string }[] {
  const files = execFileSync("git", ["ls-files", "test/*.ts"], { cwd: ROOT, encoding: "utf8" });
  return files
    .trim()
    .split("\n")
    .filter((file) => existsSync(join(ROOT, file)))
    .flatMap((file) =>
      [...read(file).matchAll(/^(?:export )?(?:abstract )?(?:class|interface) (\w+)/gm)].map((match) => ({
        file,
        name: match[1] as string,
      })),
    );
}

test("no class or interface of the tests is named Stage, Scene or Scenario", () => {
  expect(declared().filter(({ name }) => /(Stage|Scene|Scenario)$/.test(name))).toEqual([]);
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
