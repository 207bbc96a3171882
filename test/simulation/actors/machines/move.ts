import { sleep } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { Chance } from "../../engine/chance.ts";
import type { World } from "../../world.ts";
import { makeCluster } from "./clusters.ts";
import { CLUSTER_LABEL, fleetOf } from "./fleet.ts";
import { allOf, at, create, isBeingDeleted, keyOf, patch, remove, type Storage } from "./objects.ts";

/** Between two requests of clusterctl, ms. */
const REQUEST_MS_MAX = 40;
/** It waits so long after it has paused the Cluster, ms. */
const PAUSED_MS_MAX = 3_000;
/** Shorter than the time after which a Cluster that went unseen frees its addresses, ms. */
const AWAY_MS_MAX = 80_000;

interface Taken {
  readonly storage: Storage;
  readonly object: KubeObject;
}

/** Clusters that are away, or on their way. */
const AWAY = new WeakMap<World, Set<string>>();
/** When they come back; in peace at once. */
const WAITING = new WeakMap<World, Set<() => void>>();

/** Whether a Cluster is being moved, or is elsewhere. */
export function isAway(world: World, key: string): boolean {
  return AWAY.get(world)?.has(key) ?? false;
}

/** Everything that is elsewhere comes back now. */
export function callBack(world: World): void {
  for (const end of WAITING.get(world) ?? []) end();
}

/**
 * `clusterctl move` to another management cluster, and back some time later: the Cluster is paused, everything is taken
 * away, made again with other UIDs and without status, and the pause ends last. The machines run all the time.
 */
export async function moveThereAndBack(world: World, key: string, chance: Chance): Promise<void> {
  const cluster = at(world, "clusters", key);
  // A move refuses a Cluster that is paused.
  if (cluster === null || isBeingDeleted(cluster) || cluster.spec?.paused === true || isAway(world, key)) return;
  // Whoever moves looks first: nothing else takes along what a machine was told.
  const isComplete = fleetOf(world)
    .of(key)
    .every(({ namespace, name, used }) => used === null || at(world, "addresses", `${namespace}/${name}`) !== null);
  if (!isComplete) return;
  const away = AWAY.get(world) ?? new Set();
  AWAY.set(world, away.add(key));
  const machines = fleetOf(world).of(key);
  try {
    world.story.tell("clusterctl", `moves cluster ${key} away, with ${machines.length} machines`);
    await patch(world, "clusters", key, { spec: { paused: true } });
    await sleep(world.clock, chance.number() * PAUSED_MS_MAX);
    for (const machine of machines) machine.isMoving = true;
    const taken = takenOf(world, key);
    for (const { storage, object } of taken.toReversed()) {
      await sleep(world.clock, chance.number() * REQUEST_MS_MAX);
      await patch(world, storage, keyOf(object), { metadata: { finalizers: null } });
      await remove(world, storage, keyOf(object));
    }
    world.counts.add("machines.moved-away");
    await elsewhere(world, chance.number() * AWAY_MS_MAX);
    world.story.tell("clusterctl", `moves cluster ${key} back`);
    await bring(world, taken, chance);
    // A restore may have taken it away before anything of it was read.
    const [namespace = "", name = ""] = key.split("/");
    await makeCluster(world, namespace, name);
    await patch(world, "clusters", key, { spec: { paused: null } });
    world.counts.add("machines.moved-back");
  } finally {
    away.delete(key);
    for (const machine of machines) {
      machine.isMoving = false;
      fleetOf(world).mark(`${machine.namespace}/${machine.name}`);
    }
  }
}

/** Owners first. */
function takenOf(world: World, key: string): Taken[] {
  const [namespace = "", name = ""] = key.split("/");
  const own = (storage: Storage) =>
    allOf(world, storage, namespace)
      .filter(({ metadata }) => metadata.labels?.[CLUSTER_LABEL] === name)
      .map((object): Taken => ({ storage, object }));
  const cluster = at(world, "clusters", key);
  const claims = own("claims");
  const claimed = new Set(claims.map(({ object }) => object.metadata.uid));
  const answers = allOf(world, "addresses", namespace)
    .filter(({ metadata }) => (metadata.ownerReferences ?? []).some(({ uid }: KubeObject) => claimed.has(uid)))
    .map((object): Taken => ({ storage: "addresses", object }));
  return [
    ...(cluster === null ? [] : [{ storage: "clusters", object: cluster } as const]),
    ...own("pools"),
    ...own("vsphereVms"),
    ...claims,
    ...answers,
  ];
}

async function elsewhere(world: World, ms: number): Promise<void> {
  const waiting = WAITING.get(world) ?? new Set();
  WAITING.set(world, waiting);
  await new Promise<void>((resolve) => {
    const end = () => {
      waiting.delete(end);
      timer.cancel();
      resolve();
    };
    const timer = world.clock.timer(ms, end);
    waiting.add(end);
  });
}

/** Without status, and with the UIDs that the owners have now. What somebody has made meanwhile stays. */
async function bring(world: World, taken: readonly Taken[], chance: Chance): Promise<void> {
  const uids = new Map<string, string>();
  for (const { storage, object } of taken) {
    await sleep(world.clock, chance.number() * REQUEST_MS_MAX);
    const { name, namespace, uid, labels, annotations, finalizers, ownerReferences = [] } = object.metadata;
    const owners = ownerReferences.flatMap((one: KubeObject) => {
      const now = uids.get(one.uid);
      return now === undefined ? [] : [{ ...one, uid: now }];
    });
    const metadata = { name, namespace, labels, annotations, finalizers, ownerReferences: owners };
    const made = await create(world, storage, { metadata, spec: object.spec });
    const there = made ?? at(world, storage, keyOf(object));
    if (there !== null) uids.set(uid, there.metadata.uid);
  }
}
