import type { ServedPool } from "../../claims/pools/evaluate-pool.ts";
import { poolKeyOf } from "../../claims/pools/pool-ledger.ts";
import { type Address, formatAddress } from "../../ipam/space/address.ts";
import { isNamespaceEnding, problemOf } from "../../kube/answers.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { BAD_REQUEST, NOT_FOUND } from "../../kube/kube-api.ts";
import { HOUSEKEEPING_DEADLINE_MS, ObjectClient } from "../../kube/object-client.ts";
import { allocationName } from "../../kube/object-names.ts";
import { namespacedPath } from "../../kube/objects.ts";
import type { AddressPoolView } from "../../kube/views/address-pool-view.ts";
import {
  type MachineAddressView,
  type MachineClaimView,
  projectMachineAddress,
} from "../../kube/views/machine-claim-view.ts";
import { addressObject, addressPatch, answers } from "./address-object.ts";
import {
  type ClaimFailure,
  failureOfPool,
  failureOfRefusal,
  gives,
  ownerOfMachineClaim,
  wantOf,
  whyHalted,
} from "./claim-facts.ts";
import type { ClaimStatus } from "./claim-status.ts";
import type { MachineCaches } from "./machine-caches.ts";
import type { MachineLedger } from "./machine-ledger.ts";
import type { Pools } from "./pools.ts";
import { parsedAddress, type Recorded, type RecordedAddresses, type RecordedOutcome } from "./recorded-addresses.ts";
import type { RefusedAddresses } from "./refused-addresses.ts";
import type { SentAddresses } from "./sent-addresses.ts";

/** Rounds for one claim before it waits for the next turn: each begins where another writer was faster. */
const ROUNDS_MAX = 3;

export type ClaimOutcome =
  /** `version`: the resourceVersion of the claim that its status has just made; null: nothing was written to it. */
  | { readonly kind: "fulfilled"; readonly version: string | null }
  /** Nothing is written for it: it is paused, going, or its Cluster is not there. */
  | { readonly kind: "halted"; readonly why: string }
  | ({ readonly kind: "failed" } & ClaimFailure)
  /** Somebody else has answered it: nothing is overwritten. */
  | { readonly kind: "answered-by-other"; readonly message: string }
  /** Another writer was faster, or the answer is awaited in the followed copy. */
  | { readonly kind: "later"; readonly problem: string };

export interface Turn {
  /** Pools without a free address, by key: nothing more is tried for a claim that would take any. */
  readonly full: Map<string, ClaimFailure>;
}

export interface FulfilmentOptions {
  readonly api: KubeApi;
  readonly caches: Pick<MachineCaches, "claims" | "addresses" | "pools" | "clusters">;
  readonly pools: Pick<Pools, "stateOf">;
  readonly ledger: Pick<MachineLedger, "of" | "reserve" | "release">;
  readonly recorded: RecordedAddresses;
  readonly sent: SentAddresses;
  readonly refused: RefusedAddresses;
  readonly status: ClaimStatus;
}

/**
 * Gives one claim its address. Three writes: the IPAllocation, whose creation is the allocation, the IPAddress and the
 * status. Whatever a former attempt has left is found again, so any of them may be the last that happened; nothing is
 * remembered here. The name of the IPAddress is a second lock: what stands in it counts, because a machine may have
 * been told it.
 */
export class Fulfilment {
  readonly #options: FulfilmentOptions;
  readonly #objects: ObjectClient;

  constructor(options: FulfilmentOptions) {
    this.#options = options;
    this.#objects = new ObjectClient(options.api);
  }

  /** `claim` names one of our pools. Throws ApiAway when an outcome is unknown. */
  async settle(claim: MachineClaimView, turn: Turn): Promise<ClaimOutcome> {
    for (let round = 1; round <= ROUNDS_MAX; round += 1) {
      const outcome = await this.#round(claim, turn);
      if (outcome !== "again") return outcome;
    }
    return { kind: "later", problem: "others keep writing its IPAddress" };
  }

  async #round(claim: MachineClaimView, turn: Turn): Promise<ClaimOutcome | "again"> {
    const { caches, pools, sent } = this.#options;
    const halted = whyHalted(claim, caches.clusters.items);
    const existing = sent.get(claim.key);
    const foreign = foreignAnswer(claim, existing);
    if (foreign !== null) return halted === null ? this.#leaveToOther(claim, foreign) : { kind: "halted", why: halted };
    // Also while it is paused: after a move, the addresses must be taken before somebody else gets them.
    const recorded = existing === undefined ? null : await this.#options.recorded.record(claim, existing);
    if (recorded?.kind === "later") return recorded;
    if (existing !== undefined && recorded?.kind === "recorded" && this.#isSent(claim, existing, recorded))
      return { kind: "fulfilled", version: null };
    if (halted !== null) return { kind: "halted", why: halted };
    const state = pools.stateOf(poolKeyOf(claim) ?? "");
    // What a machine was told stays, and is published as such: the pool gives nothing to it.
    if (existing !== undefined && recorded?.kind === "recorded" && isPublished(claim))
      if (state.kind !== "served") return this.#confirm(claim, null, existing, recorded);
    // It is looked at again as soon as that is known: until then there is nothing to tell.
    if (state.kind === "unsettled") return { kind: "halted", why: "its pool is being looked at" };
    if (state.kind !== "served")
      return { kind: "failed", ...withUnrecorded(failureOfPool(claim.pool.name, state), recorded) };
    if (recorded?.kind === "failed") return recorded;
    if (existing !== undefined && recorded?.kind === "recorded")
      return this.#confirm(claim, state.pool, existing, recorded);
    return this.#choose(claim, state.pool, turn);
  }

  /** Whether everything that a machine reads is there already, whatever its pool gives now. */
  #isSent(claim: MachineClaimView, existing: MachineAddressView, { allocation }: Recorded): boolean {
    const owners = { claim, apiVersion: this.#apiVersion, pool: this.#livingPool(claim) };
    const isSaid = this.#options.status.says(claim, { kind: "fulfilled", addressRef: claim.name });
    return addressPatch(existing, owners, allocation) === null && isSaid;
  }

  /** null: it is not there or goes, and then it is no owner of anything that stays. */
  #livingPool(claim: MachineClaimView): AddressPoolView | null {
    const pool = this.#options.caches.pools.items.get(poolKeyOf(claim) ?? "");
    return pool?.deletionTimestamp === null ? pool : null;
  }

  /** The ledger has the address of the claim's IPAddress for the claim. `pool` null: it gives nothing. */
  async #confirm(
    claim: MachineClaimView,
    pool: ServedPool | null,
    existing: MachineAddressView,
    { address, allocation, isImported }: Recorded,
  ): Promise<ClaimOutcome | "again"> {
    // One that a former self gave stays valid when the pool's ranges become smaller.
    if (pool !== null && isImported && !gives(pool, claim.name, address)) {
      const message = `IPAddress ${existing.name} has ${formatAddress(address)}, which AddressPool ${pool.view.name} does not give; add it to the ranges of the pool, or delete the IPAddress`;
      return { kind: "failed", reason: "AllocationFailed", message };
    }
    const patch = addressPatch(
      existing,
      { claim, apiVersion: this.#apiVersion, pool: pool?.view ?? this.#livingPool(claim) },
      allocation,
    );
    if (patch === null) return this.#publish(claim);
    const path = this.#addressPath(claim);
    const written = await this.#objects.patch(path, patch);
    switch (written.kind) {
      case "done":
        this.#options.sent.learned(projectMachineAddress(written.object));
        return this.#publish(claim);
      case "refused":
        return refusedBy(`IPAddress ${existing.name} cannot be written: ${problemOf(written.answer)}`);
      default:
        return this.#read(claim);
    }
  }

  async #choose(claim: MachineClaimView, pool: ServedPool, turn: Turn): Promise<ClaimOutcome | "again"> {
    const { ledger, refused } = this.#options;
    const waiting = refused.whyWaiting(claim, pool.view);
    if (waiting !== null) return { kind: "failed", ...waiting };
    const wanted = wantOf(claim, pool, parsedAddress(this.#options.sent.lastOf(claim) ?? ""));
    if ("reason" in wanted) return { kind: "failed", ...wanted };
    const { want, isAny } = wanted;
    const full = isAny && ledger.of(want.owner).length === 0 ? turn.full.get(pool.view.key) : undefined;
    if (full !== undefined) return { kind: "failed", ...full };
    const reserved = await ledger.reserve(want);
    if (reserved.kind === "refused") {
      const failure = failureOfRefusal(pool.view.name, reserved.refusal);
      if (isAny && reserved.refusal.code === "POOL_FULL") turn.full.set(pool.view.key, failure);
      return { kind: "failed", ...failure };
    }
    const [one] = reserved.addresses;
    if (one === undefined) throw new Error(`nothing was reserved for claim ${claim.key}`);
    return this.#tell(claim, pool, one);
  }

  async #tell(
    claim: MachineClaimView,
    pool: ServedPool,
    { address, prefixLength }: { readonly address: Address; readonly prefixLength: number },
  ): Promise<ClaimOutcome | "again"> {
    const { caches, sent, refused, api } = this.#options;
    const object = addressObject(
      { claim, apiVersion: this.#apiVersion, pool: pool.view },
      {
        apiVersion: apiVersionOf(caches.addresses.path),
        address: formatAddress(address),
        prefix: prefixLength,
        gateway: pool.gatewayFor(address),
        allocation: allocationName(pool.definition.name, address),
      },
    );
    const collection = namespacedPath(caches.addresses.path, claim.namespace);
    const deadlineMs = api.clock.monotonicMs() + HOUSEKEEPING_DEADLINE_MS;
    const written = await this.#objects.create(collection, object, deadlineMs);
    switch (written.kind) {
      case "done":
        refused.clear(claim);
        sent.learned(projectMachineAddress(written.object));
        return this.#publish(claim);
      case "refused": {
        if (written.answer.status === NOT_FOUND) return { kind: "later", problem: "IPAddresses are not served" };
        // As long as the versions of the kinds change, its body may be of another version than its path.
        if (written.answer.status === BAD_REQUEST) return { kind: "later", problem: problemOf(written.answer) };
        // The claim goes too, soon.
        if (isNamespaceEnding(written.answer)) return { kind: "halted", why: "its namespace is being deleted" };
        const message = `IPAddress ${claim.name} with ${formatAddress(address)} is refused: ${problemOf(written.answer)}`;
        return refusedBy(await refused.note(claim, pool.view, message));
      }
      default:
        return this.#read(claim);
    }
  }

  /** Another writer was faster: goes on from what it has written. */
  async #read(claim: MachineClaimView): Promise<ClaimOutcome | "again"> {
    const object = await this.#objects.find(this.#addressPath(claim));
    if (object !== null) {
      this.#options.sent.learned(projectMachineAddress(object));
      return "again";
    }
    return { kind: "later", problem: "its IPAddress was deleted meanwhile" };
  }

  async #publish(claim: MachineClaimView): Promise<ClaimOutcome> {
    const { status } = this.#options;
    const written = await status.write(claim, { kind: "fulfilled", addressRef: claim.name });
    if (written.kind === "later") return written;
    return { kind: "fulfilled", version: written.kind === "done" ? written.version : null };
  }

  /** What was reserved for it is of no use: unless a machine may have been told it. */
  async #leaveToOther(claim: MachineClaimView, message: string): Promise<ClaimOutcome> {
    const { ledger, caches } = this.#options;
    const owner = ownerOfMachineClaim(claim);
    const isHeld = ({ spec, status }: ReturnType<typeof ledger.of>[number]) =>
      status?.state === "Bound" && spec.owner.uid === claim.uid;
    if (ledger.of(owner).some(isHeld)) {
      const answer = await this.#objects.find(this.#addressPath(claim));
      const isOurs = answer !== null && answers(projectMachineAddress(answer), claim);
      const path = namespacedPath(caches.claims.path, claim.namespace, claim.name);
      const current = isOurs ? null : await this.#objects.find(path);
      const isAnswered = current?.metadata.resourceVersion === claim.resourceVersion;
      if (!isOurs && isAnswered && (answer !== null || claim.addressRef !== null)) await ledger.release(owner);
    }
    return { kind: "answered-by-other", message };
  }

  get #apiVersion(): string {
    return apiVersionOf(this.#options.caches.claims.path);
  }

  #addressPath({ namespace, name }: MachineClaimView): string {
    return namespacedPath(this.#options.caches.addresses.path, namespace, name);
  }
}

function isPublished({ addressRef, name }: MachineClaimView): boolean {
  return addressRef === name;
}

/** How somebody else has answered a claim; null: nobody has. */
function foreignAnswer(claim: MachineClaimView, existing: MachineAddressView | undefined): string | null {
  const { addressRef, name } = claim;
  if (addressRef !== null && addressRef !== name)
    return `another provider has answered this claim: status.addressRef names IPAddress ${addressRef}; it is left alone`;
  if (existing === undefined || answers(existing, claim)) return null;
  const { claim: other, pool } = existing;
  return `IPAddress ${name} is there already and answers claim ${other} of ${pool.kind} ${pool.name}; it is left alone: delete it, or create the claim under another name`;
}

/** Both: what mends the pool may not mend what keeps the IPAddress from being recorded. */
function withUnrecorded(failure: ClaimFailure, recorded: RecordedOutcome | null): ClaimFailure {
  // Of a network that nothing defines: the pool says the same.
  if (recorded?.kind !== "failed" || recorded.reason === "PoolNotReady") return failure;
  return { ...failure, message: `${failure.message}. ${recorded.message}` };
}

/** Of the objects of a collection. */
function apiVersionOf(path: string): string {
  return path.replace(/^\/apis\//, "").replace(/\/[^/]+$/, "");
}

function refusedBy(message: string): ClaimOutcome {
  return { kind: "failed", reason: "AllocationFailed", message };
}
