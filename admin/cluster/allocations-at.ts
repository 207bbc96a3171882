import { allocationsAt as allocationsIn } from "../../allocations/allocations-at.ts";
import type { Address } from "../../ipam/space/address.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import type { IPAllocation } from "../../kube/objects.ts";
import { type Definitions, readDefinitions } from "./snapshot.ts";

/** Who has an address of any network; `network`: only there. Throws ApiAway. */
export async function allocationsAt(
  api: KubeApi,
  address: Address,
  network: string | undefined,
): Promise<IPAllocation[]> {
  return allocationsIn(api, address, network === undefined ? networksKnown(await readDefinitions(api)) : [network]);
}

/** Those that are defined, and those that were: their objects stay while anybody has an address of them. */
export function networksKnown({ catalog, networks }: Definitions): string[] {
  const recorded = [...networks.values()].map(({ spec }) => spec?.network);
  const all = new Set([...catalog.networks(), ...recorded.filter((one) => typeof one === "string")]);
  return [...all].sort();
}
