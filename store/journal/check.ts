import type Database from "better-sqlite3";
import { type NetworkSpace, poolOf, type StoredAddress } from "../../allocations/network-space.ts";
import type { AnsweredAddress } from "../../allocations/records.ts";
import { gatewaysOf } from "../../ipam/definition/bridge-gateway.ts";
import { duplicateMacFindings } from "../../ipam/duplicate-macs.ts";
import type { Finding } from "../../ipam/finding.ts";
import { describeOwner, kindsThat, OWNER_KINDS, type OwnerKindRow } from "../../ipam/owner.ts";
import { type Address, addressBytes, formatAddress } from "../../ipam/space/address.ts";
import { formatInterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { Pool } from "../../ipam/space/pool.ts";
import { allocationsOf } from "./holdings.ts";
import type { Ledger } from "./ledger.ts";
import {
  type AllocationRow,
  type AttachmentRow,
  type ClaimRow,
  cidrTextOf,
  kindIs,
  kindIsNot,
  LIVE,
  ownerOf,
} from "./rows.ts";
import { inSlices, mapAllocations, mapAttachments, mapClaims, SLICE_ROWS } from "./slices.ts";

/** Each is looked up without an index. */
const DEVIATIONS_MAX = 20;
const RESTART = "restart the daemon: its memory is computed from the database again; please report this";

/*
 * What must be true of the state database, and what each deviation means:
 *
 *   allocation   attachment  owner                 verdict
 *   Bound        any         a claim that exists   good: a claim holds its addresses, in use or not
 *   Bound        any         a claim that is gone  leak, except while an attachment of it remains (I3)
 *   Bound        yes         pod, container        good: released with the last attachment
 *   Bound        none        pod, container        leak: nothing is left that would release it (I3)
 *   Bound        any         of any other kind     good: held until released, nothing here knows its owner
 *   Retained     none        a claim that is gone  good: reserved for a claim of its name until its time
 *   Cooling      none        any                   good: free again when the cool-down is over
 *   missing      yes         any                   an address in use could be allocated again (I2)
 *   missing      any         claim that lists it   a stopped VM's address could be allocated again (I2)
 *   other owner  any         claim that lists it   two owners believe that they hold it (I1, I2)
 *
 * "Of any other kind": one that outlives its attachments (OWNER_KINDS), or a kind of a later release. In addition, no
 * owner holds a gateway's address.
 *
 * Requests are served in between. Each verdict is about one row and what was read of it in the same turn, between two
 * transactions, so none is wrong because something changed meanwhile; together they are not of one moment.
 */
export async function checkLedger(directory: { readonly ledger: Ledger }): Promise<Finding[]> {
  const damage = checkDatabase(directory.ledger);
  // What a damaged file says of addresses is no evidence.
  if (damage.length > 0) return damage;
  const findings: Finding[] = [];
  for await (const found of inSlices(directory, allChecks)) for (const one of found) findings.push(one);
  return findings;
}

function* allChecks(ledger: Ledger): Generator<Finding[]> {
  yield* checkUniqueness(ledger);
  yield* checkClaims(ledger);
  yield* checkAttachments(ledger);
  yield* checkReasons(ledger);
  yield checkGateways(ledger);
  yield checkMacs(ledger);
  yield* checkCounts(ledger);
}

export function checkDatabase(ledger: Ledger): Finding[] {
  const verdict = quickCheck(ledger);
  if (verdict === "ok") return [];
  return [damaged(String(verdict))];
}

function damaged(problem: string): Finding {
  const hint =
    "stop the daemon, keep a copy of the state directory, start it again and rebuild from a backup (holdfast rebuild --from FILE)";
  return { invariant: "database", message: `the state database is damaged: ${problem}`, hint };
}

/** "ok", or the problem. Pages that SQLite has cached are read from the file again: it may have changed under them. */
function quickCheck({ db }: Ledger): unknown {
  try {
    db.pragma("shrink_memory");
    return db.pragma("quick_check(1)", { simple: true });
  } catch (error) {
    const { code, message } = error as { code?: unknown; message: string };
    if (/^SQLITE_(CORRUPT|NOTADB)/.test(String(code))) return message;
    throw error;
  }
}

/** I1 from the rows themselves: the index meant to guarantee it leads to each; of two rows with one address, to one. */
function* checkUniqueness(ledger: Ledger): Generator<Finding[]> {
  let left = DEVIATIONS_MAX;
  yield* mapAllocations(ledger, (row) => {
    if (ledger.sql.allocation.get(row.network_id, row.address)?.id === row.id || left === 0) return [];
    left -= 1;
    return [explainOdd(ledger, row)];
  });
}

function explainOdd(ledger: Ledger, row: AllocationRow): Finding {
  const name = `${cidrTextOf(row)} of network ${nameOf(ledger, row)}`;
  const count = ledger.db
    .prepare<[number, Buffer], number>(
      "SELECT count(*) FROM allocations NOT INDEXED WHERE network_id = ? AND address = ?",
    )
    .pluck();
  const n = count.get(row.network_id, row.address) as number;
  if (n === 1) return damaged(`its index of addresses does not lead to ${name}`);
  const hint = "stop one of its users now; then rebuild the database from a backup (holdfast rebuild --from FILE)";
  return { invariant: "I1", message: `${name} is allocated ${n} times`, hint };
}

/** I2: every address that a claim publishes is allocated to it. */
function checkClaims(ledger: Ledger): Generator<Finding[]> {
  return mapClaims(ledger, (claim) => checkClaim(ledger, claim));
}

function checkClaim(ledger: Ledger, claim: ClaimRow): Finding[] {
  const findings: Finding[] = [];
  const held = new Set(ledger.sql.boundOfClaim.all(claim.uid).map(cidrTextOf));
  for (const ip of JSON.parse(claim.ips) as string[]) {
    if (held.delete(ip)) continue;
    const message = `claim ${claim.namespace}/${claim.name} publishes ${ip}, which is not allocated to it`;
    const hint =
      "holdfast claims -o yaml > keep.yaml, then delete and apply the claim again: its addresses are adopted if they are free";
    findings.push({ invariant: "I2", message, hint });
  }
  for (const ip of held) {
    const message = `${ip} is allocated to claim ${claim.namespace}/${claim.name}, which does not publish it`;
    const hint =
      "stop the VM, keep its claim (holdfast claims -o yaml), delete and apply it again: it adopts the addresses it publishes, the other one is freed";
    findings.push({ invariant: "I3", message, hint });
  }
  return findings;
}

/** I2 and I4: the addresses of an attachment's answer are allocated to its owner, in the form of a repeat's answer. */
function checkAttachments(ledger: Ledger): Generator<Finding[]> {
  return mapAttachments(ledger, (row) => checkAttachment(ledger, row));
}

function checkAttachment(ledger: Ledger, row: AttachmentRow): Finding[] {
  const findings: Finding[] = [];
  const name = `container ${row.container_id} (${row.interface}) on network ${nameOf(ledger, row)}`;
  const held = new Set(allocationsOf(ledger, row).map(cidrTextOf));
  for (const { address } of JSON.parse(row.ips) as AnsweredAddress[]) {
    if (formatInterfaceAddress(parseInterfaceAddress(address)) !== address) {
      const message = `${name} was answered ${address}, which is not in canonical form`;
      findings.push({ invariant: "I4", message, hint: "restart the container, so that it is attached again" });
    }
    if (held.has(address)) continue;
    const message = `${name} uses ${address}, which is not allocated to ${describeOwner(ownerOf(row))}`;
    findings.push({ invariant: "I2", message, hint: "restart the container, so that it is attached again" });
  }
  return findings;
}

/** I3: every allocation has a living reason. One that is younger than the check is not judged (see mapAttachments). */
function* checkReasons(ledger: Ledger): Generator<Finding[]> {
  const leaks = prepareLeaks(ledger.db);
  const end = ledger.sql.lastAllocationId.get()?.id ?? 0;
  for (let first = 0, last = 0; last < end; first = last + 1) {
    last = Math.min(end, ledger.sql.allocationIdAhead.get(first, SLICE_ROWS)?.id ?? end);
    yield leaks.all(first, last).map((row) => ({
      invariant: "I3",
      message: `${cidrTextOf(row)} of network ${nameOf(ledger, row)} is held by ${describeOwner(ownerOf(row))}, which nothing here knows any more`,
      hint: `holdfast release ${cidrTextOf(row).split("/")[0]} --network ${nameOf(ledger, row)} gives it back`,
    }));
  }
}

/** Bound to a gone claim, or a pod or container without an attachment; IDs from the first parameter to the second. */
export function prepareLeaks(
  db: Database.Database,
  kinds: Readonly<Record<string, OwnerKindRow>> = OWNER_KINDS,
): Database.Statement<[number, number], AllocationRow> {
  const claims = kindsThat(({ endsWith }) => endsWith === "claim", kinds);
  const attached = kindsThat(({ outlivesAttachments }) => !outlivesAttachments, kinds);
  const containers = kindsThat(({ isContainer }) => isContainer, kinds);
  return db.prepare<[number, number], AllocationRow>(
    `SELECT * FROM allocations WHERE id BETWEEN ? AND ? AND state = 'Bound' AND ${kindIs([...claims, ...attached])}
         AND NOT (${kindIs(claims)} AND EXISTS (SELECT 1 FROM claims WHERE uid = allocations.owner_uid))
         AND NOT EXISTS (SELECT 1 FROM uses AS a WHERE a.phase = 'held' AND ${LIVE} AND ${kindIsNot(containers, "a.owner_kind")}
           AND a.owner_uid = allocations.owner_uid AND a.owner_interface = allocations.owner_interface
           AND a.network_id = allocations.network_id)
         AND NOT EXISTS (SELECT 1 FROM uses AS a WHERE a.phase = 'held' AND ${LIVE} AND ${kindIs(containers, "a.owner_kind")}
           AND a.container_id = allocations.owner_uid AND a.interface = allocations.owner_interface
           AND a.network_id = allocations.network_id)`,
  );
}

/** No owner may hold a gateway's address: the gateway answers for it too. */
function checkGateways(ledger: Ledger): Finding[] {
  return [...ledger.networks.values()].flatMap(({ id, name, definition }) =>
    (definition === null ? [] : gatewaysOf(definition)).flatMap((gateway) => {
      const row = ledger.sql.allocation.get(id, addressBytes(gateway));
      return row?.state === "Bound" ? [gatewayHeld(name, gateway, describeOwner(ownerOf(row)))] : [];
    }),
  );
}

/** Of attachments that live as far as this node knows. */
function checkMacs(ledger: Ledger): Finding[] {
  const users = ledger.sql.attachmentsWithMac.all().map((row) => ({
    network: nameOf(ledger, row),
    mac: row.mac,
    owner: `${row.owner_uid} ${row.owner_interface}`,
    who: describeOwner(ownerOf(row)),
  }));
  return duplicateMacFindings(users);
}

export function gatewayHeld(network: string, gateway: Address, holder: string): Finding {
  const message = `${formatAddress(gateway)} is the gateway of network ${network}, and ${holder} holds it`;
  const hint =
    "two hosts answer for one address: stop the holder (of a claim: delete the claim), or give the network another gateway";
  return { invariant: "gateway", message, hint };
}

/** I5: the pools in memory agree with the rows. */
function* checkCounts(ledger: Ledger): Generator<Finding[]> {
  for (const space of ledger.networks.values()) {
    for (const page of ledger.storedPages(space.id)) {
      const pools = space.presentPools(ledger.context.clock.monotonicMs());
      yield page.flatMap((stored) => checkStored(space, pools, stored));
    }
    yield space.presentPools(ledger.context.clock.monotonicMs()).flatMap((pool) => checkPool(space, pool));
  }
}

function checkStored(
  space: NetworkSpace,
  pools: readonly Pool[],
  { address, cooling, retained = false }: StoredAddress,
): Finding[] {
  const state = poolOf(pools, address)?.stateOf(address.value) ?? "outside";
  const agrees = cooling
    ? state !== "allocated" && state !== "retained"
    : state === (retained ? "retained" : "allocated") || state === "outside" || state === "excluded";
  if (agrees) return [];
  const text = formatInterfaceAddress({ address, prefixLength: address.family === 4 ? 32 : 128 });
  const message = `${text} of network ${space.name} is ${cooling ? "cooling" : retained ? "retained" : "allocated"} in the database and ${state} in memory`;
  return [{ invariant: "I5", message, hint: RESTART }];
}

function checkPool(space: NetworkSpace, pool: Pool): Finding[] {
  const { size, allocated, retained, cooling, free, excluded } = pool.counts();
  if (allocated + retained + cooling + free + excluded === size) return [];
  const message = `network ${space.name}: free ${free} + allocated ${allocated} + retained ${retained} + cooling ${cooling} + excluded ${excluded} is not its size ${size}`;
  return [{ invariant: "I5", message, hint: RESTART }];
}

function nameOf(ledger: Ledger, row: { network_id: number }): string {
  return ledger.networkById(row.network_id).name;
}
