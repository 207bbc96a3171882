import type { Caches } from "../claims/reasons/caches.ts";
import { type Facts, isPod } from "../claims/reasons/facts.ts";
import { decideFresh, type RememberedFacts } from "../claims/reasons/fresh-facts.ts";
import { type KubeApi, UNPROCESSABLE } from "../kube/kube-api.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { attachmentsIn, CLAIMS_PATH, type IPAllocation, namespacedPath } from "../kube/objects.ts";
import { TurnBudget } from "../kube/turn-budget.ts";
import { claimStatusPatch } from "../kube/views/claim-status-patch.ts";
import { type ClaimView, projectClaim } from "../kube/views/claim-view.ts";
import type { DefinitionCatalog } from "../networks/definition-catalog.ts";
import type { Log } from "../platform/log.ts";

export interface OwnerPodsOptions {
  readonly api: KubeApi;
  readonly caches: Pick<Caches, "allocations" | "claims" | "pods">;
  readonly definitions: Pick<DefinitionCatalog, "definitionOf">;
  /** Bound allocations of a claim (UID). */
  readonly had: (claim: string) => readonly IPAllocation[];
  readonly facts: () => Facts;
  readonly memory: () => RememberedFacts;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "info">;
}

/**
 * Resets `status.ownerPod` of a claim to the pod that uses it, the newest that is attached and lives. An ADD writes its
 * own pod there, and so does the target of a migration; when that one fails, nothing else would, nor for a claim that
 * was handed over. If no attached pod lives, the last name stays: the VM is stopped.
 */
export class OwnerPods {
  readonly #options: OwnerPodsOptions;
  readonly #objects: ObjectClient;
  /** Names that could not be written, by claim UID: the installed definition has the field as a string, or none. */
  readonly #dropped = new Map<string, string>();
  /** A name is to be written, and was not yet. */
  waits = false;

  constructor(options: OwnerPodsOptions) {
    this.#options = options;
    this.#objects = new ObjectClient(options.api);
  }

  async runPass(signal: AbortSignal): Promise<void> {
    const { caches, definitions, idle, facts } = this.#options;
    if (idle() !== null || !caches.allocations.known || !caches.claims.known || !caches.pods.known) return;
    const copies = facts();
    this.waits = false;
    const budget = new TurnBudget(this.#options.api.clock);
    for (const claim of [...caches.claims.items.values()]) {
      if (signal.aborted || idle() !== null) return;
      if (budget.isSpent) await budget.nextTurn();
      const user = definitions.definitionOf(claim.network) === null ? null : this.#userOf(claim, copies);
      if (user === null) this.#dropped.delete(claim.uid);
      else if (this.#dropped.get(claim.uid) !== user) {
        this.waits = true;
        await this.#bringBack(claim);
      }
    }
  }

  /** The pod that is to be named instead; null: none, or that is not known. */
  #userOf({ uid, namespace, ownerPod }: ClaimView, facts: Facts): string | null {
    const named = ownerPod === null ? null : facts.pod(namespace, ownerPod);
    if (named?.kind === "unknown" || (named?.kind === "present" && !named.it.terminal)) return null;
    const users = this.#options.had(uid).flatMap(attachmentsIn);
    const living = users.filter(({ pod }) => {
      const found = pod?.namespace === namespace ? facts.pod(namespace, pod.name) : null;
      return found?.kind === "present" && !found.it.terminal && isPod(found.it, pod?.uid ?? "");
    });
    return living.toSorted((a, b) => (a.since < b.since ? 1 : -1))[0]?.pod?.name ?? null;
  }

  /** Writes only what quorum reads confirm, at the version just read; a conflict is left to the next pass. */
  async #bringBack({ namespace, name, uid }: ClaimView): Promise<void> {
    const { api, memory, log } = this.#options;
    const path = namespacedPath(CLAIMS_PATH, namespace, name);
    const object = await this.#objects.find(path);
    const claim = object === null ? null : projectClaim(object);
    if (claim?.uid !== uid) return;
    const ownerPod = await decideFresh(api, memory(), (facts) => this.#userOf(claim, facts));
    const features = { ownerPod: true, conditions: false };
    const patch = ownerPod && claimStatusPatch(claim, { ips: claim.ips, ownerPod, condition: null, features });
    if (!patch) return;
    const written = await this.#objects.patchStatus(path, patch);
    const fields = { claim: claim.key, network: claim.network, from: claim.ownerPod, to: ownerPod };
    if (written.kind === "done" && projectClaim(written.object).ownerPod === ownerPod)
      log.info(fields, "the pod that uses a claim is named in it");
    // Anything else that is refused may pass.
    else if (written.kind === "done" || (written.kind === "refused" && written.answer.status === UNPROCESSABLE))
      this.#dropped.set(uid, ownerPod);
  }
}
