import type { NetworkDefinition } from "../../../ipam/definition/network-definition.ts";
import { addressBytes, sameAddress } from "../../../ipam/space/address.ts";
import type { Pool } from "../../../ipam/space/pool.ts";
import { cooldownSeconds } from "../../../ipam/space/rest.ts";
import type { KubeApi } from "../../../kube/kube-api.ts";
import { labelSelector } from "../../../kube/object-names.ts";
import { ALLOCATIONS_PATH, CLAIMS_PATH, type IPAllocation, LABEL_NETWORK } from "../../../kube/objects.ts";
import { isoTime } from "../../../platform/time.ts";
import type { AllocationFilter, ClaimFilter, PageRequest } from "../../allocations.ts";
import { heldCount, matches, viewExtras, viewRange } from "../../journal/views.ts";
import type { ClaimManifest } from "../../manifests.ts";
import { decodeToken, encodeToken } from "../../pages.ts";
import type { AllocationView, NetworkView, Page } from "../../records.ts";
import { addressOf, isSound } from "./allocation-object.ts";
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
    attachments: Object.values(status?.attachments ?? {}).map((one) => ({
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
 * The first items after a token, out of all of a cluster in any order: they are sorted by two texts. What lies behind
 * them is dropped, so that memory does not grow with the cluster.
 */
class FirstItems<Item> {
  readonly #limit: number;
  readonly #after: readonly [string, string];
  #found: { readonly item: Item; readonly at: readonly [string, string] }[] = [];

  constructor({ limit, continue: token }: PageRequest) {
    this.#limit = limit;
    this.#after = decodeToken(token);
  }

  add(item: Item, at: readonly [string, string]): void {
    if (compareTexts(at, this.#after) <= 0) return;
    this.#found.push({ item, at });
    if (this.#found.length > 2 * this.#limit + 1) this.#trim();
  }

  page(): Page<Item> {
    this.#trim();
    const items = this.#found.slice(0, this.#limit);
    const last = items.at(-1);
    const page = { items: items.map(({ item }) => item) };
    return last === undefined || this.#found.length <= this.#limit
      ? page
      : { ...page, continue: encodeToken(...last.at) };
  }

  /** Leaves one more than is wanted, which shows that there are more. */
  #trim(): void {
    this.#found = this.#found.sort((a, b) => compareTexts(a.at, b.at)).slice(0, this.#limit + 1);
  }
}

function compareTexts(a: readonly [string, string], b: readonly [string, string]): number {
  const at = a[0] === b[0] ? 1 : 0;
  return a[at] === b[at] ? 0 : a[at] < b[at] ? -1 : 1;
}

/** Every allocation of the cluster that matches the filter, page by page, by network and address. Throws ApiAway. */
export async function listFromApi(
  api: KubeApi,
  filter: AllocationFilter,
  page: PageRequest,
): Promise<Page<AllocationView>> {
  const first = new FirstItems<AllocationView>(page);
  await api.list({
    path: ALLOCATIONS_PATH,
    // Another network may have the same label.
    query:
      filter.network === undefined ? {} : { labelSelector: labelSelector(LABEL_NETWORK, filter.network) },
    each: (object: IPAllocation) => {
      if (!isSound(object)) return;
      const { network } = object.spec;
      if (filter.network !== undefined && network !== filter.network) return;
      const address = addressOf(object);
      if (filter.address !== undefined && !sameAddress(address, filter.address)) return;
      const view = viewOf(object);
      if (matches(view, filter))
        first.add(view, [network, Buffer.from(addressBytes(address)).toString("hex")]);
    },
  });
  return first.page();
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

/** The claims of some networks that match the filter, page by page, by namespace and name. Throws ApiAway. */
export async function listClaims(
  api: KubeApi,
  networks: ReadonlySet<string>,
  { namespace, name }: ClaimFilter,
  page: PageRequest,
): Promise<Page<ClaimManifest>> {
  const first = new FirstItems<ClaimManifest>(page);
  await api.list({
    path: CLAIMS_PATH,
    each: (claim: ClaimManifest) => {
      if (!networks.has(claim.spec?.network)) return;
      const { managedFields: _, ...metadata } = claim.metadata as ClaimManifest["metadata"] & {
        managedFields?: object;
      };
      if (namespace !== undefined && metadata.namespace !== namespace) return;
      if (name !== undefined && metadata.name !== name) return;
      first.add({ ...claim, metadata }, [metadata.namespace, metadata.name]);
    },
  });
  return first.page();
}
