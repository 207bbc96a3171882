/** An object of the API as JSON has it. */
// biome-ignore lint/suspicious/noExplicitAny: objects of every kind
export type KubeObject = any;

/** A copy that shares nothing. The value is JSON. */
export function copyOf<T>(value: T): T {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(copyOf) as T;
  const copy: Record<string, unknown> = {};
  for (const key of Object.keys(value)) copy[key] = copyOf((value as Record<string, unknown>)[key]);
  return copy as T;
}

/** What arrives of a value that is sent as JSON. */
export function overTheWire<T>(value: T): T {
  return value === undefined ? value : JSON.parse(JSON.stringify(value));
}

/** Whether two JSON values are equal; the order of keys means nothing. */
export function isEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
    return a.every((one, index) => isEqual(one, b[index]));
  }
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => Object.hasOwn(b, key) && isEqual((a as KubeObject)[key], (b as KubeObject)[key]));
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** As the server writes times, of objects and in headers, ms since the epoch. */
export function wholeSeconds(wallMs: number): number {
  return Math.floor(wallMs / 1_000) * 1_000;
}
