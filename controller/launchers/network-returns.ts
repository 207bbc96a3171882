import { AllocationClient } from "../../allocations/allocation-client.ts";
import { ClaimNetworks, readingOf } from "../../claims/claim-networks.ts";
import type { Cache, CachedAllocation } from "../../claims/reasons/caches.ts";
import type { SweptPod } from "../../claims/reasons/fact-views.ts";
import { isPod } from "../../claims/reasons/facts.ts";
import { allocatedCondition } from "../../ipam/claim-conditions.ts";
import { inRangeSetOrder } from "../../ipam/decide-addresses.ts";
import { RefusalError } from "../../ipam/refusals.ts";
import { formatInterfaceAddress, type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { EventWriter } from "../../kube/events.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { HOUSEKEEPING_DEADLINE_MS, ObjectClient } from "../../kube/object-client.ts";
import { attachmentsIn, CLAIMS_PATH, type IPAllocation, namespacedPath } from "../../kube/objects.ts";
import { TurnBudget } from "../../kube/turn-budget.ts";
import { claimStatusPatch } from "../../kube/views/claim-status-patch.ts";
import { type ClaimView, projectClaim } from "../../kube/views/claim-view.ts";
import { MalformedObjectError } from "../../kube/views/object-metadata.ts";
import type { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import type { Log } from "../../platform/log.ts";
import { isoTime } from "../../platform/time.ts";
import { interfaceOfClaim } from "./launcher-evidence.ts";
import { type LivingLauncher, livingLaunchers } from "./living-launchers.ts";

interface NetworkReturnsOptions {
  readonly api: KubeApi;
  readonly claims: Cache<ClaimView>;
  readonly pods: Cache<SweptPod>;
  readonly allocations: Cache<CachedAllocation>;
  readonly definitions: Pick<DefinitionCatalog, "definitionOf" | "networkOfNad">;
  readonly events: Pick<EventWriter, "inform">;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "info" | "warn">;
}

/**
 * Claims that are on another network than their VM, which runs where its VMI says with addresses that are the claim's:
 * the migration to another network failed and the edit was taken back, so that no ADD comes; or etcd was restored.
 * Without this, what the VM has would be released when it is stopped. An ADD moves its claim itself within seconds:
 * only what two passes have seen is moved here. See docs/decisions/0067.
 */
export class NetworkReturns {
  readonly #options: NetworkReturnsOptions;
  readonly #objects: ObjectClient;
  readonly #client: AllocationClient;
  readonly #networks: ClaimNetworks;
  /** What the pass before has seen: UID of the claim and the network where it is used. */
  #seen: ReadonlySet<string> = new Set();

  constructor(options: NetworkReturnsOptions) {
    this.#options = options;
    this.#objects = new ObjectClient(options.api);
    this.#client = new AllocationClient(options.api, "housekeeping");
    this.#networks = new ClaimNetworks(options.api, options.events, "housekeeping");
  }

  get waits(): boolean {
    return this.#seen.size > 0;
  }

  async runPass(signal: AbortSignal): Promise<void> {
    const { claims, pods, allocations, idle, api, log } = this.#options;
    if (idle() !== null || !claims.known || !pods.known || !allocations.known) return;
    const astray = await this.#astray();
    const due = [...astray].filter(([key]) => this.#seen.has(key)).map(([, one]) => one);
    this.#seen = new Set(astray.keys());
    if (due.length === 0) return;
    const networks = new Set(due.map(({ network }) => network));
    const launchers = await livingLaunchers({ networks, pods, allocations, clock: api.clock });
    for (const { claim, network } of due) {
      for (const launcher of launchers.of({ ...claim, network })) {
        if (signal.aborted || idle() !== null) return;
        try {
          if (await this.#settle(claim, launcher)) break;
        } catch (error) {
          if (!(error instanceof MalformedObjectError || error instanceof RefusalError)) throw error;
          const fields = { claim: claim.key, pod: launcher.pod.key, problem: error.message };
          log.warn(fields, "a claim is not brought to the network of its VM; will retry");
        }
      }
    }
  }

  /** By the caches alone: claims with an allocation in use on a network that they are not on. */
  async #astray(): Promise<Map<string, { readonly claim: ClaimView; readonly network: string }>> {
    const { claims, allocations, definitions, api } = this.#options;
    const found = new Map<string, { readonly claim: ClaimView; readonly network: string }>();
    const budget = new TurnBudget(api.clock);
    for (const one of [...allocations.items.values()]) {
      if (budget.isSpent) await budget.nextTurn();
      if (one.ownerKind !== "IPAMClaim") continue;
      const { object } = one;
      const { network, owner } = object.spec ?? {};
      if (owner?.kind !== "IPAMClaim" || object.status?.state !== "Bound") continue;
      const claim = claims.items.get(`${owner.namespace}/${owner.name}`);
      if (claim?.uid !== owner.uid || claim.network === network || claim.deletionTimestamp !== null) continue;
      if (Object.keys(object.status.attachments ?? {}).length === 0) continue;
      if (definitions.definitionOf(network)?.definition.allowPersistentIPs === true)
        found.set(`${claim.uid} ${network}`, { claim, network });
    }
    return found;
  }

  /** Returns whether the claim is where its VM is. */
  async #settle(seen: ClaimView, launcher: LivingLauncher): Promise<boolean> {
    const { definitions, api, log } = this.#options;
    const path = namespacedPath(CLAIMS_PATH, seen.namespace, seen.name);
    const object = await this.#objects.find(path);
    const claim = object === null ? null : projectClaim(object);
    if (claim?.uid !== seen.uid || claim.network !== seen.network) return true;
    const { network, pod } = launcher;
    const evidence = await interfaceOfClaim(this.#objects, claim, launcher);
    if (evidence?.nad == null) return false;
    const nad = evidence.nad.includes("/") ? evidence.nad : `${claim.namespace}/${evidence.nad}`;
    if (definitions.networkOfNad(nad) !== network) return false;
    const held = await this.#held(claim, launcher, evidence.podInterface);
    if (held.length === 0) return false;
    const deadlineMs = api.clock.monotonicMs() + 3 * HOUSEKEEPING_DEADLINE_MS;
    const ips = held.map(formatInterfaceAddress);
    const moved = await this.#networks.change(readingOf(claim), { network, ips }, deadlineMs);
    if (moved === "changed") return false;
    const patch = claimStatusPatch(moved.view, {
      ...{ ips, ownerPod: pod.name, condition: allocatedCondition(isoTime(api.clock.wallMs())) },
      features: { ownerPod: true, conditions: true },
    });
    if (patch !== null) await this.#objects.patchStatus(path, patch);
    await this.#networks.close(moved, deadlineMs);
    const fields = { claim: claim.key, network, from: claim.network, pod: pod.key, ips };
    log.info(fields, "the claim is brought to the network where its VM runs");
    return true;
  }

  /** What the launcher has of the claim by quorum reads, in the order of the network's subnets. */
  async #held(
    { uid }: ClaimView,
    { network, pod, interfaces }: LivingLauncher,
    podInterface: string,
  ): Promise<InterfaceAddress[]> {
    const { api, definitions } = this.#options;
    const held: InterfaceAddress[] = [];
    for (const { spec } of interfaces.get(podInterface) ?? []) {
      const { address } = parseInterfaceAddress(spec.address);
      const deadlineMs = api.clock.monotonicMs() + HOUSEKEEPING_DEADLINE_MS;
      const object = (await this.#client.read(network, address, deadlineMs))?.object;
      if (object?.spec.owner.uid === uid && isUsedBy(object, pod, podInterface))
        held.push(parseInterfaceAddress(object.spec.address));
    }
    const { rangeSets = [] } = definitions.definitionOf(network)?.definition ?? {};
    return inRangeSetOrder({ rangeSets }, held);
  }
}

function isUsedBy(object: IPAllocation, pod: SweptPod, podInterface: string): boolean {
  return (
    object.status?.state === "Bound" &&
    attachmentsIn(object).some(
      (one) => one.interface === podInterface && one.pod !== undefined && isPod(pod, one.pod.uid),
    )
  );
}
