import type { KubeApi, KubeObject } from "./kube-api.ts";
import { KubePods, pathOf } from "./kube-pods.ts";
import { machineTime, type TestTime } from "./wait.ts";
import {
  CLAIM_FINALIZER,
  CLAIMS,
  claimObject,
  interfaceOf,
  KUBEVIRT,
  LAUNCHER_LABEL,
  launcherParts,
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

/** What KubeVirt adds to the launcher pod of a migration's target. */
const MIGRATING = { "kubevirt.io/migrationJobUID": "the-migration" };

/** As the extension names it: what no object's name may have becomes a dot. */
export function claimName(vm: Vm, logical: string): string {
  return `${vm.name}.${logical}`.toLowerCase().replace(/[^a-z0-9-]+/g, ".");
}

/** The claim that the extension's webhook names for each interface on a NAD: that of the VM's last one. */
function claimNamed(vm: Vm, nad: string): string {
  return claimName(vm, vm.networks.findLast((one) => one.nad === nad)?.logical ?? "");
}

function vmiSpec({ networks }: Vm): object {
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

/** Does to the API what KubeVirt and its IPAM extension do around a VM, step by step, when the test says so. */
export class KubeVirt extends KubePods {
  readonly #time: TestTime;
  #launchers = 0;

  constructor(api: KubeApi, time = machineTime) {
    super(api);
    this.#time = time;
  }

  /** The VM object, stopped. The extension makes its claims when it starts. */
  async createVm(namespace: string, name: string, networks: readonly VmNetwork[]): Promise<Vm> {
    const { metadata } = await this.api.create(pathOf(namespace, "virtualmachines", "", KUBEVIRT), {
      apiVersion: KUBEVIRT,
      kind: "VirtualMachine",
      metadata: { name, namespace },
      spec: { runStrategy: "Manual" },
    });
    return { namespace, name, uid: metadata.uid, networks };
  }

  /** VMI, claims where they are missing, and a launcher pod that runs. `phase` null: before the kubelet has seen it. */
  async startVm(vm: Vm, node: string, phase: "Pending" | "Running" | null = "Running"): Promise<RunningVm> {
    const vmi = await this.api.create(pathOf(vm.namespace, "virtualmachineinstances", "", KUBEVIRT), {
      apiVersion: KUBEVIRT,
      kind: "VirtualMachineInstance",
      metadata: {
        name: vm.name,
        namespace: vm.namespace,
        annotations: vm.annotations ?? {},
        ownerReferences: [ownerOf(KUBEVIRT, "VirtualMachine", vm)],
      },
      spec: vmiSpec(vm),
      status: { nodeName: node },
    });
    await this.createClaims(vm);
    return { vmi, pod: await this.createLauncher(vm, vmi, node, phase) };
  }

  /** Claims that do not exist yet, with the extension's label, finalizer and owner. */
  async createClaims(vm: Vm): Promise<void> {
    for (const { logical, network } of vm.networks) {
      if ((await this.claim(vm, logical)) !== null) continue;
      const owner = ownerOf(KUBEVIRT, "VirtualMachine", vm);
      const claim = claimObject(vm, { name: claimName(vm, logical), network, owner });
      await this.api.create(pathOf(vm.namespace, "ipamclaims", "", CLAIMS), claim);
    }
  }

  /** One more launcher pod of a VMI. */
  createLauncher(
    vm: Vm,
    vmi: KubeObject,
    node: string,
    phase: "Pending" | "Running" | null = "Running",
    labels: Readonly<Record<string, string>> = {},
  ): Promise<KubeObject> {
    this.#launchers += 1;
    const networks = selectionOf(vm);
    return this.createPod(vm.namespace, `virt-launcher-${vm.name}-${this.#launchers}`, {
      ...launcherParts(vmi, { node, networks, labels }),
      phase,
    });
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
   * VMI and launcher pods go; the claims stay. `remove: false` leaves the pods to the garbage collector or to the test.
   */
  async stopVm(vm: Vm, options: { readonly remove?: boolean } = {}): Promise<void> {
    const pods = await this.launchers(vm);
    await this.api.delete(pathOf(vm.namespace, "virtualmachineinstances", vm.name, KUBEVIRT));
    if (options.remove !== false) for (const pod of pods) await this.removePod(pod);
  }

  /**
   * Begins a migration: a second launcher pod on another node. End it with `finishPod` or `removePod` of one of them.
   */
  async migrate(vm: Vm, node: string, phase: "Pending" | "Running" | null = "Running"): Promise<KubeObject> {
    const vmi = await this.api.get(pathOf(vm.namespace, "virtualmachineinstances", vm.name, KUBEVIRT));
    return this.createLauncher(vm, vmi, node, phase, MIGRATING);
  }

  /**
   * Begins a migration of a VM that runs into another one, of another namespace: its VMI knows the source before its
   * launcher pod is created (DecentralizedLiveMigration).
   */
  async migrateInto(source: RunningVm, vm: Vm, node: string): Promise<RunningVm> {
    const vmi = await this.api.create(pathOf(vm.namespace, "virtualmachineinstances", "", KUBEVIRT), {
      apiVersion: KUBEVIRT,
      kind: "VirtualMachineInstance",
      metadata: {
        name: vm.name,
        namespace: vm.namespace,
        annotations: { "kubevirt.io/create-migration-target": "true" },
        ownerReferences: [ownerOf(KUBEVIRT, "VirtualMachine", vm)],
      },
      spec: vmiSpec(vm),
      status: {
        migrationState: {
          sourceState: {
            node: source.pod.spec.nodeName,
            pod: source.pod.metadata.name,
            domainNamespace: source.vmi.metadata.namespace,
            virtualMachineInstanceUID: source.vmi.metadata.uid,
          },
        },
      },
    });
    await this.createClaims(vm);
    return { vmi, pod: await this.createLauncher(vm, vmi, node, "Running", MIGRATING) };
  }

  /**
   * Deletes the VM; the VMI and the launcher pods follow, then the extension lets go of the claims. Waits until VM
   * and claims are gone, unless `release` is false: then they keep their finalizer until `releaseClaims`.
   */
  async deleteVm(
    vm: Vm,
    propagation: "Background" | "Foreground" = "Background",
    options: { readonly release?: boolean } = {},
  ): Promise<void> {
    await this.api.delete(pathOf(vm.namespace, "virtualmachines", vm.name, KUBEVIRT), {
      propagationPolicy: propagation,
    });
    await this.stopVm(vm);
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
