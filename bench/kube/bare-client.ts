import { type Holder, newAllocation } from "../../allocations/allocation-object.ts";
import { allocatedCondition } from "../../ipam/claim-conditions.ts";
import { formatInterfaceAddress, type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ALLOCATIONS_PATH, type AllocationOwner, CLAIMS_PATH, namespacedPath } from "../../kube/objects.ts";
import { claimStatusPatch } from "../../kube/views/claim-status-patch.ts";
import { projectClaim } from "../../kube/views/claim-view.ts";
import type { TestCluster } from "../../test/harness/cluster.ts";
import type { KubeApi, KubeObject } from "../../test/harness/kube-api.ts";
import { claimName, type Vm } from "../../test/harness/kubevirt.ts";
import { BARE_NETWORK, type Guest } from "./kube-bench.ts";

const VMIS_PATH = "/apis/kubevirt.io/v1/virtualmachineinstances";

/**
 * What nobody can be faster than: the API calls of an ADD over kept connections, and nothing else. Nobody is asked
 * which address is free, nothing is durable on the node, and no plugin is executed.
 */
export class BareClient {
  readonly #api: KubeApi;
  #addresses = 0;

  constructor(cluster: TestCluster) {
    this.#api = cluster.apiAs("holdfast-node");
  }

  close(): void {
    this.#api.close();
  }

  async plain(guest: Guest): Promise<void> {
    const { namespace, name, uid } = guest.pod.metadata;
    const owner = { kind: "Pod", namespace, name, uid, interface: guest.interface } as const;
    await this.#allocate(guest, owner, undefined);
  }

  async claim(guest: Guest): Promise<void> {
    const vm = guest.vm as Vm;
    const path = namespacedPath(CLAIMS_PATH, vm.namespace, claimName(vm, BARE_NETWORK));
    const claim: KubeObject = await this.#api.get(path);
    await this.#api.get(namespacedPath(VMIS_PATH, vm.namespace, vm.name));
    const { namespace, name, uid } = claim.metadata;
    const owner = { kind: "IPAMClaim", namespace, name, uid, interface: "" } as const;
    const address = await this.#allocate(guest, owner, { name: vm.name, uid: vm.uid });
    const patch = claimStatusPatch(projectClaim(claim), {
      ips: [formatInterfaceAddress(address)],
      ownerPod: guest.pod.metadata.name,
      condition: allocatedCondition(now()),
      features: { ownerPod: true, conditions: true },
    });
    await this.#api.patch(`${path}/status`, patch);
  }

  async #allocate(
    { node, pod, interface: name }: Guest,
    owner: AllocationOwner,
    vm: Holder["vm"],
  ): Promise<InterfaceAddress> {
    this.#addresses += 1;
    const address = `10.${this.#addresses >>> 16}.${(this.#addresses >>> 8) & 255}.${this.#addresses & 255}/8`;
    const one = parseInterfaceAddress(address);
    const { namespace, name: podName, uid } = pod.metadata;
    const attachment = {
      containerID: uid,
      interface: name,
      node: node.name,
      pod: { namespace, name: podName, uid },
      since: now(),
    };
    const object = newAllocation(BARE_NETWORK, one, { owner, vm, attachment }, now());
    await this.#api.create(ALLOCATIONS_PATH, object);
    return one;
  }
}

function now(): string {
  return new Date().toISOString();
}
