import { sleep } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { isBeingDeleted, keyOf, objectAt, objectsOf, patch, VMIS, VMS } from "../objects.ts";
import { interfacesIn, nadNameFor, specOf, type VmInterface } from "./machines.ts";
import { newMigration, someInstance, usableNads } from "./vm-actions.ts";

/** Until the edit is taken back, ms: before the migration ends, or some time after. */
const REGRET_MS_MAX = 30_000;
const REGRET_PROBABILITY = 0.4;
const AGAIN_PROBABILITY = 0.2;

/** Networks of VMs are edited: while they run, KubeVirt 1.9 migrates them (VEP 140). */
export const networkChangeKinds: ActionKinds = {
  "vm-change-network": {
    weight: 0.7,
    run: async (world, chance) => {
      const vmi = someInstance(world, chance, "Running");
      const before = vmi && interfacesIn(vmi.spec);
      if (vmi === undefined || before === undefined) return;
      if (!(await change(world, chance, vmi, (interfaces) => elsewhere(world, chance, vmi, interfaces)))) return;
      world.counts.add("vm.network-changed");
      if (chance.happens(AGAIN_PROBABILITY)) {
        await sleep(world.clock, chance.below(REGRET_MS_MAX));
        const again = await change(world, chance, vmi, (interfaces) => elsewhere(world, chance, vmi, interfaces));
        if (again) world.counts.add("vm.network-changed-twice");
      }
      if (!chance.happens(REGRET_PROBABILITY)) return;
      await sleep(world.clock, chance.below(REGRET_MS_MAX));
      // Where the launcher is on that network still, KubeVirt has nothing to migrate.
      const migrates = chance.happens(0.7);
      if (await change(world, chance, vmi, () => before, migrates)) world.counts.add("vm.network-changed-back");
    },
  },
  "vm-edit-network": {
    weight: 0.3,
    run: async (world, chance) => {
      const vm = chance.of(objectsOf(world, VMS).filter((one) => !isBeingDeleted(one)));
      if (vm === undefined) return;
      const { spec: template } = vm.spec.template;
      const edited = elsewhere(world, chance, vm, interfacesIn(template));
      if (edited === null) return;
      world.story.tell("user", `edits VM ${keyOf(vm)} for its next start: ${say(edited)}`);
      world.counts.add("vm.network-edited");
      await patch(world, VMS, vm, {
        spec: { template: { spec: specOf(edited, template.domain.firmware.uuid) } },
      });
    },
  },
};

/** One of the interfaces on another NetworkAttachmentDefinition; null: there is no other. */
function elsewhere(
  world: World,
  chance: Chance,
  { metadata }: KubeObject,
  interfaces: readonly VmInterface[],
): VmInterface[] | null {
  const index = chance.below(interfaces.length);
  const former = interfaces[index];
  const names = usableNads(world, chance, metadata.namespace).map((nad) => nadNameFor(metadata.namespace, nad));
  const nad = chance.of(names.filter((one) => one !== former?.nad));
  if (former === undefined || nad === undefined) return null;
  return interfaces.map((one, at) => (at === index ? { ...former, nad } : one));
}

/**
 * The VM and its instance get other networks, and it migrates to be on them. False: it runs no more, or nothing
 * changes.
 */
async function change(
  world: World,
  chance: Chance,
  { metadata }: KubeObject,
  to: (interfaces: VmInterface[]) => readonly VmInterface[] | null,
  migrates = true,
): Promise<boolean> {
  const key = keyOf({ metadata } as KubeObject);
  const vmi = objectAt(world, VMIS, key);
  if (vmi?.metadata.uid !== metadata.uid || isBeingDeleted(vmi) || vmi.status.phase !== "Running") return false;
  const now = interfacesIn(vmi.spec);
  const wanted = to(now);
  if (wanted === null || say(wanted) === say(now)) return false;
  const spec = specOf(wanted, vmi.spec.domain.firmware.uuid);
  world.story.tell("user", `changes the networks of VM ${key}, which runs: ${say(wanted)}`);
  const vm = objectAt(world, VMS, key);
  if (vm !== null) await patch(world, VMS, vm, { spec: { template: { spec } } });
  const migration = migrates ? { status: { migrationState: newMigration(world, chance) } } : {};
  return (await patch(world, VMIS, vmi, { spec, ...migration })) !== null;
}

function say(interfaces: readonly VmInterface[]): string {
  return interfaces.map(({ logical, nad }) => `${logical} on ${nad}`).join(", ");
}
