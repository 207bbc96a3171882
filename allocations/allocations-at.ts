import type { Address } from "../ipam/space/address.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { allocationName } from "../kube/object-names.ts";
import { ALLOCATIONS_PATH, type IPAllocation } from "../kube/objects.ts";
import { severalAtOnce } from "../platform/several-at-once.ts";
import { isSound } from "./allocation-object.ts";

/** Reads at once: the server answers each in two milliseconds. */
const READS_AT_ONCE = 16;

/**
 * Who has an address of some networks, read by the names that its objects would have: one request for each network,
 * however many addresses there are. By network. Throws ApiAway.
 */
export async function allocationsAt(
  api: Pick<KubeApi, "send" | "clock">,
  address: Address,
  networks: Iterable<string>,
): Promise<IPAllocation[]> {
  const client = new ObjectClient(api);
  const found: IPAllocation[] = [];
  await severalAtOnce(networks, READS_AT_ONCE, async (one) => {
    const object = await client.find(`${ALLOCATIONS_PATH}/${allocationName(one, address)}`);
    if (object !== null && isSound(object) && object.spec.network === one) found.push(object);
  });
  return found.sort((a, b) => (a.spec.network < b.spec.network ? -1 : 1));
}
