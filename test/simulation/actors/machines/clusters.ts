import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { Chance } from "../../engine/chance.ts";
import type { World } from "../../world.ts";
import { attempted } from "../people/look.ts";
import { allOf, at, create, isBeingDeleted, isOpen, patch } from "./objects.ts";

/** Where machines live: the last is deleted and made again now and then. */
export const NAMESPACES = ["metal", "shop", "racks"] as const;
export const ENDING_NAMESPACE = "racks";
export const CLUSTERS = ["prod", "edge"] as const;

/** Namespace, and a Cluster in it; what is there already stays. */
export async function makeCluster(world: World, namespace: string, name: string): Promise<KubeObject | null> {
  if (world.cluster.etcd.get("/namespaces", namespace) === null)
    await attempted(
      world.cluster.admin.create("/api/v1/namespaces", {
        apiVersion: "v1",
        kind: "Namespace",
        metadata: { name: namespace },
      }),
    );
  if (!isOpen(world, namespace)) return null;
  const known = at(world, "clusters", `${namespace}/${name}`);
  return known ?? (await create(world, "clusters", { metadata: { name, namespace }, spec: {} }));
}

/** A Cluster that is there now, as `namespace/name`. */
export function anyCluster(world: World, chance: Chance): string | null {
  const all = allOf(world, "clusters").filter((one) => !isBeingDeleted(one));
  const chosen = chance.of(all);
  return chosen === undefined ? null : `${chosen.metadata.namespace}/${chosen.metadata.name}`;
}

/** Whether a Cluster was paused, by nobody who moves it. */
export async function setPaused(world: World, key: string, isPaused: boolean): Promise<void> {
  await patch(world, "clusters", key, { spec: { paused: isPaused } });
  world.story.tell("cluster api", `${isPaused ? "pauses" : "goes on with"} cluster ${key}`);
}
