import { closeSync, ftruncateSync, mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { readManifestText } from "../../cli/manifests/documents.ts";
import { manifestFiles } from "../../cli/manifests/files.ts";

const lines = (n: number, line: (i: number) => string) => Array.from({ length: n }, (_, i) => line(i)).join("");

/** Texts of each kind with n parts. */
const SHAPES: Readonly<Record<string, (n: number) => string>> = {
  "keys in one mapping": (n) => `data:\n${lines(n, (i) => `  key${i}: v\n`)}`,
  "keys in one line": (n) => `{${lines(n, (i) => `key${i}: v, `)}}`,
  "keys in JSON": (n) => JSON.stringify(Object.fromEntries(Array.from({ length: n }, (_, i) => [`k${i}`, i]))),
  "keys at the top beside a long list": (n) =>
    `${lines(n, (i) => `key${i}: v\n`)}kind: List\nitems:\n${lines(n, (i) => `- a: ${i}\n`)}`,
  "items of a list": (n) => `kind: List\nitems:\n${lines(n, (i) => `- a: ${i}\n`)}`,
  "values with an anchor and an alias each": (n) => lines(n, (i) => `k${i}: &a${i} x\nl${i}: *a${i}\n`),
  "aliases of one anchor": (n) => `a: &a x\n${lines(n, (i) => `k${i}: *a\n`)}`,
  "merged mappings": (n) => `b: &b {x: 1}\n${lines(n, (i) => `k${i}: {<<: *b, y: ${i}}\n`)}`,
  documents: (n) => lines(n, (i) => `---\na: ${i}\n`),
  separators: (n) => "---\n".repeat(n),
  comments: (n) => `a:\n${lines(n, (i) => `  # c${i}\n  k${i}: v\n`)}`,
  "lines of a text": (n) => `a: |\n${lines(20 * n, (i) => `  word${i}\n`)}`,
  "escapes in a text": (n) => `a: "${"\\u0041\\n".repeat(20 * n)}"\n`,
  "levels of nesting": (n) => "[".repeat(n) + "]".repeat(n),
  "an error in each line": (n) => lines(n, (i) => `k${i}: }\n`),
};

describe("a file is read in time proportional to its size, whatever it has many of:", () => {
  test.each(Object.entries(SHAPES))("%s", (_name, shape) => {
    const few = cpuMsOf(shape(2_000));
    const many = cpuMsOf(shape(8_000));
    // Four times as much; sixteen times where each part is compared with all others.
    expect(many).toBeLessThan(8 * Math.max(few, 5));
  });
});

/** Of this process, so that others on the machine do not count. The best of five: a collection takes as long. */
function cpuMsOf(text: string): number {
  return Math.min(
    ...[1, 2, 3, 4, 5].map(() => {
      const before = process.cpuUsage();
      for (const _ of readManifestText(text));
      const { user, system } = process.cpuUsage(before);
      return (user + system) / 1_000;
    }),
  );
}

const read = (text: string) => [...readManifestText(text)];

test("a key that is there twice is refused with its line, and the other documents are read", () => {
  expect(read("a: 1\n---\nb:\n  x: 1\n  x: 2\n---\nc: 3\n")).toEqual([
    { object: { a: 1 }, line: 1 },
    { line: 5, column: 3, problem: 'key "x" is there twice in one mapping: remove one' },
    { object: { c: 3 }, line: 7 },
  ]);
});

describe("a name that would alter objects in JavaScript is refused by line, and alters nothing:", () => {
  test.each([
    ["a: {b: {__proto__: {polluted: 1}}}", "__proto__"],
    ['{"a": {"__proto__": {"polluted": 1}}}', "__proto__"],
    ['{"a": {"\\u005f_proto__": {"polluted": 1}}}', "__proto__"],
    ["a: {constructor: {prototype: {polluted: 1}}}", "constructor.prototype"],
    ["a: {x: &x {prototype: {polluted: 1}}, constructor: *x}", "constructor.prototype"],
    ["a: {x: &x {prototype: {polluted: 1}}, constructor: {<<: *x}}", "constructor.prototype"],
  ])("%s", (document, name) => {
    const parts = read(`before: 1\n---\n${document}\n---\nafter: 1\n`);
    expect(parts).toMatchObject([
      { object: { before: 1 } },
      { line: 3, problem: expect.stringMatching(`^${name} cannot be a key`) },
      { object: { after: 1 } },
    ]);
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });
});

test("aliases and merged mappings stand for what they name", () => {
  expect(read("a: &a [1, 2]\nb: *a\nm: &m {p: 1, q: 2}\nn: {<<: *m, q: 3}\no: {<<: [*m, {p: 9, r: 4}]}\n")).toEqual([
    {
      object: { a: [1, 2], b: [1, 2], m: { p: 1, q: 2 }, n: { p: 1, q: 3 }, o: { p: 1, q: 2, r: 4 } },
      line: 1,
    },
  ]);
});

test.each([
  ["a: &a [*a]", 1, 8, "the alias *a is inside the value that it stands for"],
  ["a: 1\nb: *c", 2, 4, "no anchor &c comes before the alias *c"],
  ["a: 1\n<<: 7", 2, 1, "<< expects a mapping, or a list of mappings"],
  ["? [a]\n: b", 1, 3, "With stringKeys, all keys must be strings"],
])("%j is refused: %i:%i: %s", (text, line, column, problem) => {
  expect(read(text)).toEqual([{ line, column, problem }]);
});

test("a file that is too large to be parsed is not read", async () => {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-large-"));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const path = join(directory, "large.yaml");
  const file = openSync(path, "w");
  ftruncateSync(file, (128 << 20) + 1);
  closeSync(file);
  const [large] = manifestFiles(path);
  await expect(large?.read()).rejects.toThrow(`${path} is larger than 128 MiB`);
});

test.each([
  ["brackets", "[".repeat(5_000) + "]".repeat(5_000)],
  ["brackets that do not end", "[".repeat(100_000)],
  ["braces", `${"{a: ".repeat(5_000)}1${"}".repeat(5_000)}`],
  ["keys", `${"? ".repeat(5_000)}a`],
  ["entries", `${"- ".repeat(5_000)}a`],
  ["indentation", Array.from({ length: 500 }, (_, level) => `${" ".repeat(level)}a:`).join("\n")],
  ["JSON", `${'{"a":['.repeat(5_000)}${"]}".repeat(5_000)}`],
])("a document of thousands of levels is refused by itself: %s", (_, deep) => {
  const [first, fault, last] = read(`kind: A\n---\n${deep}\n---\nkind: B\n`);
  expect(first).toEqual({ line: 1, object: { kind: "A" } });
  expect(fault).toMatchObject({ problem: "it is nested deeper than 64 levels" });
  // Where the library cannot read to the end of the document, nothing after it is known.
  if (/^(- |\? )/.test(deep)) expect(last).toBeUndefined();
  else expect(last).toMatchObject({ object: { kind: "B" } });
});

test("an object that is nested too deeply is refused by itself", () => {
  const deep = `${"[".repeat(63)}${"]".repeat(63)}`;
  expect(read(`kind: List\nitems:\n- a: ${deep}\n- b: 1\n`)).toEqual([
    { line: 3, column: 3, problem: "it is nested deeper than 64 levels" },
    { object: { b: 1 }, line: 4 },
  ]);
});
