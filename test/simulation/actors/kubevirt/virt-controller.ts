import { parseTime } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import {
  KUBEVIRT,
  LAUNCHER_LABEL,
  ownerOf,
  VM_LABEL,
  VMI_FINALIZERS,
} from "../../../harness/world/kubevirt-objects.ts";
import type { World } from "../../world.ts";
import {
  CLAIMS,
  create,
  isBeingDeleted,
  keyOf,
  objectAt,
  objectsOf,
  PODS,
  patch,
  remove,
  VMIS,
  VMS,
} from "../objects.ts";
import { Reconciler } from "../reconciler.ts";
import { VirtInstances } from "./instances.ts";
import { VM_FINALIZER } from "./machines.ts";

const WHO = "virt-controller";
/** Times of creation have no finer ones. */
const SECOND_MS = 1_000;

/** KubeVirt's controller: VMs become instances, instances become launcher pods, and what is to end ends. */
export function startVirtController(world: World): Reconciler {
  const instances = new VirtInstances(world, (key, afterMs) => reconciler.mark(key, afterMs));
  const reconciler = new Reconciler(world, {
    name: WHO,
    keysOf: ({ storage, key, object }) => {
      if (storage === VMS.storage || storage === VMIS.storage) return [key];
      const vmi = storage === PODS.storage ? object.metadata.labels?.[LAUNCHER_LABEL] : undefined;
      return vmi === undefined ? [] : [`${object.metadata.namespace}/${vmi}`];
    },
    all: () => [...new Set([...objectsOf(world, VMS), ...objectsOf(world, VMIS)].map(keyOf))],
    reconcile: async (key) => {
      await reconcileVm(world, key, () => reconciler.mark(key, SECOND_MS));
      const vmi = objectAt(world, VMIS, key);
      if (vmi !== null) await instances.reconcile(vmi);
    },
  });
  return reconciler;
}

/** `again`: has it looked at a second later. */
async function reconcileVm(world: World, key: string, again: () => void): Promise<void> {
  const vm = objectAt(world, VMS, key);
  if (vm === null) return;
  const vmi = objectAt(world, VMIS, key);
  if (isBeingDeleted(vm)) await endVm(world, vm, vmi);
  else if (vmi === null) {
    if (vm.spec.runStrategy === "Halted") return;
    if (usedJustNow(world, vm)) again();
    else await startInstance(world, vm);
  } else if (!isBeingDeleted(vmi)) await keepInstance(world, vm, vmi);
}

/** An instance that is left behind is not stopped. */
async function endVm(world: World, vm: KubeObject, vmi: KubeObject | null): Promise<void> {
  const finalizers: string[] = vm.metadata.finalizers ?? [];
  const isOwn = vmi !== null && ownerUidOf(vmi) === vm.metadata.uid;
  if (isOwn && !finalizers.includes("orphan")) {
    if (!isBeingDeleted(vmi)) await remove(world, VMIS, vmi);
    return;
  }
  if (!finalizers.includes(VM_FINALIZER)) return;
  const left = finalizers.filter((one) => one !== VM_FINALIZER);
  await patch(world, VMS, vm, { metadata: { finalizers: left } });
}

/**
 * Whether a claim of it was made and used in this very second: a real VM needs longer for that. So a claim is older
 * than the VMI of each later start.
 */
function usedJustNow(world: World, { metadata: { namespace, name } }: KubeObject): boolean {
  const nowMs = world.clock.wallMs();
  return objectsOf(world, CLAIMS, namespace).some(({ metadata, status }) => {
    const isUsed = metadata.labels?.[VM_LABEL] === name && (status?.ips ?? []).length > 0;
    return isUsed && nowMs < parseTime(metadata.creationTimestamp) + SECOND_MS;
  });
}

async function startInstance(world: World, vm: KubeObject): Promise<void> {
  const { namespace, name } = vm.metadata;
  const { annotations } = vm.spec.template.metadata ?? {};
  const vmi = await create(world, VMIS, {
    apiVersion: KUBEVIRT,
    kind: "VirtualMachineInstance",
    metadata: {
      name,
      namespace,
      ...(annotations === undefined ? {} : { annotations }),
      finalizers: VMI_FINALIZERS,
      ownerReferences: [ownerOf(KUBEVIRT, "VirtualMachine", vm.metadata)],
    },
    spec: vm.spec.template.spec,
    status: {},
  });
  if (vmi !== null) world.story.tell(WHO, `starts VM ${keyOf(vm)}`);
}

async function keepInstance(world: World, vm: KubeObject, vmi: KubeObject): Promise<void> {
  const owner = ownerUidOf(vmi);
  if (owner === undefined) {
    // A former VM of the name has left it behind.
    const ownerReferences = [ownerOf(KUBEVIRT, "VirtualMachine", vm.metadata)];
    await patch(world, VMIS, vmi, { metadata: { ownerReferences } });
    world.story.tell(WHO, `VM ${keyOf(vm)} adopts the instance that runs under its name`);
    return;
  }
  if (owner !== vm.metadata.uid) return;
  const { phase } = vmi.status;
  const { runStrategy } = vm.spec;
  const isOver = phase === "Failed" || (phase === "Succeeded" && runStrategy !== "RerunOnFailure");
  if (runStrategy === "Halted" || isOver) await remove(world, VMIS, vmi);
}

function ownerUidOf({ metadata }: KubeObject): string | undefined {
  return (metadata.ownerReferences ?? []).find(({ controller }: KubeObject) => controller)?.uid;
}
