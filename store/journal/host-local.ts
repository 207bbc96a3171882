import { dirname } from "node:path";
import type { NetworkSpace } from "../../allocations/network-space.ts";
import { UNSEEN_NAMESPACE } from "../../allocations/records.ts";
import type { LeaseHolder } from "../../ipam/definition/host-local-lease.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import type { Owner } from "../../ipam/owner.ts";
import { addressBytes, addressFromBytes } from "../../ipam/space/address.ts";
import { type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { placeOf } from "../../ipam/space/range-set.ts";
import type { AttachWant } from "../allocations.ts";
import type { Lease } from "../host-local/lease-files.ts";
import { isHeldBy, type LeaseVerdict, type RecordedLease, unknownHolder } from "../host-local/lease-store.ts";
import { record } from "./attachment-journal.ts";
import { endAttachment } from "./end-attachment.ts";
import type { Transaction } from "./group-commit.ts";
import type { LeaseRow } from "./lease-rows.ts";
import type { Ledger } from "./ledger.ts";
import { type AttachmentRow, ownerOf } from "./rows.ts";

export function judgeLease(ledger: Ledger, definition: NetworkDefinition, lease: Lease): LeaseVerdict {
  if (placeOf(definition.rangeSets, lease.address) === null) return { kind: "outside" };
  const space = ledger.networks.get(definition.name);
  if (space === undefined) return { kind: "free" };
  const bytes = addressBytes(lease.address);
  const allocation = ledger.sql.allocation.get(space.id, bytes);
  const bound = allocation?.state === "Bound" ? ownerOf(allocation) : null;
  const seen = knownLease(ledger, definition.name, lease);
  if (seen !== null) return seen;
  if (bound === null || namesHolder(ledger, space, lease) !== null) return { kind: "free" };
  const holder = lease.holder ?? unknownHolder(lease.address);
  const uses = ledger.sql.usersOnNetwork.all(bytes, space.id);
  const known =
    isHeldBy(bound, holder) ||
    isHeldBy(bound, unknownHolder(lease.address)) ||
    uses.some((one) => one.container_id === holder.containerId);
  return known ? { kind: "recorded" } : { kind: "other", holder: bound };
}

/** The attachment for a file that named nobody before and names a container now, if the address can pass to it. */
function namesHolder({ sql, leases }: Ledger, { id }: NetworkSpace, lease: Lease): AttachmentRow | null {
  const { address, path, holder } = lease;
  const row = leases.get(id, addressBytes(address));
  if (holder === null || row === undefined || row.path !== path || !isUnknownHolder(row)) return null;
  const own = sql.attachment.get(holder.containerId, holder.interface, id);
  return own !== undefined && !isTakenOver(own) ? null : (sql.attachment.get(row.container_id, "", id) ?? null);
}

/** What became of a lease that was recorded before; null: this one was not. */
function knownLease(ledger: Ledger, network: string, lease: Lease): LeaseVerdict | null {
  const space = ledger.networks.get(network);
  const row = space && ledger.leases.get(space.id, addressBytes(lease.address));
  if (row === undefined || row.file_id !== lease.fileId || row.path !== lease.path) return null;
  const lives = ledger.sql.attachment.get(row.container_id, row.interface, row.network_id) !== undefined;
  return { kind: lives ? "recorded" : "ended" };
}

/** Records the free ones of a holder's leases: allocations, and an attachment that a DEL of the container ends. */
export function takeLeases(
  ledger: Ledger,
  transaction: Transaction,
  definition: NetworkDefinition,
  holder: LeaseHolder,
  leases: readonly Lease[],
): LeaseVerdict[] {
  const space = ledger.networkOf(definition.name, transaction);
  const verdicts = leases.map((lease) => judgeLease(ledger, definition, lease));
  const free = leases.filter((_, at) => verdicts[at]?.kind === "free");
  if (free.length === 0) return verdicts;
  for (const lease of free) {
    const unnamed = namesHolder(ledger, space, lease);
    if (unnamed !== null) endAttachment(ledger, transaction, unnamed, "used again");
  }
  const former = ledger.sql.attachment.get(holder.containerId, holder.interface, space.id);
  if (former !== undefined && !isTakenOver(former)) {
    // The container has other addresses of ours: they win over the file.
    for (const lease of free) take(ledger, transaction, space, definition, unknownHolder(lease.address), [lease]);
  } else take(ledger, transaction, space, definition, holder, free, former);
  ledger.context.killPoint?.("in-transaction");
  return verdicts.map((verdict) => (verdict.kind === "free" ? { kind: "taken" } : verdict));
}

function take(
  ledger: Ledger,
  transaction: Transaction,
  space: NetworkSpace,
  definition: NetworkDefinition,
  holder: LeaseHolder,
  leases: readonly Lease[],
  former?: AttachmentRow,
): void {
  const { sql, context } = ledger;
  // If another definition is in force for allocations, its pools must count these too.
  ledger.poolsOf(space, definition, transaction);
  const addresses = leases.map((lease) => placed(definition, lease));
  if (former !== undefined) {
    ledger.attachments.remove(former);
    const { history_id: first, history_count: count } = former;
    sql.endHistory.run(context.clock.wallMs(), "used again", first, first + count);
  }
  const { kind, uid, interface: interfaceName } = ownerOfLease(holder);
  for (const [at, { address, prefixLength }] of addresses.entries()) {
    const bytes = addressBytes(address);
    const sinceMs = context.clock.wallMs();
    sql.insertAllocation.run(space.id, bytes, prefixLength, kind, uid, interfaceName, "", "", 0, sinceMs);
    transaction.onRollback(space.allocate(address, false));
    putLease(ledger, space, holder, leases[at] as Lease);
  }
  recordLeases(ledger, space, definition, holder, [...addressesOfRow(former), ...addresses]);
}

function putLease(ledger: Ledger, space: NetworkSpace, holder: LeaseHolder, lease: Lease): void {
  ledger.leases.put({
    network_id: space.id,
    address: addressBytes(lease.address),
    path: lease.path,
    file_id: lease.fileId,
    container_id: holder.containerId,
    interface: holder.interface,
  });
}

function recordLeases(
  ledger: Ledger,
  space: NetworkSpace,
  definition: NetworkDefinition,
  holder: LeaseHolder,
  addresses: readonly InterfaceAddress[],
): void {
  const { rangeSets } = definition;
  const order = ({ address }: InterfaceAddress) => placeOf(rangeSets, address)?.index ?? rangeSets.length;
  const inOrder = [...addresses].sort((a, b) => order(a) - order(b));
  record(ledger, space, definition, ownerOfLease(holder), wantOf(ledger, definition, holder), inOrder);
}

function ownerOfLease({ containerId, interface: interfaceName }: LeaseHolder): Owner {
  return { kind: "container", uid: containerId, interface: interfaceName, namespace: "", name: "" };
}

/** Stamped before every request of its boot, so that any DEL ends it. */
function wantOf(
  { context }: Pick<Ledger, "context">,
  definition: NetworkDefinition,
  { containerId, interface: interfaceName }: LeaseHolder,
): AttachWant {
  return {
    network: definition.name,
    definition,
    definitionSource: "",
    containerId,
    interface: interfaceName,
    stamp: { bootId: context.bootId, us: 0 },
    netns: UNSEEN_NAMESPACE,
    pod: null,
    claim: null,
    requested: [],
    onePerFamily: false,
  };
}

/** No runtime has requested it since it was taken over. */
function isTakenOver({ boot_us: us, owner_kind: kind }: AttachmentRow): boolean {
  return us === 0 && kind === "container";
}

/** The leases of a network's directory by what has become of them: see LeaseStore.settle. */
function sortLeases(
  ledger: Ledger,
  space: NetworkSpace,
  directory: string,
  present: ReadonlyMap<string, Lease>,
): { readonly gone: AttachmentRow[]; readonly stale: LeaseRow[]; readonly ended: RecordedLease[] } {
  const rows = ledger.leases.ofNetwork(space.id);
  const lives = ({ container_id: id, interface: name, network_id: network }: LeaseRow) =>
    ledger.sql.attachment.get(id, name, network);
  const isPresent = (row: LeaseRow) =>
    dirname(row.path) !== directory || isSame(row, present.get(row.path), lives(row));
  const holderOf = (row: LeaseRow) => `${row.container_id}/${row.interface}`;
  const presentRows = new Set(rows.filter(isPresent));
  const presentHolders = new Set([...presentRows].map(holderOf));
  const gone = new Map<number, AttachmentRow>();
  const stale: LeaseRow[] = [];
  const ended: RecordedLease[] = [];
  for (const row of rows) {
    if (dirname(row.path) !== directory) continue;
    const attachment = lives(row);
    if (presentRows.has(row)) {
      const { fileId } = present.get(row.path) as Lease;
      // The file was touched, or restored from a copy.
      if (!isUnknownHolder(row) && fileId !== row.file_id) ledger.leases.put({ ...row, file_id: fileId });
      if (attachment === undefined) ended.push(recorded(row));
      continue;
    }
    if (attachment === undefined || !isTakenOver(attachment)) stale.push(row);
    // host-local removes the files of a container one by one; the last one ends it.
    else if (!presentHolders.has(holderOf(row))) {
      gone.set(attachment.id, attachment);
      stale.push(row);
    }
  }
  return { gone: [...gone.values()], stale, ended };
}

/** Whether a file is still the one of a row. For a container that has not ended, inode and times do not matter. */
function isSame(row: LeaseRow, lease: Lease | undefined, attachment: AttachmentRow | undefined): boolean {
  if (lease === undefined || lease.fileId === row.file_id) return lease !== undefined;
  if (attachment === undefined) return false;
  if (isUnknownHolder(row)) return true;
  if (lease.holder?.containerId !== row.container_id) return false;
  const { interface: name } = lease.holder;
  return name === "" || row.interface === "" || name === row.interface;
}

function isUnknownHolder({ address, container_id: id }: LeaseRow): boolean {
  return id === unknownHolder(addressFromBytes(address)).containerId;
}

/** Carries out sortLeases where this database is the truth. Returns what has ended although its file exists. */
export function settleLeases(
  ledger: Ledger,
  transaction: Transaction,
  network: string,
  directory: string,
  present: ReadonlyMap<string, Lease>,
): RecordedLease[] {
  const space = ledger.networks.get(network);
  if (space === undefined) return [];
  const { gone, stale, ended } = sortLeases(ledger, space, directory, present);
  for (const attachment of gone) endAttachment(ledger, transaction, attachment, "DEL by host-local");
  for (const row of stale) ledger.leases.delete(row);
  return ended;
}

export function isInUse(ledger: Ledger, network: string, directory: string): boolean {
  const space = ledger.networks.get(network);
  if (space === undefined) return false;
  return ledger.leases.ofNetwork(space.id).some((row) => {
    if (dirname(row.path) !== directory) return false;
    const attachment = ledger.sql.attachment.get(row.container_id, row.interface, space.id);
    return attachment !== undefined && isTakenOver(attachment);
  });
}

/** Records the interface of a container's files from a request, where host-local was too old to record it. */
export function nameInterface(
  ledger: Ledger,
  request: { readonly containerId: string; readonly interface: string; readonly network: string | null },
): void {
  const { containerId, interface: interfaceName, network } = request;
  for (const { network_id: networkId } of ledger.leases.namelessOf(containerId)) {
    if (network !== null && ledger.networkById(networkId).name !== network) continue;
    const nameless = ledger.sql.attachment.get(containerId, "", networkId);
    const taken = ledger.sql.attachment.get(containerId, interfaceName, networkId);
    if (nameless === undefined || taken !== undefined) continue;
    ledger.attachments.nameInterface(nameless, interfaceName);
    ledger.leases.nameInterface(networkId, containerId, interfaceName);
  }
}

export function addressesOfRow(row: AttachmentRow | undefined): InterfaceAddress[] {
  const ips = row === undefined ? [] : (JSON.parse(row.ips) as { address: string }[]);
  return ips.map((ip) => parseInterfaceAddress(ip.address));
}

function placed({ rangeSets }: NetworkDefinition, { address }: Pick<Lease, "address">): InterfaceAddress {
  const place = placeOf(rangeSets, address);
  if (place === null) throw new Error("a lease outside the network's subnets is never taken over");
  return { address, prefixLength: place.subnet.cidr.prefixLength };
}

function recorded(row: LeaseRow): RecordedLease {
  return {
    address: addressFromBytes(row.address),
    path: row.path,
    fileId: row.file_id,
    containerId: row.container_id,
    interface: row.interface,
  };
}
