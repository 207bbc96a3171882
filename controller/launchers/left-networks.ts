import type { Cache, CachedAllocation } from "../../claims/reasons/caches.ts";
import type { SweptPod } from "../../claims/reasons/fact-views.ts";
import { hasLeftNetwork, leftCondition, mergeCondition } from "../../ipam/claim-conditions.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { claimObject, type EventWriter } from "../../kube/events.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { allocationName } from "../../kube/object-names.ts";
import { CLAIMS_PATH, namespacedPath } from "../../kube/objects.ts";
import { TurnBudget } from "../../kube/turn-budget.ts";
import { type ClaimView, projectClaim, vmOwners } from "../../kube/views/claim-view.ts";
import { MalformedObjectError } from "../../kube/views/object-metadata.ts";
import type { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import type { Log } from "../../platform/log.ts";
import { isoTime } from "../../platform/time.ts";
import { vmInterfaceOf } from "./launcher-evidence.ts";

interface LeftNetworksOptions {
  readonly api: KubeApi;
  readonly claims: Cache<ClaimView>;
  readonly pods: Cache<SweptPod>;
  readonly allocations: Cache<CachedAllocation>;
  readonly definitions: Pick<DefinitionCatalog, "definitionOf" | "verdict">;
  readonly events: Pick<EventWriter, "inform">;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "info" | "warn">;
}

/**
 * Claims whose VM runs on a network where no claim can follow it: another IPAM plugin's, or one without persistent
 * addresses. Nobody names such a claim any more, and no ADD is told of it. When nothing uses its addresses, its list is
 * emptied with a condition that says why, and the sweep releases them. A stopped VM keeps what it has, and so does one
 * whose interface was unplugged: the VMI that runs has to want that very interface elsewhere. See docs/decisions/0067.
 */
export class LeftNetworks {
  readonly #options: LeftNetworksOptions;
  readonly #objects: ObjectClient;
  /** UIDs of the claims that the pass before has seen like this. */
  #seen: ReadonlySet<string> = new Set();

  constructor(options: LeftNetworksOptions) {
    this.#options = options;
    this.#objects = new ObjectClient(options.api);
  }

  get waits(): boolean {
    return this.#seen.size > 0;
  }

  async runPass(signal: AbortSignal): Promise<void> {
    const { claims, pods, allocations, idle, log } = this.#options;
    if (idle() !== null || !claims.known || !pods.known || !allocations.known) return;
    const left = await this.#left();
    const due = left.filter(({ claim }) => this.#seen.has(claim.uid));
    this.#seen = new Set(left.map(({ claim }) => claim.uid));
    for (const { claim, launcher } of due) {
      if (signal.aborted || idle() !== null) return;
      try {
        await this.#settle(claim, launcher);
      } catch (error) {
        if (!(error instanceof MalformedObjectError)) throw error;
        log.warn({ claim: claim.key, pod: launcher.key, problem: error.message }, "a claim is left as it is");
      }
    }
  }

  /** By the caches alone: claims that list what nobody uses and that no living pod names, though their VM runs. */
  async #left(): Promise<{ readonly claim: ClaimView; readonly launcher: Launcher }[]> {
    const { claims, pods, api } = this.#options;
    const budget = new TurnBudget(api.clock);
    const named = new Set<string>();
    const launchers = new Map<string, Launcher[]>();
    for (const pod of [...pods.items.values()]) {
      if (budget.isSpent) await budget.nextTurn();
      if (pod.terminal) continue;
      for (const name of pod.claims) named.add(`${pod.namespace}/${name}`);
      const { vmi } = pod;
      if (vmi === null) continue;
      launchers.set(pod.namespace, [...(launchers.get(pod.namespace) ?? []), { ...pod, vmi }]);
    }
    const found: { claim: ClaimView; launcher: Launcher }[] = [];
    for (const claim of [...claims.items.values()]) {
      if (budget.isSpent) await budget.nextTurn();
      if (named.has(claim.key) || !this.#isUnused(claim)) continue;
      const launcher = launchers.get(claim.namespace)?.find(({ vmi }) => claim.name.startsWith(`${vmi.name}.`));
      if (launcher !== undefined) found.push({ claim, launcher });
    }
    return found;
  }

  /** A VM's claim on a network of ours, whose addresses no container uses. Without conditions nobody could be told. */
  #isUnused({ ips, deletionTimestamp, owners, network, conditions, uid }: ClaimView): boolean {
    const { definitions, allocations } = this.#options;
    if (ips.length === 0 || deletionTimestamp !== null || vmOwners(owners).length === 0) return false;
    if (conditions.length === 0 || definitions.definitionOf(network) === null) return false;
    return ips.every((text) => {
      const object = allocations.items.get(nameOf(network, text))?.object;
      return object?.spec.owner.uid === uid && Object.keys(object.status?.attachments ?? {}).length === 0;
    });
  }

  async #settle(seen: ClaimView, launcher: Launcher): Promise<void> {
    const { definitions, api, events, log } = this.#options;
    const path = namespacedPath(CLAIMS_PATH, seen.namespace, seen.name);
    const object = await this.#objects.find(path);
    const claim = object === null ? null : projectClaim(object);
    if (claim?.resourceVersion !== seen.resourceVersion || hasLeftNetwork(claim)) return;
    const nad = (await vmInterfaceOf(this.#objects, claim, { pod: launcher, vmi: launcher.vmi }))?.nad;
    if (nad == null) return;
    const key = nad.includes("/") ? nad : `${claim.namespace}/${nad}`;
    const verdict = definitions.verdict(key);
    const isElsewhere = verdict.kind === "not-ours" || (verdict.kind === "ok" && verdict.network !== claim.network);
    if (!isElsewhere || (verdict.kind === "ok" && verdict.definition.allowPersistentIPs)) return;
    const condition = leftCondition({ ...claim, nad: key }, isoTime(api.clock.wallMs()));
    const written = await this.#objects.patchStatus(path, {
      metadata: { resourceVersion: claim.resourceVersion },
      status: { ips: [], conditions: mergeCondition(claim.conditions, condition) },
    });
    if (written.kind !== "done") return;
    events.inform(claimObject(claim), condition.reason, condition.message);
    log.info({ claim: claim.key, network: claim.network, ips: claim.ips, nad: key }, "the VM of a claim has left");
  }
}

type Launcher = SweptPod & { readonly vmi: NonNullable<SweptPod["vmi"]> };

/** "": it cannot be read. */
function nameOf(network: string, text: string): string {
  try {
    return allocationName(network, parseInterfaceAddress(text).address);
  } catch {
    return "";
  }
}
