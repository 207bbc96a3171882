import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { KUBEVIRT } from "../../../harness/world/kubevirt-objects.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { type Nad, nadsIn } from "../networks.ts";
import {
  create,
  isBeingDeleted,
  isOpen,
  keyOf,
  objectAt,
  objectsOf,
  PODS,
  patch,
  remove,
  VMIS,
  VMS,
} from "../objects.ts";
import { HONEST } from "../people/networks.ts";
import { LATE_NETWORK } from "../pods/late-networks.ts";
import {
  EXIT_ANNOTATION,
  interfacesIn,
  launchersOf,
  macOf,
  nadNameFor,
  specOf,
  VM_FINALIZER,
  type VmInterface,
} from "./machines.ts";

const VMS_MAX = 10;
const INTERFACES_MAX = 3;
/** Few, so that they come again. */
const NAMES = ["db", "web", "mail", "x", "x.a", "build"];
const LOGICAL_NAMES = ["blue", "green", "Red_1", "b"];

/** VMs from their creation to the day before their deletion. */
export const vmKinds: ActionKinds = {
  "vm-create": {
    weight: 5,
    run: (world, chance) => createVm(world, chance),
  },
  "vm-start": {
    weight: 3,
    run: (world, chance) => setStrategy(world, chance, ["Halted", "RerunOnFailure"], "Always"),
  },
  "vm-stop": {
    weight: 1,
    run: (world, chance) => setStrategy(world, chance, ["Always", "RerunOnFailure"], "Halted"),
  },
  "vm-rerun-on-failure": {
    weight: 0.5,
    run: (world, chance) => setStrategy(world, chance, ["Always"], "RerunOnFailure"),
  },
  "vm-restart": {
    weight: 1,
    run: async (world, chance) => {
      const vmi = someInstance(world, chance);
      if (vmi === undefined) return;
      world.story.tell("user", `restarts VM ${keyOf(vmi)}`);
      world.counts.add("vm.restarted");
      await remove(world, VMIS, vmi);
    },
  },
  "vm-crash": { weight: 1.5, run: (world, chance) => exit(world, chance, "1", "vm.crashed") },
  "vm-guest-stop": { weight: 1, run: (world, chance) => exit(world, chance, "0", "vm.stopped-by-guest") },
  "vm-hot-plug": { weight: 0.7, run: hotPlug },
  "vm-rename-network": { weight: 0.4, run: renameNetwork },
};

async function createVm(world: World, chance: Chance): Promise<void> {
  const namespace = chance.of(HONEST.filter((one) => isOpen(world, one)));
  if (namespace === undefined || objectsOf(world, VMS).length >= VMS_MAX) return;
  await createVmNamed(world, chance, namespace, chance.of(NAMES) as string);
}

/** A VM with one to three interfaces; it starts at once, mostly. null: it was refused, or there is no network. */
export async function createVmNamed(
  world: World,
  chance: Chance,
  namespace: string,
  name: string,
  annotationsOf?: (vm: Pick<KubeObject, "metadata" | "spec">) => Readonly<Record<string, string>>,
): Promise<KubeObject | null> {
  const interfaces = someInterfaces(world, chance, namespace);
  if (interfaces.length === 0) return null;
  const runStrategy = chance.happens(0.85) ? "Always" : "Halted";
  const template = { spec: specOf(interfaces, uuidOf(chance)) };
  const metadata = { name, namespace, finalizers: [VM_FINALIZER] };
  const annotations = annotationsOf?.({ metadata, spec: { template } });
  const asking = annotations === undefined ? template : { ...template, metadata: { annotations } };
  const vm = await create(world, VMS, {
    apiVersion: KUBEVIRT,
    kind: "VirtualMachine",
    metadata,
    spec: { runStrategy, template: asking },
  });
  if (vm === null) return null;
  const on = interfaces.map(({ logical, nad }) => `${logical} on ${nad}`).join(", ");
  world.story.tell("user", `creates VM ${keyOf(vm)}: ${on}`);
  world.counts.add("vm.created");
  if (interfaces.length > 1) world.counts.add("vm.created-with-several-interfaces");
  return vm;
}

/** Of a VM's firmware. */
export function uuidOf(chance: Chance): string {
  const digits = (count: number) => Array.from({ length: count }, () => chance.below(16).toString(16)).join("");
  return `${digits(8)}-${digits(4)}-4${digits(3)}-8${digits(3)}-${digits(12)}`;
}

function someInterfaces(world: World, chance: Chance, namespace: string): VmInterface[] {
  const nads = usableNads(world, chance, namespace);
  const count = Math.min(chance.between(1, INTERFACES_MAX), chance.between(1, INTERFACES_MAX));
  return LOGICAL_NAMES.slice(0, count).flatMap((logical) => {
    const nad = chance.of(nads);
    if (nad === undefined) return [];
    const mac = chance.happens(0.6) ? { mac: macOf(chance) } : {};
    return [{ logical, nad: nadNameFor(namespace, nad), ...mac }];
  });
}

/** Those of the namespace, persistent ones mostly, and now and then those of another one. */
export function usableNads(world: World, chance: Chance, namespace: string): Nad[] {
  const nads = nadsIn(world, chance.happens(0.1) ? undefined : namespace).filter(
    ({ network }) => network !== LATE_NETWORK,
  );
  const persistent = nads.filter(({ isPersistent }) => isPersistent);
  return persistent.length > 0 && chance.happens(0.8) ? persistent : nads;
}

async function setStrategy(world: World, chance: Chance, from: readonly string[], to: string): Promise<void> {
  const vm = chance.of(
    objectsOf(world, VMS).filter((one) => from.includes(one.spec.runStrategy) && !isBeingDeleted(one)),
  );
  if (vm === undefined) return;
  world.story.tell("user", `VM ${keyOf(vm)}: ${vm.spec.runStrategy} becomes ${to}`);
  world.counts.add(to === "Halted" ? "vm.stopped" : "vm.start-wanted");
  await patch(world, VMS, vm, { spec: { runStrategy: to } });
}

/** An instance that is not being deleted. */
export function someInstance(world: World, chance: Chance, phase?: string): KubeObject | undefined {
  return chance.of(
    objectsOf(world, VMIS).filter((one) => !isBeingDeleted(one) && (phase === undefined || one.status.phase === phase)),
  );
}

/** The launcher pod that an instance's guest is in. */
export function launcherOf(world: World, vmi: KubeObject): KubeObject | undefined {
  return launchersOf(world, vmi).find(({ metadata }) => metadata.uid === vmi.status.launcher);
}

async function exit(world: World, chance: Chance, code: string, count: string): Promise<void> {
  const vmi = someInstance(world, chance, "Running");
  const pod = vmi && launcherOf(world, vmi);
  if (vmi === undefined || pod === undefined) return;
  world.story.tell("guest", `of ${keyOf(vmi)} ${code === "0" ? "shuts itself down" : "crashes"}`);
  world.counts.add(count);
  await patch(world, PODS, pod, { metadata: { annotations: { [EXIT_ANNOTATION]: code } } });
}

/** One more interface: of the VM, and of its instance, which migrates to get it. */
async function hotPlug(world: World, chance: Chance): Promise<void> {
  const vmi = someInstance(world, chance, "Running");
  if (vmi === undefined) return;
  const { namespace } = vmi.metadata;
  const interfaces = interfacesIn(vmi.spec);
  const nad = chance.of(usableNads(world, chance, namespace));
  if (interfaces.length >= INTERFACES_MAX || nad === undefined) return;
  const logical = `plugged${interfaces.length}`;
  const plugged = [...interfaces, { logical, nad: nadNameFor(namespace, nad) }];
  const spec = specOf(plugged, vmi.spec.domain.firmware.uuid);
  world.story.tell("user", `plugs ${logical} on ${nad.name} into ${keyOf(vmi)}`);
  world.counts.add("vm.hot-plugged");
  const vm = objectAt(world, VMS, keyOf(vmi));
  if (vm !== null) await patch(world, VMS, vm, { spec: { template: { spec } } });
  const migrationState = newMigration(world, chance);
  await patch(world, VMIS, vmi, { spec, status: { migrationState } });
}

/** A migration that somebody has asked for. It replaces the one before. */
export function newMigration(world: World, chance: Chance): KubeObject {
  const uid = `migration-${chance.below(2 ** 32).toString(16)}`;
  return { uid, state: "scheduling", sinceMs: world.clock.monotonicMs(), untilMs: null, source: null };
}

/** From its next start on a network of the VM has another name, and so another claim. */
async function renameNetwork(world: World, chance: Chance): Promise<void> {
  const vm = chance.of(objectsOf(world, VMS).filter((one) => !isBeingDeleted(one)));
  if (vm === undefined) return;
  const [first, ...rest] = interfacesIn(vm.spec.template.spec);
  if (first === undefined) return;
  const logical = chance.of(["blue", "azure", "cyan"].filter((one) => one !== first.logical)) as string;
  const spec = specOf([{ ...first, logical }, ...rest], vm.spec.template.spec.domain.firmware.uuid);
  world.story.tell("user", `renames network ${first.logical} of VM ${keyOf(vm)} to ${logical}`);
  world.counts.add("vm.network-renamed");
  await patch(world, VMS, vm, { spec: { template: { spec } } });
}
