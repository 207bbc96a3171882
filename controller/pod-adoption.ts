import type { Cache, CachedAllocation } from "../claims/reasons/caches.ts";
import type { SweptPod } from "../claims/reasons/fact-views.ts";
import { isPod } from "../claims/reasons/facts.ts";
import { NotRecorded } from "../imports/create-allocation.ts";
import { type ImportedAddress, recordAll } from "../imports/import.ts";
import { type ImportCandidate, ImportCandidates } from "../imports/import-candidates.ts";
import { OwnerRecords } from "../imports/pod-bounds.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { parseAddress } from "../ipam/space/address.ts";
import { placeOf } from "../ipam/space/range-set.ts";
import type { EventWriter } from "../kube/events.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import { networkObjectOf } from "../kube/network-object.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { allocationName } from "../kube/object-names.ts";
import { CLAIMS_PATH, type IPNetwork, namespacedPath, PODS_PATH } from "../kube/objects.ts";
import { TurnBudget } from "../kube/turn-budget.ts";
import { projectClaim } from "../kube/views/claim-view.ts";
import { statusAddresses } from "../kube/views/held-addresses.ts";
import { projectPod } from "../kube/views/pod-view.ts";
import type { DefinitionCatalog } from "../networks/definition-catalog.ts";
import { isImported, nodeDefinitionsOf, sourcesOf } from "../networks/import-sources.ts";
import type { Log } from "../platform/log.ts";

/** Pods examined in one pass; each costs a few reads of the API server. */
const PODS_PER_TURN = 200;

export interface PodAdoptionOptions {
  readonly api: KubeApi;
  readonly pods: Cache<SweptPod>;
  readonly allocations: Cache<CachedAllocation>;
  readonly networks: Cache<{ readonly object: IPNetwork }>;
  readonly definitions: Pick<DefinitionCatalog, "definitionOf" | "networkOfNad" | "nadsOf" | "permits">;
  readonly events: Pick<EventWriter, "warn">;
  /** Addresses that a pod reports but cannot have. */
  readonly onRefused: (count: number) => void;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "info" | "warn">;
}

/**
 * Records the addresses without an allocation that living pods report on imported networks: another plugin still gave
 * them out while their network was imported. An address of another owner is reported, and left to the operator.
 */
export class PodAdoption {
  readonly #options: PodAdoptionOptions;
  /** Versions of pods that need nothing more while the definitions stay the same. */
  #settled = new WeakSet<SweptPod>();
  /** UIDs of pods with something that could not be recorded in the last pass; the others come first. */
  readonly #unrecorded = new Set<string>();

  constructor(options: PodAdoptionOptions) {
    this.#options = options;
  }

  /** A NAD or an IPNetwork has changed: a pod's addresses may belong to another network now. */
  forget(): void {
    this.#settled = new WeakSet();
  }

  async runPass(signal: AbortSignal): Promise<void> {
    const { pods, allocations, networks, idle } = this.#options;
    if (idle() !== null || !pods.known || !allocations.known || !networks.known) return;
    const byNodes = this.#nodeNetworks();
    let records: OwnerRecords | null = null;
    const budget = new TurnBudget(this.#options.api.clock);
    let checked = 0;
    for (const pod of this.#inOrder([...pods.items.values()])) {
      if (budget.isSpent) await budget.nextTurn();
      if (signal.aborted || idle() !== null || checked >= PODS_PER_TURN) return;
      if (pod.terminal || pod.addresses.length === 0 || this.#settled.has(pod)) continue;
      const wanting = this.#wanting(pod, byNodes);
      if (wanting.size > 0) {
        checked += 1;
        records ??= await recordsOf(allocations.items, budget);
        if (!(await this.#settle(pod, wanting, records))) {
          this.#unrecorded.add(pod.uid);
          continue;
        }
      }
      this.#unrecorded.delete(pod.uid);
      this.#settled.add(pod);
    }
  }

  /** Those that could not be recorded come last. */
  #inOrder(pods: readonly SweptPod[]): readonly SweptPod[] {
    if (this.#unrecorded.size === 0) return pods;
    const last = pods.filter(({ uid }) => this.#unrecorded.has(uid));
    const first = pods.filter(({ uid }) => !this.#unrecorded.has(uid));
    this.#unrecorded.clear();
    for (const { uid } of last) this.#unrecorded.add(uid);
    return [...first, ...last];
  }

  /** Imported networks that the nodes' own configuration defines, with its ranges. */
  #nodeNetworks(): Map<string, NetworkDefinition[]> {
    const found = new Map<string, NetworkDefinition[]>();
    for (const { object } of this.#options.networks.items.values()) {
      const definitions = isImported(object, []) ? nodeDefinitionsOf(object) : [];
      if (definitions.length > 0) found.set(object.spec.network, definitions);
    }
    return found;
  }

  /** Networks where the pod reports an address not known to be its own, each with the nodes' ranges that contain it. */
  #wanting(
    pod: SweptPod,
    byNodes: ReadonlyMap<string, readonly NetworkDefinition[]>,
  ): Map<string, NetworkDefinition | null> {
    const wanting = new Map<string, NetworkDefinition | null>();
    for (const { address: text, nad, network: named } of pod.addresses) {
      const address = parseAddress(text);
      const want = (network: string, nodes: NetworkDefinition | null) => {
        const known = this.#options.allocations.items.get(allocationName(network, address));
        if (!isHeldFor(pod, known)) wanting.set(network, nodes ?? wanting.get(network) ?? null);
      };
      if (nad !== null) {
        const network = this.#options.definitions.networkOfNad(nad);
        if (network !== null && this.#isImported(network, nad)) want(network, null);
        continue;
      }
      for (const [network, definitions] of byNodes) {
        const holding = definitions.find(({ rangeSets }) => placeOf(rangeSets, address) !== null);
        if (holding !== undefined || named === network) want(network, holding ?? null);
      }
    }
    return wanting;
  }

  /** Otherwise the import brings it. Whether another definition still waits for its import does not matter. */
  #isImported(network: string, nad: string): boolean {
    const { networks, definitions } = this.#options;
    const object = networkObjectOf(network, (name) => networks.items.get(name)?.object);
    const sources = sourcesOf(definitions, network, null);
    return isImported(
      object,
      sources.filter((one) => "definition" in one && one.definition === nad),
    );
  }

  /** Returns false if something could not be recorded now. */
  async #settle(
    seen: SweptPod,
    wanting: ReadonlyMap<string, NetworkDefinition | null>,
    records: OwnerRecords,
  ): Promise<boolean> {
    const { api, definitions, log, events } = this.#options;
    const objects = new ObjectClient(api);
    const object = await objects.find(namespacedPath(PODS_PATH, seen.namespace, seen.name));
    if (object === null) return true;
    const pod = projectPod(object, { addresses: true });
    // A pod that is being deleted may have released its addresses already.
    if (pod.uid !== seen.uid || pod.deletionTimestamp !== null) return true;
    const addresses = statusAddresses(pod);
    let isRecorded = true;
    for (const [network, nodes] of wanting) {
      const candidates = new ImportCandidates(network, {
        definitions,
        nodes,
        unknownClaim: "skip",
        recordedOf: () => records.of(network, seen),
        addressesOf: () => addresses,
      });
      for (const claim of seen.claims) {
        const found = await objects.tryGet(namespacedPath(CLAIMS_PATH, seen.namespace, claim));
        if (found.kind === "present") candidates.addClaim(projectClaim(found.object));
      }
      candidates.addPod(pod);
      for (const candidate of candidates.ofPods()) {
        const found = await this.#record(pod.key, network, candidate);
        if (found === null) {
          isRecorded = false;
          continue;
        }
        const { address, outcome, by } = found;
        const fields = { pod: pod.key, network, address };
        if (outcome === "recorded") log.info(fields, "recorded what a pod reports");
        if (outcome !== "taken") continue;
        const message = `the pod reports ${address} on network ${network}, which is held by ${by}`;
        log.warn(fields, message);
        const { namespace, name, uid } = pod;
        events.warn({ apiVersion: "v1", kind: "Pod", namespace, name, uid }, "IPAddressConflict", message);
      }
      if (candidates.refusedCount > 0) this.#options.onRefused(candidates.refusedCount);
      for (const problem of candidates.problems) log.warn({ network, problem }, "not recorded");
    }
    return isRecorded;
  }

  /** null: it cannot be recorded now, which must not hold up others. */
  async #record(pod: string, network: string, candidate: ImportCandidate): Promise<ImportedAddress | null> {
    const { api, log } = this.#options;
    try {
      return (await recordAll(api, network, [candidate]))[0] ?? null;
    } catch (error) {
      if (!(error instanceof NotRecorded)) throw error;
      log.warn({ pod, network, problem: error.message }, "what a pod reports is not recorded; will retry");
      return null;
    }
  }
}

async function recordsOf(items: ReadonlyMap<string, CachedAllocation>, budget: TurnBudget): Promise<OwnerRecords> {
  const records = new OwnerRecords();
  for (const { object, address } of [...items.values()]) {
    records.add(object, address);
    if (budget.isSpent) await budget.nextTurn();
  }
  return records;
}

/** Whether an allocation is the pod's: its own, one that it is attached to, or of a claim that it names. */
function isHeldFor(pod: SweptPod, known: CachedAllocation | undefined): boolean {
  if (known?.object.status?.state !== "Bound") return false;
  const { owner } = known.object.spec;
  if (owner.kind === "Pod" && isPod(pod, owner.uid)) return true;
  const attached = Object.values(known.object.status.attachments ?? {});
  if (attached.some((one) => one.pod !== undefined && isPod(pod, one.pod.uid))) return true;
  return owner.kind === "IPAMClaim" && owner.namespace === pod.namespace && pod.claims.includes(owner.name);
}
