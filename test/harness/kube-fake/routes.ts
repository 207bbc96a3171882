/** What a path leads to. `group`: the list of a group's resources, by which clients learn what is served. */
export type Route =
  | { readonly kind: "group"; readonly group: string; readonly version: string }
  | {
      readonly kind: "resource";
      readonly group: string;
      readonly version: string;
      readonly plural: string;
      /** null: cluster-scoped, or every namespace. */
      readonly namespace: string | null;
      /** null: the collection. */
      readonly name: string | null;
      /** "" for the object itself. */
      readonly subresource: string;
    }
  | { readonly kind: "nothing" };

export type ResourceRoute = Extract<Route, { kind: "resource" }>;

/** Subresources of a namespace, which look like resources in it. */
const OF_NAMESPACES: ReadonlySet<string> = new Set(["status", "finalize"]);

/** Reads a path without its query. */
export function routeOf(path: string): Route {
  const [, root, ...parts] = path.replace(/\/$/, "").split("/").map(decodeURIComponent);
  if (root === "api") return inGroup("", parts);
  if (root === "apis") return inGroup(parts[0] ?? "", parts.slice(1));
  return { kind: "nothing" };
}

function inGroup(group: string, [version, ...rest]: readonly string[]): Route {
  if (version === undefined) return { kind: "nothing" };
  if (rest.length === 0) return { kind: "group", group, version };
  const [first, namespace, plural] = rest;
  const isNamespaced = first === "namespaces" && plural !== undefined && !OF_NAMESPACES.has(plural);
  const [own = "", name, subresource = "", ...more] = isNamespaced ? rest.slice(2) : rest;
  if (more.length > 0) return { kind: "nothing" };
  return {
    kind: "resource",
    group,
    version,
    plural: own,
    namespace: isNamespaced ? (namespace ?? null) : null,
    name: name ?? null,
    subresource,
  };
}
