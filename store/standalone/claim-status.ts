import type { NetworkSpace } from "../../allocations/network-space.ts";
import {
  allocatedCondition,
  type ClaimCondition,
  mergeCondition,
  standingCondition,
} from "../../ipam/claim-conditions.ts";
import { conditionOfRefusal } from "../../ipam/condition-of-refusal.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { formerParts } from "../../ipam/former-state.ts";
import { type Owner, ownerOfClaim } from "../../ipam/owner.ts";
import type { Refusal } from "../../ipam/refusals.ts";
import { addressBytes, formatAddress, sameAddress } from "../../ipam/space/address.ts";
import { formatInterfaceAddress, type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { isoTime } from "../../platform/time.ts";
import type { AttachWant } from "../allocations.ts";
import { publishedBy } from "../journal/former-holders.ts";
import type { Ledger } from "../journal/ledger.ts";
import type { ClaimRow } from "../journal/rows.ts";
import { inSlices, mapClaims } from "../journal/slices.ts";
import type { StateDirectory } from "../journal/state-directory.ts";
import type { StoredClaim } from "./attach-view.ts";

/**
 * The first use publishes `ips`. Later ones write again only what follows the network: other prefix lengths of the same
 * addresses, and addresses that were added (docs/decisions/0060). Every use updates `ownerPod` and the condition.
 * Writes only changes.
 */
export function recordClaimSuccess(
  ledger: Ledger,
  { row: claim, ips: published }: StoredClaim,
  addresses: readonly InterfaceAddress[],
  want: Pick<AttachWant, "pod">,
  { space, definition }: { readonly space: NetworkSpace; readonly definition: NetworkDefinition },
): void {
  const known = new Set(published.map((text) => formatAddress(parseInterfaceAddress(text).address)));
  const added = addresses.filter(({ address }) => !known.has(formatAddress(address)));
  if (added.length > 0) openHolding(ledger, ownerOfClaim(claim), added, space);
  const present = (text: string) => {
    const { address } = parseInterfaceAddress(text);
    const one = addresses.find((other) => sameAddress(other.address, address));
    return one === undefined ? text : formatInterfaceAddress(one);
  };
  const ips = [...published.map(present), ...added.map(formatInterfaceAddress)];
  const allocated = allocatedCondition(isoTime(ledger.context.clock.wallMs()));
  const conditions = mergeCondition(JSON.parse(claim.conditions) as ClaimCondition[], allocated);
  const parts = formerParts(definition, ips.map(parseInterfaceAddress));
  const standing = standingCondition(conditions, parts, space.name, allocated.lastTransitionTime);
  const sent = standing === null ? conditions : mergeCondition(conditions, standing);
  write(ledger, claim, { ips, ownerPod: want.pod?.name ?? null, conditions: sent });
}

/** Sets the condition to the latest refusal; published addresses stay published and allocated. */
export function recordClaimRefusal(ledger: Ledger, stored: StoredClaim, refusal: Refusal): void {
  const { row: claim, ips, ipRequests } = stored;
  // What it brought along may be what is at fault.
  const isOfList = refusal.code === "ADDRESS_OUTSIDE" || refusal.code === "ADDRESS_EXCLUDED";
  const which = { hasAddresses: ips.length > 0 && !isOfList, asksForAddresses: ipRequests.length > 0 };
  const condition = conditionOfRefusal(refusal, which, isoTime(ledger.context.clock.wallMs()));
  if (condition === null) return;
  const conditions = mergeCondition(JSON.parse(claim.conditions) as ClaimCondition[], condition);
  write(ledger, claim, { ips, ownerPod: claim.owner_pod, conditions });
}

/** Opens the history of an address held without an attachment: from now until it is released, in use or not. */
export function openHolding(
  ledger: Ledger,
  owner: Owner,
  addresses: readonly InterfaceAddress[],
  space: NetworkSpace,
): void {
  const { sql, context } = ledger;
  for (const one of addresses) {
    sql.insertHistory.run(
      space.id,
      addressBytes(one.address),
      one.prefixLength,
      owner.kind,
      owner.uid,
      owner.interface,
      owner.namespace,
      owner.name,
      null,
      null,
      null,
      null,
      null,
      context.node,
      context.clock.wallMs(),
    );
  }
}

function write(
  ledger: Ledger,
  claim: ClaimRow,
  status: { ips: readonly string[]; ownerPod: string | null; conditions: readonly ClaimCondition[] },
): void {
  const ips = JSON.stringify(status.ips);
  const conditions = JSON.stringify(status.conditions);
  if (ips === claim.ips && conditions === claim.conditions && status.ownerPod === claim.owner_pod) return;
  ledger.sql.updateClaimStatus.run(ips, status.ownerPod, conditions, claim.uid);
}

/** After each change of a network, and after a start, its claims are compared with it; their conditions follow. */
export class ClaimStanding {
  readonly #directory: StateDirectory;
  readonly #sent: (count: number) => void;
  /** Fingerprint of the definition that all claims of a network were compared with. */
  readonly #compared = new Map<string, string>();

  constructor(directory: StateDirectory, sent: (count: number) => void) {
    this.#directory = directory;
    this.#sent = sent;
  }

  async follow(): Promise<void> {
    const changed = new Map<string, string>();
    for (const { name, definition } of this.#directory.ledger.networks.values()) {
      if (definition !== null && this.#compared.get(name) !== definition.fingerprint)
        changed.set(name, definition.fingerprint);
    }
    if (changed.size === 0) return;
    let sent = 0;
    const find = (ledger: Ledger) =>
      mapClaims(ledger, (claim) =>
        changed.has(claim.network) && standingOf(ledger, claim) !== null ? [claim.uid] : [],
      );
    for await (const uids of inSlices(this.#directory, find)) {
      if (uids.length === 0) continue;
      sent += await this.#directory.write((ledger) => uids.filter((uid) => tell(ledger, uid)).length);
    }
    for (const [network, fingerprint] of changed) this.#compared.set(network, fingerprint);
    if (sent > 0) this.#sent(sent);
  }
}

/** The conditions that a claim should have; null: those that it has. */
function standingOf(
  ledger: Ledger,
  claim: { readonly network: string; readonly ips: string; readonly conditions: string },
): ClaimCondition[] | null {
  const definition = ledger.networks.get(claim.network)?.definition ?? null;
  if (definition === null) return null;
  const conditions = JSON.parse(claim.conditions) as ClaimCondition[];
  const parts = formerParts(definition, publishedBy(claim));
  const time = isoTime(ledger.context.clock.wallMs());
  const condition = standingCondition(conditions, parts, claim.network, time);
  return condition && mergeCondition(conditions, condition);
}

function tell(ledger: Ledger, uid: string): boolean {
  const claim = ledger.sql.claimByUid.get(uid);
  const conditions = claim === undefined ? null : standingOf(ledger, claim);
  if (claim === undefined || conditions === null) return false;
  ledger.sql.updateClaimStatus.run(claim.ips, claim.owner_pod, JSON.stringify(conditions), uid);
  return true;
}
