import { type ClaimCondition, mergeCondition, standingCondition } from "../../ipam/claim-conditions.ts";
import { formerParts } from "../../ipam/former-state.ts";
import { isoTime } from "../../platform/time.ts";
import { publishedBy } from "../journal/former-holders.ts";
import type { Ledger } from "../journal/ledger.ts";
import { inSlices, mapClaims } from "../journal/slices.ts";
import type { StateDirectory } from "../journal/state-directory.ts";

/** After each change of a network, and after a start, its claims are compared with it; their conditions follow. */
export class ClaimStanding {
  readonly #directory: StateDirectory;
  readonly #told: (count: number) => void;
  /** Fingerprint of the definition that all claims of a network were compared with. */
  readonly #compared = new Map<string, string>();

  constructor(directory: StateDirectory, told: (count: number) => void) {
    this.#directory = directory;
    this.#told = told;
  }

  async follow(): Promise<void> {
    const changed = new Map<string, string>();
    for (const { name, definition } of this.#directory.ledger.networks.values()) {
      if (definition !== null && this.#compared.get(name) !== definition.fingerprint)
        changed.set(name, definition.fingerprint);
    }
    if (changed.size === 0) return;
    let told = 0;
    const find = (ledger: Ledger) =>
      mapClaims(ledger, (claim) =>
        changed.has(claim.network) && standingOf(ledger, claim) !== null ? [claim.uid] : [],
      );
    for await (const uids of inSlices(this.#directory, find)) {
      if (uids.length === 0) continue;
      told += await this.#directory.write((ledger) => uids.filter((uid) => tell(ledger, uid)).length);
    }
    for (const [network, fingerprint] of changed) this.#compared.set(network, fingerprint);
    if (told > 0) this.#told(told);
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
