import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { addressIn } from "../addresses.ts";
import { readNad } from "../networks.ts";
import { isBeingDeleted, isOpen, keyOf, NADS, objectAt, objectsOf, patch, remove, VMIS, VMS } from "../objects.ts";
import { ALLOCATIONS } from "../people/look.ts";
import { HONEST } from "../people/networks.ts";
import { interfacesIn, nadKeyOf } from "./machines.ts";
import { createVmNamed } from "./vm-actions.ts";

const ANNOTATION = "network.kubevirt.io/addresses";
const RESTARTED_PROBABILITY = 0.6;
const IMPORTED_NAMES = ["legacy", "erp", "print"];

/** Addresses that people and importers write into VMs. */
export const askedKinds: ActionKinds = {
  "vm-ask": {
    weight: 0.7,
    run: async (world, chance) => {
      const vm = chance.of(objectsOf(world, VMS).filter((one) => !isBeingDeleted(one)));
      if (vm === undefined) return;
      const asked = chance.happens(0.15) ? null : someAddresses(world, chance, vm);
      if (!(await ask(world, vm, asked))) return;
      world.counts.add(asked === null ? "vm.asks-no-more" : "vm.asks");
      const vmi = objectAt(world, VMIS, keyOf(vm));
      if (vmi === null || isBeingDeleted(vmi)) return;
      if (!chance.happens(RESTARTED_PROBABILITY)) {
        if (asked !== null && chance.happens(0.5)) await editInstance(world, vmi, asked);
        return;
      }
      world.story.tell("user", `restarts VM ${keyOf(vmi)}`);
      world.counts.add("vm.restarted-to-move");
      await remove(world, VMIS, vmi);
    },
  },
  // As Forklift does: the VM has its addresses from the beginning.
  "vm-import": {
    weight: 0.4,
    run: async (world, chance) => {
      const namespace = chance.of(HONEST.filter((one) => isOpen(world, one)));
      if (namespace === undefined) return;
      const name = chance.of(IMPORTED_NAMES) as string;
      const vm = await createVmNamed(world, chance, namespace, name, (made) =>
        annotationOf(someAddresses(world, chance, made)),
      );
      if (vm !== null) world.counts.add("vm.imported");
    },
  },
};

type Asked = Readonly<Record<string, readonly string[]>>;

const annotationOf = (asked: Asked): Readonly<Record<string, string>> => ({
  [ANNOTATION]: JSON.stringify(asked),
});

/** For some of its networks: mostly what may be free, now and then what somebody has. */
function someAddresses(world: World, chance: Chance, vm: KubeObject): Asked {
  const asked: Record<string, string[]> = {};
  for (const { logical, nad } of interfacesIn(vm.spec.template.spec)) {
    const object = objectAt(world, NADS, nadKeyOf(vm.metadata.namespace, nad));
    const read = object === null ? null : readNad(object);
    const subnet = chance.of(read?.subnets ?? []);
    if (read === null || subnet === undefined || chance.happens(0.2)) continue;
    const held = world.cluster.etcd.range(ALLOCATIONS, "").filter(({ object }) => object.spec.network === read.network);
    const taken = chance.happens(0.2) ? chance.of(held)?.object.spec.address : undefined;
    asked[logical] = [String(taken ?? addressIn(subnet, chance)).split("/")[0] as string];
  }
  return asked;
}

/** Its next launcher, for a migration, asks too. */
async function editInstance(world: World, vmi: KubeObject, asked: Asked): Promise<void> {
  world.story.tell("user", `edits instance ${keyOf(vmi)}, which runs, as well`);
  if ((await patch(world, VMIS, vmi, { metadata: { annotations: annotationOf(asked) } })) !== null)
    world.counts.add("vm.asks-while-it-runs");
}

/** null: it asks for nothing any more. */
async function ask(world: World, vm: KubeObject, asked: Asked | null): Promise<boolean> {
  const text = asked === null ? "nothing any more" : JSON.stringify(asked);
  world.story.tell("user", `VM ${keyOf(vm)} asks for ${text}`);
  const annotations = asked === null ? { [ANNOTATION]: null } : annotationOf(asked);
  return (await patch(world, VMS, vm, { spec: { template: { metadata: { annotations } } } })) !== null;
}
