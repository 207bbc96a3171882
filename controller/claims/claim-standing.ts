import { AllocationClient } from "../../allocations/allocation-client.ts";
import { addressOf, isSound, withPrefixLength } from "../../allocations/allocation-object.ts";
import type { Cache, CachedAllocation, ClaimViewWithFact } from "../../claims/reasons/caches.ts";
import type { SweptPod } from "../../claims/reasons/fact-views.ts";
import { reserveInUse } from "../../imports/create-allocation.ts";
import { claimHolder } from "../../imports/listed-address.ts";
import {
  broughtCondition,
  type ClaimCondition,
  mergeCondition,
  standingCondition,
} from "../../ipam/claim-conditions.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { formerParts, missingSets, presentPrefixLength } from "../../ipam/former-state.ts";
import { formatInterfaceAddress, type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { Pool } from "../../ipam/space/pool.ts";
import type { RangeSet } from "../../ipam/space/range-set.ts";
import { claimObject, type EventWriter } from "../../kube/events.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { HOUSEKEEPING_DEADLINE_MS, ObjectClient } from "../../kube/object-client.ts";
import { allocationName } from "../../kube/object-names.ts";
import { CLAIMS_PATH, namespacedPath } from "../../kube/objects.ts";
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
  readonly definitions: Pick<DefinitionCatalog, "definitionOf">;
  readonly events: Pick<EventWriter, "warn">;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "info" | "warn">;
}

/**
 * Claims whose network was changed under them: a condition and an event tell, and while no VM uses the claim its list
 * follows the network, so that the VM's next start gives it: the prefix lengths of the same addresses, and one address
 * of each family that the network has been given. No address that a claim lists ever goes. See docs/decisions/0060.
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
      if (this.#conditionOf(claim) !== null || this.#isBehind(claim) || this.#listsOthers(claim)) behind.push(claim);
      if (budget.isSpent) await budget.nextTurn();
    }
    const uids = new Set(behind.map(({ uid }) => uid));
    for (const uid of [...this.#sent.keys()]) if (!uids.has(uid)) this.#sent.delete(uid);
    if (behind.length === 0) return;
    const used = await this.#usedClaims(budget);
    for (const claim of behind) {
      if (signal.aborted || idle() !== null) return;
      if (!used.has(claim.key) && (await this.#renew(claim))) continue;
      await this.#tell(claim);
    }
  }

  #definitionOf({ network, ips }: ClaimView): NetworkDefinition | null {
    return ips.length === 0 ? null : (this.#options.definitions.definitionOf(network)?.definition ?? null);
  }

  #isBehind(claim: ClaimView): boolean {
    const definition = this.#definitionOf(claim);
    const held = this.#heldBy(claim);
    return definition !== null && held !== null && formerParts(definition, held).length > 0;
  }

  /** Whether the list has another prefix length than was given. */
  #listsOthers(claim: ClaimView): boolean {
    const held = this.#heldBy(claim);
    return held !== null && held.map(formatInterfaceAddress).join() !== claim.ips.join();
  }

  /** null: nothing new. Whether addresses that it brought along are given only an ADD knows, whatever a backup sent. */
  #conditionOf(claim: ClaimView): ClaimCondition | null {
    const definition = this.#definitionOf(claim);
    if (definition === null) return null;
    const held = this.#heldBy(claim);
    if (held === null) return broughtCondition(claim.conditions, this.#time());
    return standingCondition(claim.conditions, formerParts(definition, held), claim.network, this.#time());
  }

  /** Claims, `namespace/name`, that a pod names which has not ended, or that a container is attached with. */
  async #usedClaims(budget: TurnBudget): Promise<ReadonlySet<string>> {
    const used = new Set<string>();
    for (const { terminal, namespace, claims } of [...this.#options.pods.items.values()]) {
      if (!terminal) for (const name of claims) used.add(`${namespace}/${name}`);
      if (budget.isSpent) await budget.nextTurn();
    }
    for (const one of [...this.#options.allocations.items.values()]) {
      if (budget.isSpent) await budget.nextTurn();
      if (one.ownerKind !== "IPAMClaim") continue;
      const { object } = one;
      const { owner } = object.spec;
      if (Object.keys(object.status?.attachments ?? {}).length > 0) used.add(`${owner.namespace}/${owner.name}`);
    }
    return used;
  }

  async #tell(claim: ClaimView): Promise<void> {
    const condition = this.#conditionOf(claim);
    if (this.#listsOthers(claim)) {
      const held = await this.#readHeld(claim);
      if (held !== null) await this.#write(claim, held, condition);
      return;
    }
    if (condition === null || this.#sent.get(claim.uid) === condition.message) return;
    this.#sent.set(claim.uid, condition.message);
    this.#options.log.info({ claim: claim.key, network: claim.network }, condition.message);
    if (condition.status === "False")
      this.#options.events.warn(claimObject(claim), condition.reason, condition.message);
    await this.#write(claim, claim.ips, condition);
  }

  /** Returns whether the claim's list was changed. */
  async #renew(seen: ClaimView): Promise<boolean> {
    const definition = this.#definitionOf(seen);
    if (definition === null || this.#heldBy(seen) === null) return false;
    const object = await this.#objects.find(namespacedPath(CLAIMS_PATH, seen.namespace, seen.name));
    const claim = object === null ? null : projectClaim(object);
    if (claim?.resourceVersion !== seen.resourceVersion || claim.deletionTimestamp !== null) return false;
    const listed = this.#heldBy(claim) ?? [];
    const present = listed.map((one) => ({ ...one, prefixLength: presentPrefixLength(definition, one) }));
    const added: InterfaceAddress[] = [];
    for (const index of missingSets(definition.rangeSets, listed)) {
      const one = await this.#reserve(claim, definition, definition.rangeSets[index] as RangeSet);
      if (one !== null) added.push(one);
    }
    const ips = [...present, ...added].map(formatInterfaceAddress);
    if (ips.join() === claim.ips.join()) return false;
    for (const one of present) if (!(await this.#rewrite(claim, one))) return false;
    const parts = formerParts(definition, [...present, ...added]);
    const condition = standingCondition(claim.conditions, parts, claim.network, this.#time());
    this.#options.log.info(
      { claim: claim.key, network: claim.network, ips },
      "the list of a claim follows its network",
    );
    return this.#write(claim, ips, condition);
  }

  /** Gives an allocation of the claim the prefix length of its subnet. Returns whether it has it. */
  async #rewrite({ network, uid }: ClaimView, one: InterfaceAddress): Promise<boolean> {
    const { api } = this.#options;
    const client = new AllocationClient(api, "housekeeping");
    const deadlineMs = api.clock.monotonicMs() + HOUSEKEEPING_DEADLINE_MS;
    const object = (await client.read(network, one.address, deadlineMs))?.object;
    if (object?.spec.address === formatInterfaceAddress(one)) return true;
    const { spec, status } = object ?? {};
    const isFree = status?.state === "Bound" && Object.keys(status.attachments ?? {}).length === 0;
    if (object === undefined || spec?.owner.uid !== uid || !isFree) return false;
    return (await client.replace(withPrefixLength(object, one), deadlineMs)).kind === "done";
  }

  /** null: not all that it lists is readable and was given by Holdfast; what others wrote is theirs to correct. */
  #heldBy(claim: ClaimView): InterfaceAddress[] | null {
    const held: InterfaceAddress[] = [];
    for (const { address } of listedBy(claim)) {
      const object = this.#options.allocations.items.get(allocationName(claim.network, address))?.object;
      const { spec, status } = object ?? {};
      if (spec?.owner.uid !== claim.uid || spec.adopted === true || status?.state !== "Bound") return null;
      held.push(parseInterfaceAddress(spec.address));
    }
    return held.length === claim.ips.length ? held : null;
  }

  /** The same by quorum reads: the copies of claims and allocations are of different moments. null: it is not so. */
  async #readHeld(claim: ClaimView): Promise<string[] | null> {
    const { api } = this.#options;
    const client = new AllocationClient(api, "housekeeping");
    const deadlineMs = api.clock.monotonicMs() + HOUSEKEEPING_DEADLINE_MS;
    const held: string[] = [];
    for (const { address } of listedBy(claim)) {
      const spec = (await client.read(claim.network, address, deadlineMs))?.object.spec;
      if (spec?.owner.uid !== claim.uid) return null;
      held.push(spec.address);
    }
    return held.join() === claim.ips.join() ? null : held;
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
      const holder = { ...claimHolder(claim), adopted: false };
      const outcome = await reserveInUse(api, definition.name, one, holder);
      if (outcome.kind === "recorded" || outcome.kind === "own") return one;
    }
    return null;
  }

  /** At the version that was read; a conflict with another writer is left to the next pass. */
  async #write(claim: ClaimView, ips: readonly string[], condition: ClaimCondition | null): Promise<boolean> {
    const conditions = condition && mergeCondition(claim.conditions, condition);
    const path = namespacedPath(CLAIMS_PATH, claim.namespace, claim.name);
    const written = await this.#objects.patchStatus(path, {
      metadata: { resourceVersion: claim.resourceVersion },
      status: { ips, ...(conditions && { conditions }) },
    });
    if (written.kind === "refused") {
      const { status, body } = written.answer;
      this.#options.log.warn({ claim: claim.key, status, problem: body?.message }, "the condition is not sent");
    }
    if (written.kind !== "done") this.#sent.delete(claim.uid);
    return written.kind === "done";
  }

  #time(): string {
    return isoTime(this.#options.api.clock.wallMs());
  }
}

/** Malformed entries are left out. */
function listedBy({ ips }: ClaimView): InterfaceAddress[] {
  return ips.flatMap((text) => {
    try {
      return [parseInterfaceAddress(text)];
    } catch {
      return [];
    }
  });
}
