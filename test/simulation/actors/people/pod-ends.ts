import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { World } from "../../world.ts";
import { PODS } from "./look.ts";

/** A list that is under way at the end of a pod may be answered so much later, ms. */
const LISTED_MS_MAX = 20_000;

interface End {
  readonly atMs: number;
  /** Its last version said that it had ended, or was being deleted with every container terminated. */
  readonly isTold: boolean;
}

interface Ends {
  readonly byUid: Map<string, End>;
  restores: number;
}

const worlds = new WeakMap<World, Ends>();

/** Notes how every pod ends from now on. */
export function notePodEnds(world: World): void {
  endsOf(world);
}

/**
 * When a pod ended so that each of the controllers which run now has certainly seen it, ms of the world; null: it was
 * deleted by force, a controller began or listed all pods anew since, or nobody can tell.
 */
export function seenToEndMs(world: World, uid: string): number | null {
  const end = endsOf(world).byUid.get(uid);
  if (end === undefined || !end.isTold || world.controllers.length === 0) return null;
  const sinceMs = Math.max(...world.controllers.map((one) => one.knowsSinceMs("pods")));
  return sinceMs + LISTED_MS_MAX < end.atMs ? end.atMs : null;
}

function endsOf(world: World): Ends {
  const { etcd } = world.cluster;
  const known = worlds.get(world);
  if (known !== undefined) {
    // Nobody hears what a restore brings back or takes away.
    if (known.restores !== etcd.restores) known.byUid.clear();
    known.restores = etcd.restores;
    return known;
  }
  const ends: Ends = { byUid: new Map(), restores: etcd.restores };
  worlds.set(world, ends);
  etcd.listen(({ storage, object, deleted }) => {
    if (storage !== PODS || !deleted) return;
    endsOf(world).byUid.set(object.metadata.uid, { atMs: world.time.nowMs, isTold: hasEnded(object) });
  });
  return ends;
}

/** What is written of it when it is deleted. */
function hasEnded({ metadata, status = {} }: KubeObject): boolean {
  const containers: KubeObject[] = status.containerStatuses ?? [];
  const areDown = containers.length > 0 && containers.every(({ state }) => state?.terminated !== undefined);
  const isOver = status.phase === "Succeeded" || status.phase === "Failed";
  return areDown && (isOver || metadata.deletionTimestamp !== undefined);
}
