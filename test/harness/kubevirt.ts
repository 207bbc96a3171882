import type { KubeApi, KubeObject } from "./kube-api.ts";
import { KubePods, pathOf } from "./kube-pods.ts";
import { machineTime, type TestTime } from "./wait.ts";
import { Instances } from "./world/instances.ts";
import {
  CLAIM_FINALIZER,
  CLAIMS,
  claimObject,
  interfaceOf,
  isLauncher,
  KUBEVIRT,
  LAUNCHER_LABEL,
  launcherParts,
  launcherStatus,
  MIGRATION_LABEL,
  NETWORKS,
  type NetworkSelection,
  ownerOf,
} from "./world/kubevirt-objects.ts";

export interface VmNetwork {
  /** The network's name in the VM, e.g. `blue`: the claim is `<vm>.blue`. */
  readonly logical: string;
  /** The NetworkAttachmentDefinition, in the VM's namespace unless `nadNamespace` says another. */
  readonly nad: string;
  readonly nadNamespace?: string;
  /** `name` in the NAD's configuration. */
  readonly network: string;
  readonly mac?: string;
}

/** A VM as the helpers pass it around. */
export interface Vm {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly networks: readonly VmNetwork[];
  /** Of its template: the VMI has them, and so have its launcher pods. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** The names of interfaces in its launcher pods are numbered, as those of VMs from before 2023. */
  readonly isOrdinal?: boolean;
}

export interface RunningVm {
  readonly vmi: KubeObject;
  /** The launcher pod. */
  readonly pod: KubeObject;
}

/** On the launcher pod of a target. */
const MIGRATING = { [MIGRATION_LABEL]: "the-migration" };
/** Of a launcher pod; null: the kubelet has not seen it yet. */
type Phase = "Pending" | "Running" | null;

export interface StopOptions {
  /** false: the launcher pods end when the test says so, and the VMI with the last of them. */
  readonly remove?: boolean;
  /** What happens on the nodes before the pod objects go: DEL. */
  readonly meanwhile?: () => Promise<unknown>;
}

/** As the extension names it: what no object's name may have becomes a dot. */
export function claimName(vm: Vm, logical: string): string {
  return `${vm.name}.${logical}`.toLowerCase().replace(/[^a-z0-9-]+/g, ".");
}

/** The claim that the extension's webhook names for each interface on a NAD: that of the VM's last one. */
function claimNamed(vm: Vm, nad: string): string {
  return claimName(vm, vm.networks.findLast((one) => one.nad === nad)?.logical ?? "");
}

function vmiSpec({ networks }: Pick<Vm, "networks">): object {
  return {
    domain: { devices: { interfaces: networks.map(({ logical }) => ({ name: logical, bridge: {} })) } },
    networks: networks.map(({ logical, nad }) => ({ name: logical, multus: { networkName: nad } })),
  };
}

/** What a launcher pod selects, with the claims that the extension's webhook names. */
function selectionOf(vm: Vm): NetworkSelection[] {
  return vm.networks.map(({ logical, nad, nadNamespace = vm.namespace, mac }, index) => ({
    name: nad,
    namespace: nadNamespace,
    interface: vm.isOrdinal ? `net${index + 1}` : interfaceOf(logical),
    ...(mac === undefined ? {} : { mac }),
    "ipam-claim-reference": claimNamed(vm, nad),
  }));
}

/** Does to the API what KubeVirt and its extension do around a VM, when the test says so; what follows: Instances. */
export class KubeVirt extends KubePods {
  readonly #time: TestTime;
  readonly #instances: Instances;
  /** Interfaces that launcher pods have been given, by UID of the pod. */
  readonly #attached = new Map<string, Set<string>>();
  #launchers = 0;

  constructor(api: KubeApi, time = machineTime) {
    super(api);
    this.#time = time;
    this.#instances = new Instances(api);
  }

  /** With the containers of a launcher, and what KubeVirt makes of it. */
  override async setPhase(pod: KubeObject, phase: string): Promise<KubeObject> {
    if (!isLauncher(pod)) return super.setPhase(pod, phase);
    const hasEnded = phase === "Succeeded" || phase === "Failed";
    // The guest leaves before its launcher ends.
    if (hasEnded) await this.#instances.follow(pod, true);
    const written = await this.report(pod, launcherStatus(phase));
    if (phase !== "Pending") await this.#instances.follow(pod);
    return written;
  }

  override async removePod(pod: KubeObject): Promise<void> {
    if (!isLauncher(pod)) return super.removePod(pod);
    await this.#instances.follow(pod, true);
    await super.removePod(pod);
    await this.#instances.follow(pod);
  }

  /** An ADD has succeeded: a launcher pod with all its interfaces runs, and is ready. */
  async attached(pod: KubeObject, ifname: string): Promise<void> {
    if (!isLauncher(pod)) return;
    const { namespace, name, uid } = pod.metadata;
    const known = this.#attached.get(uid) ?? new Set();
    this.#attached.set(uid, known.add(ifname));
    // A kubelet that does not reach the API server says nothing.
    const now = await this.api.find(pathOf(namespace, "pods", name)).catch(() => null);
    if (now?.metadata.uid !== uid || now.metadata.deletionTimestamp !== undefined) return;
    const wanted = JSON.parse(now.metadata.annotations?.[NETWORKS] ?? "[]");
    if (now.status.phase === "Pending" && known.size >= wanted.length) await this.setPhase(now, "Running");
  }

  /** The VM object, stopped. The extension makes its claims when it starts. */
  async createVm(namespace: string, name: string, networks: readonly VmNetwork[]): Promise<Vm> {
    const { metadata } = await this.api.create(pathOf(namespace, "virtualmachines", "", KUBEVIRT), {
      apiVersion: KUBEVIRT,
      kind: "VirtualMachine",
      metadata: { name, namespace },
      spec: { runStrategy: "Manual", template: { spec: vmiSpec({ networks }) } },
    });
    return { namespace, name, uid: metadata.uid, networks };
  }

  /**
   * VMI, claims where they are missing, and a launcher pod, which runs once it is `attached`. `phase` null: before the
   * kubelet has seen it.
   */
  async startVm(vm: Vm, node: string, phase: Phase = "Pending"): Promise<RunningVm> {
    const vmi = await this.createVmi(vm);
    await this.#reconcileClaims(vm);
    return { vmi, pod: await this.createLauncher(vm, vmi, node, phase) };
  }

  /** The first step of a start. `status`: what KubeVirt writes of it before there is a launcher pod. */
  async createVmi(vm: Vm, annotations: object = vm.annotations ?? {}, status: object = {}): Promise<KubeObject> {
    const { namespace, name } = vm;
    await this.#outliveClaims(vm);
    const ownerReferences = [ownerOf(KUBEVIRT, "VirtualMachine", vm)];
    const metadata = { name, namespace, annotations, ownerReferences };
    const object = { apiVersion: KUBEVIRT, kind: "VirtualMachineInstance", metadata, spec: vmiSpec(vm) };
    return this.#instances.create(object, status);
  }

  /**
   * Claims that do not exist yet, with the extension's label, finalizer and owner. It makes them of a VMI: none is
   * older than the VMI of the VM's first start.
   */
  async createClaims(vm: Vm): Promise<void> {
    const path = pathOf(vm.namespace, "virtualmachineinstances", vm.name, KUBEVIRT);
    if ((await this.api.find(path)) === null) throw new Error(`there is no VMI of ${vm.name} to make claims of`);
    await this.#reconcileClaims(vm);
  }

  /** Starts are seconds apart: a claim of an earlier one is older than this VMI by the server's clock, too. */
  async #outliveClaims(vm: Vm): Promise<void> {
    const claims = await Promise.all(vm.networks.map(({ logical }) => this.claim(vm, logical)));
    const bornMs = Math.max(0, ...claims.map((one) => Date.parse(one?.metadata.creationTimestamp ?? "1970-01-01")));
    const restMs = bornMs + 1_000 - this.#time.clock.wallMs();
    if (restMs > 0) await this.#time.advance(restMs);
  }

  async #reconcileClaims(vm: Vm): Promise<void> {
    for (const { logical, network } of vm.networks) {
      if ((await this.claim(vm, logical)) !== null) continue;
      const owner = ownerOf(KUBEVIRT, "VirtualMachine", vm);
      const claim = claimObject(vm, { name: claimName(vm, logical), network, owner });
      await this.api.create(pathOf(vm.namespace, "ipamclaims", "", CLAIMS), claim);
    }
  }

  /** One more launcher pod of a VMI: created, then bound to a node. */
  async createLauncher(
    vm: Vm,
    vmi: KubeObject,
    node: string,
    phase: Phase = "Pending",
    labels: Readonly<Record<string, string>> = {},
  ): Promise<KubeObject> {
    this.#launchers += 1;
    const parts = launcherParts(vmi, { networks: selectionOf(vm), labels });
    const name = `virt-launcher-${vm.name}-${this.#launchers}`;
    const created = await this.createPod(vm.namespace, name, { ...parts, phase: null });
    await this.#instances.follow(created);
    const pod = await this.bind(created, node);
    await this.#instances.follow(pod);
    return phase === null ? pod : this.setPhase(pod, phase);
  }

  /** Plugs in what `vm` has now: VMI, claims and the running pod's selection follow. */
  async plug(vm: Vm, vmi: KubeObject, pod: KubeObject): Promise<void> {
    const path = pathOf(vm.namespace, "virtualmachineinstances", vmi.metadata.name, KUBEVIRT);
    await this.api.patch(path, { spec: vmiSpec(vm) });
    await this.createClaims(vm);
    const annotations = { [NETWORKS]: JSON.stringify(selectionOf(vm)) };
    await this.api.patch(pathOf(vm.namespace, "pods", pod.metadata.name), { metadata: { annotations } });
  }

  /**
   * Edits the networks of a VM that runs (KubeVirt 1.9, VEP 140): the VMI follows, and the next launcher, of the
   * migration that this begins, names the VM's claims on them. The extension leaves a claim of the same owner as it is.
   * The running pod keeps what it has.
   */
  async changeNetworks(vm: Vm, networks: readonly VmNetwork[]): Promise<Vm> {
    const changed = { ...vm, networks };
    const path = pathOf(vm.namespace, "virtualmachineinstances", vm.name, KUBEVIRT);
    await this.api.patch(path, { spec: vmiSpec(changed) });
    await this.createClaims(changed);
    return changed;
  }

  /**
   * VMI and launcher pods are deleted. They have ended before the VMI goes; the claims stay. What of the pods had ended
   * already follows it.
   */
  async stopVm(vm: Vm, options: StopOptions = {}): Promise<void> {
    const path = pathOf(vm.namespace, "virtualmachineinstances", vm.name, KUBEVIRT);
    const vmi = await this.api.find(path);
    const pods = await this.launchers(vm);
    await this.api.delete(path);
    const live = pods.filter(({ status }) => status.phase !== "Succeeded" && status.phase !== "Failed");
    for (const pod of live) await this.terminatePod(pod);
    if (vmi !== null) await this.#instances.reconcile(vm.namespace, vmi.metadata);
    if (options.remove === false) return;
    await options.meanwhile?.();
    for (const pod of live) await this.endPod(pod);
    for (const pod of pods) await this.removePod(pod);
  }

  /**
   * Begins a migration: a second launcher pod on another node. It ends with `finishPod` or `removePod` of the source,
   * or with `failMigration`.
   */
  async migrate(vm: Vm, node: string, phase: Phase = "Pending"): Promise<KubeObject> {
    const vmi = await this.api.get(pathOf(vm.namespace, "virtualmachineinstances", vm.name, KUBEVIRT));
    return this.createLauncher(vm, vmi, node, phase, MIGRATING);
  }

  /** The target's launcher has ended without the guest. Nobody deletes its pod before the VMI goes. */
  failMigration(target: KubeObject): Promise<KubeObject> {
    return this.finishPod(target, "Failed");
  }

  /**
   * Begins a migration of a VM that runs into another one, of another namespace: its VMI knows the source before its
   * launcher pod is created (DecentralizedLiveMigration).
   */
  async migrateInto(source: RunningVm, vm: Vm, node: string): Promise<RunningVm> {
    const sourceState = {
      node: source.pod.spec.nodeName,
      pod: source.pod.metadata.name,
      domainNamespace: source.vmi.metadata.namespace,
      virtualMachineInstanceUID: source.vmi.metadata.uid,
    };
    const annotations = { "kubevirt.io/create-migration-target": "true" };
    const vmi = await this.createVmi(vm, annotations, { migrationState: { sourceState } });
    await this.createClaims(vm);
    return { vmi, pod: await this.createLauncher(vm, vmi, node, "Pending", MIGRATING) };
  }

  /**
   * Deletes the VM, whose VMI goes first; then the extension lets go of the claims. Waits until VM and claims are gone,
   * unless `release` is false: then they keep their finalizer until `releaseClaims`. With Foreground the claims are
   * being deleted while the launcher pods still run.
   */
  async deleteVm(
    vm: Vm,
    propagation: "Background" | "Foreground" = "Background",
    options: Pick<StopOptions, "meanwhile"> & { readonly release?: boolean } = {},
  ): Promise<void> {
    const stop = () => this.stopVm(vm, options);
    if (propagation === "Background") await stop();
    await this.api.delete(pathOf(vm.namespace, "virtualmachines", vm.name, KUBEVIRT), {
      propagationPolicy: propagation,
    });
    if (propagation === "Foreground") await stop();
    if (options.release === false) return;
    await this.releaseClaims(vm);
    await this.#time.until(async () => {
      const claims = await Promise.all(vm.networks.map(({ logical }) => this.claim(vm, logical)));
      const path = pathOf(vm.namespace, "virtualmachines", vm.name, KUBEVIRT);
      return claims.every((claim) => claim === null) && (await this.api.find(path)) === null;
    }, `${vm.name} and its claims to go`);
  }

  /** What the extension does when the VMI of a deleted VM is gone: removes its finalizer from the claims. */
  async releaseClaims(vm: Vm): Promise<void> {
    for (const { logical } of vm.networks) {
      const claim = await this.claim(vm, logical);
      if (claim === null) continue;
      const path = pathOf(vm.namespace, "ipamclaims", claimName(vm, logical), CLAIMS);
      const finalizers = (claim.metadata.finalizers ?? []).filter((one: string) => one !== CLAIM_FINALIZER);
      const answer = await this.api.call(
        "PATCH",
        path,
        { metadata: { finalizers } },
        {
          "content-type": "application/merge-patch+json",
        },
      );
      if (answer.status !== 200 && answer.status !== 404)
        throw new Error(`PATCH ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    }
  }

  /** The claim object, or null. */
  claim(vm: Vm, logical: string): Promise<KubeObject | null> {
    return this.api.find(pathOf(vm.namespace, "ipamclaims", claimName(vm, logical), CLAIMS));
  }

  /** The launcher pods that exist, of whatever phase. */
  launchers(vm: Vm): Promise<KubeObject[]> {
    return this.api.list(
      `${pathOf(vm.namespace, "pods")}?labelSelector=${encodeURIComponent(LAUNCHER_LABEL)}%3D${vm.name}`,
    );
  }
}
