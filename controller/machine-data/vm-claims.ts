import { problemOf } from "../../kube/answers.ts";
import type { EventWriter } from "../../kube/events.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { DATA_CLAIMS_PATH } from "../../kube/metal3.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { namespacedPath, type OwnerReference } from "../../kube/objects.ts";
import { ANNOTATIONS } from "../../kube/views/content-annotations.ts";
import type { DataClaimView } from "../../kube/views/machine-data-view.ts";
import {
  KUBEVIRT_API_VERSION,
  projectTemplatedVm,
  type TemplatedVmView,
  templateMeant,
} from "../../kube/views/templated-vm-view.ts";
import { VMIS_PATH, VMS_PATH } from "../../kube/views/tenant-objects.ts";
import type { Log } from "../../platform/log.ts";
import { vmClaimBody, vmOwnerOf } from "./data-bodies.ts";
import type { DataWorld } from "./data-world.ts";
import type { VmCaches } from "./vm-caches.ts";

export interface VmClaimsOptions {
  readonly api: KubeApi;
  readonly world: DataWorld;
  readonly vms: VmCaches;
  readonly events: Pick<EventWriter, "warn">;
  readonly log: Pick<Log, "info">;
}

/**
 * A Metal3DataClaim for each VM whose annotation names a template, of the VM's name and owned by it: so the VM keeps
 * its index over restarts and migrations, and gives it back when it is deleted. A claim is deleted only when VM and
 * instance, read afresh, mean another template or none. See docs/decisions/0039.
 */
export class VmClaims {
  readonly #options: VmClaimsOptions;
  readonly #objects: ObjectClient;

  constructor(options: VmClaimsOptions) {
    this.#options = options;
    this.#objects = new ObjectClient(options.api);
  }

  /** `key` of a VM or claim. Returns whether nothing is left to do until something changes. Throws ApiAway. */
  async settle(key: string): Promise<boolean> {
    const { world, vms } = this.#options;
    const claim = world.caches.claims.items.get(key);
    const holder = claim === undefined ? undefined : vmOwnerOf(claim);
    const vm = vms.vms.items.get(key);
    const vmi = vms.vmis.items.get(key);
    if (vm === undefined && vmi === undefined && (holder === undefined || vms.vms.missing)) return true;
    if (vms.doubt !== null) return false;
    const meant = templateMeant(vm, instanceOf(vm?.uid ?? null, vmi));
    if (meant === "invalid") return true;
    const owner = ownerOf(vm, vmi);
    if (claim === undefined) {
      const isGoing = (vm ?? vmi)?.deletionTimestamp !== null;
      return owner === null || meant.name === null || isGoing || this.#make(key, owner, meant.name);
    }
    if (claim.deletionTimestamp !== null) return false;
    if (holder === undefined) return meant.name === null || this.#warnTaken(claim, owner);
    if (claim.template.name === meant.name && owner?.uid === holder.uid) return true;
    // Of an earlier VM of the name: the garbage collector deletes it.
    if (owner !== null && owner.uid !== holder.uid) return false;
    return claim.paused ? false : this.#giveBack(claim, holder);
  }

  async #make(key: string, owner: OwnerReference, template: string): Promise<boolean> {
    const namespace = key.slice(0, key.indexOf("/"));
    const body = vmClaimBody(namespace, owner, template);
    const created = await this.#objects.create(namespacedPath(DATA_CLAIMS_PATH, namespace), body);
    if (created.kind === "done") return true;
    // A conflict: the copy does not show it yet.
    if (created.kind !== "conflict")
      this.#warn(namespace, owner, `Metal3DataClaim ${key} cannot be made: ${problemOf(created.answer)}`);
    return false;
  }

  #warnTaken(claim: DataClaimView, owner: OwnerReference | null): boolean {
    const message = `Metal3DataClaim ${claim.key} exists and is not the VM's: delete it, or rename the VM or the machine that it is for`;
    if (owner !== null) this.#warn(claim.namespace, owner, message);
    return false;
  }

  /** Deletes the claim if its VM exists and does not mean its template any more. */
  async #giveBack(claim: DataClaimView, holder: OwnerReference): Promise<boolean> {
    const { key, namespace, name, uid, resourceVersion } = claim;
    const vm = await this.#read(namespacedPath(VMS_PATH, namespace, holder.name));
    const vmi = await this.#read(namespacedPath(VMIS_PATH, namespace, holder.name));
    // The garbage collector deletes what belongs to a VM that is gone.
    if (vm.uid !== holder.uid && vmi.uid !== holder.uid) return true;
    const meant = templateMeant(vm.view, instanceOf(vm.uid, vmi.view));
    if (meant === "invalid" || meant.name === claim.template.name) return false;
    const path = namespacedPath(DATA_CLAIMS_PATH, namespace, name);
    const deleted = await this.#objects.delete(path, { uid, resourceVersion });
    if (deleted.kind === "done") {
      const { template } = claim;
      this.#options.log.info({ claim: key, template: template.name }, "deleted: its VM names it no longer");
    }
    return deleted.kind === "done" || deleted.kind === "absent";
  }

  /** An object as it is now; `uid` null: there is none. */
  async #read(path: string): Promise<{ readonly uid: string | null; readonly view?: TemplatedVmView }> {
    const object = await this.#objects.find(path);
    if (object === null) return { uid: null };
    const view = projectTemplatedVm(object);
    return { uid: object.metadata.uid, ...(view === null ? {} : { view }) };
  }

  #warn(namespace: string, { apiVersion, kind, name, uid }: OwnerReference, problem: string): void {
    const message = `annotation ${ANNOTATIONS.dataTemplate}: ${problem}`;
    this.#options.events.warn({ apiVersion, kind, namespace, name, uid }, "DataTemplateUnavailable", message);
  }
}

/** The instance, unless it is an earlier VM's of the name. `vmUid` null: not known. */
function instanceOf(vmUid: string | null, vmi: TemplatedVmView | undefined) {
  return vmUid === null || vmi?.vm?.uid === vmUid ? vmi : undefined;
}

/** Whose the claim is: the VM, or an instance without one. null: neither names a template. */
function ownerOf(vm: TemplatedVmView | undefined, vmi: TemplatedVmView | undefined): OwnerReference | null {
  const of = (kind: string, { name, uid }: TemplatedVmView) => ({
    apiVersion: KUBEVIRT_API_VERSION,
    kind,
    name,
    uid,
  });
  if (vm !== undefined) return of("VirtualMachine", vm);
  if (vmi === undefined) return null;
  return vmi.vm ?? of("VirtualMachineInstance", vmi);
}
