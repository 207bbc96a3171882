import type { NetworkDefinition } from "../../../ipam/definition/network-definition.ts";
import { addressBytes, compareAddresses, sameAddress } from "../../../ipam/space/address.ts";
import type { Pool } from "../../../ipam/space/pool.ts";
import { cooldownSeconds } from "../../../ipam/space/rest.ts";
import type { KubeApi } from "../../../kube/kube-api.ts";
import { ALLOCATIONS_PATH, CLAIMS_PATH, type IPAllocation } from "../../../kube/objects.ts";
import type { AllocationFilter, PageRequest } from "../../allocations.ts";
import { decodeToken, encodeToken, matches, viewMetadata, viewRange } from "../../journal/views.ts";
import type { ClaimManifest } from "../../manifests.ts";
import type { AllocationView, NetworkView, Page } from "../../records.ts";
import { addressOf, isSound } from "./allocation-object.ts";
import type { Hint } from "./hint.ts";
import { fromAllocationOwner } from "./owners.ts";

/** An IPAllocation as the socket API shows it. */
export function viewOf(object: IPAllocation): AllocationView {
  const { spec, status } = object;
  return {
    network: spec.network,
    address: spec.address,
    state: status?.state === "Cooling" ? "Cooling" : "Bound",
    owner: fromAllocationOwner(spec.owner),
    vm: spec.vm ?? null,
    since: status?.since ?? "",
    attachments: Object.values(status?.attachments ?? {}).map((one) => ({
      containerID: one.containerID,
      interface: one.interface,
      netns: "",
      node: one.node,
      pod: one.pod ?? null,
      since: one.since,
    })),
  };
}

/** Every allocation of the cluster that matches the filter, page by page, by network and address. Throws ApiAway. */
export async function listFromApi(
  api: KubeApi,
  filter: AllocationFilter,
  page: PageRequest,
): Promise<Page<AllocationView>> {
  const found: { object: IPAllocation; view: AllocationView }[] = [];
  await api.list({
    path: ALLOCATIONS_PATH,
    each: (object: IPAllocation) => {
      if (!isSound(object)) return;
      if (filter.network !== undefined && object.spec.network !== filter.network) return;
      if (filter.address !== undefined && !sameAddress(addressOf(object), filter.address)) return;
      const view = viewOf(object);
      if (matches(view, filter)) found.push({ object, view });
    },
  });
  found.sort((a, b) => {
    if (a.view.network !== b.view.network) return a.view.network < b.view.network ? -1 : 1;
    return compareAddresses(addressOf(a.object), addressOf(b.object));
  });
  const after = decodeToken(page.continue);
  const rest = found.filter(
    ({ object, view }) =>
      view.network > after.network ||
      (view.network === after.network && addressBytes(addressOf(object)).compare(after.address) > 0),
  );
  const items = rest.slice(0, page.limit);
  const last = items[items.length - 1];
  if (!last || rest.length <= page.limit) return { items: items.map(({ view }) => view) };
  const token = encodeToken({ network: last.view.network, address: addressBytes(addressOf(last.object)) });
  return { items: items.map(({ view }) => view), continue: token };
}

/** A network with its counts, from pools filled with its allocations. */
export function viewNetwork(
  name: string,
  counting: { readonly definition: NetworkDefinition; readonly by: string } | null,
  pools: readonly Pool[],
  { bound, attachments }: { readonly bound: number; readonly attachments: number },
): NetworkView {
  let inside = 0n;
  for (const pool of pools) inside += pool.counts().allocated;
  return {
    name,
    source: counting?.by ?? "none",
    allowPersistentIPs: counting?.definition.allowPersistentIPs ?? false,
    cooldownSeconds: cooldownSeconds(counting?.definition ?? null),
    attachments,
    ...viewMetadata(counting?.definition ?? null),
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
  hint: Hint,
  attachments: ReadonlyMap<string, number>,
  nowMs: number,
): NetworkView[] {
  return definitions
    .networks()
    .toSorted()
    .map((name) => {
      const counting = definitions.definitionOf(name);
      const space = hint.space(name);
      // For the cool-down of what is released from now on, although nothing was ever attached here.
      if (counting !== null) space.definition = counting.definition;
      const pools = counting === null ? [] : space.presentPools(nowMs);
      for (const pool of pools) pool.expire(nowMs);
      const counts = { bound: hint.boundCount(name), attachments: attachments.get(name) ?? 0 };
      return { ...viewNetwork(name, counting, pools, counts), ...definitions.accessTo?.(name) };
    });
}

/** The claims of some networks. Throws ApiAway. */
export async function listClaims(api: KubeApi, networks: ReadonlySet<string>): Promise<ClaimManifest[]> {
  const claims: ClaimManifest[] = [];
  await api.list({
    path: CLAIMS_PATH,
    each: (claim: ClaimManifest) => {
      if (!networks.has(claim.spec?.network)) return;
      const { managedFields: _, ...metadata } = claim.metadata as ClaimManifest["metadata"] & {
        managedFields?: object;
      };
      claims.push({ ...claim, metadata });
    },
  });
  return claims;
}
