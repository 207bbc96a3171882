/*
 * controller/launchers/: claims that are younger than their VM's launcher pod, or that it names too late
 *
 *   launcher-adoption   hands the launcher's addresses over to them
 *   living-launchers    which addresses launchers use
 */

import { AllocationClient } from "../../allocations/allocation-client.ts";
import { sameAllocationOwner } from "../../allocations/allocation-object.ts";
import { hold } from "../../allocations/hold.ts";
import type { Cache, CachedAllocation } from "../../claims/reasons/caches.ts";
import type { SweptPod } from "../../claims/reasons/fact-views.ts";
import { claimOfInterface } from "../../claims/vm-claims.ts";
import { isObject } from "../../ipam/definition/definition-keys.ts";
import { RefusalError } from "../../ipam/refusals.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { placeOf } from "../../ipam/space/range-set.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { HOUSEKEEPING_DEADLINE_MS, ObjectClient } from "../../kube/object-client.ts";
import { type AllocationOwner, CLAIMS_PATH, type IPAllocation, namespacedPath, PODS_PATH } from "../../kube/objects.ts";
import { type ClaimView, projectClaim, vmOwners } from "../../kube/views/claim-view.ts";
import { MalformedObjectError } from "../../kube/views/object-metadata.ts";
import { projectPod } from "../../kube/views/pod-view.ts";
import { VMIS_PATH } from "../../kube/views/tenant-objects.ts";
import { projectVmi } from "../../kube/views/vmi-view.ts";
import type { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import type { Log } from "../../platform/log.ts";
import { type LivingLauncher, livingLaunchers, mayHandOver } from "./living-launchers.ts";

export interface LauncherAdoptionOptions {
  readonly api: KubeApi;
  readonly claims: Cache<ClaimView>;
  readonly pods: Cache<SweptPod>;
  readonly allocations: Cache<CachedAllocation>;
  readonly definitions: Pick<DefinitionCatalog, "definitionOf" | "networkOfNad">;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "info" | "warn">;
}

/**
 * Fills in the empty claims of VMs that run: the claim was made again, or the launcher pod did not name it at its ADD
 * (hot-plug, a webhook that was late, `allowPersistentIPs` set since). The addresses that the launcher has on the
 * network become the claim's, so that the next start gets them: the owner of each allocation is changed, and what a
 * claim has is listed by the projection. See docs/decisions/0062.
 */
export class LauncherAdoption {
  readonly #options: LauncherAdoptionOptions;
  readonly #objects: ObjectClient;
  readonly #client: AllocationClient;
  #waits = false;

  constructor(options: LauncherAdoptionOptions) {
    this.#options = options;
    this.#objects = new ObjectClient(options.api);
    this.#client = new AllocationClient(options.api, "housekeeping");
  }

  get waits(): boolean {
    return this.#waits;
  }

  async runPass(signal: AbortSignal): Promise<void> {
    const { claims, pods, allocations, idle, api, log } = this.#options;
    if (idle() !== null || !claims.known || !pods.known || !allocations.known) return;
    const wanting = [...claims.items.values()].filter((claim) => this.#isWanting(claim));
    this.#waits = false;
    if (wanting.length === 0) return;
    const networks = new Set(wanting.map(({ network }) => network));
    const launchers = await livingLaunchers({
      networks: networks.has("") ? null : networks,
      ...{ pods, allocations, clock: api.clock },
    });
    for (const claim of wanting) {
      for (const launcher of launchers.of(claim)) {
        if (signal.aborted || idle() !== null) return;
        this.#waits = true;
        try {
          if (await this.#settle(claim, launcher)) break;
        } catch (error) {
          if (!(error instanceof MalformedObjectError || error instanceof RefusalError)) throw error;
          const fields = { claim: claim.key, pod: launcher.pod.key, problem: error.message };
          log.warn(fields, "a claim is not filled from its VM's launcher pod; will retry");
        }
      }
    }
  }

  #isWanting({ ips, deletionTimestamp, owners, network }: ClaimView): boolean {
    if (ips.length > 0 || deletionTimestamp !== null || vmOwners(owners).length === 0) return false;
    return network === "" || this.#isPersistent(network);
  }

  #isPersistent(network: string): boolean {
    return this.#options.definitions.definitionOf(network)?.definition.allowPersistentIPs === true;
  }

  /** Returns whether the claim needs no other launcher. */
  async #settle(seen: ClaimView, launcher: LivingLauncher): Promise<boolean> {
    const fresh = await this.#fresh(seen);
    if (fresh === null) return true;
    const evidence = await this.#interfaceOf(fresh, launcher);
    if (evidence === null) return false;
    const { podInterface, nad } = evidence;
    if (fresh.network === "" && !this.#isOn(fresh, launcher, nad)) return false;
    const claim = { ...fresh, network: launcher.network };
    const held = this.#complete(claim, launcher.interfaces.get(podInterface) ?? []);
    if (held === null) return false;
    for (const object of held) if (!(await this.#take(claim, launcher, podInterface, object))) return false;
    const fields = { claim: claim.key, network: claim.network, pod: launcher.pod.key };
    this.#options.log.info(fields, "the claim has the addresses of its VM's launcher pod");
    return true;
  }

  /**
   * The pod's interface that a claim is for, and the NAD that the VMI wants it on, by quorum reads of pod and VMI;
   * null: the pod does not run the claim's VM, or that has no such interface. Whoever may create pods can write a VMI
   * into their owner references: the VMI's own list of its launchers (`status.activePods`) counts too, where there is
   * one.
   */
  async #interfaceOf(
    claim: ClaimView,
    { pod: seen, vmi: { name, uid }, interfaces }: LivingLauncher,
  ): Promise<{ readonly podInterface: string; readonly nad: string | null } | null> {
    const object = await this.#objects.find(namespacedPath(PODS_PATH, seen.namespace, seen.name));
    const pod = object === null ? null : projectPod(object);
    if (pod === null || pod.uid !== seen.uid || pod.vmi?.uid !== uid || pod.terminal) return null;
    const read = await this.#objects.get(namespacedPath(VMIS_PATH, seen.namespace, name));
    if (read.kind !== "present") return null;
    const vmi = projectVmi(read.object);
    const isOwned = vmOwners(claim.owners).some((one) => one.uid === vmi.uid || one.uid === vmi.vmUid);
    const active = isObject(read.object.status) ? read.object.status.activePods : undefined;
    if (vmi.uid !== uid || !isOwned || (isObject(active) && !(pod.uid in active))) return null;
    const [one, ...others] = vmi.interfaces.filter((found) => claimOfInterface(name, found.name) === claim.name);
    const podInterface = others.length > 0 ? undefined : one?.podInterfaces.find((its) => interfaces.has(its));
    return podInterface === undefined ? null : { podInterface, nad: one?.nad ?? null };
  }

  /** Of a claim that names no network: whether its VM certainly is on the launcher's. */
  #isOn({ namespace }: ClaimView, { network }: LivingLauncher, nad: string | null): boolean {
    if (nad === null || !this.#isPersistent(network)) return false;
    return this.#options.definitions.networkOfNad(nad.includes("/") ? nad : `${namespace}/${nad}`) === network;
  }

  /** The claim by a quorum read; null: it needs nothing any more. */
  async #fresh({ namespace, name, uid, network }: ClaimView): Promise<ClaimView | null> {
    const object = await this.#objects.find(namespacedPath(CLAIMS_PATH, namespace, name));
    const claim = object === null ? null : projectClaim(object);
    if (claim?.uid !== uid || claim.network !== network || !this.#isWanting(claim)) return null;
    return claim;
  }

  /** One address of each subnet, in their order, which are those that the claim asks for; null: it is not like that. */
  #complete(claim: ClaimView, objects: readonly IPAllocation[]): IPAllocation[] | null {
    const { rangeSets = [] } = this.#options.definitions.definitionOf(claim.network)?.definition ?? {};
    const places = new Map<number, IPAllocation>();
    for (const object of objects) {
      const place = placeOf(rangeSets, parseInterfaceAddress(object.spec.address).address);
      if (place === null || places.has(place.index)) return null;
      places.set(place.index, object);
    }
    const isAsked = claim.ipRequests.every((text) =>
      objects.some(({ spec }) => spec.address.split("/")[0] === text.split("/")[0]),
    );
    if (places.size !== rangeSets.length || !isAsked) return null;
    return [...places].sort(([a], [b]) => a - b).map(([, object]) => object);
  }

  /** False: it is not the launcher's any more, or others keep writing it. */
  async #take(
    claim: ClaimView,
    launcher: LivingLauncher,
    podInterface: string,
    { spec: { network, address } }: IPAllocation,
  ): Promise<boolean> {
    const { pods } = this.#options;
    const owner = ownerOf(claim);
    const outcome = await hold<"later">(this.#client, {
      network,
      one: parseInterfaceAddress(address),
      holder: { owner, vm: claim.vm === null || claim.vm.uid === "" ? undefined : claim.vm, attachment: null },
      deadlineMs: this.#deadlineMs(),
      relationOf: ({ spec }) => (sameAllocationOwner(spec.owner, owner) ? "own" : "handed-over"),
      whyNot: (reading) =>
        reading !== null && mayHandOver(reading.object, { claim, launcher, podInterface, pods }) ? null : "later",
    });
    return outcome.kind === "held" || outcome.kind === "own";
  }

  #deadlineMs(): number {
    return this.#options.api.clock.monotonicMs() + 3 * HOUSEKEEPING_DEADLINE_MS;
  }
}

function ownerOf({ namespace, name, uid }: ClaimView): AllocationOwner {
  return { kind: "IPAMClaim", namespace, name, uid, interface: "" };
}
