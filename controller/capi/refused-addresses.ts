import type { AddressPoolView } from "../../kube/views/address-pool-view.ts";
import type { MachineClaimView } from "../../kube/views/machine-claim-view.ts";
import type { Clock } from "../../platform/time.ts";
import { type ClaimFailure, ownerOfMachineClaim } from "./claim-facts.ts";
import type { MachineLedger } from "./machine-ledger.ts";

/** How long an allocation is kept whose IPAddress the API server refuses, ms; then as long nothing is tried. */
const KEEP_MS = 600_000;

interface Refused {
  readonly sinceMs: number;
  readonly message: string;
  /** The pool that it was refused with: another edition of it may be accepted. */
  readonly pool: string;
  /** When the allocation was released, ms; null: it is kept. */
  releasedMs: number | null;
}

/**
 * Claims whose IPAddress is refused for good, by Cluster API's admission or a policy. The address is kept while it may
 * still be mended, but not for ever: such claims would drain the pool.
 */
export class RefusedAddresses {
  readonly #clock: Clock;
  readonly #ledger: Pick<MachineLedger, "release">;
  /** By UID of the claim. */
  readonly #refused = new Map<string, Refused>();

  constructor(clock: Clock, ledger: Pick<MachineLedger, "release">) {
    this.#clock = clock;
    this.#ledger = ledger;
  }

  /** Its IPAddress was refused just now. Returns what is to be said. Throws ApiAway. */
  async note(claim: MachineClaimView, pool: AddressPoolView, message: string): Promise<string> {
    const nowMs = this.#clock.monotonicMs();
    const known = this.#refused.get(claim.uid);
    const sinceMs = known === undefined || known.releasedMs !== null ? nowMs : known.sinceMs;
    const refused: Refused = { sinceMs, message, pool: editionOf(pool), releasedMs: null };
    this.#refused.set(claim.uid, refused);
    if (nowMs - sinceMs < KEEP_MS) return message;
    await this.#ledger.release(ownerOfMachineClaim(claim));
    refused.releasedMs = nowMs;
    return message;
  }

  /** Why nothing is tried for a claim whose allocation was released; null: it is tried. */
  whyWaiting({ uid }: MachineClaimView, pool: AddressPoolView): ClaimFailure | null {
    const known = this.#refused.get(uid);
    if (known === undefined || known.releasedMs === null || known.pool !== editionOf(pool)) return null;
    if (this.#clock.monotonicMs() - known.releasedMs >= KEEP_MS) return null;
    return { reason: "AllocationFailed", message: known.message };
  }

  clear({ uid }: Pick<MachineClaimView, "uid">): void {
    this.#refused.delete(uid);
  }
}

function editionOf({ uid, generation }: AddressPoolView): string {
  return `${uid} ${generation}`;
}
