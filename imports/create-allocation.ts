import { AllocationClient, type AllocationReading } from "../allocations/allocation-client.ts";
import { type Holder, sameAllocationOwner } from "../allocations/allocation-object.ts";
import { hold } from "../allocations/hold.ts";
import { succeedsHolder } from "../allocations/owners.ts";
import { kindOfObject, OWNER_KINDS } from "../ipam/owner.ts";
import { RefusalError } from "../ipam/refusals.ts";
import type { InterfaceAddress } from "../ipam/space/cidr.ts";
import { ApiAway, type KubeApi } from "../kube/kube-api.ts";
import { HOUSEKEEPING_DEADLINE_MS } from "../kube/object-client.ts";
import type { IPAllocation } from "../kube/objects.ts";

/** Create, read and replace, each with its own limit, ms. */
const RECORD_MS_MAX = 3 * HOUSEKEEPING_DEADLINE_MS;

/** One address cannot be recorded now, by a policy or others' writes, though the API server answers. Others can. */
export class NotRecorded extends ApiAway {
  override readonly name = "NotRecorded";
}

export type RecordOutcome =
  /** Just recorded; `was` is the state before: `bound` to an owner that the holder succeeds. */
  | { readonly kind: "recorded"; readonly was: "none" | "cooling" | "bound"; readonly object: IPAllocation }
  | { readonly kind: "own" }
  | { readonly kind: "held"; readonly object: IPAllocation }
  /** Another writer keeps changing or deletes it: to be retried. */
  | { readonly kind: "changed" };

/**
 * Records the holder of an address that is already in use, also a cooling one of another owner. A cooling address that
 * the holder itself released stays as it is, unless the holder is a claim, which lists it; one of an owner that the
 * holder succeeds passes to it. May run concurrently and repeatedly. Throws ApiAway when it is not known to be recorded
 * afterwards, and NotRecorded when the server refuses it.
 */
export async function reserveInUse(
  api: KubeApi,
  network: string,
  one: InterfaceAddress,
  holder: Holder,
): Promise<RecordOutcome> {
  const client = new AllocationClient(api, "housekeeping");
  let wasThere = false;
  try {
    const outcome = await hold<"own" | "changed">(client, {
      network,
      one,
      holder,
      deadlineMs: api.clock.monotonicMs() + RECORD_MS_MAX,
      believed: null,
      relationOf: ({ spec }) => {
        if (sameAllocationOwner(spec.owner, holder.owner)) return "own";
        return succeedsHolder(holder.owner, spec.owner) ? "passes-over" : "other";
      },
      whyNot: (reading) => {
        wasThere = reading !== null;
        return reading === null ? null : whyNotTaken(reading, holder);
      },
    });
    switch (outcome.kind) {
      case "held":
        return {
          kind: "recorded",
          was: outcome.was === "absent" ? "none" : outcome.was,
          object: outcome.object,
        };
      case "taken":
        return { kind: "held", object: outcome.object };
      case "left":
        return { kind: outcome.why };
      default:
        return { kind: outcome.kind };
    }
  } catch (error) {
    if (!(error instanceof RefusalError)) throw error;
    // The new version may have changed so that it must not be overwritten.
    if (wasThere) return { kind: "changed" };
    throw new NotRecorded(error.message);
  }
}

function whyNotTaken({ object }: AllocationReading, { owner }: Holder): "own" | "changed" | null {
  if (object.status?.state !== "Cooling") return null;
  const { outlivesAttachments } = OWNER_KINDS[kindOfObject(owner.kind)];
  if (!outlivesAttachments && sameAllocationOwner(object.spec.owner, owner)) return "own";
  // It is deleted as soon as its finalizers are gone; then its name is free.
  return object.metadata.deletionTimestamp === undefined ? null : "changed";
}
