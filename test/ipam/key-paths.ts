/**
 * The paths to the keys that are read of what others write too, and configurations that have such a key in many ways.
 */
import type { Keys } from "../../ipam/definition/go-json.ts";

type Kind = Keys[string];
interface Path {
  readonly keys: Keys | readonly [Keys];
  readonly path: readonly string[];
  readonly kind: Kind;
}

/** The paths to all keys; "0" stands for an entry of a list. */
export function pathsOf(root: Path["keys"]): Path[] {
  const inside = (kind: Kind, path: readonly string[]): Path[] => {
    if (typeof kind === "string") return [];
    if (Array.isArray(kind)) return inside(kind[0], [...path, "0"]);
    return Object.entries(kind as Keys).flatMap(([name, one]) => {
      const own = [...path, name === "*" ? "any" : name];
      return [...(name === "*" ? [] : [{ keys: root, path: own, kind: one }]), ...inside(one, own)];
    });
  };
  return inside(root, []);
}

/** `[{"mac":VALUES}]`, with several members in place of the last key. */
export function textAt(path: readonly string[], members: readonly (readonly [string, string])[]): string {
  const last = `{${members.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join()}}`;
  return path
    .slice(0, -1)
    .reduceRight((text, key) => (key === "0" ? `[${text}]` : `{${JSON.stringify(key)}:${text}}`), last);
}

export function valueAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce((at, key) => (at as Record<string, unknown> | undefined)?.[key], value);
}

export const spellings = (name: string) => [
  name.toUpperCase(),
  name.slice(0, 1).toUpperCase() + name.slice(1).toLowerCase(),
  name.replaceAll("s", "\u017f").replaceAll("k", "\u212a"),
];

export function otherCase(name: string): string {
  return name.toUpperCase() === name ? name.toLowerCase() : name.toUpperCase();
}

/** The members of an object that has a key in three spellings, twice, and as null; `one` and `other` are JSON. */
export function waysToWrite(name: string, one: string, other: string): [string, string][][] {
  const cased = otherCase(name);
  const twice = (second: string): [string, string][][] => [
    [
      [name, one],
      [cased, second],
    ],
    [
      [cased, one],
      [name, second],
    ],
    [
      [name, one],
      [name, second],
    ],
  ];
  return [
    ...spellings(name).map((written): [string, string][] => [[written, one]]),
    ...twice(other),
    [[name, "null"]],
    ...twice("null"),
    [
      [name, "null"],
      [cased, one],
    ],
  ];
}
