import { badRequest, Failure } from "./failure.ts";
import { copyOf, isEqual, isRecord, type KubeObject } from "./objects.ts";

interface Operation {
  readonly op: string;
  readonly path: string;
  readonly from?: string;
  readonly value?: unknown;
}

/** The object after a merge patch (RFC 7386). */
export function mergePatched(object: KubeObject, patch: KubeObject): KubeObject {
  if (!isRecord(patch)) return copyOf(patch);
  const result: Record<string, unknown> = isRecord(object) ? { ...object } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = mergePatched(result[key], value);
  }
  return result;
}

/**
 * The object after a JSON patch (RFC 6902), all of it or nothing. Throws Failure: 400 for nonsense, 422 for what cannot
 * be done.
 */
export function jsonPatched(object: KubeObject, patch: unknown): KubeObject {
  if (!Array.isArray(patch)) throw badRequest("json: cannot unmarshal object into Go value of type jsonpatch.Patch");
  return (patch as Operation[]).reduce<KubeObject>(applied, copyOf(object));
}

const cannot = () =>
  new Failure(422, "Invalid", "the server rejected our request due to an error in our request", {
    details: {},
  });

function applied(document: KubeObject, { op, path, from, value }: Operation): KubeObject {
  switch (op) {
    case "test":
      if (!isEqual(at(document, path, true), value ?? null)) throw cannot();
      return document;
    case "add":
      return added(document, path, copyOf(value));
    case "replace":
      at(document, path);
      return path === "" ? copyOf(value) : put(document, path, copyOf(value));
    case "remove":
      return removed(document, path);
    case "move": {
      const moved = at(document, from ?? "");
      return added(removed(document, from ?? ""), path, moved);
    }
    case "copy":
      return added(document, path, copyOf(at(document, from ?? "")));
    default:
      throw cannot();
  }
}

function keysOf(path: string): string[] {
  return path
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** What is there; `absentIsNull` for a test, which may ask for nothing. */
function at(document: KubeObject, path: string, absentIsNull = false): unknown {
  let value: unknown = document;
  for (const key of keysOf(path)) {
    const inner =
      value !== null && typeof value === "object" && Object.hasOwn(value, key) ? (value as KubeObject)[key] : undefined;
    if (inner === undefined && !absentIsNull) throw cannot();
    value = inner ?? null;
  }
  return value;
}

function holderOf(document: KubeObject, path: string): { holder: KubeObject; key: string } {
  const cut = path.lastIndexOf("/");
  const holder = at(document, path.slice(0, cut)) as KubeObject;
  if (holder === null || typeof holder !== "object") throw cannot();
  return { holder, key: keysOf(path.slice(cut))[0] ?? "" };
}

function added(document: KubeObject, path: string, value: unknown): KubeObject {
  if (path === "") return value;
  const { holder, key } = holderOf(document, path);
  if (!Array.isArray(holder)) return put(document, path, value);
  const index = key === "-" ? holder.length : Number(key);
  if (!Number.isInteger(index) || index < 0 || index > holder.length) throw cannot();
  holder.splice(index, 0, value);
  return document;
}

function put(document: KubeObject, path: string, value: unknown): KubeObject {
  const { holder, key } = holderOf(document, path);
  holder[key] = value;
  return document;
}

function removed(document: KubeObject, path: string): KubeObject {
  at(document, path);
  const { holder, key } = holderOf(document, path);
  if (Array.isArray(holder)) holder.splice(Number(key), 1);
  else delete holder[key];
  return document;
}
