import { Buffer } from "node:buffer";
import { TOO_DEEP } from "../ipam/definition/bounded-json.ts";

/** Levels of nesting in a view: more than any kind has. JSON.stringify overflows the stack at some thousands. */
const LEVELS_MAX = 128;
/** Values in a view that is kept as it is: several times those of a big VM. */
const VALUES_MAX = 512;
/** Values of a field that stays an object in a view above that. */
const FIELD_VALUES_MAX = 32;
/** What a value costs besides its characters, bytes: its place, and an object's or a string's own fields. */
const VALUE_BYTES = 32;

/** How much there is in a value. */
export interface Weight {
  /** Objects, lists, texts, numbers and keys. */
  readonly values: number;
  /** About what it takes of the memory. */
  readonly bytes: number;
}

/**
 * Whoever may write an object decides how many small values it has, and each of them takes many times the memory of its text. So
 * of a view with very many, the big fields are kept as a text, which is read again whenever somebody asks for the field. Nothing is
 * left out. Changes the view and returns it; throws an Error for one that is nested too deeply to be read by anybody.
 */
export function leanView<T>(view: T): T {
  if (!isPlain(view) || weightOf(view).values <= VALUES_MAX) return view;
  const known = new Map<object, PackedField>();
  for (const [name, value] of Object.entries(view)) {
    if (typeof value !== "object" || value === null || weightOf(value).values <= FIELD_VALUES_MAX) continue;
    const packed = known.get(value) ?? new PackedField(value);
    known.set(value, packed);
    Object.defineProperty(view, name, {
      get: Object.assign(() => packed.value, { bytes: packed.bytes }),
      enumerable: true,
      configurable: true,
    });
  }
  return view;
}

/** Without recursion. Throws an Error for what is nested too deeply. */
export function weightOf(value: unknown): Weight {
  let [values, bytes] = [0, 0];
  const open: [value: unknown, level: number][] = [[value, 0]];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [one, level] = next;
    values += 1;
    bytes += VALUE_BYTES;
    if (typeof one === "string") bytes += one.length;
    if (typeof one !== "object" || one === null) continue;
    if (level > LEVELS_MAX) throw new Error(TOO_DEEP_VIEW);
    if (Buffer.isBuffer(one)) bytes += one.length;
    else if (Array.isArray(one)) for (const item of one) open.push([item, level + 1]);
    else if (one instanceof Map)
      for (const [key, item] of one) open.push([key, level + 1], [item, level + 1]);
    else bytes += membersOf(one, (item) => open.push([item, level + 1]));
  }
  return { values, bytes };
}

const TOO_DEEP_VIEW = TOO_DEEP.replace(/\d+/, `${LEVELS_MAX}`);

/** Tells the values of an object. Returns the bytes of its keys, and of its packed fields, which are not unpacked for it. */
function membersOf(object: object, each: (value: unknown) => void): number {
  let bytes = 0;
  for (const name of Object.keys(object)) {
    bytes += VALUE_BYTES + name.length;
    const { value, get } = Object.getOwnPropertyDescriptor(object, name) as PropertyDescriptor;
    if (get === undefined) each(value);
    else bytes += (get as { bytes?: number }).bytes ?? 0;
  }
  return bytes;
}

/** A value as its JSON. */
class PackedField {
  readonly #text: string;
  /** Asked for several times in a row, mostly; whoever has it goes on with the same one. */
  #latest: WeakRef<object> | null = null;

  constructor(value: object) {
    this.#text = JSON.stringify(value, (_key, one) => (one instanceof Map ? { [MAP]: encoded(one) } : one));
  }

  get bytes(): number {
    return this.#text.length;
  }

  get value(): object {
    const known = this.#latest?.deref();
    if (known !== undefined) return known;
    const value = JSON.parse(this.#text, (_key, one) => (isEncodedMap(one) ? decoded(one[MAP]) : one));
    this.#latest = new WeakRef(value);
    return value;
  }
}

/** No key of JSON that others write: a NUL is in no key of labels, annotations or fields. */
const MAP = "\u0000map";
type Encoded = readonly (readonly [key: unknown, value: unknown])[];

/** Bytes in base64, in a list of their own. */
function encoded(map: ReadonlyMap<unknown, unknown>): Encoded {
  return [...map].map(([key, value]) => [key, Buffer.isBuffer(value) ? [value.toString("base64")] : value]);
}

function decoded(entries: Encoded): Map<unknown, unknown> {
  return new Map(
    entries.map(([key, value]) => [key, Array.isArray(value) ? Buffer.from(value[0], "base64") : value]),
  );
}

function isEncodedMap(value: unknown): value is { readonly [MAP]: Encoded } {
  return typeof value === "object" && value !== null && Object.hasOwn(value, MAP);
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
