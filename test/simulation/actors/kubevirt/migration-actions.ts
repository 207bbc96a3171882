import { sleep } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { MIGRATION_LABEL } from "../../../harness/world/kubevirt-objects.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { keyOf, objectAt, objectsOf, PODS, patch, remove, VMIS, VMS } from "../objects.ts";
import { launchersOf, type Migration } from "./machines.ts";
import { launcherOf, newMigration, someInstance } from "./vm-actions.ts";

/** What else happens to a VM in the middle of its migration begins so long after it, ms. */
const MIDDLE_MS_MAX = 6_000;

/** Live migrations, and what gets in their way. */
export const migrationKinds: ActionKinds = {
  "vm-migrate": {
    weight: 4,
    run: async (world, chance) => {
      await begin(world, chance);
    },
  },
  "vm-migrate-and-back": {
    weight: 1,
    run: async (world, chance) => {
      const vmi = await begin(world, chance);
      if (vmi === null) return;
      await sleep(world.clock, MIDDLE_MS_MAX + chance.below(MIDDLE_MS_MAX));
      const now = runningNow(world, vmi);
      if (now === null || isMigrating(now)) return;
      world.counts.add("vm.migrated-again-at-once");
      await migrate(world, chance, now);
    },
  },
  "vm-migrate-target-deleted": {
    weight: 1,
    run: (world, chance) =>
      inTheMiddle(world, chance, async (vmi) => {
        const target = targetOf(world, vmi);
        if (target === undefined) return;
        world.story.tell("user", `deletes ${target.metadata.name}, the target of a migration`);
        world.counts.add("vm.migration-target-deleted");
        await remove(world, PODS, target, chance.happens(0.5) ? { graceSeconds: 0 } : {});
      }),
  },
  "vm-migrate-and-stop": {
    weight: 1,
    run: (world, chance) =>
      inTheMiddle(world, chance, async (vmi) => {
        const vm = objectAt(world, VMS, keyOf(vmi));
        world.story.tell("user", `stops VM ${keyOf(vmi)} while it migrates`);
        world.counts.add("vm.stopped-while-migrating");
        if (vm !== null && chance.happens(0.7)) await patch(world, VMS, vm, { spec: { runStrategy: "Halted" } });
        else await remove(world, VMIS, vmi);
      }),
  },
  "vm-migrate-and-lose-power": {
    weight: 0.6,
    run: (world, chance) =>
      inTheMiddle(world, chance, async (vmi) => {
        const pod = chance.happens(0.5) ? launcherOf(world, vmi) : targetOf(world, vmi);
        const machine = world.machines.find(({ name }) => name === pod?.spec.nodeName);
        if (machine === undefined || !machine.isUp || !world.faults.isOn) return;
        world.story.tell("power", `of ${machine.name} is lost while ${keyOf(vmi)} migrates`);
        world.counts.add("vm.power-lost-while-migrating");
        machine.losePower();
        await sleep(world.clock, chance.below(90_000));
        if (!machine.isUp) machine.boot();
      }),
  },
  "vm-drain-node": {
    weight: 0.4,
    run: async (world, chance) => {
      const node = chance.of(objectsOf(world, VMIS).flatMap(({ status }) => status.nodeName ?? []));
      if (node === undefined) return;
      world.story.tell("user", `drains ${node}`);
      world.counts.add("vm.node-drained");
      for (const vmi of objectsOf(world, VMIS))
        if (vmi.status.nodeName === node && isRunning(vmi) && !isMigrating(vmi)) await migrate(world, chance, vmi);
    },
  },
};

const isRunning = ({ status, metadata }: KubeObject) =>
  status.phase === "Running" && metadata.deletionTimestamp === undefined;

function isMigrating({ status }: KubeObject): boolean {
  const state = (status.migrationState as Migration | undefined)?.state;
  return state === "scheduling" || state === "running";
}

function targetOf(world: World, vmi: KubeObject): KubeObject | undefined {
  const uid = vmi.status.migrationState?.uid;
  return launchersOf(world, vmi).find(({ metadata }) => metadata.labels?.[MIGRATION_LABEL] === uid);
}

/** The instance as it is now; null: it runs no more. */
function runningNow(world: World, vmi: KubeObject): KubeObject | null {
  const now = objectAt(world, VMIS, keyOf(vmi));
  return now?.metadata.uid === vmi.metadata.uid && isRunning(now) ? now : null;
}

/** Begins the migration of one that runs, where there is another node; null: there is none. */
async function begin(world: World, chance: Chance): Promise<KubeObject | null> {
  const vmi = someInstance(world, chance, "Running");
  if (vmi === undefined || isMigrating(vmi) || world.machines.length < 2) return null;
  await migrate(world, chance, vmi);
  return vmi;
}

async function migrate(world: World, chance: Chance, vmi: KubeObject): Promise<void> {
  world.story.tell("user", `migrates VM ${keyOf(vmi)} away from ${vmi.status.nodeName}`);
  world.counts.add("vm.migration-begun");
  await patch(world, VMIS, vmi, { status: { migrationState: newMigration(world, chance) } });
}

/** Begins a migration, and does something else while it is under way. */
async function inTheMiddle(world: World, chance: Chance, act: (vmi: KubeObject) => Promise<void>): Promise<void> {
  const vmi = await begin(world, chance);
  if (vmi === null) return;
  await sleep(world.clock, chance.below(MIDDLE_MS_MAX));
  const now = runningNow(world, vmi);
  if (now !== null && isMigrating(now)) await act(now);
}
