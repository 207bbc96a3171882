import { addressOf, isSound } from "../../allocations/allocation-object.ts";
import { fill } from "../../allocations/network-space.ts";
import type { NetworkView } from "../../allocations/records.ts";
import { viewNetwork } from "../../allocations/views.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { Pool } from "../../ipam/space/pool.ts";
import { networkObjectOf } from "../../kube/network-object.ts";
import type { IPAllocation, IPNetwork } from "../../kube/objects.ts";
import type { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import { isImported, sourcesOf } from "../../networks/import-sources.ts";
import type { CountingDefinition } from "../../networks/nad-verdict.ts";
import { parseTime } from "../../platform/time.ts";
import type { NetworkWithClaims } from "../admin-api.ts";

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
