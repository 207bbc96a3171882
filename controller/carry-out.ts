import { decideFresh, type Remembered } from "../claims/reasons/fresh-facts.ts";
import { judge, type Rules, type Verdict } from "../claims/reasons/relations.ts";
import { problemOf, type Written } from "../kube/answers.ts";
import { ApiAway, type KubeApi } from "../kube/kube-api.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { ALLOCATIONS_PATH, type IPAllocation, objectPath } from "../kube/objects.ts";
import { isoTime } from "../platform/time.ts";
import {
  cooled,
  soundAddress,
  withNode,
  withoutAttachments,
} from "../store/cluster/allocations/allocation-object.ts";
import { identityOf } from "./observations.ts";

/** What became of a verdict. `changed`: the world is not, or no longer, as it was seen. `failed`: refused or not answered. */
export type Outcome =
  | { readonly kind: "done" }
  | { readonly kind: "changed" }
  | { readonly kind: "failed"; readonly problem: string };

export interface CarryOutContext extends Remembered {
  readonly api: KubeApi;
  readonly rules: Rules;
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
  const objects = new ObjectClient(api);
  const path = objectPath(ALLOCATIONS_PATH, seen.metadata.name);
  // The allocation first: whoever attaches to it after this read changes its version.
  const read = await objects.look(path);
  if (read.kind === "absent") return { kind: "changed" };
  if (read.kind !== "present")
    return { kind: "failed", problem: read.kind === "away" ? read.problem : problemOf(read.answer) };
  const object: IPAllocation = read.object;
  const fresh = await decideFresh(api, context, (facts) =>
    judge({ object, address: soundAddress(object) }, facts, context.rules),
  );
  if (fresh.kind === "keep" && fresh.why === "unknown") {
    return { kind: "failed", problem: "not everything that it rests on could be read" };
  }
  if (identityOf(object.metadata, fresh) !== identityOf(seen.metadata, verdict)) return { kind: "changed" };
  // The server's clock, against which allocators measure the rest.
  const time = isoTime(read.serverMs ?? api.clock.wallMs());
  try {
    const written = await write(objects, object, fresh, time);
    if (written?.kind === "done") return { kind: "done" };
    if (written?.kind === "refused") return { kind: "failed", problem: problemOf(written.answer) };
    return { kind: "changed" };
  } catch (error) {
    if (error instanceof ApiAway) return { kind: "failed", problem: error.message };
    throw error;
  }
}

/** null: the verdict asks for nothing. Throws ApiAway. */
async function write(
  objects: ObjectClient,
  object: IPAllocation,
  verdict: Verdict,
  time: string,
): Promise<Written | null> {
  const { name, uid, resourceVersion } = object.metadata;
  const path = objectPath(ALLOCATIONS_PATH, name);
  switch (verdict.kind) {
    case "release":
      return objects.replace(path, cooled(object, time));
    case "repair":
      return objects.replace(path, cooled(object, object.status?.since ?? time));
    case "record":
      return objects.replace(path, withNode(object, verdict.node));
    case "prune":
      return objects.replace(path, withoutAttachments(object, verdict.keys));
    case "delete":
      return objects.delete(path, { uid, resourceVersion });
    default:
      return null;
  }
}
