import { addressOf, isSound } from "../../allocations/allocation-object.ts";
import { fill } from "../../allocations/network-space.ts";
import { describeHolding } from "../../allocations/owners.ts";
import type { NetworkView } from "../../allocations/records.ts";
import { viewNetwork } from "../../allocations/views.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import type { Address } from "../../ipam/space/address.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { Pool } from "../../ipam/space/pool.ts";
import { networkObjectOf } from "../../kube/network-object.ts";
import { allocationName } from "../../kube/object-names.ts";
import type { IPAllocation, IPNetwork } from "../../kube/objects.ts";
import type { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import { isImported, sourcesOf } from "../../networks/import-sources.ts";
import type { CountingDefinition } from "../../networks/nad-verdict.ts";
import { describeNetworkOwner } from "../../networks/network-owner.ts";
import { parseTime } from "../../platform/time.ts";
import type { NetworkWithClaims } from "../admin-api.ts";
import type { PlanSpace, SpaceOfNad } from "../plan.ts";

/** A network of a cluster in the form of a node's, counted from all allocations. */
export type ClusterNetworkView = NetworkWithClaims & Required<Pick<NetworkWithClaims, "imported">>;

/** Every network that a NAD defines, or that has allocations without one. Sorted by name. */
export function clusterNetworks(
  catalog: Pick<DefinitionCatalog, "networks" | "definitionOf" | "nadsOf" | "accessTo">,
  allocations: Iterable<IPAllocation>,
  objects: ReadonlyMap<string, IPNetwork>,
  nowMs: number,
): ClusterNetworkView[] {
  const members = new Map<string, IPAllocation[]>(catalog.networks().map((network) => [network, []]));
  for (const object of allocations) {
    if (!isSound(object)) continue;
    const { network } = object.spec;
    const known = members.get(network);
    if (known !== undefined) known.push(object);
    else if (object.status?.state !== "Cooling") members.set(network, [object]);
  }
  return [...members.keys()].sort().map((network) => {
    const view = countedView(network, catalog.definitionOf(network), members.get(network) ?? [], nowMs);
    const imported = isMarkedImported(catalog, objects, network);
    const object = networkObjectOf(network, (name) => objects.get(name));
    const observed = object?.status?.usedSpace?.observed ?? null;
    return { ...view, ...catalog.accessTo(network), imported, observed };
  });
}

function isMarkedImported(
  catalog: Pick<DefinitionCatalog, "nadsOf">,
  objects: ReadonlyMap<string, IPNetwork>,
  network: string,
): boolean {
  return isImported(
    networkObjectOf(network, (name) => objects.get(name)),
    sourcesOf(catalog, network, null),
  );
}

function countedView(
  network: string,
  counting: CountingDefinition | null,
  members: readonly IPAllocation[],
  nowMs: number,
): NetworkView {
  const definition = counting?.definition ?? null;
  const pools = filledPools(definition, members, nowMs);
  const attachments = new Set<string>();
  let bound = 0;
  for (const object of members) {
    if (object.status?.state === "Cooling") continue;
    bound += 1;
    for (const key of Object.keys(object.status?.attachments ?? {})) attachments.add(key);
  }
  return viewNetwork(network, counting, pools, { bound, attachments: attachments.size });
}

export function poolsOfNetwork(
  network: string,
  definition: NetworkDefinition,
  allocations: Iterable<IPAllocation>,
  nowMs: number,
): Pool[] {
  const members = [...allocations].filter((object) => isSound(object) && object.spec.network === network);
  return filledPools(definition, members, nowMs);
}

function filledPools(definition: NetworkDefinition | null, members: readonly IPAllocation[], nowMs: number): Pool[] {
  const pools = (definition?.rangeSets ?? []).map((rangeSet) => new Pool(rangeSet));
  for (const object of members) {
    const cooling = object.status?.state === "Cooling";
    const sinceMs = parseTime(object.status?.since ?? "");
    // As allocators count: an address whose cool-down is over is free, though its object still exists.
    const coolingSinceMs = Number.isNaN(sinceMs) ? nowMs : sinceMs;
    const retained = object.status?.state === "Retained";
    fill(pools, { address: addressOf(object), cooling, retained, coolingSinceMs }, definition, nowMs);
  }
  for (const pool of pools) pool.expire(nowMs);
  return pools;
}

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
