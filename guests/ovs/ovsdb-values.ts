/**
 * Values of columns as OVSDB writes them (RFC 7047, section 5.1): an atom, `["set", [atom, …]]` or
 * `["map", [[atom, atom], …]]`; a set of one may be the bare atom; a reference is `["uuid", "…"]`.
 */

/** Reads a column. Throws Error for a value of another type: the database has another schema. */
export type ReadColumn<T> = (value: unknown) => T;

export type Columns = Readonly<Record<string, ReadColumn<unknown>>>;

/** A row: what its columns are read as. */
export type Row<C extends Columns> = { readonly [Name in keyof C]: ReturnType<C[Name]> };

export function readRow<C extends Columns>(columns: C, values: Readonly<Record<string, unknown>>): Row<C> {
  const read = Object.entries(columns).map(([name, column]) => {
    try {
      return [name, column(values[name])];
    } catch {
      throw new Error(`column ${name} has an unexpected value: ${JSON.stringify(values[name])?.slice(0, 200)}`);
    }
  });
  return Object.fromEntries(read) as Row<C>;
}

export const text: ReadColumn<string> = (value) => stringOf(value);

export const optionalText: ReadColumn<string | null> = (value) => {
  const [only] = atomsOf(value);
  return only === undefined ? null : stringOf(only);
};

export const optionalInteger: ReadColumn<number | null> = (value) => {
  const [only] = atomsOf(value);
  return only === undefined ? null : numberOf(only);
};

export const integers: ReadColumn<readonly number[]> = (value) => atomsOf(value).map(numberOf);

export const uuids: ReadColumn<readonly string[]> = (value) => atomsOf(value).map(uuidOf);

export const textMap: ReadColumn<ReadonlyMap<string, string>> = (value) => {
  if (!isPair(value, "map") || !Array.isArray(value[1])) throw new Error("expected a map");
  return new Map(value[1].map((entry: unknown[]) => [stringOf(entry[0]), stringOf(entry[1])]));
};

/** A map, to be written. */
export function toMap(entries: Iterable<readonly [string, string]>): unknown {
  return ["map", [...entries]];
}

/** References to rows, to be written. */
export function toUuids(references: readonly string[]): unknown {
  return ["set", references.map((uuid) => ["uuid", uuid])];
}

/** A row that the same transaction inserts under this `uuid-name`. */
export function toNamed(name: string): unknown {
  return ["named-uuid", name];
}

function atomsOf(value: unknown): readonly unknown[] {
  if (!isPair(value, "set")) return [value];
  if (!Array.isArray(value[1])) throw new Error("expected a set");
  return value[1];
}

function uuidOf(value: unknown): string {
  if (!isPair(value, "uuid")) throw new Error("expected a reference");
  return stringOf(value[1]);
}

function isPair(value: unknown, tag: string): value is readonly [string, unknown] {
  return Array.isArray(value) && value.length === 2 && value[0] === tag;
}

function stringOf(value: unknown): string {
  if (typeof value !== "string") throw new Error("expected a string");
  return value;
}

function numberOf(value: unknown): number {
  if (typeof value !== "number") throw new Error("expected a number");
  return value;
}
