import { isPreallocation } from "../../ipam/owner.ts";
import { formatAddress, parseAddress } from "../../ipam/space/address.ts";
import { knownObject, refusedBy } from "../../kube/answers.ts";
import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import type { IPAllocation } from "../../kube/objects.ts";
import {
  isAddressPool,
  type MachineAddressView,
  projectMachineAddress,
} from "../../kube/views/machine-claim-view.ts";
import { soundAddress } from "./allocations/allocation-object.ts";

/** The IPAddress is not there (any more), or was written meanwhile. */
export type Withdrawal = "gone" | "changed";

/**
 * Deletes the IPAddress that tells a machine of an allocation's address, before the allocation is released: no garbage
 * collector does, because its pool owns it too. One that somebody else made, or that has another address, is left
 * alone. `paths`: of the IPAddress in every version of its kind, of which the first one that is served counts. Throws
 * ApiAway when the outcome is unknown, and RefusalError API_REFUSED.
 */
export async function withdrawMachineAddress(
  api: Pick<KubeApi, "send" | "clock">,
  allocation: IPAllocation,
  paths: readonly string[],
  deadlineMs?: number,
): Promise<Withdrawal> {
  const { owner } = allocation.spec;
  if (owner.kind !== "IPAddressClaim" || isPreallocation(owner)) return "gone";
  const objects = new ObjectClient(api);
  for (const path of paths) {
    const reading = await objects.get(path, deadlineMs);
    if (reading.kind === "not-served") continue;
    const object = knownObject(reading, path);
    if (object === null) return "gone";
    const view = projectMachineAddress(object);
    if (!tells(view, allocation)) return "gone";
    const { uid, resourceVersion } = view;
    const written = await objects.delete(path, { uid, resourceVersion }, deadlineMs);
    if (written.kind === "refused") throw refusedBy(written.answer, `delete IPAddress ${view.key}`);
    return written.kind === "conflict" ? "changed" : "gone";
  }
  throw new ApiAway(`IPAddress ${owner.namespace}/${owner.name} cannot be read: its kind is not served`);
}

function tells({ claim, pool, address }: MachineAddressView, allocation: IPAllocation): boolean {
  if (claim !== allocation.spec.owner.name || !isAddressPool(pool)) return false;
  try {
    return formatAddress(parseAddress(address)) === soundAddress(allocation);
  } catch {
    return false;
  }
}
