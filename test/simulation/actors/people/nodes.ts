import { sleep } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { Chance } from "../../engine/chance.ts";
import { machinesOf } from "../../machine/chosen.ts";
import type { ActionKinds, Machine, World } from "../../world.ts";
import { attempted, objectsOf, PODS, podPath } from "./look.ts";

/** What operators do to nodes and to what runs on them. */
export const NODE_WORK: ActionKinds = {
  "people-node-remove": { weight: 0.15, run: removeNode },
  "people-node-object-delete": { weight: 0.2, run: deleteNodeObject },
  "people-upgrade": { weight: 0.15, run: upgrade },
};

const DRAINED_MS_MAX = 60_000;
/** How long nobody notices that it was a mistake, ms: shorter than every grace. */
const MISTAKEN_MS_MAX = 3_000;

/** Drained, switched off, deleted, and added again under its name. */
async function removeNode(world: World, chance: Chance): Promise<void> {
  const up = world.machines.filter(({ isUp }) => isUp);
  const machine = chance.of(up);
  if (machine === undefined || up.length < 3) return;
  const { admin } = world.cluster;
  const path = `/api/v1/nodes/${machine.name}`;
  tell(world, "node-drain", `drains ${machine.name}`);
  await attempted(admin.patch(path, { spec: { unschedulable: true } }));
  for (const pod of podsOn(world, machine)) await attempted(remove(world, pod));
  for (let waitedMs = 0; podsOn(world, machine).length > 0 && waitedMs < DRAINED_MS_MAX; waitedMs += 1_000)
    await sleep(world.clock, 1_000);
  if (!world.faults.isOn) {
    await attempted(admin.patch(path, { spec: { unschedulable: null } }));
    return;
  }
  if (machine.isUp) machine.losePower();
  for (const pod of podsOn(world, machine)) await attempted(remove(world, pod, 0));
  await attempted(admin.remove(path));
  tell(world, "node-remove", `switches ${machine.name} off and deletes its Node`);
  await sleep(world.clock, chance.between(2_000, 90_000));
  if (machine.isUp) return;
  machine.boot();
  tell(world, "node-add", `adds ${machine.name} again`);
}

/** Somebody deletes the Node of a machine that runs, and starts its kubelet again, which registers it anew. */
async function deleteNodeObject(world: World, chance: Chance): Promise<void> {
  const machine = chance.of(machinesOf(world).filter(({ isUp }) => isUp));
  if (machine === undefined) return;
  await attempted(world.cluster.admin.remove(`/api/v1/nodes/${machine.name}`));
  tell(world, "node-object-delete", `deletes Node ${machine.name} by mistake`);
  await sleep(world.clock, chance.below(MISTAKEN_MS_MAX));
  if (machine.isUp) machine.startKubelet();
}

/** A new release comes to one node after the other, and to the controllers. */
async function upgrade(world: World, chance: Chance): Promise<void> {
  tell(world, "upgrade", "rolls a new release out");
  for (const machine of world.machines) {
    if (machine.isUp && machine.daemon !== null) machine.restartDaemon();
    await sleep(world.clock, chance.between(500, 10_000));
  }
  for (const controller of world.controllers) {
    if (controller.isRunning) controller.kill();
    await sleep(world.clock, chance.between(100, 3_000));
    if (!controller.isRunning) controller.start();
    await sleep(world.clock, chance.between(100, 10_000));
  }
}

function podsOn(world: World, { name }: Machine): KubeObject[] {
  return objectsOf(world, PODS).filter(({ spec }) => spec?.nodeName === name);
}

function remove(world: World, { metadata }: KubeObject, graceSeconds?: number): Promise<void> {
  const options = graceSeconds === undefined ? {} : { graceSeconds };
  return world.cluster.admin.remove(podPath(metadata.namespace, metadata.name), options);
}

function tell(world: World, name: string, what: string): void {
  world.story.tell("alice", what);
  world.counts.add(`people.${name}`);
}
