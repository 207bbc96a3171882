/** Of the whole object: what etcd takes in one request. */
export const OBJECT_BYTES_MAX = 1_500_000;
/** Of all annotations of an object together, keys and values, by the API server. */
export const ANNOTATIONS_BYTES_MAX = 262_144;

const METADATA = {
  namespace: "shop",
  name: "one",
  uid: "3d7a1c80-0000-4000-8000-000000000001",
  resourceVersion: "17",
  creationTimestamp: "2026-01-01T00:00:00Z",
};

/**
 * The JSON of an object that has this JSON at a path of keys (`spec.networks`), and else only what every object has.
 * A key of an annotation has dots: it comes last, after "annotations.".
 */
export function objectWith(path: string, json: string, more: object = {}): string {
  const annotation = /^metadata\.annotations\.(.+)$/.exec(path)?.[1];
  const keys = annotation === undefined ? path.split(".") : ["metadata", "annotations", annotation];
  const mark = "\u0000here";
  const object: Record<string, unknown> = structuredClone({ ...more, metadata: { ...METADATA } });
  let at = object;
  for (const key of keys.slice(0, -1)) {
    at[key] ??= {};
    at = at[key] as Record<string, unknown>;
  }
  at[keys.at(-1) as string] = mark;
  // A function: the text may have $&.
  return JSON.stringify(object).replace(JSON.stringify(mark), () => json);
}
