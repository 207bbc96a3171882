/** The keywords of JSON Schema (draft 7) that the schemas of the tests use; any other is an error. */
export interface Schema {
  readonly [keyword: string]: unknown;
}

type Check = (value: unknown, argument: never, root: Schema, at: string) => string[];

const KEYWORDS: Readonly<Record<string, Check>> = {
  $schema: () => [],
  title: () => [],
  definitions: () => [],
  $ref: (value, ref: string, root, at) => violations(value, resolve(ref, root), root, at),
  type: (value, type: string, _root, at) => (typeOf(value) === type ? [] : [`${at} is no ${type}`]),
  enum: (value, allowed: unknown[], _root, at) =>
    allowed.includes(value) ? [] : [`${at} is ${JSON.stringify(value)}`],
  pattern: (value, pattern: string, _root, at) =>
    typeof value !== "string" || new RegExp(pattern).test(value) ? [] : [`${at} is "${value}"`],
  minimum: (value, minimum: number, _root, at) => ((value as number) < minimum ? [`${at} is too small`] : []),
  maximum: (value, maximum: number, _root, at) => ((value as number) > maximum ? [`${at} is too large`] : []),
  required: (value, keys: string[], _root, at) =>
    keys.filter((key) => !Object.hasOwn(value as object, key)).map((key) => `${at} has no ${key}`),
  properties: (value, schemas: Record<string, Schema>, root, at) =>
    Object.entries(schemas).flatMap(([key, schema]) =>
      Object.hasOwn(value as object, key)
        ? violations((value as Record<string, unknown>)[key], schema, root, `${at}.${key}`)
        : [],
    ),
  items: (value, schema: Schema, root, at) =>
    Array.isArray(value) ? value.flatMap((item, index) => violations(item, schema, root, `${at}[${index}]`)) : [],
  oneOf: (value, schemas: Schema[], root, at) => {
    const found = schemas.map((schema) => violations(value, schema, root, at));
    return found.filter((list) => list.length === 0).length === 1
      ? []
      : [`${at} fits not exactly one: ${found.flat()}`];
  },
};

/** What is wrong with a value, in words; empty when it is valid. */
export function violations(value: unknown, schema: Schema, root: Schema = schema, at = "it"): string[] {
  return Object.entries(schema).flatMap(([keyword, argument]) => {
    const check = KEYWORDS[keyword];
    if (!check) throw new Error(`this validator does not know ${keyword}`);
    return check(value, argument as never, root, at);
  });
}

function typeOf(value: unknown): string {
  return value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
}

function resolve(ref: string, root: Schema): Schema {
  const path = ref.replace(/^#\//, "").split("/");
  return path.reduce((schema, key) => schema[key] as Schema, root);
}
