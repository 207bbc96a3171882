import type { InterfaceAddress } from "../../ipam/space/cidr.ts";
import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { allocationName } from "../../kube/object-names.ts";
import { ALLOCATIONS_PATH, type IPAllocation, objectPath } from "../../kube/objects.ts";
import { HOUSEKEEPING_DEADLINE_MS, readObject } from "../../kube/read-object.ts";
import {
  type Holder,
  newAllocation,
  sameAllocationOwner,
  takenOver,
} from "../../store/cluster/allocations/allocation-object.ts";

const CONFLICT = 409;

/** `exists`: the name is held, by whomever. */
type Created = { readonly kind: "created" } | { readonly kind: "exists"; readonly object: IPAllocation };

/** What became of an address that is in use. */
export type Reserved =
  /** Recorded now; `was` tells what was there before. */
  | { readonly kind: "recorded"; readonly was: "none" | "cooling" }
  | { readonly kind: "own" }
  | { readonly kind: "held"; readonly object: IPAllocation }
  /** Somebody else wrote it meanwhile: it comes again. */
  | { readonly kind: "changed" };

/**
 * Records the holder of an address that is in use already, also one that rests after somebody else had it. An address that
 * the holder itself has released keeps resting, except a claim's, which lists it. Any number may do it at once. Throws ApiAway.
 */
export async function reserveInUse(
  api: KubeApi,
  network: string,
  one: InterfaceAddress,
  holder: Holder,
  time: string,
): Promise<Reserved> {
  const created = await createAllocation(api, network, one, holder, time);
  if (created.kind === "created") return { kind: "recorded", was: "none" };
  const { object } = created;
  const own = sameAllocationOwner(object.spec.owner, holder.owner);
  if (own && (object.status?.state === "Bound" || holder.owner.kind !== "IPAMClaim")) return { kind: "own" };
  if (object.status?.state !== "Cooling") return { kind: "held", object };
  const { status } = await api.send({
    method: "PUT",
    path: objectPath(ALLOCATIONS_PATH, object.metadata.name),
    body: takenOver(object, one, holder, time),
    priority: "housekeeping",
    deadlineMs: performance.now() + HOUSEKEEPING_DEADLINE_MS,
  });
  return status < 300 ? { kind: "recorded", was: "cooling" } : { kind: "changed" };
}

/**
 * Creates the allocation of an address that is in use already. Harmless when done twice: the name decides. Throws ApiAway
 * when it is not known to exist afterwards, also when the server refuses it.
 */
async function createAllocation(
  api: KubeApi,
  network: string,
  one: InterfaceAddress,
  holder: Holder,
  time: string,
): Promise<Created> {
  const path = objectPath(ALLOCATIONS_PATH, allocationName(network, one.address));
  const { status, body } = await api.send({
    method: "POST",
    path: ALLOCATIONS_PATH,
    body: newAllocation(network, one, holder, time),
    priority: "housekeeping",
    deadlineMs: performance.now() + HOUSEKEEPING_DEADLINE_MS,
  });
  if (status < 300) return { kind: "created" };
  if (status !== CONFLICT) throw new ApiAway(`POST ${path}: ${status} ${body?.message ?? ""}`);
  const found = await readObject(api, path);
  if (found.kind === "present") return { kind: "exists", object: found.it };
  throw new ApiAway(`${path} exists, and cannot be read: ${found.kind}`);
}
