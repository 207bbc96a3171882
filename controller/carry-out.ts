import { decideFresh, type Remembered } from "../claims/reasons/fresh-facts.ts";
import { judge, type Rules, type Verdict } from "../claims/reasons/relations.ts";
import { ApiAway, type KubeApi, type KubeRequest } from "../kube/kube-api.ts";
import { ALLOCATIONS_PATH, type IPAllocation, objectPath } from "../kube/objects.ts";
import { HOUSEKEEPING_DEADLINE_MS, readObject } from "../kube/read-object.ts";
import {
  cooled,
  soundAddress,
  withNode,
  withoutAttachments,
} from "../store/cluster/allocations/allocation-object.ts";
import { timeText } from "../store/journal/rows.ts";
import { identityOf } from "./observations.ts";

const CONFLICT = 409;

/** What became of a verdict. `changed`: the world is not, or no longer, as it was seen. `failed`: refused or not answered. */
export type Outcome =
  | { readonly kind: "done" }
  | { readonly kind: "changed" }
  | { readonly kind: "failed"; readonly problem: string };

export interface CarryOutContext extends Remembered {
  readonly api: KubeApi;
  readonly rules: Rules;
  /** RFC 3339, for people. */
  readonly time: () => string;
}

/**
 * Carries out a verdict on an allocation as it was seen: reads it and everything it rests on again from the quorum,
 * judges again, and writes only against the version just read. Whoever was stopped in between writes nothing.
 */
export async function carryOut(
  context: CarryOutContext,
  seen: IPAllocation,
  verdict: Verdict,
): Promise<Outcome> {
  const { api } = context;
  const path = objectPath(ALLOCATIONS_PATH, seen.metadata.name);
  // The allocation first: whoever attaches to it after this read changes its version.
  const read = await readObject(api, path);
  if (read.kind === "unknown") return { kind: "failed", problem: read.problem };
  if (read.kind === "absent") return { kind: "changed" };
  const object: IPAllocation = read.it;
  const fresh = await decideFresh(api, context, (facts) =>
    judge({ object, address: soundAddress(object) }, facts, context.rules),
  );
  if (fresh.kind === "keep" && fresh.why === "unknown") {
    return { kind: "failed", problem: "not everything that it rests on could be read" };
  }
  if (identityOf(object.metadata, fresh) !== identityOf(seen.metadata, verdict)) return { kind: "changed" };
  // The server's clock, against which allocators measure the rest.
  const time = read.serverMs === null ? context.time() : timeText(read.serverMs);
  const write = writeOf(object, fresh, time);
  if (write === null) return { kind: "changed" };
  try {
    const { status, body } = await api.send({
      ...write,
      path,
      priority: "housekeeping",
      deadlineMs: performance.now() + HOUSEKEEPING_DEADLINE_MS,
    });
    if (status < 300) return { kind: "done" };
    if (status === CONFLICT || status === 404) return { kind: "changed" };
    return { kind: "failed", problem: `${status} ${body?.message ?? ""}` };
  } catch (error) {
    if (error instanceof ApiAway) return { kind: "failed", problem: error.message };
    throw error;
  }
}

function writeOf(
  object: IPAllocation,
  verdict: Verdict,
  time: string,
): Pick<KubeRequest, "method" | "body"> | null {
  const { uid, resourceVersion } = object.metadata;
  switch (verdict.kind) {
    case "release":
      return { method: "PUT", body: cooled(object, time) };
    case "repair":
      return { method: "PUT", body: cooled(object, object.status?.since ?? time) };
    case "record":
      return { method: "PUT", body: withNode(object, verdict.node) };
    case "prune":
      return { method: "PUT", body: withoutAttachments(object, verdict.keys) };
    case "delete":
      return { method: "DELETE", body: { preconditions: { uid, resourceVersion } } };
    default:
      return null;
  }
}
