import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { compareKeys } from "../../../metadata/documents/machine/yaml-key-order.ts";
import { TextTooLong, type YamlValue, yamlMapping } from "../../../metadata/documents/machine/yaml-text.ts";
import { readYaml, whyNoCloudInit } from "../cloud-init/cloud-init.ts";
import { anyText, anyValue } from "./arbitraries.ts";

/** What gopkg.in/yaml.v2 2.4.0, which is also go.yaml.in/yaml/v2, wrote of these documents. */
const TEXTS: readonly { readonly value: Record<string, YamlValue>; readonly text: string }[] = JSON.parse(
  readFileSync(join(import.meta.dirname, "vectors/yaml-texts.json"), "utf8"),
);

test("documents are written in the bytes that Go's library writes", () => {
  expect(TEXTS.length).toBeGreaterThan(200);
  for (const { value, text } of TEXTS) expect(yamlMapping(value)).toBe(text);
});

test.each([
  ["=", "PyYAML takes it for a default value and gives up"],
  ["<<", "a merge"],
  ["2024-99-99", "PyYAML decides on a date before it looks at its month"],
  ["2001-12-14 21:59:43.10 -5", "a time zone without minutes"],
  ["0x0123456789abcdef0123", "a number of more than 64 bits"],
  ["0x_", "no digit, but PyYAML reads a number"],
  [".1_2", "a float with an underscore"],
  ["1e999", "a float beyond all floats"],
])("%j is in quotes, which Go's library leaves out: %s", (text) => {
  expect(yamlMapping({ key: text })).toBe(`key: "${text}"\n`);
});

test("line breaks of YAML 1.1 that are none in 1.2 are escaped", () => {
  expect(yamlMapping({ a: "x\u2028y\nz", b: "\u2029" })).toBe('a: "x\\Ly\\nz"\nb: "\\P"\n');
});

test("an unpaired surrogate, which UTF-8 cannot say, becomes U+FFFD", () => {
  expect(yamlMapping({ "\ud800": "a\udfffb" })).toBe("\ufffd: a\ufffdb\n");
});

describe("keys", () => {
  test.each([
    ["eth2", "eth10", "digits are a number"],
    ["eth1", "eth01", "of equal numbers the shorter text is first"],
    ["eth10", "eth100", "a number that goes on"],
    ["a_b", "aB", "what is no letter comes before letters"],
    ["a-1", "a1", "a hyphen is none of a number's characters"],
    ["B", "a", "letters by code point"],
    ["a", "ab", "the shorter first"],
    ["", "0", "nothing before anything"],
  ])("%j is before %j: %s", (first, second) => {
    expect(compareKeys(first, second)).toBeLessThan(0);
    expect(compareKeys(second, first)).toBeGreaterThan(0);
  });
});

test("the same keys are in the same order, whoever was put in first", () => {
  // Each is before the next, and the last before the first.
  const [a, b, c] = ["1a", "2_", "10"] as const;
  expect([compareKeys(a, b), compareKeys(b, c), compareKeys(c, a)].every((order) => order < 0)).toBe(true);
  const texts = [
    [a, b, c],
    [b, c, a],
    [c, a, b],
  ].map((keys) => yamlMapping(Object.fromEntries(keys.map((key) => [key, ""]))));
  expect(new Set(texts).size).toBe(1);
});

test("a reader of YAML 1.1 in JavaScript reads back every value", () => {
  // It takes a point or an exponent alone for a float, as no other reader does.
  const misread = /"[-+]?(\._*|(\._*)?[eE][-+]?\d+)"/;
  fc.assert(
    fc.property(fc.dictionary(anyText, anyValue), (given) => {
      const json = JSON.stringify(given);
      fc.pre(!misread.test(json));
      const value = JSON.parse(json);
      expect(parse(yamlMapping(value), { version: "1.1", logLevel: "error" })).toEqual(value);
    }),
    { numRuns: 1_000 },
  );
});

test("keys with a backslash are read back", () => {
  for (const key of ["\\", "a\\nb", "\\\\", '\\"'])
    expect(parse(yamlMapping({ [key]: "x", "\n": 1 }), { version: "1.1" })).toEqual({ [key]: "x", "\n": 1 });
});

test.skipIf(whyNoCloudInit() !== null)("PyYAML, which guests have, reads back every value", async () => {
  const values = fc.sample(fc.dictionary(anyText, anyValue), 2_000).map((value) => JSON.parse(JSON.stringify(value)));
  const read = await readYaml(values.map((value) => yamlMapping(value)));
  expect(read).toHaveLength(values.length);
  for (const [at, value] of values.entries()) {
    expect(read[at], yamlMapping(value)).toEqual(value);
  }
});

test("a text that becomes too long is not written to its end", () => {
  const ITEMS = 50_000;
  let reads = 0;
  const items = new Proxy(
    Array.from({ length: ITEMS }, () => ""),
    {
      get(target, key) {
        if (typeof key === "string" && /^\d+$/.test(key)) reads += 1;
        return Reflect.get(target, key);
      },
    },
  );
  expect(() => yamlMapping({ items }, 10_000)).toThrow(TextTooLong);
  // Each is read once to be counted.
  expect(reads).toBeLessThan(ITEMS + 10_000);
  expect(() => yamlMapping({ a: "x".repeat(5_000), b: "x".repeat(5_000) }, 10_000)).toThrow(TextTooLong);
  expect(yamlMapping({ a: "x".repeat(9_000) }, 10_000)).toHaveLength(9_004);
});
