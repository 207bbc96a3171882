import type { Chance } from "../engine/chance.ts";
import type { World } from "../world.ts";
import type { SimMachine } from "./machine.ts";
import type { OtherPlugins } from "./other-plugins.ts";

/** What machines, kubelets and disks go through besides crashes at kill points. */
export const MACHINE_COUNTS: readonly string[] = [
  "crash.anywhere",
  "daemon.restart",
  "daemon.stopped",
  "daemon.upgrade",
  "node.power-lost",
  "node.long-absence",
  "node.reboot",
  "node.suspend",
  "node.clock-jump",
  "node.clone",
  "node.impostor",
  "node.rename",
  "disk.backup",
  "disk.old",
  "disk.lost",
  "disk.damaged",
  "disk.full",
  "kubelet.restart",
  "cni.add.repeat",
  "cni.check",
  "cni.gc",
  "cni.status",
  "cni.id-again",
  "cni.del",
  "cni.del.twice",
  "cni.del.lost",
  "cni.del.late",
  "cni.del.during-add",
  "cni.del.spooled",
  "sandbox.died",
  "sandbox.vanished",
  "pod.ended.orphan",
  "pod.ended.evicted",
  "pod.ended.sandbox-stays",
  "pod.mirror-made",
  "network.switch-over",
  "network.default-switch-over",
  "network.imported",
  "cni.add.late",
  "cni.boot-untold",
  "cni.netns-unseen",
  "add.answered.pod",
  "add.answered.static",
  "add.answered.claim-first",
  "add.answered.claim-again",
  "add.answered.claim-second",
  "add.answered.repeat",
];

/** The machines of a world, as they are made here. */
export function machinesOf(world: World): readonly SimMachine[] {
  return world.machines as readonly SimMachine[];
}

/** What other plugins gave. */
export function othersOf(world: World): OtherPlugins {
  return (machinesOf(world)[0] as SimMachine).others;
}

/** One that is up; null: none is. */
export function machineOf(world: World, chance: Chance): SimMachine | null {
  return chance.of(machinesOf(world).filter(({ isUp }) => isUp)) ?? null;
}
