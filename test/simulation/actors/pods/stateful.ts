import { sleep } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { podObject } from "../../../harness/world/kubevirt-objects.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { scheduled } from "../kubevirt/machines.ts";
import { create, isBeingDeleted, isOpen, keyOf, objectAt, objectsOf, PODS, remove } from "../objects.ts";
import { hasRoom, someNad } from "./plain.ts";

/** A pod of a stateful set, by the set's name. */
const SET_LABEL = "simulation/set";
const REPLICAS = 3;
const LOOK_MS = 250;
const LOOKS_MAX = 240;

/** Pods that come again under their names, with other UIDs, on other nodes. */
export const statefulPodKinds: ActionKinds = {
  "pod-stateful-create": { weight: 1.5, run: grow },
  "pod-stateful-replace": {
    weight: 2,
    run: (world, chance) => replace(world, chance, {}),
  },
  "pod-stateful-replace-by-force": {
    weight: 1,
    run: (world, chance) => replace(world, chance, { graceSeconds: 0 }),
  },
  "pod-stateful-delete": {
    weight: 0.6,
    run: async (world, chance) => {
      const pod = member(world, chance);
      if (pod !== undefined) await remove(world, PODS, pod);
    },
  },
};

function member(world: World, chance: Chance): KubeObject | undefined {
  const pods = objectsOf(world, PODS).filter(
    (pod) => pod.metadata.labels?.[SET_LABEL] !== undefined && !isBeingDeleted(pod),
  );
  return chance.of(pods);
}

async function grow(world: World, chance: Chance): Promise<void> {
  const nad = someNad(world, chance);
  if (nad === undefined || !hasRoom(world)) return;
  const name = `set-${chance.below(REPLICAS)}`;
  if (objectAt(world, PODS, `${nad.namespace}/${name}`) !== null) return;
  await createMember(world, chance, { namespace: nad.namespace, name, nad: nad.name });
}

interface Member {
  readonly namespace: string;
  readonly name: string;
  readonly nad: string;
}

async function createMember(world: World, chance: Chance, { namespace, name, nad }: Member, but?: string) {
  const node = scheduled(world, chance, but === undefined ? [] : [but]);
  if (node === null || !isOpen(world, namespace)) return null;
  const parts = { node, networks: [{ name: nad }], labels: { [SET_LABEL]: nad } };
  const pod = await create(world, PODS, podObject(namespace, { name }, parts));
  if (pod !== null) world.story.tell("stateful set", `creates ${keyOf(pod)} on ${node}, in ${nad}`);
  return pod;
}

/** Deleted, and as soon as the name is free made again, on another node mostly. */
async function replace(world: World, chance: Chance, options: { readonly graceSeconds?: number }): Promise<void> {
  const pod = member(world, chance);
  if (pod === undefined) return;
  world.story.tell("stateful set", `replaces ${keyOf(pod)}`);
  await remove(world, PODS, pod, options);
  for (let look = 0; look < LOOKS_MAX && objectAt(world, PODS, keyOf(pod)) !== null; look += 1)
    await sleep(world.clock, LOOK_MS);
  if (objectAt(world, PODS, keyOf(pod)) !== null) return;
  const { namespace, name, labels } = pod.metadata;
  const next = { namespace, name, nad: labels[SET_LABEL] };
  const but = chance.happens(0.8) ? pod.spec.nodeName : undefined;
  if ((await createMember(world, chance, next, but)) !== null)
    world.counts.add(options.graceSeconds === 0 ? "pod.same-name-by-force" : "pod.same-name-again");
}
