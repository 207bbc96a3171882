import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { addressBytes, formatAddress } from "../ipam/space/address.ts";
import { formatCidr, parseInterfaceAddress } from "../ipam/space/cidr.ts";
import { cooldownSeconds } from "../ipam/space/cooldown.ts";
import type { Pool } from "../ipam/space/pool.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import { labelSelector } from "../kube/object-names.ts";
import { ALLOCATIONS_PATH, attachmentsIn, type IPAllocation, LABEL_NETWORK } from "../kube/objects.ts";
import { isoTime } from "../platform/time.ts";
import { isSound } from "./allocation-object.ts";
import type { AllocationFilter, PageRequest } from "./filter.ts";
import { matches } from "./filter.ts";
import { pageOfObjects } from "./object-pages.ts";
import { fromAllocationOwner } from "./owners.ts";
import type { Picture } from "./picture.ts";
import type { AllocationView, NetworkView, Page, RangeView } from "./records.ts";

/** An IPAllocation as the socket API shows it. */
export function viewOf(object: IPAllocation): AllocationView {
  const { spec, status } = object;
  return {
    network: spec.network,
    address: spec.address,
    state: status?.state ?? "Bound",
    owner: fromAllocationOwner(spec.owner),
    vm: spec.vm ?? null,
    since: status?.since ?? "",
    ...(status?.retainedUntil === undefined ? {} : { retainedUntil: status.retainedUntil }),
    attachments: attachmentsIn(object).map((one) => ({
      containerID: one.containerID,
      interface: one.interface,
      netns: "",
      node: one.node,
      pod: one.pod ?? null,
      since: one.since,
      ...(spec.mac === undefined ? {} : { mac: spec.mac }),
    })),
  };
}

/**
 * Every allocation of the cluster that matches the filter, page by page: network by network in the order of their
 * objects' names, each by its addresses (docs/decisions/0076). Throws ApiAway, and RefusalError for a token that is
 * none.
 */
export function listFromApi(api: KubeApi, filter: AllocationFilter, page: PageRequest): Promise<Page<AllocationView>> {
  const { network } = filter;
  return pageOfObjects<IPAllocation, AllocationView>(api, page, {
    path: ALLOCATIONS_PATH,
    query: network === undefined ? {} : { labelSelector: labelSelector(LABEL_NETWORK, network) },
    itemOf: (object) => {
      if (!isSound(object)) return null;
      // Another network may have the same label.
      if (network !== undefined && object.spec.network !== network) return null;
      const view = viewOf(object);
      return matches(view, filter) ? view : null;
    },
    placeOf: (view) => {
      const bytes = addressBytes(parseInterfaceAddress(view.address).address);
      return [view.network, Buffer.from(bytes).toString("hex")];
    },
  });
}

/** A network with its counts, from pools filled with its allocations. */
export function viewNetwork(
  name: string,
  counting: { readonly definition: NetworkDefinition; readonly by: string } | null,
  pools: readonly Pool[],
  { bound, attachments }: { readonly bound: number; readonly attachments: number },
): NetworkView {
  let inside = 0n;
  for (const pool of pools) inside += heldCount(pool);
  return {
    name,
    source: counting?.by ?? "none",
    allowPersistentIPs: counting?.definition.allowPersistentIPs ?? false,
    cooldownSeconds: cooldownSeconds(counting?.definition ?? null),
    retainSeconds: counting?.definition.retainSeconds ?? 0,
    attachments,
    ...viewExtras(counting?.definition ?? null),
    outside: String(BigInt(bound) - inside),
    ranges: pools.map(viewRange),
  };
}
export interface ClusterDefinitions {
  definitionOf(network: string): { readonly definition: NetworkDefinition; readonly by: string } | null;
  networks(): string[];
  accessTo?(network: string): Pick<NetworkView, "definedIn" | "sharedWith"> | null;
}

/** Every network of the cluster that this node knows. */
export function viewNetworks(
  definitions: ClusterDefinitions,
  picture: Picture,
  attachments: ReadonlyMap<string, number>,
  nowMs: number,
): NetworkView[] {
  return definitions
    .networks()
    .toSorted()
    .map((name) => {
      const counting = definitions.definitionOf(name);
      const space = picture.space(name);
      // For the cool-down of what is released from now on, although nothing was ever attached here.
      if (counting !== null) space.definition = counting.definition;
      const pools = counting === null ? [] : space.presentPools(nowMs);
      for (const pool of pools) pool.expire(nowMs);
      const counts = { bound: picture.boundCount(name), attachments: attachments.get(name) ?? 0 };
      const observedMs = picture.observedMs(name);
      const observed = observedMs === null ? null : isoTime(observedMs);
      return { ...viewNetwork(name, counting, pools, counts), ...definitions.accessTo?.(name), observed };
    });
}

/** What a network has or has not. */
export function viewExtras(definition: NetworkDefinition | null): Pick<NetworkView, "metadata" | "routes"> {
  const { metadata = null, routes = [] } = definition ?? {};
  return {
    ...(metadata === null ? {} : { metadata: { tokens: metadata.tokens } }),
    ...(routes.length === 0 ? {} : { routes: routes.map(({ dst, gw = "" }) => ({ dst, gw })) }),
  };
}

/** Addresses of a range set that are Bound or Retained. */
export function heldCount(pool: Pool): bigint {
  const { allocated, retained } = pool.counts();
  return allocated + retained;
}

/** How the addresses of one range set are used. */
export function viewRange(pool: Pool): RangeView {
  const { size, allocated, retained, cooling, free, excluded } = pool.counts();
  const { subnets } = pool.rangeSet;
  return {
    subnets: subnets.map((subnet) => formatCidr(subnet.cidr)),
    gateways: subnets.flatMap(({ gateway }) => (gateway ? [formatAddress(gateway)] : [])),
    size: String(size),
    allocated: String(allocated),
    retained: String(retained),
    cooling: String(cooling),
    free: String(free),
    excluded: String(excluded),
  };
}
