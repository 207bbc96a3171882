import type { Cache, CachedAllocation, ClaimViewWithFact } from "../../claims/reasons/caches.ts";
import { claimFact } from "../../claims/reasons/fact-views.ts";
import { decideFresh, type RememberedFacts } from "../../claims/reasons/fresh-facts.ts";
import { claimHolder, wishesOf } from "../../imports/claim-wishes.ts";
import { NotRecorded, type RecordOutcome, reserveInUse } from "../../imports/create-allocation.ts";
import { allocatedCondition, type ClaimCondition, conflictCondition, isConflict } from "../../ipam/claim-conditions.ts";
import { formatInterfaceAddress, type InterfaceAddress } from "../../ipam/space/cidr.ts";
import { claimObject, type EventWriter } from "../../kube/events.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { type AllocationOwner, CLAIMS_PATH, type IPAllocation, namespacedPath } from "../../kube/objects.ts";
import { TurnBudget } from "../../kube/turn-budget.ts";
import { claimStatusPatch } from "../../kube/views/claim-status-patch.ts";
import { type ClaimView, projectClaim } from "../../kube/views/claim-view.ts";
import type { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import type { Log } from "../../platform/log.ts";
import { isoTime } from "../../platform/time.ts";

export interface AdoptionOptions {
  readonly api: KubeApi;
  readonly claims: Cache<ClaimViewWithFact>;
  readonly allocations: Cache<CachedAllocation>;
  readonly definitions: Pick<DefinitionCatalog, "definitionOf" | "permits">;
  /** Bound allocations of a claim (UID). */
  readonly had: (claim: string) => readonly IPAllocation[];
  readonly memory: () => RememberedFacts;
  readonly events: Pick<EventWriter, "warn">;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "info" | "warn">;
}

/** A listed address that is not known to be the claim's. */
type Trouble =
  | { readonly kind: "conflict"; readonly one: InterfaceAddress; readonly holder: AllocationOwner }
  /** The holder is about to go, or is unknown: to be retried. */
  | { readonly kind: "later" };

/**
 * Reserves what claims that have nothing list: they were filled in advance, or restored from a backup. A list is a
 * wish: only where the claim's namespace may use the network and its VM is to be, only what an ADD could give, one
 * address of each subnet (docs/decisions/0093). Of two claims with one address the older gets it, unless the other
 * already has it; the loser's condition says so.
 */
export class Adoption {
  readonly #options: AdoptionOptions;
  readonly #objects: ObjectClient;
  /** By claim UID: a definition without conditions drops them, and they must not be written again and again. */
  readonly #lastMessages = new Map<string, string>();
  #conflictCount = 0;

  constructor(options: AdoptionOptions) {
    this.#options = options;
    this.#objects = new ObjectClient(options.api);
  }

  /** Claims that list an address of another owner, as of the last pass. */
  get conflictCount(): number {
    return this.#conflictCount;
  }

  async runPass(signal: AbortSignal): Promise<void> {
    const { claims, allocations, idle } = this.#options;
    if (idle() !== null || !claims.known || !allocations.known) return;
    const wanting: ClaimView[] = [];
    const budget = new TurnBudget(this.#options.api.clock);
    for (const claim of [...claims.items.values()]) {
      if (this.#isWanting(claim)) wanting.push(claim);
      if (budget.isSpent) await budget.nextTurn();
    }
    const wantingUids = new Set(wanting.map(({ uid }) => uid));
    for (const uid of [...this.#lastMessages.keys()]) if (!wantingUids.has(uid)) this.#lastMessages.delete(uid);
    let conflicts = 0;
    // One after the other, the oldest first: the first to create has the address. Each waits for the server and so lets
    // other work run.
    for (const claim of wanting.sort(older)) {
      if (signal.aborted || idle() !== null) return;
      if (await this.#settle(claim)) conflicts += 1;
    }
    this.#conflictCount = conflicts;
  }

  /** By the caches alone: whether a claim needs anything. */
  #isWanting(claim: ClaimViewWithFact): boolean {
    if (claim.ips.length === 0 || this.#options.definitions.definitionOf(claim.network) === null) return false;
    return (
      conflictOf(claim) !== undefined || (this.#options.had(claim.uid).length === 0 && this.#wishes(claim).length > 0)
    );
  }

  #wishes(claim: ClaimView): InterfaceAddress[] {
    const { definitions } = this.#options;
    const definition = definitions.definitionOf(claim.network)?.definition;
    return definition && definitions.permits(claim.network, claim.namespace) ? wishesOf(claim, definition) : [];
  }

  /** Returns whether the claim lists another owner's address. */
  async #settle(seen: ClaimView): Promise<boolean> {
    const claim = await this.#fresh(seen);
    if (claim === null) return false;
    const troubles: Trouble[] = [];
    if (this.#options.had(claim.uid).length === 0) {
      if (!(await this.#isWantedHere(claim))) return false;
      for (const one of this.#wishes(claim)) {
        const trouble = await this.#reserve(claim, one);
        if (trouble !== null) troubles.push(trouble);
      }
    }
    const conflict = troubles.find((one) => one.kind === "conflict");
    if (conflict !== undefined) await this.#markConflict(claim, conflict.one, conflict.holder);
    else if (troubles.length === 0 && conflictOf(claim) !== undefined) await this.#clearConflict(claim);
    return conflict !== undefined;
  }

  async #isWantedHere(claim: ClaimView): Promise<boolean> {
    const fact = claimFact(claim);
    const wants = await decideFresh(this.#options.api, this.#options.memory(), (facts) => facts.wants(fact));
    return wants.kind === "present" && wants.it.network === claim.network;
  }

  /** The claim by a quorum read; null: it is another one now, or lists nothing. */
  async #fresh({ namespace, name, uid, network }: ClaimView): Promise<ClaimView | null> {
    const object = await this.#objects.find(namespacedPath(CLAIMS_PATH, namespace, name));
    const claim = object === null ? null : projectClaim(object);
    return claim?.uid === uid && claim.network === network ? claim : null;
  }

  async #reserve(claim: ClaimView, one: InterfaceAddress): Promise<Trouble | null> {
    const { log } = this.#options;
    const reserved = await this.#record(claim, one);
    if (reserved === null) return { kind: "later" };
    if (reserved.kind === "recorded") {
      const fields = { claim: claim.key, network: claim.network, address: formatInterfaceAddress(one) };
      log.info(fields, `reserved what a claim lists${reserved.was === "cooling" ? "; it was cooling" : ""}`);
      return null;
    }
    if (reserved.kind === "own") return null;
    if (reserved.kind === "changed") return { kind: "later" };
    const { owner } = reserved.object.spec;
    // A claim of the same name before this one: its addresses are about to be released.
    const isFormerSelf = owner.kind === "IPAMClaim" && owner.namespace === claim.namespace && owner.name === claim.name;
    return isFormerSelf ? { kind: "later" } : { kind: "conflict", one, holder: owner };
  }

  /** null: it cannot be recorded now, which must not hold up other claims. */
  async #record(claim: ClaimView, one: InterfaceAddress): Promise<RecordOutcome | null> {
    const { api, log } = this.#options;
    try {
      return await reserveInUse(api, claim.network, one, claimHolder(claim));
    } catch (error) {
      if (!(error instanceof NotRecorded)) throw error;
      const fields = { claim: claim.key, network: claim.network, address: formatInterfaceAddress(one) };
      log.warn({ ...fields, problem: error.message }, "what a claim lists is not reserved; will retry");
      return null;
    }
  }

  async #markConflict(claim: ClaimView, one: InterfaceAddress, holder: AllocationOwner): Promise<void> {
    const who = `${holder.kind} ${holder.namespace}/${holder.name}`;
    const condition = conflictCondition(one.address, who, this.#time());
    const { message } = condition;
    if (conflictOf(claim)?.message === message || this.#lastMessages.get(claim.uid) === message) return;
    this.#options.events.warn(claimObject(claim), "IPAddressConflict", message);
    this.#options.log.warn({ claim: claim.key, network: claim.network }, message);
    await this.#patch(claim, condition);
    this.#lastMessages.set(claim.uid, message);
  }

  async #clearConflict(claim: ClaimView): Promise<void> {
    await this.#patch(claim, allocatedCondition(this.#time()));
  }

  /** RFC 3339, for people. */
  #time(): string {
    return isoTime(this.#options.api.clock.wallMs());
  }

  /** A conflict with another writer is left to the next pass. */
  async #patch(claim: ClaimView, condition: ClaimCondition): Promise<void> {
    const features = { ownerPod: true, conditions: true };
    const patch = claimStatusPatch(claim, { ips: claim.ips, ownerPod: null, condition, features });
    if (patch === null) return;
    const path = namespacedPath(CLAIMS_PATH, claim.namespace, claim.name);
    const written = await this.#objects.patchStatus(path, patch);
    if (written.kind !== "refused") return;
    const { status, body } = written.answer;
    this.#options.log.warn({ claim: claim.key, status, problem: body?.message }, "no condition written");
  }
}

/** The claim's condition about a conflict, which may be over. */
function conflictOf({ conditions }: ClaimView): ClaimCondition | undefined {
  return conditions.find(isConflict);
}

function older(a: ClaimView, b: ClaimView): number {
  if (a.creationTimestamp !== b.creationTimestamp) return a.creationTimestamp < b.creationTimestamp ? -1 : 1;
  return a.key < b.key ? -1 : 1;
}
