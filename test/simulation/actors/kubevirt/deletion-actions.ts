import { parseTime, sleep } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { CLAIM_FINALIZER, VM_LABEL } from "../../../harness/world/kubevirt-objects.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import {
  CLAIMS,
  isBeingDeleted,
  isOpen,
  keyOf,
  NAMESPACES,
  objectAt,
  objectsOf,
  PODS,
  patch,
  remove,
  VMIS,
  VMS,
} from "../objects.ts";
import { furnish, HONEST } from "../people/networks.ts";
import { launchersOf } from "./machines.ts";
import { createVmNamed, someInstance } from "./vm-actions.ts";

/** Between two looks at whether something is gone, ms. */
const LOOK_MS = 700;
const LOOKS_MAX = 120;
const STUCK_MS = 40_000;

/** The end of VMs in every order, and the same names again. */
export const deletionKinds: ActionKinds = {
  "vm-give-up": { weight: 2, run: giveUp },
  "vm-delete": { weight: 1, run: (world, chance) => deleteVm(world, chance, "Background") },
  "vm-delete-foreground": { weight: 0.5, run: (world, chance) => deleteVm(world, chance, "Foreground") },
  "vm-delete-orphan": { weight: 0.3, run: (world, chance) => deleteVm(world, chance, "Orphan") },
  "vm-delete-same-name": { weight: 1, run: sameName },
  "vm-delete-instance": {
    weight: 0.5,
    run: async (world, chance) => {
      // One that a VM has left behind, where there is one.
      const left = objectsOf(world, VMIS).filter((one) => objectAt(world, VMS, keyOf(one)) === null);
      const vmi = chance.of(left) ?? someInstance(world, chance);
      if (vmi === undefined) return;
      world.story.tell("user", `deletes instance ${keyOf(vmi)}`);
      world.counts.add("vm.instance-deleted");
      await remove(world, VMIS, vmi, { propagation: chance.happens(0.5) ? "Foreground" : "Background" });
    },
  },
  "vm-launcher-deleted": {
    weight: 0.8,
    run: async (world, chance) => {
      const vmi = someInstance(world, chance);
      const pod = vmi && chance.of(launchersOf(world, vmi));
      if (pod === undefined) return;
      const byForce = chance.happens(0.4);
      world.story.tell("user", `deletes ${pod.metadata.name}${byForce ? " by force" : ""}`);
      world.counts.add(byForce ? "vm.launcher-deleted-by-force" : "vm.launcher-deleted");
      await remove(world, PODS, pod, byForce ? { graceSeconds: 0 } : {});
    },
  },
  "vm-claim-deleted": { weight: 0.8, run: deleteClaim },
  "vm-claim-finalizer-removed": { weight: 0.5, run: removeFinalizer },
  "namespace-again": { weight: 0.15, run: namespaceAgain },
};

const someVm = (world: World, chance: Chance): KubeObject | undefined =>
  chance.of(objectsOf(world, VMS).filter((one) => !isBeingDeleted(one)));

async function deleteVm(world: World, chance: Chance, propagation: string): Promise<void> {
  const vm = someVm(world, chance);
  if (vm !== undefined) await endVm(world, vm, propagation);
}

async function endVm(world: World, vm: KubeObject, propagation: string): Promise<void> {
  world.story.tell("user", `deletes VM ${keyOf(vm)} (${propagation})`);
  world.counts.add(`vm.deleted-${propagation.toLowerCase()}`);
  await remove(world, VMS, vm, { propagation });
}

/**
 * As soon as a VM is gone there is another one of its name, mostly while claims and pods of the former are still there.
 */
async function sameName(world: World, chance: Chance): Promise<void> {
  const vm = someVm(world, chance);
  if (vm === undefined) return;
  const { namespace, name, uid } = vm.metadata;
  await endVm(world, vm, chance.of(["Background", "Foreground", "Orphan"]) as string);
  await untilGone(world, () => objectAt(world, VMS, keyOf(vm))?.metadata.uid !== uid);
  if (objectAt(world, VMS, keyOf(vm)) !== null || !isOpen(world, namespace)) return;
  if ((await createVmNamed(world, chance, namespace, name)) !== null) world.counts.add("vm.same-name-again");
}

async function untilGone(world: World, isGone: () => boolean): Promise<void> {
  for (let look = 0; look < LOOKS_MAX && !isGone(); look += 1) await sleep(world.clock, LOOK_MS);
}

/** A VM that has not started for a while is deleted, with its claims if they stand in the way. */
async function giveUp(world: World, chance: Chance): Promise<void> {
  const nowMs = world.clock.wallMs();
  const stuck = objectsOf(world, VMIS).filter(({ status, metadata }) => {
    const isWaiting = ["Pending", "Scheduling"].includes(status.phase ?? "Pending");
    return isWaiting && nowMs - parseTime(metadata.creationTimestamp) > STUCK_MS;
  });
  const vmi = chance.of(stuck);
  if (vmi === undefined) return;
  const { namespace, name } = vmi.metadata;
  world.counts.add("vm.given-up");
  const vm = objectAt(world, VMS, keyOf(vmi));
  if (vm === null) await remove(world, VMIS, vmi);
  else if (!isBeingDeleted(vm)) await endVm(world, vm, "Background");
  await sleep(world.clock, chance.below(20_000));
  for (const claim of objectsOf(world, CLAIMS, namespace)) {
    if (claim.metadata.labels?.[VM_LABEL] !== name || !isBeingDeleted(claim)) continue;
    if (objectAt(world, VMIS, keyOf(vmi)) === null) await letGo(world, claim);
  }
}

/** By hand: before its VM, or while its pods run. */
async function deleteClaim(world: World, chance: Chance): Promise<void> {
  const claim = chance.of(objectsOf(world, CLAIMS).filter((one) => !isBeingDeleted(one)));
  if (claim === undefined) return;
  world.story.tell("user", `deletes claim ${keyOf(claim)}`);
  world.counts.add("vm.claim-deleted");
  await remove(world, CLAIMS, claim);
}

/** By hand, of a claim that waits for nobody any more; now and then of one that is in use. */
async function removeFinalizer(world: World, chance: Chance): Promise<void> {
  const ending = objectsOf(world, CLAIMS).filter(isBeingDeleted);
  const unused = ending.filter(({ metadata }) => {
    const vm = `${metadata.namespace}/${metadata.labels?.[VM_LABEL]}`;
    return objectAt(world, VMIS, vm) === null;
  });
  const claim = chance.of(chance.happens(0.8) ? unused : ending);
  if (claim !== undefined) await letGo(world, claim);
}

/** Somebody has found the claims that nobody lets go any more, because the controller was away when their VM went. */
export async function mendClaims(world: World): Promise<void> {
  for (const claim of objectsOf(world, CLAIMS).filter(isBeingDeleted)) {
    const { namespace, labels } = claim.metadata;
    const vm = `${namespace}/${labels?.[VM_LABEL]}`;
    if (objectAt(world, VMS, vm) === null && objectAt(world, VMIS, vm) === null) await letGo(world, claim);
  }
}

async function letGo(world: World, claim: KubeObject): Promise<void> {
  const left = (claim.metadata.finalizers ?? []).filter((one: string) => one !== CLAIM_FINALIZER);
  world.story.tell("user", `removes the finalizer of claim ${keyOf(claim)}`);
  world.counts.add("vm.claim-finalizer-removed");
  await patch(world, CLAIMS, claim, { metadata: { finalizers: left } });
}

/** A namespace is deleted with everything in it, and made again as soon as it is gone. */
async function namespaceAgain(world: World, chance: Chance): Promise<void> {
  const namespace = chance.of(HONEST.filter((one) => isOpen(world, one)));
  const object = namespace === undefined ? null : objectAt(world, NAMESPACES, namespace);
  if (namespace === undefined || object === null) return;
  world.story.tell("user", `deletes namespace ${namespace}`);
  world.counts.add("vm.namespace-deleted");
  await remove(world, NAMESPACES, object);
  await untilGone(world, () => objectAt(world, NAMESPACES, namespace) === null);
  await sleep(world.clock, chance.below(5_000));
  if (objectAt(world, NAMESPACES, namespace) !== null) return;
  world.story.tell("user", `makes namespace ${namespace} again`);
  world.counts.add("vm.namespace-again");
  await furnish(world, namespace);
}
