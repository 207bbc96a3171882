/** How often each verb was served. */
export interface WriteCounts {
  readonly create: number;
  readonly update: number;
  readonly patch: number;
  readonly delete: number;
  readonly total: number;
}

const VERBS: Readonly<Record<string, Exclude<keyof WriteCounts, "total">>> = {
  POST: "create",
  PUT: "update",
  PATCH: "patch",
  APPLY: "patch",
  DELETE: "delete",
  DELETECOLLECTION: "delete",
};
export const NO_WRITES: WriteCounts = { create: 0, update: 0, patch: 0, delete: 0, total: 0 };

/** Writes by resource, `resource/subresource` for subresources, out of the API server's metrics text. */
export function writesOf(metrics: string): Record<string, WriteCounts> {
  const counts: Record<string, WriteCounts> = {};
  for (const { label, count: more } of requestsOf(metrics)) {
    const verb = VERBS[label.get("verb") ?? ""];
    if (verb === undefined) continue;
    const subresource = label.get("subresource");
    const resource = `${label.get("resource")}${subresource ? `/${subresource}` : ""}`;
    const before = counts[resource] ?? NO_WRITES;
    counts[resource] = { ...before, [verb]: before[verb] + more, total: before.total + more };
  }
  return counts;
}

/** GETs of single objects of a resource, out of the same text. */
export function readsOf(metrics: string, resource: string): number {
  return requestsOf(metrics)
    .filter(({ label }) => label.get("verb") === "GET" && label.get("resource") === resource)
    .reduce((sum, { count }) => sum + count, 0);
}

/** The series of a metric of an API server. */
export function requestsOf(
  metrics: string,
  name = "apiserver_request_total",
): { label: Map<string, string>; count: number }[] {
  const series = new RegExp(`^${name}\\{(.*)\\} (\\S+)$`, "gm");
  return [...metrics.matchAll(series)].map(([, labels, value]) => ({
    label: new Map(
      [...(labels as string).matchAll(/(\w+)="([^"]*)"/g)].map(([, name = "", text = ""]) => [name, text]),
    ),
    count: Number(value),
  }));
}
