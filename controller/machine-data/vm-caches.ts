import type { KubeApi } from "../../kube/kube-api.ts";
import { projectTemplatedVm, type TemplatedVmView } from "../../kube/views/templated-vm-view.ts";
import { VMIS_PATH, VMS_PATH } from "../../kube/views/tenant-objects.ts";
import { type FollowedCache, type FollowedLog, FollowedResources } from "../followed-resources.ts";

/** KubeVirt's VMs that name a template, and those of their instances that do; by `namespace/name`. */
export class VmCaches extends FollowedResources<"virtualmachines" | "virtualmachineinstances"> {
  readonly vms: FollowedCache<TemplatedVmView>;
  readonly vmis: FollowedCache<TemplatedVmView>;

  /** `onChange`: a VM, or its instance, has changed. A doubt of these copies stops no work for machines. */
  constructor(api: KubeApi, onChange: (key: string) => void, log: FollowedLog) {
    super(api, log);
    const changed = ({ key }: TemplatedVmView) => onChange(key);
    const hooks = { project: projectTemplatedVm, onUpsert: changed, onDelete: changed };
    this.vms = this.follow<TemplatedVmView>("virtualmachines", VMS_PATH, hooks);
    this.vmis = this.follow<TemplatedVmView>("virtualmachineinstances", VMIS_PATH, {
      ...hooks,
      metadataOnly: true,
    });
  }

  /** Without KubeVirt there is nothing to know. */
  override get synced(): Record<string, boolean> {
    return this.vms.missing ? {} : super.synced;
  }
}
