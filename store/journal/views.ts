import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { addressBytes, formatAddress } from "../../ipam/space/address.ts";
import { cidrContains, formatCidr, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { Pool } from "../../ipam/space/pool.ts";
import { cooldownSeconds } from "../../ipam/space/rest.ts";
import { isoTime } from "../../platform/time.ts";
import type { AllocationFilter, PageRequest } from "../allocations.ts";
import { decodeToken, encodeToken, type Listed, pageOf } from "../pages.ts";
import type { AllocationView, AttachmentView, HistoryView, NetworkView, Page, RangeView } from "../records.ts";
import { attachmentsOf } from "./holdings.ts";
import type { Ledger } from "./ledger.ts";
import { type AllocationRow, type AttachmentRow, cidrTextOf, type HistoryRow, ownerOf, podOf } from "./rows.ts";
import { inSlices, mapSlices } from "./slices.ts";

/** Kinds of owners that are claims, whoever asks for them. */
const CLAIMS: ReadonlySet<string> = new Set(["claim", "addressClaim"]);

/** Allocations by network name and address, read in slices (inSlices). */
export async function listAllocations(
  directory: { readonly ledger: Ledger },
  filter: AllocationFilter,
  page: PageRequest,
): Promise<Page<AllocationView>> {
  const [network, address] = decodeToken(page.continue);
  const after = { network, address: Buffer.from(address, "hex") };
  return pageOf(
    inSlices(directory, (ledger) => scan(ledger, filter, after)),
    page,
  );
}

interface Position {
  readonly network: string;
  readonly address: Buffer;
}

function* scan(ledger: Ledger, filter: AllocationFilter, after: Position): Generator<Listed<AllocationView>[]> {
  const names = filter.network === undefined ? [...ledger.networks.keys()].sort() : [filter.network];
  for (const network of names) {
    const space = ledger.networks.get(network);
    if (space === undefined || network < after.network) continue;
    const from = network === after.network ? after.address : Buffer.alloc(0);
    const list = (row: AllocationRow): Listed<AllocationView>[] => {
      const item = viewAllocation(ledger, network, row);
      if (!matches(item, filter)) return [];
      return [{ item, token: () => encodeToken(network, row.address.toString("hex")) }];
    };
    const positionOf = (row: AllocationRow): [number, Uint8Array] => [space.id, row.address];
    if (filter.address === undefined) {
      yield* mapSlices(ledger.sql.allocationsOfNetwork, [space.id, from], positionOf, list);
      continue;
    }
    const row = ledger.sql.allocation.get(space.id, addressBytes(filter.address));
    if (row !== undefined && row.address.compare(from) > 0) yield list(row);
  }
}

export function matches(view: AllocationView, filter: AllocationFilter): boolean {
  const { owner, vm, attachments } = view;
  if (filter.state !== undefined && view.state !== filter.state) return false;
  if (filter.namespace !== undefined && !isOfNamespace(view, filter.namespace)) return false;
  if (filter.subnet !== undefined && !cidrContains(filter.subnet, parseInterfaceAddress(view.address).address))
    return false;
  if (filter.claim !== undefined && !(CLAIMS.has(owner.kind) && isNamed(owner, filter.claim))) return false;
  if (filter.cluster !== undefined && !isNamed({ ...owner, name: owner.cluster ?? "" }, filter.cluster)) return false;
  if (filter.vm !== undefined && !(vm !== null && isNamed({ ...owner, name: vm.name }, filter.vm))) return false;
  if (filter.container !== undefined && !usesContainer(view, filter.container)) return false;
  if (filter.node !== undefined && !attachments.some((one) => one.node === filter.node)) return false;
  if (filter.pod !== undefined) {
    const pods = attachments.flatMap((one) => (one.pod === null ? [] : [one.pod]));
    const wanted = filter.pod;
    if (!(owner.kind === "pod" && isNamed(owner, wanted)) && !pods.some((pod) => isNamed(pod, wanted))) return false;
  }
  return true;
}

/** The holder's; of a container that of the pod which it is in. */
function isOfNamespace({ owner, attachments }: AllocationView, wanted: string): boolean {
  return owner.namespace === wanted || attachments.some(({ pod }) => pod?.namespace === wanted);
}

function usesContainer({ owner, attachments }: AllocationView, wanted: string): boolean {
  if (owner.kind === "container" && owner.uid === wanted) return true;
  return attachments.some(({ containerID }) => containerID === wanted);
}

function isNamed(object: { namespace: string; name: string }, wanted: string): boolean {
  return wanted.includes("/") ? `${object.namespace}/${object.name}` === wanted : object.name === wanted;
}

function viewAllocation(ledger: Ledger, network: string, row: AllocationRow): AllocationView {
  const claim = row.owner_kind === "claim" ? ledger.sql.claimByUid.get(row.owner_uid) : undefined;
  const owner = ownerOf(row);
  const attachments = attachmentsOf(ledger, owner).filter((one) => one.network_id === row.network_id);
  return {
    network,
    address: cidrTextOf(row),
    state: row.state,
    owner,
    vm: claim && claim.vm_name !== "" ? { name: claim.vm_name, uid: claim.vm_uid } : null,
    since: isoTime(row.since_ms),
    ...(row.retained_until_ms === null ? {} : { retainedUntil: isoTime(row.retained_until_ms) }),
    attachments: row.state === "Bound" ? attachments.map(viewAttachment) : [],
  };
}

function viewAttachment(row: AttachmentRow): AttachmentView {
  return {
    containerID: row.container_id,
    interface: row.interface,
    netns: row.netns_path,
    node: row.node,
    pod: podOf(row),
    since: isoTime(row.since_ms),
    ...(row.mac === null ? {} : { mac: row.mac }),
  };
}

export function viewHistory(row: HistoryRow): HistoryView {
  return {
    network: row.network,
    address: cidrTextOf(row),
    owner: ownerOf(row),
    containerID: row.container_id,
    interface: row.interface,
    pod: podOf(row),
    node: row.node,
    from: isoTime(row.from_ms),
    until: row.until_ms === null ? null : isoTime(row.until_ms),
    endedBy: row.ended_by,
  };
}

/** Every known network with its counts, except empty networks without a definition. */
export function viewNetworks(ledger: Ledger): NetworkView[] {
  const nowMs = ledger.context.clock.monotonicMs();
  const attachments = new Map(ledger.sql.attachmentCounts.all().map((row) => [row.network_id, row.n]));
  const spaces = [...ledger.networks.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  return spaces.flatMap((space) => {
    if (space.definition === null && space.boundCount === 0) return [];
    const { definition } = space;
    const pools = definition === null ? [] : space.poolsOf(definition, nowMs);
    let inside = 0n;
    for (const pool of pools) {
      pool.expire(nowMs);
      inside += heldCount(pool);
    }
    return [
      {
        name: space.name,
        source: space.appliedBy ?? (space.definition === null ? "none" : "runtime"),
        allowPersistentIPs: space.definition?.allowPersistentIPs ?? false,
        cooldownSeconds: cooldownSeconds(space.definition),
        retainSeconds: space.definition?.retainSeconds ?? 0,
        attachments: attachments.get(space.id) ?? 0,
        ...viewExtras(definition),
        outside: String(BigInt(space.boundCount) - inside),
        ranges: pools.map(viewRange),
      },
    ];
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
