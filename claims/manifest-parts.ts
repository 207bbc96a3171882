import { RefusalError, refuse } from "../ipam/refusals.ts";
import { isObjectName } from "../kube/views/claim-reference.ts";

export type Json = Readonly<Record<string, unknown>>;

/** Name and namespace of an applied object. Throws RefusalError REQUEST_INVALID that names the key. */
export function readName(object: Json): { namespace: string; name: string } {
  const metadata = isObject(object.metadata)
    ? object.metadata
    : invalid("metadata", object.metadata, "expected an object");
  const { name, namespace = "default" } = metadata;
  for (const [key, value] of Object.entries({ name, namespace })) {
    if (typeof value !== "string" || !isObjectName(value)) {
      invalid(
        `metadata.${key}`,
        value,
        "expected lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit",
      );
    }
  }
  return { name: name as string, namespace: namespace as string };
}

export function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function invalid(key: string, value: unknown, remedy: string): never {
  throw new RefusalError(refuse("REQUEST_INVALID", { key, value: JSON.stringify(value) ?? "absent", remedy }));
}
