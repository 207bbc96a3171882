import type { KubeApi } from "../../kube/kube-api.ts";
import { projectTemplatedVm, type TemplatedVmView } from "../../kube/views/templated-vm-view.ts";
import { VMIS_PATH, VMS_PATH } from "../../kube/views/tenant-objects.ts";
import { type FollowedCache, type FollowedLog, FollowedResources } from "../followed-resources.ts";

/** KubeVirt's VMs that name a template, and those of their instances that do; by `namespace/name`. */
export class VmCaches {
  readonly vms: FollowedCache<TemplatedVmView>;
  readonly vmis: FollowedCache<TemplatedVmView>;
  readonly #followed: FollowedResources<"virtualmachines" | "virtualmachineinstances">;

  /** `onChange`: a VM, or its instance, has changed. A doubt of these copies stops no work for machines. */
  constructor(api: KubeApi, onChange: (key: string) => void, log: FollowedLog) {
    const changed = ({ key }: TemplatedVmView) => onChange(key);
    const hooks = { project: projectTemplatedVm, onUpsert: changed, onDelete: changed };
    this.#followed = new FollowedResources(api, log);
    this.vms = this.#followed.follow<TemplatedVmView>("virtualmachines", VMS_PATH, hooks);
    this.vmis = this.#followed.follow<TemplatedVmView>("virtualmachineinstances", VMIS_PATH, {
      ...hooks,
      metadataOnly: true,
    });
  }

  start(): void {
    this.#followed.start();
  }

  stop(): Promise<void> {
    return this.#followed.stop();
  }

  /** Why nothing can be decided from the copies; null: it can. Without KubeVirt there is no VM. */
  get doubt(): string | null {
    return this.#followed.doubt;
  }

  /** Without KubeVirt there is nothing to know. */
  get synced(): Record<string, boolean> {
    return this.vms.missing ? {} : this.#followed.synced;
  }
}
