import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { podObject } from "../../../harness/world/kubevirt-objects.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { keyOf, objectsOf, PODS, remove } from "../objects.ts";
import { someNad } from "./plain.ts";

const MIRROR = "kubernetes.io/config.mirror";
const OF_A_NODE_MAX = 2;
const UID_DIGITS = 32;

/** Pods that a node has from a file of its own. */
export const staticPodKinds: ActionKinds = {
  "pod-static-add": { weight: 0.6, run: add },
  "pod-static-change": {
    weight: 0.4,
    run: async (world, chance) => {
      const found = some(world, chance);
      if (found === undefined) return;
      world.story.tell("user", `edits the manifest of ${found.name} on ${found.machine.name}`);
      world.counts.add("pod.static-edited");
      const { metadata, ...rest } = found.pod;
      found.machine.staticPods.set(found.name, { ...rest, metadata: { ...metadata, uid: uidOf(chance) } });
    },
  },
  "pod-static-remove": {
    weight: 0.4,
    run: async (world, chance) => {
      const found = some(world, chance);
      if (found === undefined) return;
      world.story.tell("user", `removes the manifest of ${found.name} from ${found.machine.name}`);
      world.counts.add("pod.static-removed");
      found.machine.staticPods.delete(found.name);
    },
  },
  "pod-mirror-delete": {
    weight: 0.6,
    run: async (world, chance) => {
      const mirror = chance.of(
        objectsOf(world, PODS).filter(({ metadata }) => metadata.annotations?.[MIRROR] !== undefined),
      );
      if (mirror === undefined) return;
      world.story.tell("user", `deletes ${keyOf(mirror)}, the mirror of a static pod`);
      world.counts.add("pod.mirror-deleted");
      await remove(world, PODS, mirror, chance.happens(0.5) ? { graceSeconds: 0 } : {});
    },
  },
};

function add(world: World, chance: Chance): void {
  const nad = someNad(world, chance);
  const machine = chance.of(world.machines);
  if (nad === undefined || machine === undefined || machine.staticPods.size >= OF_A_NODE_MAX) return;
  const name = `static-${chance.below(OF_A_NODE_MAX)}-${machine.name}`;
  if (machine.staticPods.has(name)) return;
  const parts = { node: machine.name, networks: [{ name: nad.name }] };
  const { metadata, ...rest } = podObject(nad.namespace, { name }, parts);
  world.story.tell("user", `puts the manifest of ${name} on ${machine.name}, in ${nad.name}`);
  world.counts.add("pod.static-added");
  machine.staticPods.set(name, { ...rest, metadata: { ...metadata, uid: uidOf(chance) } });
}

function some(world: World, chance: Chance) {
  const all = world.machines.flatMap((machine) =>
    [...machine.staticPods].map(([name, pod]: [string, KubeObject]) => ({ machine, name, pod })),
  );
  return chance.of(all);
}

/** A hash of the manifest, as kubelets make it. */
function uidOf(chance: Chance): string {
  return Array.from({ length: UID_DIGITS }, () => chance.below(16).toString(16)).join("");
}
