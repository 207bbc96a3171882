/*
 * test/simulation/actors/kubevirt/: VMs
 *
 *   kubevirt             both controllers, and everything that anybody does to VMs
 *   virt-controller      a VM gets an instance; instances: an instance gets launcher pods; migrations: a second one
 *   scheduler            gives launcher pods their nodes
 *   ipam-controller      claims of instances, and when they are let go
 *   vm-actions, migration-actions, network-changes, asked-addresses, deletion-actions, claim-actions   people
 *   machines             VMs as their objects say them
 */

import { sleep } from "../../../../platform/time.ts";
import type { ActionKinds, World } from "../../world.ts";
import type { Reconciler } from "../reconciler.ts";
import { askedKinds } from "./asked-addresses.ts";
import { claimKinds } from "./claim-actions.ts";
import { deletionKinds, mendClaims } from "./deletion-actions.ts";
import { startIpamController } from "./ipam-controller.ts";
import { migrationKinds } from "./migration-actions.ts";
import { networkChangeKinds } from "./network-changes.ts";
import { startScheduler } from "./scheduler.ts";
import { startVirtController } from "./virt-controller.ts";
import { vmKinds } from "./vm-actions.ts";

const AWAY_MS_MAX = 60_000;
/** VMs that are being deleted when peace begins are gone by then. */
const ENDED_MS = 40_000;
/** Of a world. */
const IPAM_CONTROLLERS = new WeakMap<World, Reconciler>();

/** Begins KubeVirt's controllers. */
export function startKubeVirt(world: World): void {
  startVirtController(world);
  startScheduler(world);
  const ipam = startIpamController(world);
  IPAM_CONTROLLERS.set(world, ipam);
  world.onPeace({
    heal: () => {
      ipam.start();
      void mendLater(world);
    },
  });
}

/** When what was under way has ended. */
async function mendLater(world: World): Promise<void> {
  await sleep(world.clock, ENDED_MS);
  await mendClaims(world);
}

export const kubevirtKinds: ActionKinds = {
  ...vmKinds,
  ...migrationKinds,
  ...networkChangeKinds,
  ...askedKinds,
  ...deletionKinds,
  ...claimKinds,
  // What it misses meanwhile it never hears of.
  "vm-ipam-controller-away": {
    weight: 0.4,
    run: async (world, chance) => {
      const ipam = IPAM_CONTROLLERS.get(world);
      if (ipam === undefined || !ipam.isOn || !world.faults.isOn) return;
      world.story.tell("ipam controller", "is away");
      world.counts.add("vm.ipam-controller-away");
      ipam.stop();
      await sleep(world.clock, chance.below(AWAY_MS_MAX));
      ipam.start();
    },
  },
};

/** What must have been counted in a long run. */
export const KUBEVIRT_OWED: readonly string[] = [
  "vm.asks",
  "vm.asks-no-more",
  "vm.asks-while-it-runs",
  "vm.claim-deleted",
  "vm.claim-finalizer-removed",
  "vm.claim-late",
  "vm.claim-let-go",
  "vm.claim-named-by-a-stranger",
  "vm.claim-named-by-two-pods",
  "vm.claim-restored-with-addresses",
  "vm.crashed",
  "vm.created-with-several-interfaces",
  "vm.deleted-background",
  "vm.deleted-foreground",
  "vm.deleted-orphan",
  "vm.given-up",
  "vm.hot-plugged",
  "vm.imported",
  "vm.instance-deleted",
  "vm.ipam-controller-away",
  "vm.launcher-deleted",
  "vm.launcher-deleted-by-force",
  "vm.migrated",
  "vm.migrated-again-at-once",
  "vm.migration-failed",
  "vm.migration-target-deleted",
  "vm.namespace-again",
  "vm.network-changed",
  "vm.network-changed-back",
  "vm.network-changed-twice",
  "vm.network-edited",
  "vm.network-renamed",
  "vm.node-drained",
  "vm.power-lost-while-migrating",
  "vm.restarted",
  "vm.same-name-again",
  "vm.started",
  "vm.stopped",
  "vm.stopped-by-guest",
  "vm.stopped-while-migrating",
  "vm.restarted-to-move",
];
