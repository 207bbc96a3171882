import { Buffer } from "node:buffer";
import { TOO_DEEP } from "../ipam/definition/bounded-json.ts";

/** Levels of nesting in a view: more than any kind has. JSON.stringify overflows the stack at some thousands. */
const LEVELS_MAX = 1_000;
/** Values in a view that is kept as it is: several times those of a big VM. */
const VALUES_MAX = 512;
/** Values of a field that stays an object in a view above that. */
const FIELD_VALUES_MAX = 32;
/** What a value costs besides its characters, bytes: its place, and an object's or a string's own fields. */
const VALUE_BYTES = 32;

export interface Weight {
  /** Objects, lists, texts, numbers and keys. */
  readonly values: number;
  /** About what it takes of the memory. */
  readonly bytes: number;
}

/**
 * Whoever may write an object decides how many small values it has, and each of them takes many times the memory of its
 * text. So of a view with very many, the big fields are kept as a text, which is read again whenever somebody asks for
 * the field. Nothing is left out (docs/decisions/0088). Changes the view and returns it; throws an Error for one that
 * is nested too deeply to be read by anybody.
 */
export function leanView<T>(view: T): T {
  if (!isPlain(view) || weightOf(view).values <= VALUES_MAX) return view;
  const known = new Map<object, PackedField>();
  for (const [name, value] of Object.entries(view)) {
    if (typeof value !== "object" || value === null || weightOf(value).values <= FIELD_VALUES_MAX) continue;
    if (!isPackable(value)) continue;
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

/** Throws an Error for what is nested too deeply. */
export function weightOf(value: unknown): Weight {
  const weight = { values: 0, bytes: 0 };
  add(weight, value, 0);
  return weight;
}

const TOO_DEEP_VIEW = TOO_DEEP.replace(/\d+/, `${LEVELS_MAX}`);

function add(weight: { values: number; bytes: number }, value: unknown, level: number): void {
  weight.values += 1;
  weight.bytes += VALUE_BYTES;
  if (typeof value === "string") weight.bytes += value.length;
  if (typeof value !== "object" || value === null) return;
  if (level > LEVELS_MAX) throw new Error(TOO_DEEP_VIEW);
  if (Buffer.isBuffer(value)) weight.bytes += value.length;
  else if (Array.isArray(value)) for (const one of value) add(weight, one, level + 1);
  else if (value instanceof Map)
    for (const [key, one] of value) {
      add(weight, key, level + 1);
      add(weight, one, level + 1);
    }
  else addMembers(weight, value as Readonly<Record<string, unknown>>, level);
}

/** Packed fields, which only views have, are not unpacked for it. */
function addMembers(
  weight: { values: number; bytes: number },
  object: Readonly<Record<string, unknown>>,
  level: number,
): void {
  for (const name in object) {
    weight.bytes += VALUE_BYTES + name.length;
    const get = level === 0 ? Object.getOwnPropertyDescriptor(object, name)?.get : undefined;
    if (get === undefined) add(weight, object[name], level + 1);
    else weight.bytes += (get as { bytes?: number }).bytes ?? 0;
  }
}

class PackedField {
  readonly #text: string;
  readonly #isMap: boolean;
  /** Asked for several times in a row, mostly; whoever has it goes on with the same one. */
  #latest: WeakRef<object> | null = null;

  constructor(value: object) {
    this.#isMap = value instanceof Map;
    this.#text = JSON.stringify(value instanceof Map ? encoded(value) : value);
  }

  get bytes(): number {
    return this.#text.length;
  }

  get value(): object {
    const known = this.#latest?.deref();
    if (known !== undefined) return known;
    const parsed = JSON.parse(this.#text);
    const value = this.#isMap ? decoded(parsed) : parsed;
    this.#latest = new WeakRef(value);
    return value;
  }
}

type Encoded = readonly (readonly [key: unknown, value: unknown])[];

/** Bytes in base64, in a list of their own. */
function encoded(map: ReadonlyMap<unknown, unknown>): Encoded {
  return [...map].map(([key, value]) => [key, Buffer.isBuffer(value) ? [value.toString("base64")] : value]);
}

function decoded(entries: Encoded): Map<unknown, unknown> {
  return new Map(entries.map(([key, value]) => [key, Array.isArray(value) ? Buffer.from(value[0], "base64") : value]));
}

/** JSON, or a map of texts or bytes: views have nothing else that is long. */
function isPackable(value: object): boolean {
  if (!(value instanceof Map)) return Array.isArray(value) || isPlain(value);
  for (const one of value.values()) if (typeof one !== "string" && !Buffer.isBuffer(one)) return false;
  return true;
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
