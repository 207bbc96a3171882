import { RefusalError, refuse } from "../ipam/refusals.ts";
import { formatAddress } from "../ipam/space/address.ts";
import { permittedObject } from "../kube/answers.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { namespacedPath, PODS_PATH } from "../kube/objects.ts";
import type { ObjectName } from "../kube/views/claim-reference.ts";
import { StatusAddressReader } from "../kube/views/held-addresses.ts";
import { isStaticUid, type PodView, projectPod } from "../kube/views/pod-view.ts";
import { ADDRESSES_ANNOTATION, networkOfHashed, readRequestedAddresses } from "../kube/views/requested-addresses.ts";
import { VMIS_PATH, VMS_PATH } from "../kube/views/tenant-objects.ts";
import {
  projectVmi,
  readMigrationSource,
  readUuid,
  readVmFacts,
  type VmFacts,
  type VmiView,
} from "../kube/views/vmi-view.ts";
import { BoundedMap } from "../platform/bounded-map.ts";
import type { PodState } from "../store/cluster/parts/claim-access.ts";

/** VMs remembered by the UID of their VMI. */
const VMS_REMEMBERED_MAX = 10_000;
/** Of the addresses that they ask for, together: of each its creator may write 262,144. */
const ASKED_CHARS_MAX = 4 << 20;
/** Name of no VMI: the read only shows whether the cluster has VMIs. */
const NO_VMI = "holdfast-asks-whether-there-is-such-an-api";

/** A pod as CNI_ARGS name it. `uid` "": not given. */
export interface PodName {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

type KnownPod = Pick<PodView, "vmi" | "annotations" | "isMigrationTarget">;

export interface VmLookup {
  /** Whether the cluster has KubeVirt's API at all. */
  readonly kubevirt: boolean;
  readonly vmUid: string | null;
}

/** The pods of this node from memory, any pod from the API. Methods throw ApiAway, and RefusalError API_REFUSED. */
export class PodDirectory {
  readonly #addresses = new StatusAddressReader();
  readonly #objects: ObjectClient;
  readonly #cached: (key: string) => PodView | undefined;
  /** Of pods that were not in memory, by the pod's UID. */
  readonly #seen = new BoundedMap<string, KnownPod>(VMS_REMEMBERED_MAX, {
    sizeMax: ASKED_CHARS_MAX,
    sizeOf: ({ annotations }) => annotations[ADDRESSES_ANNOTATION]?.length ?? 0,
  });
  readonly #vms = new BoundedMap<string, VmFacts>(VMS_REMEMBERED_MAX);
  /** Creation times of VMIs by UID, RFC 3339. */
  readonly #createdAt = new BoundedMap<string, string>(VMS_REMEMBERED_MAX);

  constructor(api: KubeApi, cached: (key: string) => PodView | undefined) {
    this.#objects = new ObjectClient(api, "add");
    this.#cached = cached;
  }

  /** From memory if it is there. `fresh`: it was just read from the API. Throws RefusalError POD_ABSENT. */
  async find(pod: PodName, deadlineMs: number): Promise<{ view: PodView; fresh: boolean }> {
    return (await this.lookUp(pod, deadlineMs)) ?? refuseAbsent(pod);
  }

  /** As `find`; null: there is no such pod, or another pod has its name. */
  async lookUp(pod: PodName, deadlineMs: number): Promise<{ view: PodView; fresh: boolean } | null> {
    const cached = this.#cached(`${pod.namespace}/${pod.name}`);
    // Without a UID, a cached pod may be the predecessor of the requesting one.
    if (cached && pod.uid !== "" && isPod(cached, pod.uid)) return { view: cached, fresh: false };
    const view = await this.readNamed(pod.namespace, pod.name, deadlineMs);
    if (view === null || !isPod(view, pod.uid)) return null;
    const { [ADDRESSES_ANNOTATION]: asked } = view.annotations;
    const annotations = asked === undefined ? {} : { [ADDRESSES_ANNOTATION]: asked };
    this.#seen.set(view.uid, { vmi: view.vmi, isMigrationTarget: view.isMigrationTarget, annotations });
    return { view, fresh: true };
  }

  /** The VMI of a pod of this node that was looked up, from memory; null: it has none, or the pod is not known here. */
  cachedVmi(pod: PodName): PodView["vmi"] {
    return this.#known(pod)?.vmi ?? null;
  }

  /** From memory, without prefix length. None where its annotation cannot be read, or the interface is numbered. */
  askedOn(pod: PodName, podInterface: string): readonly string[] {
    const known = this.#known(pod);
    if (!known?.vmi) return [];
    try {
      const asked = readRequestedAddresses(known.annotations[ADDRESSES_ANNOTATION]);
      const network = networkOfHashed(asked.keys(), podInterface);
      return (asked.get(network ?? "") ?? []).map(({ address }) => formatAddress(address));
    } catch (error) {
      if (!(error instanceof RefusalError)) throw error;
      return [];
    }
  }

  /** As cachedVmi, with its creationTimestamp, RFC 3339; null there: it was not read. */
  knownVmi(pod: PodName): { readonly uid: string; readonly createdAt: string | null } | null {
    const vmi = this.cachedVmi(pod);
    return vmi && { uid: vmi.uid, createdAt: this.#createdAt.get(vmi.uid) ?? null };
  }

  /** Whether a pod that was looked up is the target of a migration, from memory. */
  knownTarget(pod: PodName): boolean {
    return this.#known(pod)?.isMigrationTarget ?? false;
  }

  #known(pod: PodName): KnownPod | null {
    const cached = this.#cached(`${pod.namespace}/${pod.name}`);
    return cached && isPod(cached, pod.uid) ? cached : (this.#seen.get(pod.uid) ?? null);
  }

  /** MAC that Multus reported in the pod's network-status; null: none yet, or the pod is not of this node. */
  reportedMac(pod: PodName, interfaceName: string): string | null {
    const cached = this.#cached(`${pod.namespace}/${pod.name}`);
    if (!cached || !isPod(cached, pod.uid)) return null;
    return this.#addresses.of(cached).held.find((one) => one.interface === interfaceName)?.mac ?? null;
  }

  /** A quorum read. Throws RefusalError POD_ABSENT, also when another pod has the name. */
  async read(pod: PodName, deadlineMs: number): Promise<PodView> {
    const view = await this.readNamed(pod.namespace, pod.name, deadlineMs);
    return view && isPod(view, pod.uid) ? view : refuseAbsent(pod);
  }

  /** A quorum read; null: there is no pod of that name. */
  async readNamed(namespace: string, name: string, deadlineMs: number): Promise<PodView | null> {
    const path = namespacedPath(PODS_PATH, namespace, name);
    const object = await this.#objects.findPermitted(path, `read pod ${namespace}/${name}`, deadlineMs);
    return object === null ? null : projectPod(object);
  }

  /** The state of a pod by a quorum read. */
  async stateOf(pod: PodName, deadlineMs: number): Promise<PodState> {
    const view = await this.readNamed(pod.namespace, pod.name, deadlineMs);
    if (view !== null && isPod(view, pod.uid)) return view.terminal ? "completed" : "living";
    // The kubelet has ended a static pod before it runs another manifest of its name; that it has no object says
    // nothing.
    return isStaticUid(pod.uid) && (view === null || view.staticUid === null) ? "unseen" : "gone";
  }

  async hasKubeVirt(namespace: string, deadlineMs: number): Promise<boolean> {
    const read = await this.#objects.get(namespacedPath(VMIS_PATH, namespace, NO_VMI), deadlineMs);
    return read.kind !== "not-served";
  }

  /**
   * The VM behind a launcher pod, which is expected to be one of these (UIDs). What is remembered counts only if it is:
   * a VMI whose VM was deleted without it is adopted by the next VM of its name.
   */
  async vmOf(pod: PodView, expected: readonly string[], deadlineMs: number): Promise<VmLookup> {
    if (pod.vmi === null) return { kubevirt: true, vmUid: null };
    const known = this.#vms.get(pod.vmi.uid);
    if (known !== undefined && !expected.includes(known.uid)) this.#vms.delete(pod.vmi.uid);
    const { kubevirt, vm } = await this.vmFacts(pod, deadlineMs);
    return { kubevirt, vmUid: vm?.uid || null };
  }

  /** The VM of a launcher pod's VMI; `vm` null: the pod has none, or its VMI is gone. */
  async vmFacts(
    { vmi, namespace }: PodView,
    deadlineMs: number,
  ): Promise<{ readonly kubevirt: boolean; readonly vm: VmFacts | null }> {
    if (vmi === null) return { kubevirt: true, vm: null };
    const known = this.#vms.get(vmi.uid);
    if (known !== undefined) return { kubevirt: true, vm: known };
    const read = await this.#objects.get(namespacedPath(VMIS_PATH, namespace, vmi.name), deadlineMs);
    if (read.kind === "not-served") return { kubevirt: false, vm: null };
    const object = permittedObject(read, `read VirtualMachineInstance ${vmi.name}`);
    if (object?.metadata?.uid !== vmi.uid) return { kubevirt: true, vm: null };
    const vm = readVmFacts(object);
    this.#vms.set(vmi.uid, vm);
    this.#createdAt.set(vmi.uid, String(object.metadata.creationTimestamp));
    return { kubevirt: true, vm };
  }

  /** The VMI of a launcher pod by a quorum read; null: the pod has none, or another one has its name. */
  async readVmi({ vmi, namespace }: PodView, deadlineMs: number): Promise<VmiView | null> {
    if (vmi === null) return null;
    const read = await this.#objects.get(namespacedPath(VMIS_PATH, namespace, vmi.name), deadlineMs);
    if (read.kind === "not-served") return null;
    const object = permittedObject(read, `read VirtualMachineInstance ${vmi.name}`);
    return object?.metadata?.uid === vmi.uid ? projectVmi(object) : null;
  }

  /** The VMI, of another namespace: `namespace/name`; null: it comes from none, or none of this cluster. */
  async migratedFrom({ vmi, namespace }: PodView, deadlineMs: number): Promise<ObjectName | null> {
    if (vmi === null) return null;
    const read = await this.#objects.get(namespacedPath(VMIS_PATH, namespace, vmi.name), deadlineMs);
    const source =
      read.kind === "present" && read.object?.metadata?.uid === vmi.uid ? readMigrationSource(read.object) : null;
    if (source === null) return null;
    const launcher = await this.readNamed(source.pod.namespace, source.pod.name, deadlineMs);
    if (launcher?.vmi?.uid !== source.vmiUid) return null;
    return { namespace: launcher.namespace, name: launcher.vmi.name };
  }

  /** The firmware UUID for the next VMI of a VM; null: the VM is another or gone, has none, or may not be read. */
  async firmwareUuidOfVm(
    vm: { readonly namespace: string; readonly name: string; readonly uid: string },
    deadlineMs: number,
  ): Promise<string | null> {
    const path = namespacedPath(VMS_PATH, vm.namespace, vm.name);
    const read = await this.#objects.get(path, deadlineMs);
    if (read.kind !== "present" || (vm.uid !== "" && read.object?.metadata?.uid !== vm.uid)) return null;
    return readUuid(read.object?.spec?.template?.spec?.domain?.firmware?.uuid);
  }
}

function refuseAbsent({ namespace, name, uid }: PodName): never {
  throw new RefusalError(refuse("POD_ABSENT", { pod: `${namespace}/${name} with UID ${uid}` }));
}

function isPod(view: PodView, uid: string): boolean {
  return uid === "" || view.uid === uid || view.staticUid === uid;
}
