import { type Caches, type ClaimViewWithFact, claimsNamed } from "../../claims/reasons/caches.ts";
import { type ClaimSays, claimSays, hasLeft } from "../../claims/reasons/claim-says.ts";
import { claimFact } from "../../claims/reasons/fact-views.ts";
import type { ClaimFact, Facts, Found, Wants } from "../../claims/reasons/facts.ts";
import { decideFresh, type RememberedFacts } from "../../claims/reasons/fresh-facts.ts";
import type { Rules } from "../../claims/reasons/verdict.ts";
import { allocatedCondition, leftCondition } from "../../ipam/claim-conditions.ts";
import { claimObject, type EventWriter } from "../../kube/events.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { HOUSEKEEPING_DEADLINE_MS, ObjectClient } from "../../kube/object-client.ts";
import { CLAIMS_PATH, type IPAllocation, namespacedPath } from "../../kube/objects.ts";
import { TurnBudget } from "../../kube/turn-budget.ts";
import { claimStatusPatch } from "../../kube/views/claim-status-patch.ts";
import { type ClaimView, projectClaim } from "../../kube/views/claim-view.ts";
import type { Log } from "../../platform/log.ts";
import { isoTime } from "../../platform/time.ts";
import type { KeyedMutex } from "../../store/cluster/parts/keyed-mutex.ts";

/** A claim that stays as it is found is looked at again after so long, ms, and after twice as long each time. */
const PACE_MS_MIN = 5_000;
const PACE_MS_MAX = 600_000;
/** So soon also where nothing changes: something could not be read. */
const SOON_MS = 40_000;

export interface ProjectionsOptions {
  readonly api: KubeApi;
  readonly caches: Pick<Caches, "claims" | "pods" | "allocations">;
  readonly rules: Pick<Rules, "definitionOf">;
  /** Bound allocations of a claim (UID). */
  readonly had: (claim: string) => readonly IPAllocation[];
  /** What is said by copies, and what no object says. */
  readonly facts: () => Facts;
  readonly memory: () => RememberedFacts;
  /** Where the VMs of claims are to be, as was read last, by the claim's UID. */
  readonly wanted: Map<string, Wants>;
  /** One claim at a time, with the release of what it has. */
  readonly mutex: KeyedMutex;
  readonly onWanted: (claim: string) => void;
  readonly events: Pick<EventWriter, "inform">;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "info" | "warn">;
}

/** What a claim is to say, by quorum reads. */
interface Target extends ClaimSays {
  readonly wants: Wants;
  /** It has nothing, and its VM runs where no claim can follow it. */
  readonly hasLeft: boolean;
}

interface Look {
  /** Everything in the copies that the claim's list rests on. */
  readonly identity: string;
  readonly nextMs: number;
  readonly paceMs: number;
  /** What was to be written, and at which version. */
  readonly due: string | null;
}

/**
 * The list and the network of claims, as their allocations have them: nobody else takes an entry away or moves a claim
 * (docs/decisions/0093). Written is what two looks have found, by quorum reads, about one version of the claim: first
 * the list, then the network; each is harmless alone. Where a VM is to be is remembered for the sweep.
 */
export class ClaimProjections {
  readonly #options: ProjectionsOptions;
  readonly #objects: ObjectClient;
  readonly #looks = new Map<string, Look>();

  constructor(options: ProjectionsOptions) {
    this.#options = options;
    this.#objects = new ObjectClient(options.api);
  }

  /** Something is to be looked at again soon. */
  get waits(): boolean {
    return [...this.#looks.values()].some(({ due, paceMs }) => due !== null || paceMs <= SOON_MS);
  }

  async runPass(signal: AbortSignal): Promise<void> {
    const { caches, idle, api, wanted } = this.#options;
    if (idle() !== null || !caches.claims.known || !caches.pods.known || !caches.allocations.known) return;
    const doubtful = await this.#doubtful();
    const uids = new Set(doubtful.map(({ claim }) => claim.uid));
    for (const uid of [...this.#looks.keys()]) if (!uids.has(uid)) this.#looks.delete(uid);
    const alive = new Set([...caches.claims.items.values()].map(({ uid }) => uid));
    for (const uid of [...wanted.keys()]) if (!alive.has(uid)) wanted.delete(uid);
    for (const { claim, identity } of doubtful) {
      if (signal.aborted || idle() !== null) return;
      const known = this.#looks.get(claim.uid);
      if (known?.identity === identity && api.clock.monotonicMs() < known.nextMs) continue;
      const due = await this.#look(claim, known?.due ?? null);
      const isAsBefore = known?.identity === identity && known.due === due;
      const paceMs = isAsBefore ? Math.min(2 * known.paceMs, PACE_MS_MAX) : PACE_MS_MIN;
      this.#looks.set(claim.uid, { identity, due, paceMs, nextMs: api.clock.monotonicMs() + (due ? 0 : paceMs) });
    }
  }

  /** By the copies alone: claims that may say something else than they have, or whose VM may be elsewhere. */
  async #doubtful(): Promise<{ readonly claim: ClaimViewWithFact; readonly identity: string }[]> {
    const { caches, api } = this.#options;
    const budget = new TurnBudget(api.clock);
    const facts = this.#options.facts();
    const pods = [...caches.pods.items.values()].filter(({ terminal }) => !terminal);
    const named = new Set(pods.flatMap(claimsNamed));
    const running = new Set(pods.flatMap(({ namespace, vmi }) => (vmi === null ? [] : [`${namespace}/${vmi.name}`])));
    const found: { readonly claim: ClaimViewWithFact; readonly identity: string }[] = [];
    for (const claim of [...caches.claims.items.values()]) {
      if (budget.isSpent) await budget.nextTurn();
      if (claim.deletionTimestamp !== null) continue;
      const objects = this.#options.had(claim.uid);
      if (objects.length === 0 && claim.ips.length === 0) continue;
      const mayHaveLeft = running.has(`${claim.namespace}/${claim.fact.vm?.name}`) && !named.has(claim.key);
      if (!mayHaveLeft && !this.#isDoubtful(claim, objects, facts)) continue;
      const versions = objects.map(({ metadata }) => metadata.resourceVersion).join();
      found.push({ claim, identity: `${claim.resourceVersion} ${versions} ${mayHaveLeft}` });
    }
    return found;
  }

  #isDoubtful(claim: ClaimViewWithFact, objects: readonly IPAllocation[], facts: Facts): boolean {
    // A wish: reserved, or told, by others.
    if (objects.length === 0) return false;
    if (objects.some(({ spec }) => spec.network !== claim.network)) return true;
    const assumed = this.#options.wanted.get(claim.uid) ?? unmoved(claim.fact);
    const says = this.#says(claim.fact, facts, assumed);
    return says.kind !== "present" || !says.it.isRight || says.it.had.some(({ counts }) => !counts);
  }

  #says(claim: ClaimFact, facts: Facts, wants: Wants): Found<ClaimSays> {
    const had = facts.had(claim, []);
    return had.kind === "present" ? claimSays(claim, had.it, wants, facts, this.#options.rules) : had;
  }

  /** Returns what is due; null: nothing, or it was written. `before`: what the last look found. */
  async #look(seen: ClaimView, before: string | null): Promise<string | null> {
    const { api, mutex, wanted, onWanted } = this.#options;
    const deadlineMs = api.clock.monotonicMs() + HOUSEKEEPING_DEADLINE_MS;
    const leave = await mutex.enter(seen.key, deadlineMs);
    if (leave === null) return null;
    try {
      const claim = await this.#read(seen);
      if (claim === null || claim.deletionTimestamp !== null) return null;
      const target = await this.#target(claimFact(claim));
      if (target === null) return null;
      const known = wanted.get(claim.uid);
      wanted.set(claim.uid, target.wants);
      if (JSON.stringify(known) !== JSON.stringify(target.wants)) onWanted(claim.key);
      if (target.isRight && !target.hasLeft) return null;
      if (target.hasLeft && claim.ips.length === 0) return null;
      const due = JSON.stringify([claim.resourceVersion, target.network, target.ips, target.hasLeft]);
      if (due !== before) return due;
      if (this.#options.idle() !== null) return due;
      await this.#write(claim, target);
      return null;
    } finally {
      leave();
    }
  }

  async #target(claim: ClaimFact): Promise<Target | null> {
    const { api, memory } = this.#options;
    return decideFresh(api, memory(), (facts): Target | null => {
      const wants = facts.wants(claim);
      if (wants.kind !== "present") return null;
      const says = this.#says(claim, facts, wants.it);
      if (says.kind !== "present") return null;
      const left = says.it.had.length === 0 ? hasLeft(claim, wants.it, facts) : null;
      return { ...says.it, wants: wants.it, hasLeft: left?.kind === "present" && left.it };
    });
  }

  async #write(claim: ClaimView, target: Target): Promise<void> {
    const { api, log, events } = this.#options;
    const path = namespacedPath(CLAIMS_PATH, claim.namespace, claim.name);
    const time = isoTime(api.clock.wallMs());
    const fields = { claim: claim.key, network: claim.network, ips: claim.ips };
    const left = target.hasLeft ? leftCondition({ ...claim, nad: target.wants.nad }, time) : null;
    const ips = left === null ? target.ips : [];
    const status = { ips, ownerPod: null, condition: left ?? allocatedCondition(time) };
    const patch = claimStatusPatch(claim, { ...status, features: { ownerPod: false, conditions: true } });
    const patched = patch && (await this.#objects.patchStatus(path, patch));
    if (patched?.kind === "refused")
      log.warn({ ...fields, problem: patched.answer.body?.message }, "the list of a claim is not written");
    if (patched !== null && patched.kind !== "done") return;
    if (left !== null) {
      events.inform(claimObject(claim), left.reason, left.message);
      return log.info({ ...fields, nad: target.wants.nad }, "the VM of a claim has left");
    }
    log.info({ ...fields, to: { network: target.network, ips } }, "the claim says what it has");
    if (target.network === claim.network) return;
    const { resourceVersion } = patched === null ? claim : projectClaim(patched.object);
    const moved = await this.#objects.patch(path, { metadata: { resourceVersion }, spec: { network: target.network } });
    if (moved.kind === "refused")
      log.warn({ ...fields, problem: moved.answer.body?.message }, "the network of a claim cannot be changed");
  }

  async #read({ namespace, name, uid }: ClaimView): Promise<ClaimView | null> {
    const object = await this.#objects.find(namespacedPath(CLAIMS_PATH, namespace, name));
    const claim = object === null ? null : projectClaim(object);
    return claim?.uid === uid ? claim : null;
  }
}

/** What is assumed of a claim of which nothing was read. */
function unmoved({ network }: ClaimFact): Wants {
  return { network, asks: [], vmi: null, nad: "" };
}
