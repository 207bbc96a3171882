import { type AllocationFilter, matches, type PageRequest } from "../../allocations/filter.ts";
import { decodeToken, encodeToken, type Listed, pageOf } from "../../allocations/pages.ts";
import type { AllocationView, AttachmentView, HistoryView, NetworkView, Page } from "../../allocations/records.ts";
import { heldCount, viewExtras, viewRange } from "../../allocations/views.ts";
import { addressBytes } from "../../ipam/space/address.ts";
import { cooldownSeconds } from "../../ipam/space/cooldown.ts";
import { isoTime } from "../../platform/time.ts";
import { attachmentsOf } from "./holdings.ts";
import type { Ledger } from "./ledger.ts";
import { type AllocationRow, type AttachmentRow, cidrTextOf, type HistoryRow, ownerOf, podOf } from "./rows.ts";
import { inSlices, mapSlices } from "./slices.ts";

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
