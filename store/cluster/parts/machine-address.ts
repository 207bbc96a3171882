import { soundAddress } from "../../../allocations/allocation-object.ts";
import { isPreallocation } from "../../../ipam/owner.ts";
import { formatAddress, parseAddress } from "../../../ipam/space/address.ts";
import { knownObject, refusedBy } from "../../../kube/answers.ts";
import { machinePaths } from "../../../kube/cluster-api.ts";
import { ApiAway, type KubeApi } from "../../../kube/kube-api.ts";
import { ObjectClient } from "../../../kube/object-client.ts";
import { nameSameAddress } from "../../../kube/object-names.ts";
import { ANNOTATION_ALLOCATION, type IPAllocation } from "../../../kube/objects.ts";
import {
  isAddressPool,
  type MachineAddressView,
  projectMachineAddress,
} from "../../../kube/views/machine-claim-view.ts";

/** The IPAddress is not there (any more), or is no longer as it was seen. */
export type Withdrawal = "gone" | "changed";

interface WithdrawOptions {
  /** Of the IPAddress in every version of its kind, of which the first one that is served counts. Default: all. */
  readonly paths?: readonly [string, ...string[]];
  /** The IPAddress as far as the caller knows; null: not known. Saves a read. */
  readonly believed?: MachineAddressView | null;
  readonly deadlineMs?: number;
}

/**
 * Before the allocation is released: no garbage collector deletes the IPAddress, because its pool owns it too. One that
 * somebody else made, or that has another address, stays. Throws ApiAway (unknown outcome), RefusalError API_REFUSED.
 */
export async function withdrawMachineAddress(
  api: Pick<KubeApi, "send" | "clock">,
  allocation: IPAllocation,
  { paths = machinePaths("ipaddresses", allocation.spec.owner), believed = null, deadlineMs }: WithdrawOptions,
): Promise<Withdrawal> {
  const { owner } = allocation.spec;
  if (owner.kind !== "IPAddressClaim" || isPreallocation(owner)) return "gone";
  const objects = new ObjectClient(api);
  const withdraw = async (path: string, view: MachineAddressView): Promise<Withdrawal> => {
    if (!tells(view, allocation)) return "gone";
    // A claim of the same name has taken it over, and is still there: it was read before that was asked.
    const isAnothers = view.owners.some((one) => one.kind === "IPAddressClaim" && one.uid !== owner.uid);
    if (isAnothers && (await isThere(objects, machinePaths("ipaddressclaims", owner), deadlineMs))) return "changed";
    const { uid, resourceVersion } = view;
    const written = await objects.delete(path, { uid, resourceVersion }, deadlineMs);
    if (written.kind === "refused") throw refusedBy(written.answer, `delete IPAddress ${view.key}`);
    return written.kind === "conflict" ? "changed" : "gone";
  };
  if (believed !== null && tells(believed, allocation)) return withdraw(paths[0], believed);
  for (const path of paths) {
    const reading = await objects.get(path, deadlineMs);
    if (reading.kind === "not-served") continue;
    const object = knownObject(reading, path);
    return object === null ? "gone" : withdraw(path, projectMachineAddress(object));
  }
  throw new ApiAway(`IPAddress ${owner.namespace}/${owner.name} cannot be read: its kind is not served`);
}

/** Whether an object is there, by its paths in every version. One that may not be read may be there. */
async function isThere(objects: ObjectClient, paths: readonly string[], deadlineMs?: number): Promise<boolean> {
  for (const path of paths) {
    const { kind } = await objects.get(path, deadlineMs);
    if (kind !== "not-served") return kind !== "absent";
  }
  return true;
}

function tells(view: MachineAddressView, allocation: IPAllocation): boolean {
  const { claim, pool, address, annotations } = view;
  if (claim !== allocation.spec.owner.name || !isAddressPool(pool)) return false;
  const noted = annotations.get(ANNOTATION_ALLOCATION);
  if (noted !== undefined && nameSameAddress(noted, allocation.metadata.name)) return false;
  try {
    return formatAddress(parseAddress(address)) === soundAddress(allocation);
  } catch {
    return false;
  }
}
