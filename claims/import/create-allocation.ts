import { RefusalError } from "../../ipam/refusals.ts";
import type { InterfaceAddress } from "../../ipam/space/cidr.ts";
import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { HOUSEKEEPING_DEADLINE_MS } from "../../kube/object-client.ts";
import type { IPAllocation } from "../../kube/objects.ts";
import {
  AllocationClient,
  type AllocationReading,
} from "../../store/cluster/allocations/allocation-client.ts";
import { type Holder, sameAllocationOwner } from "../../store/cluster/allocations/allocation-object.ts";
import { hold } from "../../store/cluster/allocations/hold.ts";

/** Create, read, replace: as long as each of them may take, ms. */
const RECORD_MS_MAX = 3 * HOUSEKEEPING_DEADLINE_MS;

/**
 * The API server answers, and one address cannot be recorded now all the same: a policy refuses it, or others keep writing it.
 * Of other addresses it says nothing.
 */
export class NotRecorded extends ApiAway {
  override readonly name = "NotRecorded";
}

/** What became of an address that is in use. */
export type Reserved =
  /** Recorded now; `was` tells what was there before. */
  | { readonly kind: "recorded"; readonly was: "none" | "cooling" }
  | { readonly kind: "own" }
  | { readonly kind: "held"; readonly object: IPAllocation }
  /** Somebody else keeps writing or deletes it: it comes again. */
  | { readonly kind: "changed" };

/**
 * Records the holder of an address that is in use already, also one that rests after somebody else had it. An address that
 * the holder itself has released keeps resting, except a claim's, which lists it. Any number may do it at once, and it is
 * harmless when done twice. Throws ApiAway when nothing is known to be recorded afterwards, and NotRecorded when the server
 * refuses it.
 */
export async function reserveInUse(
  api: KubeApi,
  network: string,
  one: InterfaceAddress,
  holder: Holder,
): Promise<Reserved> {
  const client = new AllocationClient(api, "housekeeping");
  let wasThere = false;
  try {
    const outcome = await hold<"own" | "changed">(client, {
      network,
      one,
      holder,
      deadlineMs: api.clock.monotonicMs() + RECORD_MS_MAX,
      believed: null,
      whyNot: (reading) => {
        wasThere = reading !== null;
        return reading === null ? null : whyNotTaken(reading, holder);
      },
    });
    switch (outcome.kind) {
      case "held":
        return { kind: "recorded", was: outcome.was === "absent" ? "none" : "cooling" };
      case "taken":
        return { kind: "held", object: outcome.object };
      case "left":
        return { kind: outcome.why };
      default:
        return { kind: outcome.kind };
    }
  } catch (error) {
    if (!(error instanceof RefusalError)) throw error;
    // Others may have changed what may not be written as it was read.
    if (wasThere) return { kind: "changed" };
    throw new NotRecorded(error.message);
  }
}

function whyNotTaken({ object }: AllocationReading, { owner }: Holder): "own" | "changed" | null {
  if (object.status?.state !== "Cooling") return null;
  if (owner.kind !== "IPAMClaim" && sameAllocationOwner(object.spec.owner, owner)) return "own";
  // It goes as soon as nothing holds it; its name is free then.
  return object.metadata.deletionTimestamp === undefined ? null : "changed";
}
