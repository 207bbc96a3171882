import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { CLAIM_FINALIZER, claimObject, KUBEVIRT, ownerOf, VM_LABEL } from "../../../harness/world/kubevirt-objects.ts";
import type { World } from "../../world.ts";
import { readNad } from "../networks.ts";
import {
  CLAIMS,
  create,
  hasEnded,
  isBeingDeleted,
  keyOf,
  NADS,
  objectAt,
  objectsOf,
  patch,
  VMIS,
  VMS,
} from "../objects.ts";
import { Reconciler } from "../reconciler.ts";
import { claimNameOf, interfacesIn, launchersOf, nadKeyOf } from "./machines.ts";

const WHO = "ipam controller";

/**
 * KubeVirt's IPAM controller: creates the claims of instances, and lets go of them when VM and instance are gone. It
 * hears of VMs only when they change, and never of claims: what it has missed while it was away stays as it is.
 */
export function startIpamController(world: World): Reconciler {
  const known = new Set<string>();
  return new Reconciler(world, {
    name: WHO,
    keysOf: ({ storage, key, previous }) => {
      if (storage === VMS.storage) return previous === null ? [] : [key];
      if (storage !== VMIS.storage) return [];
      known.add(key);
      return [key];
    },
    all: () => {
      const gone = [...known].filter((key) => objectAt(world, VMIS, key) === null);
      for (const key of gone) known.delete(key);
      return [...new Set([...objectsOf(world, VMIS).map(keyOf), ...gone])];
    },
    reconcile: (key) => reconcile(world, key),
  });
}

async function reconcile(world: World, key: string): Promise<void> {
  const vm = objectAt(world, VMS, key);
  const vmi = objectAt(world, VMIS, key);
  const [namespace, name] = key.split("/") as [string, string];
  if (isOver(world, vm, vmi)) await letGo(world, namespace, name);
  else if (vmi !== null && !isBeingDeleted(vmi)) await createClaims(world, vm, vmi);
}

function isOver(world: World, vm: KubeObject | null, vmi: KubeObject | null): boolean {
  if (vm !== null) return vmi === null && isBeingDeleted(vm);
  if (vmi === null) return true;
  return isBeingDeleted(vmi) && launchersOf(world, vmi).every(hasEnded);
}

/** Every claim with the VM's name on its label. */
async function letGo(world: World, namespace: string, vm: string): Promise<void> {
  for (const claim of objectsOf(world, CLAIMS, namespace)) {
    const { labels, finalizers = [] } = claim.metadata;
    if (labels?.[VM_LABEL] !== vm || !finalizers.includes(CLAIM_FINALIZER)) continue;
    const left = finalizers.filter((one: string) => one !== CLAIM_FINALIZER);
    if ((await patch(world, CLAIMS, claim, { metadata: { finalizers: left } })) === null) continue;
    world.counts.add("vm.claim-let-go");
    world.story.tell(WHO, `lets go of claim ${keyOf(claim)}`);
  }
}

async function createClaims(world: World, vm: KubeObject | null, vmi: KubeObject): Promise<void> {
  const { namespace, name } = vmi.metadata;
  const owner =
    vm === null
      ? ownerOf(KUBEVIRT, "VirtualMachineInstance", vmi.metadata)
      : ownerOf(KUBEVIRT, "VirtualMachine", vm.metadata);
  for (const { logical, nad } of interfacesIn(vmi.spec)) {
    const object = objectAt(world, NADS, nadKeyOf(namespace, nad));
    const read = object === null ? null : readNad(object);
    if (read === null || !read.isPersistent) continue;
    const claimName = claimNameOf(name, logical);
    if (objectAt(world, CLAIMS, `${namespace}/${claimName}`) !== null) continue;
    const claim = { name: claimName, network: read.network, owner };
    const created = await create(world, CLAIMS, claimObject({ namespace, name }, claim));
    if (created === null) continue;
    world.counts.add("vm.claim-created");
    world.story.tell(WHO, `creates claim ${keyOf(created)}`);
  }
}
