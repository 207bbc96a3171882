import type { InterfaceAddress } from "../ipam/cidr.ts";
import { type Holder, newAllocation } from "../store/kubernetes/allocation-object.ts";
import { ApiAway, type KubeApi } from "../store/kubernetes/kube-api.ts";
import { allocationName } from "../store/kubernetes/object-names.ts";
import { ALLOCATIONS_PATH, type IPAllocation, objectPath } from "../store/kubernetes/objects.ts";
import { HOUSEKEEPING_DEADLINE_MS, readObject } from "./kube/read-object.ts";

const CONFLICT = 409;

/** `exists`: the name is held, by whomever. */
export type Created =
  | { readonly kind: "created" }
  | { readonly kind: "exists"; readonly object: IPAllocation };

/**
 * Creates the allocation of an address that is in use already. Harmless when done twice: the name decides. Throws ApiAway
 * when it is not known to exist afterwards, also when the server refuses it.
 */
export async function createAllocation(
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
