import type { Json } from "./steps.ts";

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g;
/** Versions in a message. */
const NUMBER = /\b\d{2,}\b/g;
const GENERATED = /^(talk-\d+)-[b-z0-9]{5}$/;
/** Kinds that the server in memory knows the schema of, or whose every field it keeps as it is. */
const WHOLE = /^(IPAllocation|IPNetwork|IPAMClaim|Widget|Status|PartialObjectMetadata|ConfigMap)$/;

/**
 * What two servers said, so that it can be compared: UIDs and versions by the order in which they came, no times, and
 * of Kubernetes' own kinds only the metadata, since the server in memory fills in no defaults.
 */
export function comparable(transcript: readonly Json[]): Json {
  const uids = new Map<string, string>();
  const versions = [...new Set(versionsIn(transcript))].sort((a, b) => a - b);
  const text = (value: string) =>
    value
      .replaceAll(UUID, (uid) => {
        if (!uids.has(uid)) uids.set(uid, `uid-${uids.size + 1}`);
        return uids.get(uid) as string;
      })
      .replaceAll(TIME, "time");
  const walk = (value: Json, key: string): Json => {
    if (typeof value === "string") {
      if (key === "resourceVersion") return `version-${versions.indexOf(Number(value)) + 1}`;
      if (key === "continue") return "token";
      if (key === "name") return text(value).replace(GENERATED, "$1-x");
      return key === "message" || key === "problem" || key === "body" ? worded(text(value)) : text(value);
    }
    if (Array.isArray(value)) {
      // From a cache it comes in any order.
      const [what, kind, found] = value;
      if (what === "LIST" && Array.isArray(found)) return [what, kind, sorted(found).map((one) => walk(one, key))];
      return value.map((one) => walk(one, key));
    }
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(
      Object.entries(shownOf(value))
        .filter(([, one]) => one !== undefined)
        .map(([name, one]) => [name, walk(one, name)]),
    );
  };
  return walk(transcript, "");
}

const placeOf = ({ metadata }: Json) => `${metadata.namespace}/${metadata.name}`;
const sorted = (objects: readonly Json[]) => [...objects].sort((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1));

/** The first line, without versions, and without what a parser of the server's own says. */
function worded(message: string): string {
  const [line = ""] = message.split("\n");
  return line.replaceAll(NUMBER, "N").replace(/(continue key is not valid|Object 'Kind' is missing).*/, "$1");
}

function shownOf(object: Json): Json {
  const { managedFields: _, ...rest } = object;
  // What else can be done, and how it is stored.
  if (rest.kind === "APIResourceList") return { kind: rest.kind, groupVersion: rest.groupVersion };
  if (Array.isArray(rest.items)) {
    const { resourceVersion: __, ...metadata } = rest.metadata;
    return { ...rest, metadata, items: sorted(rest.items).map(shownOf) };
  }
  if (rest.metadata?.deletionTimestamp !== undefined && rest.kind === "Namespace") {
    // Its controller writes its conditions meanwhile.
    const { resourceVersion: __, ...metadata } = rest.metadata;
    return { kind: rest.kind, metadata };
  }
  if (rest.metadata?.uid === undefined || WHOLE.test(rest.kind ?? "") || rest.data !== undefined) return rest;
  return { kind: rest.kind, apiVersion: rest.apiVersion, metadata: rest.metadata };
}

function versionsIn(value: Json): number[] {
  if (Array.isArray(value)) return value.flatMap(versionsIn);
  if (value === null || typeof value !== "object") return [];
  const own =
    typeof value.resourceVersion === "string" && !Array.isArray(value.items) ? [Number(value.resourceVersion)] : [];
  return [...own, ...Object.entries(shownOf(value)).flatMap(([, one]) => versionsIn(one))];
}
