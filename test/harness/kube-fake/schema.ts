import { copyOf, isRecord, type KubeObject } from "./objects.ts";

/** The schema of a custom resource, as far as definitions of this world use it (OpenAPI v3, structural). */
export interface Schema {
  readonly type?: "object" | "array" | "string" | "integer" | "number" | "boolean";
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
  readonly required?: readonly string[];
  readonly default?: unknown;
  readonly nullable?: boolean;
  readonly enum?: readonly unknown[];
  readonly format?: string;
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly uniqueItems?: boolean;
  readonly "x-kubernetes-preserve-unknown-fields"?: boolean;
  readonly "x-kubernetes-int-or-string"?: boolean;
  readonly "x-kubernetes-list-type"?: "atomic" | "set" | "map";
  readonly "x-kubernetes-list-map-keys"?: readonly string[];
}

/** What the server keeps besides the schema at the root of every object. */
const ROOT_FIELDS = ["apiVersion", "kind", "metadata"];

/** Takes out what the schema does not know, and fills in what it has a default for. Changes the object. */
export function conform(object: KubeObject, schema: Schema | undefined): void {
  if (schema === undefined) return;
  const { metadata: _, ...properties } = schema.properties ?? {};
  const kept = Object.fromEntries(ROOT_FIELDS.map((field) => [field, object[field]]));
  for (const field of ROOT_FIELDS) delete object[field];
  const rest = { ...schema, properties };
  prune(object, rest);
  fillIn(object, rest);
  for (const [field, value] of Object.entries(kept)) if (value !== undefined) object[field] = value;
}

function prune(value: unknown, schema: Schema): void {
  if (Array.isArray(value)) {
    if (schema.items) for (const item of value) prune(item, schema.items);
  } else if (isRecord(value)) {
    const keepsAll = schema["x-kubernetes-preserve-unknown-fields"] === true;
    for (const key of Object.keys(value)) {
      const inner = innerSchema(schema, key);
      if (inner !== null) prune(value[key], inner);
      else if (!keepsAll && schema.additionalProperties !== true) delete value[key];
    }
  }
}

function innerSchema(schema: Schema, key: string): Schema | null {
  const { properties, additionalProperties } = schema;
  if (properties && Object.hasOwn(properties, key)) return properties[key] as Schema;
  return isRecord(additionalProperties) ? (additionalProperties as Schema) : null;
}

function fillIn(value: unknown, schema: Schema): void {
  if (Array.isArray(value)) {
    if (schema.items) for (const item of value) fillIn(item, schema.items);
  } else if (isRecord(value)) {
    for (const key of Object.keys(value)) {
      const inner = innerSchema(schema, key);
      // As if it were not there.
      if (value[key] === null && inner !== null && inner.nullable !== true) delete value[key];
    }
    for (const [key, inner] of Object.entries(schema.properties ?? {}))
      if (value[key] === undefined && inner.default !== undefined) value[key] = copyOf(inner.default);
    for (const key of Object.keys(value)) {
      const inner = innerSchema(schema, key);
      if (inner) fillIn(value[key], inner);
    }
  }
}
