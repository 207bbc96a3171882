import type { Attachment, PodIdentity } from "../../allocations/records.ts";
import type { PodDirectory } from "../../claims/pod-directory.ts";
import { readClaim } from "../../claims/read-claim.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { BoundedMap } from "../../platform/bounded-map.ts";
import { SingleFlight } from "../../platform/single-flight.ts";
import type { LocalVms } from "../allocation-source.ts";
import type { Holding, Use } from "../holding.ts";
import type { IdentityVm } from "../wire.ts";

/** Pods whose VM is cached: a pod runs the same VM all its life. */
const PODS_REMEMBERED_MAX = 10_000;
/** A guest waits for the answer, ms. */
const LEARN_MS_MAX = 5_000;

export interface ClusterVmsRights {
  /** Whether VirtualMachines may be read. Nodes may not: a stopped VM has no firmware UUID there. */
  readonly readsVms: boolean;
}

/** The VM of a pod, from its VMI; of a stopped VM, from its claim and the VirtualMachine. */
export class ClusterVms implements LocalVms {
  readonly #api: KubeApi;
  readonly #pods: PodDirectory;
  readonly #readsVms: boolean;
  readonly #known = new BoundedMap<string, IdentityVm | null>(PODS_REMEMBERED_MAX);
  readonly #learning = new SingleFlight<void>();

  constructor(api: KubeApi, pods: PodDirectory, { readsVms }: ClusterVmsRights) {
    this.#api = api;
    this.#pods = pods;
    this.#readsVms = readsVms;
  }

  known(holdings: readonly Holding[]): IdentityVm | null | undefined {
    let answer: IdentityVm | null | undefined = null;
    for (const { use } of podsOf(holdings)) {
      const vm = this.#known.get(keyOf(use));
      if (vm) return vm;
      if (vm === undefined) answer = undefined;
    }
    return answer;
  }

  async learn(holdings: readonly Holding[]): Promise<void> {
    await Promise.all(podsOf(holdings).map(({ use, holding }) => this.#learn(use, holding)));
  }

  knownOf({ uid }: PodIdentity): IdentityVm | null | undefined {
    return this.#known.get(uid);
  }

  async learnOf(pod: PodIdentity): Promise<void> {
    if (this.#known.has(pod.uid)) return;
    await this.#learning.run(async () => {
      this.#known.set(pod.uid, (await this.#running(pod, this.#deadline())) ?? null);
    }, pod.uid);
  }

  nameOf({ pod }: Attachment): string | null {
    const vmi = pod && this.#pods.cachedVmi(pod);
    return pod && vmi ? `${pod.namespace}/${vmi.name}` : null;
  }

  /** The VM of a pod in any state. Throws ApiAway. */
  async find(holdings: readonly Holding[]): Promise<IdentityVm | null> {
    if (podsOf(holdings).length > 0) {
      await this.learn(holdings);
      return this.known(holdings) ?? null;
    }
    const deadlineMs = this.#deadline();
    for (const one of holdings) {
      const vm = await this.#stopped(one, deadlineMs);
      if (vm !== null) return vm;
    }
    return null;
  }

  /** Concurrent calls share one request. */
  #learn(use: PodUse, holding: Holding): Promise<void> {
    const key = keyOf(use);
    if (this.#known.has(key)) return Promise.resolve();
    return this.#learning.run(async () => {
      this.#known.set(key, await this.#ask(use.pod, holding));
    }, key);
  }

  async #ask(pod: PodIdentity, holding: Holding): Promise<IdentityVm | null> {
    const deadlineMs = this.#deadline();
    const vm = await this.#running(pod, deadlineMs);
    // The pod or its VMI is gone, but its container still runs.
    return vm === undefined ? this.#stopped(holding, deadlineMs) : vm;
  }

  /** null: the pod runs no VM; undefined: the pod or its VMI is gone. */
  async #running(pod: PodIdentity, deadlineMs: number): Promise<IdentityVm | null | undefined> {
    const found = await this.#pods.lookUp(pod, deadlineMs);
    if (found === null) return undefined;
    if (found.view.vmi === null) return null;
    return (await this.#pods.vmFacts(found.view, deadlineMs)).vm ?? undefined;
  }

  #deadline(): number {
    return this.#api.clock.monotonicMs() + LEARN_MS_MAX;
  }

  async #stopped({ owner, vm: recorded }: Holding, deadlineMs: number): Promise<IdentityVm | null> {
    const vm = recorded ?? (owner.kind === "claim" ? await this.#vmOfClaim(owner, deadlineMs) : null);
    if (vm === null) return null;
    const named = { namespace: owner.namespace, name: vm.name, uid: vm.uid };
    const firmwareUuid = this.#readsVms ? await this.#pods.firmwareUuidOfVm(named, deadlineMs) : null;
    return { ...named, vmiUid: null, firmwareUuid };
  }

  async #vmOfClaim(owner: Holding["owner"], deadlineMs: number): Promise<Holding["vm"]> {
    const claim = await readClaim(this.#api, owner, deadlineMs);
    return claim?.uid === owner.uid ? claim.vm : null;
  }
}

type PodUse = Use & { readonly pod: PodIdentity };

/** All users with a pod, each container once. */
function podsOf(holdings: readonly Holding[]): { use: PodUse; holding: Holding }[] {
  const byContainer = new Map<string, { use: PodUse; holding: Holding }>();
  for (const holding of holdings) {
    for (const use of holding.uses) {
      const { pod } = use;
      if (pod !== null && !byContainer.has(use.containerID))
        byContainer.set(use.containerID, { use: { ...use, pod }, holding });
    }
  }
  return [...byContainer.values()];
}

/** Without a UID from the runtime, the pod's identity is no more reliable than its container's. */
function keyOf({ pod, containerID }: PodUse): string {
  return pod.uid === "" ? `container ${containerID}` : pod.uid;
}
