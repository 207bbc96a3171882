import { Buffer } from "node:buffer";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import { isForPasswords, type ObjectKind } from "../kube/views/content-annotations.ts";
import type { AppliedContent } from "../store/manifests.ts";
import { invalid, isObject, type Json, readName } from "./manifest-parts.ts";

/** All values of one object together, as in Kubernetes. */
const CONTENT_BYTES_MAX = 1 << 20;
const KEY_CHARS_MAX = 253;
/** As the API server takes them; `..` could leave a directory. */
const KEY = /^(?!\.\.)(?!\.$)[A-Za-z0-9._-]+$/;
/** RFC 4648 with padding; line ends are ignored, as Kubernetes does. */
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

const COMMON_KEYS = ["apiVersion", "kind", "metadata", "data", "immutable"];
const KNOWN_KEYS: Readonly<Record<ObjectKind, readonly string[]>> = {
  Secret: [...COMMON_KEYS, "stringData", "type"],
  ConfigMap: [...COMMON_KEYS, "binaryData"],
};
/** Where values are base64, where they are text, and which counts for a key that both have. */
const ENCODED = { Secret: "data", ConfigMap: "binaryData" } as const;
const PLAIN = { Secret: "stringData", ConfigMap: "data" } as const;

/** No message contains a value. Throws RefusalError REQUEST_INVALID that names the key. */
export function readContentManifest(object: Json, kind: ObjectKind): AppliedContent {
  const { namespace, name } = readName(object);
  if (isForPasswords({ kind, name }))
    invalid("metadata.name", name, "that ConfigMap is for passwords in a cluster; use another name");
  const unknown = Object.keys(object).find((key) => !KNOWN_KEYS[kind].includes(key));
  if (unknown !== undefined) refuseValue(unknown, "unknown", `a ${kind} has ${KNOWN_KEYS[kind].slice(3).join(", ")}`);
  const { immutable = false } = object;
  if (typeof immutable !== "boolean") refuseValue("immutable", kindOf(immutable), "expected true or false");
  const values = readValues(object, kind);
  const bytes = Object.values(values).reduce((sum, value) => sum + value.length, 0);
  if (bytes > CONTENT_BYTES_MAX) {
    const remedy = `at most ${CONTENT_BYTES_MAX} bytes fit into a ${kind}, as in Kubernetes; let user-data #include the rest from a server`;
    refuseValue(ENCODED[kind], `${bytes} bytes long`, remedy);
  }
  const data = Object.fromEntries(
    Object.entries(values)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, value]) => [key, value.toString("base64")]),
  );
  return { kind, namespace, name, labels: readLabels(object), immutable, data, bytes };
}

function readValues(object: Json, kind: ObjectKind): Record<string, Buffer> {
  const encoded = readEntries(object, ENCODED[kind], decodeBase64);
  const plain = readEntries(object, PLAIN[kind], (text) => Buffer.from(text, "utf8"));
  const twice = kind === "ConfigMap" && Object.keys(plain).find((key) => Object.hasOwn(encoded, key));
  if (twice) refuseValue(`data.${twice}`, "given twice", "it is in binaryData as well; leave one out");
  return { ...encoded, ...plain };
}

function readEntries(
  object: Json,
  field: string,
  read: (text: string, path: string) => Buffer,
): Record<string, Buffer> {
  const entries = object[field] ?? {};
  if (!isObject(entries)) refuseValue(field, kindOf(entries), "expected an object: keys with their values");
  return Object.fromEntries(
    Object.entries(entries).map(([key, value]) => {
      if (key.length > KEY_CHARS_MAX || !KEY.test(key)) {
        const remedy = "expected letters, digits, '-', '_' and '.', at most 253, not beginning with '..'";
        refuseValue(`a key of ${field}`, JSON.stringify(key.slice(0, KEY_CHARS_MAX)), remedy);
      }
      const path = `${field}.${key}`;
      // As kubectl takes `key:` with nothing behind it.
      const text = value ?? "";
      if (typeof text !== "string") refuseValue(path, kindOf(text), "expected a string; put it in quotes");
      return [key, read(text, path)];
    }),
  );
}

function decodeBase64(text: string, path: string): Buffer {
  const joined = text.replaceAll(/[\r\n]/g, "");
  if (joined.length % 4 !== 0 || !BASE64.test(joined)) {
    const instead = path.startsWith("data.") ? "stringData" : "data";
    refuseValue(path, "not base64", `encode it (base64 -w0 FILE), or write the text itself under ${instead}`);
  }
  return Buffer.from(joined, "base64");
}

function readLabels({ metadata }: Json): Record<string, string> {
  const labels = (isObject(metadata) ? metadata.labels : undefined) ?? {};
  if (!isObject(labels)) refuseValue("metadata.labels", kindOf(labels), "expected an object");
  return Object.fromEntries(
    Object.entries(labels).map(([key, value]) => {
      if (typeof value === "string") return [key, value];
      return refuseValue(`metadata.labels["${key}"]`, kindOf(value), "expected a string; put it in quotes");
    }),
  );
}

/** What a value is, without telling it: it may be secret. */
function kindOf(value: unknown): string {
  if (value === null) return "null";
  if (typeof value === "object") return Array.isArray(value) ? "a list" : "an object";
  return `a ${typeof value}`;
}

function refuseValue(key: string, value: string, remedy: string): never {
  throw new RefusalError(refuse("REQUEST_INVALID", { key, value, remedy }));
}
