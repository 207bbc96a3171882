import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const { GROUPS } = (await import(`${ROOT}/tools/docs-site/pages.mjs`)) as {
  GROUPS: Readonly<Record<string, readonly string[]>>;
};
const pagesIn = (directory: string) =>
  readdirSync(join(ROOT, directory)).filter((name) => name.endsWith(".md"));

test("the site's list of pages has each page once", () => {
  const listed = Object.values(GROUPS).flat();
  const pages = pagesIn("docs").map((name) => `docs/${name.replace(/\.md$/, "")}`);
  expect(listed.filter((page) => /^docs\/[^/]+$/.test(page)).sort()).toEqual(pages.sort());
  expect(new Set(listed).size).toBe(listed.length);
});

test("the list of decisions has each record once, with its title", () => {
  const lines = readFileSync(join(ROOT, "docs/decisions/README.md"), "utf8").split("\n");
  const titles = pagesIn("docs/decisions")
    .filter((name) => name !== "README.md")
    .map((name) => {
      const [first = ""] = readFileSync(join(ROOT, "docs/decisions", name), "utf8").split("\n");
      return `- [${name.slice(0, 4)}](${name}): ${first.replace(/^# \d+[.:] */, "")}`;
    });
  expect(lines.filter((line) => line.startsWith("- ["))).toEqual(titles.sort());
});
