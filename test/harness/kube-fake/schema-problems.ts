import { duplicate, type FieldProblem, invalidValue, notSupported, required } from "./failure.ts";
import { isEqual, isRecord } from "./objects.ts";
import type { Schema } from "./schema.ts";

const DATE_TIME = /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$/;

/** What is wrong with a value by its schema. `path` is "" at the root. */
export function problemsBySchema(value: unknown, schema: Schema, path = ""): FieldProblem[] {
  const mistyped = typeProblem(value, schema, path);
  if (mistyped) return [mistyped];
  if (value === null) return [];
  return [...ofValue(value, schema, path), ...ofObject(value, schema, path), ...ofArray(value, schema, path)];
}

function typeProblem(value: unknown, schema: Schema, path: string): FieldProblem | null {
  if (value === null && schema.nullable === true) return null;
  if (schema["x-kubernetes-int-or-string"])
    return Number.isInteger(value) || typeof value === "string" ? null : wrongType(value, "integer,string", path);
  const { type } = schema;
  if (type === undefined || typeOf(value) === type) return null;
  if (type === "number" && typeOf(value) === "integer") return null;
  return wrongType(value, type, path);
}

function wrongType(value: unknown, type: string, path: string): FieldProblem {
  const detail = `${path} in body must be of type ${type}: "${typeOf(value)}"`;
  return invalidValue(path, typeOf(value), detail);
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (Number.isInteger(value)) return "integer";
  return typeof value;
}

function ofValue(value: unknown, schema: Schema, path: string): FieldProblem[] {
  const problems: FieldProblem[] = [];
  const bad = (detail: string) => problems.push(invalidValue(path, value, `${path} in body ${detail}`));
  if (typeof value === "string") {
    const length = [...value].length;
    const { minLength, maxLength, pattern, format } = schema;
    if (minLength !== undefined && length < minLength) bad(`should be at least ${minLength} chars long`);
    if (maxLength !== undefined && length > maxLength) bad(`should be at most ${maxLength} chars long`);
    if (pattern !== undefined && !new RegExp(pattern, "u").test(value)) bad(`should match '${pattern}'`);
    if (format === "date-time" && !DATE_TIME.test(value)) bad(`must be of type date-time: ${JSON.stringify(value)}`);
  }
  if (typeof value === "number") {
    const { minimum, maximum } = schema;
    if (minimum !== undefined && value < minimum) bad(`should be greater than or equal to ${minimum}`);
    if (maximum !== undefined && value > maximum) bad(`should be less than or equal to ${maximum}`);
  }
  if (schema.enum && !schema.enum.some((one) => isEqual(one, value)))
    problems.push(notSupported(path, value, schema.enum));
  return problems;
}

function ofObject(value: unknown, schema: Schema, path: string): FieldProblem[] {
  if (!isRecord(value)) return [];
  const problems = (schema.required ?? [])
    .filter((key) => value[key] === undefined)
    .map((key) => required(inside(path, key)));
  const count = Object.keys(value).length;
  if (schema.minProperties !== undefined && count < schema.minProperties)
    problems.push(invalidValue(path, value, `${path} in body should have at least ${schema.minProperties} properties`));
  if (schema.maxProperties !== undefined && count > schema.maxProperties)
    problems.push(invalidValue(path, count, `${path} in body should have at most ${schema.maxProperties} properties`));
  for (const [key, inner] of Object.entries(value)) {
    const own = schema.properties && Object.hasOwn(schema.properties, key) ? schema.properties[key] : undefined;
    const { additionalProperties } = schema;
    const other = isRecord(additionalProperties) ? (additionalProperties as Schema) : undefined;
    const its = own ?? other;
    if (its && inner !== undefined) problems.push(...problemsBySchema(inner, its, inside(path, key)));
  }
  return problems;
}

function ofArray(value: unknown, schema: Schema, path: string): FieldProblem[] {
  if (!Array.isArray(value)) return [];
  const problems: FieldProblem[] = [];
  const bad = (detail: string) => problems.push(invalidValue(path, value.length, `${path} in body ${detail}`));
  const { minItems, maxItems, items } = schema;
  if (minItems !== undefined && value.length < minItems) bad(`should have at least ${minItems} items`);
  if (maxItems !== undefined && value.length > maxItems) bad(`should have at most ${maxItems} items`);
  if (items) for (const item of value) problems.push(...problemsBySchema(item, items, path));
  return [...problems, ...repeatedItems(value, schema, path)];
}

/** Of a list that is a set or a map: items that are there twice. */
function repeatedItems(value: readonly unknown[], schema: Schema, path: string): FieldProblem[] {
  const type = schema["x-kubernetes-list-type"];
  if (type !== "set" && type !== "map") return [];
  const keys = schema["x-kubernetes-list-map-keys"] ?? [];
  const identities = value.map((item) =>
    type === "map" && isRecord(item) ? Object.fromEntries(keys.map((key) => [key, item[key]])) : item,
  );
  return identities.flatMap((identity, index) =>
    identities.slice(0, index).some((other) => isEqual(other, identity))
      ? [duplicate(`${path}[${index}]`, describe(identity))]
      : [],
  );
}

/** As Go prints a map. */
function describe(identity: unknown): string {
  if (!isRecord(identity)) return JSON.stringify(identity);
  return `map[string]interface {}{${Object.entries(identity)
    .map(([key, value]) => `"${key}":${JSON.stringify(value)}`)
    .join(", ")}}`;
}

const inside = (path: string, key: string) => (path === "" ? key : `${path}.${key}`);
