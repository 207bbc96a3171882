import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { addressBytes, formatAddress } from "../../ipam/space/address.ts";
import { formatCidr } from "../../ipam/space/cidr.ts";
import type { Pool } from "../../ipam/space/pool.ts";
import { cooldownSeconds } from "../../ipam/space/rest.ts";
import { isoTime } from "../../platform/time.ts";
import type { AllocationFilter, PageRequest } from "../allocations.ts";
import type {
  AllocationView,
  AttachmentView,
  HistoryView,
  NetworkView,
  Page,
  RangeView,
} from "../records.ts";
import { attachmentsOf } from "./holdings.ts";
import type { Ledger } from "./ledger.ts";
import {
  type AllocationRow,
  type AttachmentRow,
  cidrTextOf,
  type HistoryRow,
  ownerOf,
  podOf,
} from "./rows.ts";

/** Rows read in one query while a filter that SQL cannot express is applied. */
const SCAN_ROWS = 1_000;

/** Kinds of owners that are claims, whoever asks for them. */
const CLAIMS: ReadonlySet<string> = new Set(["claim", "addressClaim"]);

type ListedRow = AllocationRow & { readonly network: string };

/** Allocations by network name and address. The page token names the last row, so that changes lose nothing. */
export function listAllocations(
  ledger: Ledger,
  filter: AllocationFilter,
  page: PageRequest,
): Page<AllocationView> {
  let after = decodeToken(page.continue);
  const items: AllocationView[] = [];
  for (;;) {
    const rows = scan(ledger, filter, after);
    for (const row of rows) {
      const view = viewAllocation(ledger, row);
      if (matches(view, filter)) {
        if (items.length === page.limit) return { items, continue: encodeToken(after) };
        items.push(view);
      }
      after = { network: row.network, address: row.address };
    }
    if (rows.length < SCAN_ROWS) return { items };
  }
}

export interface Position {
  readonly network: string;
  readonly address: Buffer;
}

function scan(ledger: Ledger, filter: AllocationFilter, after: Position): ListedRow[] {
  const conditions = ["(networks.name > ? OR (networks.name = ? AND allocations.address > ?))"];
  const values: unknown[] = [after.network, after.network, after.address];
  if (filter.network !== undefined) {
    values.push(filter.network);
    conditions.push("networks.name = ?");
  }
  if (filter.address !== undefined) {
    values.push(addressBytes(filter.address));
    conditions.push("allocations.address = ?");
  }
  return ledger.db
    .prepare<unknown[], ListedRow>(
      `SELECT allocations.*, networks.name AS network FROM networks JOIN allocations ON allocations.network_id = networks.id
       WHERE ${conditions.join(" AND ")} ORDER BY networks.name, allocations.address LIMIT ${SCAN_ROWS}`,
    )
    .all(...values);
}

export function matches(view: AllocationView, filter: AllocationFilter): boolean {
  const { owner, vm, attachments } = view;
  if (filter.claim !== undefined && !(CLAIMS.has(owner.kind) && isNamed(owner, filter.claim))) return false;
  if (filter.cluster !== undefined && !isNamed({ ...owner, name: owner.cluster ?? "" }, filter.cluster))
    return false;
  if (filter.vm !== undefined && !(vm !== null && isNamed({ ...owner, name: vm.name }, filter.vm)))
    return false;
  if (filter.container !== undefined && !usesContainer(view, filter.container)) return false;
  if (filter.node !== undefined && !attachments.some((one) => one.node === filter.node)) return false;
  if (filter.pod !== undefined) {
    const pods = attachments.flatMap((one) => (one.pod === null ? [] : [one.pod]));
    const wanted = filter.pod;
    if (!(owner.kind === "pod" && isNamed(owner, wanted)) && !pods.some((pod) => isNamed(pod, wanted)))
      return false;
  }
  return true;
}

function usesContainer({ owner, attachments }: AllocationView, wanted: string): boolean {
  if (owner.kind === "container" && owner.uid === wanted) return true;
  return attachments.some(({ containerID }) => containerID === wanted);
}

function isNamed(object: { namespace: string; name: string }, wanted: string): boolean {
  return wanted.includes("/") ? `${object.namespace}/${object.name}` === wanted : object.name === wanted;
}

function viewAllocation(ledger: Ledger, row: ListedRow): AllocationView {
  const claim = row.owner_kind === "claim" ? ledger.sql.claimByUid.get(row.owner_uid) : undefined;
  const owner = ownerOf(row);
  const attachments = attachmentsOf(ledger, owner).filter((one) => one.network_id === row.network_id);
  return {
    network: row.network,
    address: cidrTextOf(row),
    state: row.state,
    owner,
    vm: claim && claim.vm_name !== "" ? { name: claim.vm_name, uid: claim.vm_uid } : null,
    since: isoTime(row.since_ms),
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
      inside += pool.counts().allocated;
    }
    return [
      {
        name: space.name,
        source: space.appliedBy ?? (space.definition === null ? "none" : "runtime"),
        allowPersistentIPs: space.definition?.allowPersistentIPs ?? false,
        cooldownSeconds: cooldownSeconds(space.definition),
        attachments: attachments.get(space.id) ?? 0,
        ...viewMetadata(definition),
        outside: String(BigInt(space.boundCount) - inside),
        ranges: pools.map(viewRange),
      },
    ];
  });
}

/** Empty if the network has no metadata. */
export function viewMetadata(definition: NetworkDefinition | null): Pick<NetworkView, "metadata"> {
  const metadata = definition?.metadata ?? null;
  if (metadata === null) return {};
  return { metadata: { tokens: metadata.tokens } };
}

/** How the addresses of one range set are used. */
export function viewRange(pool: Pool): RangeView {
  const { size, allocated, cooling, free, excluded } = pool.counts();
  const { subnets } = pool.rangeSet;
  return {
    subnets: subnets.map((subnet) => formatCidr(subnet.cidr)),
    gateways: subnets.flatMap(({ gateway }) => (gateway ? [formatAddress(gateway)] : [])),
    size: String(size),
    allocated: String(allocated),
    cooling: String(cooling),
    free: String(free),
    excluded: String(excluded),
  };
}

export function encodeToken(position: Position): string {
  return Buffer.from(JSON.stringify([position.network, position.address.toString("hex")])).toString(
    "base64url",
  );
}

/** Throws RefusalError when the token is not one of ours. */
export function decodeToken(token: string | undefined): Position {
  if (token === undefined) return { network: "", address: Buffer.alloc(0) };
  try {
    const [network, hex] = JSON.parse(Buffer.from(token, "base64url").toString()) as [unknown, unknown];
    if (typeof network === "string" && typeof hex === "string")
      return { network, address: Buffer.from(hex, "hex") };
  } catch {
    // Falls through to the one message for whatever is wrong with it.
  }
  const remedy = "expected the token of the page before, unchanged";
  throw new RefusalError(refuse("REQUEST_INVALID", { key: "continue", value: token, remedy }));
}
