import type { NetworkDefinition } from "../../../ipam/definition/network-definition.ts";
import { addressBytes } from "../../../ipam/space/address.ts";
import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import type { Pool } from "../../../ipam/space/pool.ts";
import { cooldownSeconds } from "../../../ipam/space/rest.ts";
import type { KubeApi } from "../../../kube/kube-api.ts";
import { labelSelector } from "../../../kube/object-names.ts";
import {
  ALLOCATIONS_PATH,
  attachmentsIn,
  CLAIMS_PATH,
  type IPAllocation,
  LABEL_NETWORK,
} from "../../../kube/objects.ts";
import { isoTime } from "../../../platform/time.ts";
import type { AllocationFilter, ClaimFilter, PageRequest } from "../../allocations.ts";
import { heldCount, matches, viewExtras, viewRange } from "../../journal/views.ts";
import type { ClaimManifest } from "../../manifests.ts";
import type { AllocationView, NetworkView, Page } from "../../records.ts";
import { isSound } from "./allocation-object.ts";
import { pageOfObjects } from "./object-pages.ts";
import { fromAllocationOwner } from "./owners.ts";
import type { Picture } from "./picture.ts";

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

/** The claims of some networks that match the filter, page by page, by namespace and name. Throws as listFromApi. */
export function listClaims(
  api: KubeApi,
  networks: ReadonlySet<string>,
  { namespace, name }: ClaimFilter,
  page: PageRequest,
): Promise<Page<ClaimManifest>> {
  return pageOfObjects<ClaimManifest, ClaimManifest>(api, page, {
    path: CLAIMS_PATH,
    query: {},
    itemOf: (claim) => {
      if (!networks.has(claim.spec?.network)) return null;
      const { managedFields: _, ...metadata } = claim.metadata as ClaimManifest["metadata"] & {
        managedFields?: object;
      };
      if (namespace !== undefined && metadata.namespace !== namespace) return null;
      if (name !== undefined && metadata.name !== name) return null;
      return { ...claim, metadata };
    },
    placeOf: ({ metadata }) => [metadata.namespace, metadata.name],
  });
}
