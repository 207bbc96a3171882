import { isSound } from "../../allocations/allocation-object.ts";
import { describeHolding } from "../../allocations/owners.ts";
import type { Address } from "../../ipam/space/address.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { allocationName } from "../../kube/object-names.ts";
import type { IPAllocation } from "../../kube/objects.ts";
import type { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import { describeNetworkOwner } from "../../networks/network-owner.ts";
import type { PlanSpace, SpaceOfNad } from "../plan.ts";
import { poolsOfNetwork } from "./network-views.ts";

/** Each network counted once. */
export function planSpaces(
  catalog: Pick<DefinitionCatalog, "verdict">,
  allocations: readonly IPAllocation[],
  nowMs: number,
): (nad: string) => Promise<SpaceOfNad> {
  const spaces = new Map<string, PlanSpace>();
  const sound = allocations.filter(isSound);
  const byName = new Map(sound.map((one) => [one.metadata.name, one]));
  const ofClaims = new Map<string, Address[]>();
  for (const { spec, status } of sound) {
    const { kind, namespace, name } = spec.owner;
    if (kind !== "IPAMClaim" || status?.state === "Cooling") continue;
    const key = `${spec.network} ${namespace}/${name}`;
    ofClaims.set(key, [...(ofClaims.get(key) ?? []), parseInterfaceAddress(spec.address).address]);
  }
  return async (nad) => {
    const verdict = catalog.verdict(nad);
    const refused = (message: string) => ({ state: "refused" as const, message });
    switch (verdict.kind) {
      case "ok": {
        const { network, definition } = verdict;
        const space = spaces.get(network) ?? {
          definition,
          pools: poolsOfNetwork(network, definition, allocations, nowMs),
          nowMs,
          holderOf: async (address) => {
            const held = byName.get(allocationName(network, address));
            if (held === undefined || held.status?.state === "Cooling") return null;
            return describeHolding(held);
          },
          ownOf: async ({ namespace, name }) => ofClaims.get(`${network} ${namespace}/${name}`) ?? [],
        };
        spaces.set(network, space);
        return space;
      }
      case "not-ours":
        return { state: "not-ours", message: `NetworkAttachmentDefinition ${nad} is another IPAM plugin's` };
      case "unknown":
        return refused(`there is no NetworkAttachmentDefinition ${nad}`);
      case "broken":
      case "reservations-broken":
        return refused(verdict.refusal.message);
      case "conflict":
        return refused(
          `NetworkAttachmentDefinition ${nad} differs from ${verdict.by}, which defines ${verdict.network}`,
        );
      case "not-shared":
      case "undefined":
        return refused(`network ${verdict.network} belongs to ${describeNetworkOwner(verdict.owner)}`);
    }
  };
}
