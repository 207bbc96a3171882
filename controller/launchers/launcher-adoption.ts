/*
 * controller/launchers/: claims that are younger than their VM's launcher pod, or that it names too late
 *
 *   launcher-adoption   hands the launcher's addresses over to them
 *   living-launchers    which addresses launchers use
 *   launcher-evidence   whether a launcher is of the claim's VM, by quorum reads
 */

import { AllocationClient } from "../../allocations/allocation-client.ts";
import { sameAllocationOwner } from "../../allocations/allocation-object.ts";
import { hold } from "../../allocations/hold.ts";
import { ClaimNetworks, readingOf } from "../../claims/claim-networks.ts";
import type { Cache, CachedAllocation } from "../../claims/reasons/caches.ts";
import type { SweptPod } from "../../claims/reasons/fact-views.ts";
import { allocatedCondition } from "../../ipam/claim-conditions.ts";
import { RefusalError } from "../../ipam/refusals.ts";
import { formatInterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { placeOf } from "../../ipam/space/range-set.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { HOUSEKEEPING_DEADLINE_MS, ObjectClient } from "../../kube/object-client.ts";
import { type AllocationOwner, CLAIMS_PATH, type IPAllocation, namespacedPath } from "../../kube/objects.ts";
import { claimStatusPatch } from "../../kube/views/claim-status-patch.ts";
import { type ClaimView, projectClaim, vmOwners } from "../../kube/views/claim-view.ts";
import { MalformedObjectError } from "../../kube/views/object-metadata.ts";
import type { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import type { Log } from "../../platform/log.ts";
import { isoTime } from "../../platform/time.ts";
import { interfaceOfClaim } from "./launcher-evidence.ts";
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

interface Taken {
  readonly object: IPAllocation;
  readonly former: Pick<IPAllocation["spec"], "owner" | "vm">;
}

/**
 * Fills in the empty claims of VMs that run: the claim was made again, or the launcher pod did not name it at its ADD
 * (hot-plug, a webhook that was late, `allowPersistentIPs` set since). The addresses that the launcher has on the
 * network become the claim's, so that the next start gets them. First the owner of each allocation is changed, then
 * they are published: a claim lists nothing that is not its own. See docs/decisions/0062.
 */
export class LauncherAdoption {
  readonly #options: LauncherAdoptionOptions;
  readonly #objects: ObjectClient;
  readonly #client: AllocationClient;
  readonly #networks: ClaimNetworks;
  #waits = false;

  constructor(options: LauncherAdoptionOptions) {
    this.#options = options;
    this.#objects = new ObjectClient(options.api);
    this.#client = new AllocationClient(options.api, "housekeeping");
    this.#networks = new ClaimNetworks(options.api, undefined, "housekeeping");
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
    const evidence = await interfaceOfClaim(this.#objects, fresh, launcher);
    if (evidence === null) return false;
    const { podInterface, nad } = evidence;
    const claim = fresh.network === "" ? await this.#named(fresh, launcher, nad) : fresh;
    if (claim === null) return false;
    const held = this.#complete(claim, launcher.interfaces.get(podInterface) ?? []);
    if (held === null) return false;
    const taken: Taken[] = [];
    for (const object of held) {
      const one = await this.#take(claim, launcher, podInterface, object);
      if (one === null) return false;
      if (!sameAllocationOwner(one.former.owner, ownerOf(claim))) taken.push(one);
    }
    if (await this.#publish(claim, launcher, held)) return true;
    await this.#giveBack(claim, taken);
    return false;
  }

  /** A claim without a network, on the one where its VM runs; null: that is not certain, or it has changed. */
  async #named(claim: ClaimView, { network }: LivingLauncher, nad: string | null): Promise<ClaimView | null> {
    if (nad === null || !this.#isPersistent(network)) return null;
    const key = nad.includes("/") ? nad : `${claim.namespace}/${nad}`;
    if (this.#options.definitions.networkOfNad(key) !== network) return null;
    const named = await this.#networks.change(readingOf(claim), { network, ips: [] }, this.#deadlineMs());
    return named === "changed" ? null : named.view;
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

  /** null: it is not the launcher's any more, or others keep writing it. */
  async #take(
    claim: ClaimView,
    launcher: LivingLauncher,
    podInterface: string,
    { spec: { network, address } }: IPAllocation,
  ): Promise<Taken | null> {
    const { pods } = this.#options;
    let former: Taken["former"] | null = null;
    const outcome = await hold<"later">(this.#client, {
      network,
      one: parseInterfaceAddress(address),
      holder: {
        owner: ownerOf(claim),
        vm: claim.vm === null || claim.vm.uid === "" ? undefined : claim.vm,
        attachment: null,
      },
      deadlineMs: this.#deadlineMs(),
      relationOf: ({ spec }) => (sameAllocationOwner(spec.owner, ownerOf(claim)) ? "own" : "handed-over"),
      whyNot: (reading) => {
        if (reading === null || !mayHandOver(reading.object, { claim, launcher, podInterface, pods })) return "later";
        former = reading.object.spec;
        return null;
      },
    });
    return former !== null && (outcome.kind === "held" || outcome.kind === "own")
      ? { object: outcome.object, former }
      : null;
  }

  /** False: somebody else has filled it in, or it is gone. */
  async #publish(claim: ClaimView, { pod }: LivingLauncher, held: readonly IPAllocation[]): Promise<boolean> {
    const { api, log } = this.#options;
    const ips = held.map(({ spec }) => formatInterfaceAddress(parseInterfaceAddress(spec.address)));
    const patch = claimStatusPatch(claim, {
      ...{ ips, ownerPod: pod.name, condition: allocatedCondition(isoTime(api.clock.wallMs())) },
      features: { ownerPod: true, conditions: true },
    });
    if (patch === null) return true;
    const path = namespacedPath(CLAIMS_PATH, claim.namespace, claim.name);
    const written = await this.#objects.patchStatus(path, patch);
    if (written.kind !== "done") return false;
    const fields = { claim: claim.key, network: claim.network, pod: pod.key, ips };
    log.info(fields, "the claim has the addresses of its VM's launcher pod");
    return true;
  }

  /** Unless the claim lists them all the same: an ADD may have published what it found to be the claim's. */
  async #giveBack(seen: ClaimView, taken: readonly Taken[]): Promise<void> {
    const object = await this.#objects.find(namespacedPath(CLAIMS_PATH, seen.namespace, seen.name));
    const claim = object === null ? null : projectClaim(object);
    if (claim?.uid === seen.uid && claim.ips.length === 0) return;
    const listed = claim?.uid === seen.uid ? claim.ips : [];
    for (const { object: one, former } of taken) {
      if (listed.includes(one.spec.address)) continue;
      await hold<"others">(this.#client, {
        network: one.spec.network,
        one: parseInterfaceAddress(one.spec.address),
        holder: { ...former, attachment: null },
        deadlineMs: this.#deadlineMs(),
        relationOf: () => "handed-over",
        whyNot: (reading) =>
          reading?.object.status?.state === "Bound" && sameAllocationOwner(reading.object.spec.owner, ownerOf(seen))
            ? null
            : "others",
      });
    }
  }

  #deadlineMs(): number {
    return this.#options.api.clock.monotonicMs() + 3 * HOUSEKEEPING_DEADLINE_MS;
  }
}

function ownerOf({ namespace, name, uid }: ClaimView): AllocationOwner {
  return { kind: "IPAMClaim", namespace, name, uid, interface: "" };
}
