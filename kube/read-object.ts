import { ApiAway, type KubeApi } from "./kube-api.ts";

/** For one read or write of housekeeping, ms: it comes again, so it need not wait out an overload. */
export const HOUSEKEEPING_DEADLINE_MS = 10_000;

const NOT_FOUND = 404;

/** What a quorum read of one object says. `unknown`: no answer, no right to read, or no such resource. */
export type ReadObject =
  /** `serverMs`: the server's clock at the read; null when it told none. */
  // biome-ignore lint/suspicious/noExplicitAny: objects of every kind; readers project them
  | { readonly kind: "present"; readonly it: any; readonly serverMs: number | null }
  | { readonly kind: "absent" }
  | { readonly kind: "unknown"; readonly problem: string };

/** Reads one object by its path. Never throws. */
export async function readObject(
  api: KubeApi,
  path: string,
  deadlineMs = performance.now() + HOUSEKEEPING_DEADLINE_MS,
): Promise<ReadObject> {
  try {
    const answer = await api.send({ method: "GET", path, priority: "housekeeping", deadlineMs });
    const { status, body, serverMs } = answer;
    if (status === 200) return { kind: "present", it: body, serverMs };
    if (isNoSuchObject(status, body, path)) return { kind: "absent" };
    return { kind: "unknown", problem: `${status} ${body?.message ?? ""}` };
  } catch (error) {
    if (error instanceof ApiAway) return { kind: "unknown", problem: error.message };
    throw error;
  }
}

/**
 * Whether a 404 is about the object. A resource whose definition is missing answers 404 as well, but without naming the
 * object: its objects may come back with it.
 */
export function isNoSuchObject(
  status: number,
  body: { readonly reason?: unknown; readonly details?: { readonly name?: unknown } } | null,
  path: string,
): boolean {
  const name = decodeURIComponent(path.slice(path.lastIndexOf("/") + 1));
  return status === NOT_FOUND && body?.reason === "NotFound" && body.details?.name === name;
}
