import { decideFresh, type RememberedFacts } from "../claims/reasons/fresh-facts.ts";
import { judge, type Rules, type Verdict } from "../claims/reasons/relations.ts";
import { RefusalError } from "../ipam/refusals.ts";
import { ApiAway, type KubeApi } from "../kube/kube-api.ts";
import { HOUSEKEEPING_DEADLINE_MS } from "../kube/object-client.ts";
import type { IPAllocation } from "../kube/objects.ts";
import { AllocationClient } from "../store/cluster/allocations/allocation-client.ts";
import { soundAddress } from "../store/cluster/allocations/allocation-object.ts";
import { type Change, giveBack } from "../store/cluster/allocations/give-back.ts";
import { identityOf } from "./observations.ts";

/** The allocation, what it rests on, and the write: as long as each of them may take, ms. */
const CARRY_OUT_MS_MAX = 3 * HOUSEKEEPING_DEADLINE_MS;

/**
 * What became of a verdict. `changed`: the world is not, or no longer, as it was seen. `failed`: refused or not
 * answered.
 */
export type CarryOutOutcome =
  | { readonly kind: "done" }
  | { readonly kind: "changed" }
  | { readonly kind: "failed"; readonly problem: string };

const CHANGED = { kind: "leave", why: { kind: "changed" } } as const;

export interface CarryOutContext extends RememberedFacts {
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
): Promise<CarryOutOutcome> {
  const { api } = context;
  const { name, uid, resourceVersion } = seen.metadata;
  try {
    const outcome = await giveBack<CarryOutOutcome>(
      new AllocationClient(api, "housekeeping"),
      { name, uid },
      // The allocation was read first: whoever attaches to it after that changes its version.
      ({ object }) =>
        object.metadata.resourceVersion === resourceVersion
          ? changeFor(context, object, identityOf(seen.metadata, verdict))
          : CHANGED,
      api.clock.monotonicMs() + CARRY_OUT_MS_MAX,
    );
    if (outcome.kind === "left") return outcome.why;
    return { kind: outcome.kind === "done" ? "done" : "changed" };
  } catch (error) {
    if (error instanceof ApiAway || error instanceof RefusalError)
      return { kind: "failed", problem: error.message };
    throw error;
  }
}

/** What a fresh judgement asks for, where it is the same as the one that was seen. */
async function changeFor(
  context: CarryOutContext,
  object: IPAllocation,
  seen: string,
): Promise<Change<CarryOutOutcome>> {
  const fresh = await decideFresh(context.api, context, (facts) =>
    judge({ object, address: soundAddress(object) }, facts, context.rules),
  );
  if (fresh.kind === "keep" && fresh.why === "unknown") {
    const problem = "not everything that it rests on could be read";
    return { kind: "leave", why: { kind: "failed", problem } };
  }
  if (identityOf(object.metadata, fresh) !== seen) return CHANGED;
  switch (fresh.kind) {
    case "release":
      return { kind: "cool" };
    case "repair":
      return { kind: "cool", since: object.status?.since };
    case "record":
    case "prune":
    case "delete":
      return fresh;
    default:
      return CHANGED;
  }
}
