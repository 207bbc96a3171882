import { parseBoundedJson } from "./bounded-json.ts";

/**
 * Keys of an object, and what becomes of null in their place: VALUE (Go's string, bool or number) stays as it was, a
 * LIST becomes none. An object has keys itself, a list of objects is written in brackets; "*" is any key, as in a map.
 * A MAP is what the program keeps as a map and reads once more, sorted: its keys stay as written until `foldAsGo`.
 */
export interface Keys {
  readonly [name: string]: KeyKind;
}
type KeyKind = "VALUE" | "LIST" | "MAP" | Keys | readonly [Keys];

/**
 * Parses JSON as a program in Go reads it into a type with these keys. All who read the same configurations (runtimes,
 * Multus, the plugins, KubeVirt) do so: a key counts in any case, of two the last one, objects that come twice are one,
 * and null changes nothing. Keys that are not declared stay as written. `text` is what such a program gets. Throws an
 * Error with a sentence.
 */
export function parseAsGo(text: string, charsMax: number, keys: Keys | readonly [Keys]): unknown {
  parseBoundedJson(text, charsMax);
  return fold(new JsonReader(text).read(), keys, undefined, new Map());
}

/**
 * The same of a value that came by a map, as libcni passes configurations on: of keys that are the same but for their
 * case, the last by their bytes counts.
 */
export function foldAsGo(value: unknown, keys: Keys | readonly [Keys]): unknown {
  return fold(value, keys, undefined, new Map());
}

/** Of a key in any case, the declared one; null: none is declared. */
export function declaredKey(names: Iterable<string>, written: string): string | null {
  return finderOf(names)(written);
}

function finderOf(names: Iterable<string>): (written: string) => string | null {
  const exact = new Set(names);
  const folded = new Map([...exact].reverse().map((name) => [foldCase(name), name]));
  return (written) => (exact.has(written) ? written : (folded.get(foldCase(written)) ?? null));
}

/** Equal for names that Unicode's simple folding makes equal: also the long s and the Kelvin sign. */
function foldCase(text: string): string {
  return text.toLowerCase().replaceAll("\u017f", "s");
}

const NO_KEYS: Keys = {};
type Finders = Map<Keys, (written: string) => string | null>;

/** Whoever may write a network chooses how many keys an object has: names are folded once. */
function nameIn(keys: Keys, written: string, finders: Finders): string {
  const finder = finders.get(keys) ?? finderOf(Object.keys(keys));
  finders.set(keys, finder);
  return finder(written) ?? written;
}

/** An object as written, with keys that come twice. */
class Pairs {
  readonly entries: (readonly [string, unknown])[] = [];
}

function fold(value: unknown, kind: KeyKind | undefined, earlier: unknown, finders: Finders): unknown {
  if (Array.isArray(value)) {
    const items = Array.isArray(kind) ? (kind[0] as Keys) : undefined;
    return value.map((one) => fold(one, items, undefined, finders));
  }
  if (typeof value !== "object" || value === null) return value;
  const keys = typeof kind === "object" && !Array.isArray(kind) ? (kind as Keys) : NO_KEYS;
  const isOpen = isPlain(earlier) && (kind === "MAP" || Object.keys(keys).length > 0);
  const read = new Map<string, unknown>(isOpen ? Object.entries(earlier) : []);
  for (const [written, one] of entriesOf(value, keys, finders)) {
    const name = nameIn(keys, written, finders);
    const inside = Object.hasOwn(keys, name) ? keys[name] : keys["*"];
    if (one !== null || inside === undefined) read.set(name, fold(one, inside, read.get(name), finders));
    else if (inside === "LIST" || inside === "MAP" || Array.isArray(inside)) read.delete(name);
  }
  return Object.fromEntries(read);
}

function isPlain(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function entriesOf(value: object, keys: Keys, finders: Finders): readonly (readonly [string, unknown])[] {
  if (value instanceof Pairs) return value.entries;
  const entries = Object.entries(value);
  const names = new Set(entries.map(([written]) => nameIn(keys, written, finders)));
  return names.size === entries.length ? entries : entries.sort(([a], [b]) => (a < b ? -1 : 1));
}

/** Reads a text that is known to be JSON, with every key of its objects. */
class JsonReader {
  readonly #tokens: readonly string[];
  #at = 0;

  constructor(text: string) {
    this.#tokens = text.match(/"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]]|[^\s"{}[\],:]+/g) ?? [];
  }

  read(): unknown {
    const token = this.#next();
    if (token === "[") {
      const list: unknown[] = [];
      while (this.#tokens[this.#at] !== "]") list.push(this.read());
      this.#at += 1;
      return list;
    }
    if (token !== "{") return JSON.parse(token);
    const object = new Pairs();
    while (this.#tokens[this.#at] !== "}") {
      const key = JSON.parse(this.#next()) as string;
      object.entries.push([key, this.read()]);
    }
    this.#at += 1;
    return object;
  }

  #next(): string {
    const token = this.#tokens[this.#at] as string;
    this.#at += 1;
    return token;
  }
}
