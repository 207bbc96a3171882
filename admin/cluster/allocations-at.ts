import type { Address } from "../../ipam/space/address.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { allocationName } from "../../kube/object-names.ts";
import { ALLOCATIONS_PATH, type IPAllocation } from "../../kube/objects.ts";
import { severalAtOnce } from "../../platform/several-at-once.ts";
import { isSound } from "../../store/cluster/allocations/allocation-object.ts";
import { type Definitions, readDefinitions } from "./snapshot.ts";

/** Reads at once: the server answers each in two milliseconds. */
const READS_AT_ONCE = 16;

/**
 * Who has an address, read by the names that its objects would have: one request for each network, however many addresses
 * there are. `network`: only there.
 */
export async function allocationsAt(
  api: KubeApi,
  address: Address,
  network: string | undefined,
): Promise<IPAllocation[]> {
  const networks = network === undefined ? networksKnown(await readDefinitions(api)) : [network];
  const client = new ObjectClient(api);
  const found: IPAllocation[] = [];
  await severalAtOnce(networks, READS_AT_ONCE, async (one) => {
    const object = await client.find(`${ALLOCATIONS_PATH}/${allocationName(one, address)}`);
    if (object !== null && isSound(object) && object.spec.network === one) found.push(object);
  });
  return found.sort((a, b) => (a.spec.network < b.spec.network ? -1 : 1));
}

/** Those that are defined, and those that were: their objects stay while anybody has an address of them. */
export function networksKnown({ catalog, networks }: Definitions): string[] {
  const recorded = [...networks.values()].map(({ spec }) => spec?.network);
  const all = new Set([...catalog.networks(), ...recorded.filter((one) => typeof one === "string")]);
  return [...all].sort();
}
