/**
 * The value, with every part that equals the part of an earlier value at the same place replaced by that one: objects
 * of a kind mostly say the same, and each parsed copy of a text, an owner or a condition takes memory of its own. The
 * value itself stays a new one. Both must be plain data that nobody changes; of maps only empty ones are shared.
 */
export function sharingParts<T extends object>(value: T, earlier: object): T {
  for (const [key, part] of Object.entries(value))
    (value as Record<string, unknown>)[key] = shared(part, (earlier as Record<string, unknown>)[key]);
  return value;
}

function shared(part: unknown, known: unknown): unknown {
  // Equal texts may still be two copies.
  if (part === known) return known;
  if (!isObject(part) || !isObject(known)) return part;
  if (part instanceof Map) return known instanceof Map && part.size + known.size === 0 ? known : part;
  if (!isPlain(part) || Array.isArray(part) !== Array.isArray(known) || Object.isFrozen(part)) return part;
  sharingParts(part, known);
  const keys = Object.keys(part);
  const isEqual = keys.every((key) => Reflect.get(part, key) === Reflect.get(known, key));
  return isEqual && keys.length === Object.keys(known).length ? known : part;
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** What other kinds of objects hold is not in their keys. */
function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === Array.prototype;
}
