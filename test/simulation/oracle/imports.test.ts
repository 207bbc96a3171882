import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { expect, test } from "vitest";

/** Made up for its tests. */
const OF_TESTS = ["fabricated.ts"];
/** What the oracle hears, and how it says what it found. */
const ALLOWED = ["../world.ts", "../engine/violation.ts", "node:crypto"];

test("the oracle shares no code with the product", () => {
  const files = readdirSync(import.meta.dirname, { recursive: true, encoding: "utf8" }).filter(
    (name) => name.endsWith(".ts") && !name.endsWith(".test.ts") && !OF_TESTS.includes(name),
  );
  expect(files).toContain("oracle.ts");
  const imported = files.flatMap((name) => {
    const text = readFileSync(join(import.meta.dirname, name), "utf8");
    return [...text.matchAll(/\bfrom "([^"]+)"|\bimport\("([^"]+)"\)/g)].map(([, a, b]) => `${name}: ${a ?? b}`);
  });
  const foreign = imported.filter((one) => {
    const [name = "", path = ""] = one.split(": ");
    if (path.startsWith("node:")) return !ALLOWED.includes(path);
    const from = relative(import.meta.dirname, join(import.meta.dirname, dirname(name), path));
    return from.startsWith("..") && !ALLOWED.includes(from);
  });
  expect(foreign).toEqual([]);
});
