import { AllocationClient } from "../../allocations/allocation-client.ts";
import { addressOf, isSound, withPrefixLength } from "../../allocations/allocation-object.ts";
import { type Cache, type CachedAllocation, type ClaimViewWithFact, claimsNamed } from "../../claims/reasons/caches.ts";
import type { SweptPod } from "../../claims/reasons/fact-views.ts";
import type { Wants } from "../../claims/reasons/facts.ts";
import { claimHolder } from "../../imports/claim-wishes.ts";
import { reserveInUse } from "../../imports/create-allocation.ts";
import { type ClaimCondition, mergeCondition, standingCondition } from "../../ipam/claim-conditions.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { formerParts, missingSets, presentPrefixLength } from "../../ipam/former-state.ts";
import { formatInterfaceAddress, type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { Pool } from "../../ipam/space/pool.ts";
import type { RangeSet } from "../../ipam/space/range-set.ts";
import { claimObject, type EventWriter } from "../../kube/events.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { HOUSEKEEPING_DEADLINE_MS, ObjectClient } from "../../kube/object-client.ts";
import { attachmentsIn, CLAIMS_PATH, type IPAllocation, namespacedPath } from "../../kube/objects.ts";
import { TurnBudget } from "../../kube/turn-budget.ts";
import { type ClaimView, projectClaim } from "../../kube/views/claim-view.ts";
import type { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import type { Log } from "../../platform/log.ts";
import { isoTime } from "../../platform/time.ts";

/** Candidates tried for an address of a new family; others may be faster. */
const CANDIDATES_MAX = 16;

export interface ClaimStandingOptions {
  readonly api: KubeApi;
  readonly claims: Cache<ClaimViewWithFact>;
  readonly pods: Cache<SweptPod>;
  readonly allocations: Cache<CachedAllocation>;
  /** Bound allocations of a claim (UID). */
  readonly had: (claim: string) => readonly IPAllocation[];
  readonly isRecovering: (network: string) => boolean;
  /** Where the VM of a claim (UID) is to be, as was read last; absent: nothing says that it is elsewhere. */
  readonly wanted: ReadonlyMap<string, Pick<Wants, "network">>;
  readonly definitions: Pick<DefinitionCatalog, "definitionOf">;
  readonly events: Pick<EventWriter, "warn">;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "info" | "warn">;
}

/**
 * Claims whose network was changed under them: a condition and an event tell, and while no VM uses the claim what it
 * has follows the network, so that the VM's next start gives it: the prefix lengths of the same addresses, and one
 * address of each family that the network has been given. No address that a claim has ever goes. See
 * docs/decisions/0060.
 */
export class ClaimStanding {
  readonly #options: ClaimStandingOptions;
  readonly #objects: ObjectClient;
  /** By claim UID: a definition without conditions drops them, and they must not be written again and again. */
  readonly #sent = new Map<string, string>();

  constructor(options: ClaimStandingOptions) {
    this.#options = options;
    this.#objects = new ObjectClient(options.api);
  }

  async runPass(signal: AbortSignal): Promise<void> {
    const { claims, pods, allocations, idle, api } = this.#options;
    if (idle() !== null || !claims.known || !pods.known || !allocations.known) return;
    const budget = new TurnBudget(api.clock);
    const behind: ClaimView[] = [];
    for (const claim of [...claims.items.values()]) {
      if (this.#conditionOf(claim) !== null || this.#isBehind(claim)) behind.push(claim);
      if (budget.isSpent) await budget.nextTurn();
    }
    const uids = new Set(behind.map(({ uid }) => uid));
    for (const uid of [...this.#sent.keys()]) if (!uids.has(uid)) this.#sent.delete(uid);
    if (behind.length === 0) return;
    const named = new Set([...pods.items.values()].flatMap(claimsNamed));
    for (const claim of behind) {
      if (signal.aborted || idle() !== null) return;
      const isUsed = named.has(claim.key) || this.#options.had(claim.uid).some((one) => attachmentsIn(one).length > 0);
      if (!isUsed && (await this.#renew(claim))) continue;
      await this.#tell(claim);
    }
  }

  #definitionOf({ network }: ClaimView): NetworkDefinition | null {
    return this.#options.definitions.definitionOf(network)?.definition ?? null;
  }

  #isBehind(claim: ClaimView): boolean {
    const definition = this.#definitionOf(claim);
    return definition !== null && formerParts(definition, this.#heldBy(claim)).length > 0;
  }

  /** null: nothing new. */
  #conditionOf(claim: ClaimView): ClaimCondition | null {
    const definition = this.#definitionOf(claim);
    const held = this.#heldBy(claim);
    // An ADD finds what it has by the list, which follows first (projections.ts).
    const isListed = held.every((one) => claim.ips.includes(formatInterfaceAddress(one)));
    if (definition === null || held.length === 0 || !isListed) return null;
    return standingCondition(claim.conditions, formerParts(definition, held), claim.network, this.#time());
  }

  async #tell(claim: ClaimView): Promise<void> {
    const condition = this.#conditionOf(claim);
    if (condition === null || this.#sent.get(claim.uid) === condition.message) return;
    this.#sent.set(claim.uid, condition.message);
    this.#options.log.info({ claim: claim.key, network: claim.network }, condition.message);
    if (condition.status === "False")
      this.#options.events.warn(claimObject(claim), condition.reason, condition.message);
    await this.#write(claim, condition);
  }

  /** Returns whether what the claim has was changed; its list follows (projections.ts). */
  async #renew(seen: ClaimView): Promise<boolean> {
    const definition = this.#definitionOf(seen);
    if (definition === null || this.#heldBy(seen).length === 0) return false;
    // What it has here is about to be released, one after the other.
    const wanted = this.#options.wanted.get(seen.uid);
    if (wanted !== undefined && wanted.network !== seen.network) return false;
    const object = await this.#objects.find(namespacedPath(CLAIMS_PATH, seen.namespace, seen.name));
    const claim = object === null ? null : projectClaim(object);
    if (claim?.resourceVersion !== seen.resourceVersion || claim.deletionTimestamp !== null) return false;
    const held = this.#heldBy(claim);
    const former = held.filter((one) => one.prefixLength !== presentPrefixLength(definition, one));
    let isChanged = false;
    for (const one of former) {
      const prefixLength = presentPrefixLength(definition, one);
      isChanged = (await this.#rewrite(claim, { ...one, prefixLength })) || isChanged;
    }
    // What nodes have not put back yet is not known to be taken.
    const missing = this.#options.isRecovering(claim.network) ? [] : missingSets(definition.rangeSets, held);
    for (const index of missing) {
      const one = await this.#reserve(claim, definition, definition.rangeSets[index] as RangeSet);
      isChanged ||= one !== null;
    }
    if (isChanged)
      this.#options.log.info({ claim: claim.key, network: claim.network }, "what a claim has follows its network");
    return isChanged;
  }

  /** Gives an allocation of the claim the prefix length of its subnet. Returns whether it has it. */
  async #rewrite({ network, uid }: ClaimView, one: InterfaceAddress): Promise<boolean> {
    const { api } = this.#options;
    const client = new AllocationClient(api, "housekeeping");
    const deadlineMs = api.clock.monotonicMs() + HOUSEKEEPING_DEADLINE_MS;
    const object = (await client.read(network, one.address, deadlineMs))?.object;
    const { spec, status } = object ?? {};
    const isFree = status?.state === "Bound" && Object.keys(status.attachments ?? {}).length === 0;
    if (object === undefined || spec?.owner.uid !== uid || !isFree) return false;
    if (spec.address === formatInterfaceAddress(one)) return false;
    return (await client.replace(withPrefixLength(object, one), deadlineMs)).kind === "done";
  }

  /** What the claim has on the network that it names, as the copies have it. */
  #heldBy({ uid, network }: ClaimView): InterfaceAddress[] {
    const here = this.#options.had(uid).filter(({ spec }) => spec.network === network);
    return here.map(({ spec }) => parseInterfaceAddress(spec.address));
  }

  /** A free address of a range set, reserved for the claim; null: there is none now. */
  async #reserve(
    claim: ClaimView,
    definition: NetworkDefinition,
    rangeSet: RangeSet,
  ): Promise<InterfaceAddress | null> {
    const { api, allocations } = this.#options;
    const pool = new Pool(rangeSet);
    for (const one of allocations.items.values()) {
      if (one.network !== claim.network || !isSound(one.object)) continue;
      const { object } = one;
      const address = addressOf(object);
      const isInside = address.family === rangeSet.family && pool.subnetOf(address.value) !== null;
      // One that an earlier attempt reserved, and did not publish.
      if (isInside && object.spec.owner.uid === claim.uid && object.status?.state === "Bound")
        return parseInterfaceAddress(object.spec.address);
      if (isInside) pool.allocate(address.value, { moveCursor: false });
    }
    let tried = 0;
    for (const value of pool.candidates(api.clock.monotonicMs(), pool.hashStart(claim.uid))) {
      if (tried++ === CANDIDATES_MAX) break;
      const prefixLength = pool.subnetOf(value)?.cidr.prefixLength;
      if (prefixLength === undefined) continue;
      const one = { address: { family: rangeSet.family, value }, prefixLength };
      const outcome = await reserveInUse(api, definition.name, one, claimHolder(claim));
      if (outcome.kind === "recorded" || outcome.kind === "own") return one;
    }
    return null;
  }

  /** At the version that was read; a conflict with another writer is left to the next pass. */
  async #write(claim: ClaimView, condition: ClaimCondition): Promise<void> {
    const path = namespacedPath(CLAIMS_PATH, claim.namespace, claim.name);
    const written = await this.#objects.patchStatus(path, {
      metadata: { resourceVersion: claim.resourceVersion },
      status: { ips: claim.ips, conditions: mergeCondition(claim.conditions, condition) },
    });
    if (written.kind === "refused") {
      const { status, body } = written.answer;
      this.#options.log.warn({ claim: claim.key, status, problem: body?.message }, "the condition is not sent");
    }
    if (written.kind !== "done") this.#sent.delete(claim.uid);
  }

  #time(): string {
    return isoTime(this.#options.api.clock.wallMs());
  }
}
