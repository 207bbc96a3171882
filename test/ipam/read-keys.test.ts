/** Every key that is read of what others write too, as a program in Go reads it. The list is the declaration itself. */
import { describe, expect, test } from "vitest";
import { foldAsGo, parseAsGo } from "../../ipam/definition/go-json.ts";
import {
  LIST_KEYS,
  NETWORK_STATUS_KEYS,
  POD_NETWORKS_KEYS,
  PREVIOUS_RESULT_KEYS,
  SELECTION_KEYS,
} from "../../ipam/definition/read-keys.ts";
import { otherCase, pathsOf, spellings, textAt, valueAt } from "./key-paths.ts";

const PATHS = [LIST_KEYS, PREVIOUS_RESULT_KEYS, SELECTION_KEYS, NETWORK_STATUS_KEYS, POD_NETWORKS_KEYS].flatMap(
  pathsOf,
);

describe.each(PATHS.map((one) => [one.path.join("."), one] as const))("%s", (_, { keys, path, kind }) => {
  const name = path.at(-1) as string;
  const read = (...members: (readonly [string, string])[]) =>
    valueAt(parseAsGo(textAt(path, members), 10_000, keys), path);
  const isMerged = kind === "MAP" || (typeof kind === "object" && !Array.isArray(kind));

  test.each(spellings(name))("as %s", (written) => {
    expect(read([written, '"a"'])).toBe("a");
    expect(valueAt(foldAsGo(JSON.parse(textAt(path, [[written, '"a"']])), keys), path)).toBe("a");
  });

  test("of two, the last counts, whatever their spelling", () => {
    const other = otherCase(name);
    expect(read([name, "1"], [other, "2"])).toBe(2);
    expect(read([other, "2"], [name, "1"])).toBe(1);
    expect(read([name, "1"], [other, "2"], [name, "3"])).toBe(3);
    // Through a map they are sorted.
    for (const members of [
      [[name, "1"] as const, [other, "2"] as const],
      [[other, "2"] as const, [name, "1"] as const],
    ])
      expect(valueAt(foldAsGo(JSON.parse(textAt(path, members)), keys), path)).toBe(name < other ? 2 : 1);
  });

  test("null", () => {
    expect(read([name, "null"])).toBeUndefined();
    const isList = kind === "LIST" || kind === "MAP" || Array.isArray(kind);
    expect(read([name, "1"], [name, "null"])).toBe(isList ? undefined : 1);
  });

  if (isMerged)
    test("an object that comes twice is one", () => {
      expect(read([name, '{"x":1}'], [name.toUpperCase(), '{"y":2}'])).toEqual({ x: 1, y: 2 });
    });
});

test("other keys stay as they are written", () => {
  expect(parseAsGo('{"A":1,"a":2,"__proto__":{"b":3}}', 100, LIST_KEYS)).toEqual(
    JSON.parse('{"A":1,"a":2,"__proto__":{"b":3}}'),
  );
});
