import type { World } from "../../world.ts";

const CLUSTERS = "cluster.x-k8s.io/clusters";
/** Within so long, ms, a controller that follows Clusters has heard of a change and recorded it. */
const RECORDED_MS_MAX = 30_000;

/** When the last pause of a Cluster was over, and when the Cluster was deleted, unpaused; ms of the world. */
interface End {
  readonly goesOnMs: number;
  readonly atMs: number;
}

interface Ends {
  readonly goesOnMs: Map<string, number>;
  readonly byKey: Map<string, End>;
  restores: number;
}

const worlds = new WeakMap<World, Ends>();

/** Notes from now on how every Cluster ends. */
export function noteClusterEnds(world: World): void {
  endsOf(world);
}

/**
 * Whether each of the controllers which run now has certainly seen that the Cluster was not paused any more before it
 * ended.
 */
export function isSeenToGoOn(world: World, cluster: string): boolean {
  const end = endsOf(world).byKey.get(cluster);
  if (end === undefined || end.atMs - end.goesOnMs < RECORDED_MS_MAX) return false;
  const sinceMs = Math.max(...world.controllers.map((one) => one.knowsSinceMs("clusters")));
  return sinceMs + RECORDED_MS_MAX < end.atMs;
}

function endsOf(world: World): Ends {
  const { etcd } = world.cluster;
  const known = worlds.get(world);
  if (known !== undefined) {
    // Nobody hears what a restore brings back or takes away.
    if (known.restores !== etcd.restores) for (const map of [known.byKey, known.goesOnMs]) map.clear();
    known.restores = etcd.restores;
    return known;
  }
  const ends: Ends = { byKey: new Map(), goesOnMs: new Map(), restores: etcd.restores };
  worlds.set(world, ends);
  etcd.listen(({ storage, object, deleted }) => {
    if (storage !== CLUSTERS) return;
    const { goesOnMs, byKey } = endsOf(world);
    const key = `${object.metadata.namespace}/${object.metadata.name}`;
    const sinceMs = goesOnMs.get(key) ?? world.time.nowMs;
    byKey.delete(key);
    goesOnMs.delete(key);
    if (object.spec?.paused === true) return;
    if (deleted) byKey.set(key, { goesOnMs: sinceMs, atMs: world.time.nowMs });
    else goesOnMs.set(key, sinceMs);
  });
  return ends;
}
