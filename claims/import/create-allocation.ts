import type { InterfaceAddress } from "../../ipam/space/cidr.ts";
import { problemOf } from "../../kube/answers.ts";
import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { allocationName } from "../../kube/object-names.ts";
import { ALLOCATIONS_PATH, type IPAllocation, objectPath } from "../../kube/objects.ts";
import { isoTime } from "../../platform/time.ts";
import {
  type Holder,
  newAllocation,
  sameAllocationOwner,
  takenOver,
} from "../../store/cluster/allocations/allocation-object.ts";

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
): Promise<Reserved> {
  const time = isoTime(api.clock.wallMs());
  const objects = new ObjectClient(api);
  const created = await createAllocation(objects, network, one, holder, time);
  if (created.kind === "created") return { kind: "recorded", was: "none" };
  const { object } = created;
  const own = sameAllocationOwner(object.spec.owner, holder.owner);
  if (own && (object.status?.state === "Bound" || holder.owner.kind !== "IPAMClaim")) return { kind: "own" };
  if (object.status?.state !== "Cooling") return { kind: "held", object };
  const path = objectPath(ALLOCATIONS_PATH, object.metadata.name);
  const written = await objects.replace(path, takenOver(object, one, holder, time));
  return written.kind === "done" ? { kind: "recorded", was: "cooling" } : { kind: "changed" };
}

/**
 * Creates the allocation of an address that is in use already. Harmless when done twice: the name decides. Throws ApiAway
 * when it is not known to exist afterwards, also when the server refuses it.
 */
async function createAllocation(
  objects: ObjectClient,
  network: string,
  one: InterfaceAddress,
  holder: Holder,
  time: string,
): Promise<Created> {
  const path = objectPath(ALLOCATIONS_PATH, allocationName(network, one.address));
  const created = await objects.create(ALLOCATIONS_PATH, newAllocation(network, one, holder, time));
  if (created.kind === "done") return { kind: "created" };
  if (created.kind !== "conflict") throw new ApiAway(`POST ${path}: ${problemOf(created.answer)}`);
  const found = await objects.look(path);
  if (found.kind === "present") return { kind: "exists", object: found.object };
  throw new ApiAway(`${path} exists, and cannot be read: ${found.kind}`);
}
