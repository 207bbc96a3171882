import { decideFresh, type RememberedFacts } from "../claims/reasons/fresh-facts.ts";
import { judge } from "../claims/reasons/relations.ts";
import type { Rules, Verdict } from "../claims/reasons/verdict.ts";
import { RefusalError } from "../ipam/refusals.ts";
import { retainSeconds } from "../ipam/space/rest.ts";
import { machinePaths } from "../kube/cluster-api.ts";
import { ApiAway, type KubeApi } from "../kube/kube-api.ts";
import { HOUSEKEEPING_DEADLINE_MS } from "../kube/object-client.ts";
import type { IPAllocation } from "../kube/objects.ts";
import { AllocationClient } from "../store/cluster/allocations/allocation-client.ts";
import { allEnded, soundAddress } from "../store/cluster/allocations/allocation-object.ts";
import { type Change, giveBack } from "../store/cluster/allocations/give-back.ts";
import { withdrawMachineAddress } from "../store/cluster/parts/machine-address.ts";
import { identityOf } from "./observations.ts";

/** For the allocation, the facts it depends on, a machine's IPAddress, and the write, each with its own limit, ms. */
const CARRY_OUT_MS_MAX = 4 * HOUSEKEEPING_DEADLINE_MS;

/** The outcome of a verdict. `changed`: the facts are not as they were seen. `failed`: refused or not answered. */
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
 * Carries out a verdict: reads the allocation and everything that the verdict depends on again from the quorum, judges
 * again, and writes only at the version just read. A controller that was suspended in between writes nothing.
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
      // The allocation is read first: an attachment added after that changes its version.
      ({ object, serverMs }) =>
        object.metadata.resourceVersion === resourceVersion
          ? changeFor(atServerTime(context, serverMs), object, identityOf(seen.metadata, verdict))
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

/** The change of a fresh verdict, if it is the same as the one that was seen. */
async function changeFor(
  context: CarryOutContext,
  object: IPAllocation,
  seen: string,
): Promise<Change<CarryOutOutcome>> {
  const fresh = await decideFresh(context.api, context, (facts) =>
    judge({ object, address: soundAddress(object) }, facts, context.rules),
  );
  if (fresh.kind === "keep" && fresh.why === "unknown") {
    const problem = "not everything that it depends on could be read";
    return { kind: "leave", why: { kind: "failed", problem } };
  }
  if (identityOf(object.metadata, fresh) !== seen) return CHANGED;
  switch (fresh.kind) {
    case "release":
    case "withdraw": {
      const withdrawn = await withdraw(context, object);
      if (withdrawn !== "gone") {
        const { namespace, name } = object.spec.owner;
        const problem = `IPAddress ${namespace}/${name} was written meanwhile`;
        return { kind: "leave", why: { kind: "failed", problem } };
      }
      const holderEnded =
        fresh.why === "retention-over" ||
        fresh.why === "pod-completed" ||
        (fresh.why === "claim-gone" && allEnded(object));
      if (fresh.kind === "withdraw") return { kind: "leave", why: { kind: "done" } };
      return retention(object, fresh, context.rules) ?? { kind: "cool", holderEnded };
    }
    case "repair":
      return { kind: "cool", since: object.status?.since, holderEnded: object.status?.holderEnded };
    case "record":
    case "prune":
    case "delete":
      return fresh;
    default:
      return CHANGED;
  }
}

/** An ended retention is measured by the clock that began it. */
function atServerTime(context: CarryOutContext, serverMs: number | null): CarryOutContext {
  return serverMs === null ? context : { ...context, rules: { ...context.rules, wallMs: () => serverMs } };
}

/** What a claim had that has ended is retained for its name; null: it is released as everything else. */
function retention({ spec }: IPAllocation, { why }: Verdict, rules: Rules): Change<never> | null {
  const seconds = retainSeconds(rules.definitionOf(spec.network));
  if (why !== "claim-gone" || spec.owner.kind !== "IPAMClaim" || seconds === 0) return null;
  return { kind: "retain", seconds };
}

/** No machine is told of the address any more. */
function withdraw({ api, machines }: CarryOutContext, object: IPAllocation) {
  const { owner } = object.spec;
  const paths = machinePaths("ipaddresses", owner, machines.servedPath("ipaddresses"));
  const believed = machines.addressAt(`${owner.namespace}/${owner.name}`);
  return withdrawMachineAddress(api, object, { paths, believed });
}
