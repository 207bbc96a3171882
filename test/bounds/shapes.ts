/*
 * test/bounds/: what others may write, in the shapes that cost most, and what is kept of it
 *
 *   shapes     texts of any length in those shapes
 *   measure    what a reading keeps, and how its time grows
 *   objects    objects of the cluster whose fields have such a text
 *   views      what is kept of each kind, and the fields of it that can be long
 *
 * The table of every such field, who writes it and its bound: docs/bounds.md.
 */

/** JSON of about so many bytes. `salt` makes texts of one shape differ, as those of different senders do. */
export type Shape = (bytes: number, salt: number) => string;

/** Lists and maps are of many small items; a text that cannot be shorter is as short as it can be. */
export const SHAPES = {
  "nested lists": (bytes) => `${"[".repeat(bytes / 2)}${"]".repeat(bytes / 2)}`,
  "nested objects": (bytes) => `${'{"a":'.repeat(bytes / 6)}0${"}".repeat(bytes / 6)}`,
  "empty lists": (bytes) => list(bytes, () => "[]"),
  "empty objects": (bytes) => list(bytes, () => "{}"),
  numbers: (bytes) => list(bytes, (at) => `${at % 10}`),
  digits: (bytes, salt) => `${(salt % 9) + 1}`.padEnd(bytes, "7"),
  texts: (bytes, salt) => list(bytes, (at) => `"${(at + salt * 1_000_000).toString(36)}"`),
  text: (bytes, salt) => `"${String(salt).padEnd(bytes - 2, "a")}"`,
  "wide text": (bytes, salt) => `"${String(salt).padEnd(bytes - 5, "a")}€"`,
  escapes: (bytes, salt) => `"${salt % 10}${"\\u0001".repeat((bytes - 3) / 6)}"`,
  keys: (bytes, salt) => map(bytes, (at) => `"${(at + salt * 1_000_000).toString(36)}":""`),
  "numbers as keys": (bytes, salt) => map(bytes, (at) => `"${(at + salt * 20_000) * 97}":""`),
  "one key": (bytes) => map(bytes, () => `"a":""`),
} satisfies Record<string, Shape>;

/** A list of as many items as fit. */
export function list(bytes: number, item: (at: number) => string): string {
  return `[${joined(bytes, item)}]`;
}

/** An object of as many members as fit. */
function map(bytes: number, member: (at: number) => string): string {
  return `{${joined(bytes, member)}}`;
}

/** Items with commas between them: as many as fit. */
export function joined(bytes: number, item: (at: number) => string): string {
  const items: string[] = [];
  let left = bytes - 2;
  for (let at = 0; ; at += 1) {
    const one = item(at);
    left -= one.length + 1;
    if (left < 0) return items.join(",");
    items.push(one);
  }
}
