import type { Caches } from "../claims/reasons/caches.ts";
import { isPod } from "../claims/reasons/facts.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { CLAIMS_PATH, namespacedPath, PODS_PATH } from "../kube/objects.ts";
import { TurnBudget } from "../kube/turn-budget.ts";
import { claimStatusPatch } from "../kube/views/claim-status-patch.ts";
import { type ClaimView, projectClaim } from "../kube/views/claim-view.ts";
import { projectPod } from "../kube/views/pod-view.ts";
import type { DefinitionCatalog } from "../networks/definition-catalog.ts";
import type { Log } from "../platform/log.ts";

export interface OwnerPodsOptions {
  readonly api: KubeApi;
  readonly caches: Pick<Caches, "allocations" | "claims" | "pods">;
  readonly definitions: Pick<DefinitionCatalog, "definitionOf">;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "info" | "warn">;
}

interface Attached {
  readonly name: string;
  readonly uid: string;
  /** RFC 3339 */
  readonly since: string;
}

/**
 * Resets `status.ownerPod` of a claim to the pod that uses it. An ADD writes its own pod there, and so does the target
 * of a migration; when that one fails, nothing else would. If no attached pod lives, the last name stays: the VM is
 * stopped.
 */
export class OwnerPods {
  readonly #options: OwnerPodsOptions;
  readonly #objects: ObjectClient;
  /** Names that could not be written, by claim UID: the installed definition has the field as a string, or none. */
  readonly #dropped = new Map<string, string>();

  constructor(options: OwnerPodsOptions) {
    this.#options = options;
    this.#objects = new ObjectClient(options.api);
  }

  async runPass(signal: AbortSignal): Promise<void> {
    const { caches, idle } = this.#options;
    const { allocations, claims, pods } = caches;
    if (idle() !== null || !allocations.known || !claims.known || !pods.known) return;
    const astray = new Map<string, ClaimView>();
    for (const claim of claims.items.values()) if (this.#isAstray(claim)) astray.set(claim.uid, claim);
    for (const uid of [...this.#dropped.keys()]) if (!astray.has(uid)) this.#dropped.delete(uid);
    if (astray.size === 0) return;
    const users = await this.#usersOf(astray);
    for (const [uid, user] of users) {
      if (signal.aborted || idle() !== null) return;
      const claim = astray.get(uid);
      if (claim !== undefined && this.#dropped.get(uid) !== user.name) await this.#bringBack(claim, user);
    }
  }

  /** By the caches alone: whether the pod that a claim of ours names has ended. */
  #isAstray({ namespace, ownerPod, network }: ClaimView): boolean {
    if (ownerPod === null || this.#options.definitions.definitionOf(network) === null) return false;
    return this.#options.caches.pods.items.get(`${namespace}/${ownerPod}`)?.terminal ?? true;
  }

  /** The newest living pod that is attached, by claim UID. */
  async #usersOf(claims: ReadonlyMap<string, ClaimView>): Promise<Map<string, Attached>> {
    const { allocations, pods } = this.#options.caches;
    const users = new Map<string, Attached>();
    const budget = new TurnBudget(this.#options.api.clock);
    for (const one of [...allocations.items.values()]) {
      if (budget.isSpent) await budget.nextTurn();
      if (one.ownerKind !== "IPAMClaim") continue;
      const { object } = one;
      const { kind, uid } = object.spec?.owner ?? {};
      const claim = kind === "IPAMClaim" && uid !== undefined ? claims.get(uid) : undefined;
      if (claim === undefined || uid === undefined || object.status?.state !== "Bound") continue;
      for (const { pod, since } of Object.values(object.status.attachments ?? {})) {
        if (pod?.namespace !== claim.namespace) continue;
        const known = pods.items.get(`${pod.namespace}/${pod.name}`);
        if (known === undefined || known.terminal || !isPod(known, pod.uid)) continue;
        const newest = users.get(uid);
        if (newest === undefined || newest.since < since) users.set(uid, { name: pod.name, uid: pod.uid, since });
      }
    }
    return users;
  }

  /** Writes only what quorum reads confirm, at the version just read; a conflict is left to the next pass. */
  async #bringBack(seen: ClaimView, user: Attached): Promise<void> {
    const { log } = this.#options;
    const { namespace, name } = seen;
    const path = namespacedPath(CLAIMS_PATH, namespace, name);
    const claim = await this.#read(path, projectClaim);
    if (claim === null || claim.uid !== seen.uid || claim.ownerPod === null) return;
    const named = await this.#pod(namespace, claim.ownerPod);
    if (named !== null && !named.terminal) return;
    const living = await this.#pod(namespace, user.name);
    if (living === null || living.terminal || !isPod(living, user.uid)) return;
    const features = { ownerPod: true, conditions: false };
    const patch = claimStatusPatch(claim, { ips: [], ownerPod: user.name, condition: null, features });
    if (patch === null) return;
    const written = await this.#objects.patchStatus(path, patch);
    const fields = { claim: claim.key, network: claim.network, from: claim.ownerPod, to: user.name };
    if (written.kind === "done" && projectClaim(written.object).ownerPod === user.name)
      log.info(fields, "the claim's owner pod has ended; the pod that uses it is named again");
    else if (written.kind === "done" || written.kind === "refused") this.#dropped.set(claim.uid, user.name);
  }

  #pod(namespace: string, name: string) {
    return this.#read(namespacedPath(PODS_PATH, namespace, name), (object) => projectPod(object));
  }

  /** By a quorum read; null: it does not exist. Throws ApiAway when that cannot be determined. */
  async #read<T>(path: string, project: (object: unknown) => T): Promise<T | null> {
    const object = await this.#objects.find(path);
    return object === null ? null : project(object);
  }
}
