import { simClusterOf } from "../../cluster/cluster.ts";
import type { World } from "../../world.ts";
import { checkMachines } from "./at-rest.ts";
import { CLUSTERS, makeCluster, NAMESPACES, setPaused } from "./clusters.ts";
import { setUpData } from "./data.ts";
import { admitCapi, defineOthers, installCapi } from "./definitions.ts";
import { fleetOf } from "./fleet.ts";
import { callBack, isAway } from "./move.ts";
import { allOf, create, keyOf, servedVersion } from "./objects.ts";
import { machinePlan } from "./plan.ts";
import { ownPool } from "./pools.ts";
import { mendPools, stopMending } from "./remedies.ts";

/** After the cluster: definitions, as the seed says, the first pool, and the provider begins to work. */
export async function setUpMachines(world: World): Promise<void> {
  const { fromTheBeginning, version } = machinePlan(world.seed);
  admitCapi(world);
  await defineOthers(world);
  if (fromTheBeginning) await installCapi(world, version);
  for (const namespace of NAMESPACES) await makeCluster(world, namespace, CLUSTERS[0]);
  await create(world, "pools", ownPool(NAMESPACES[0]));
  await setUpData(world);
  const fleet = fleetOf(world);
  fleet.start();
  simClusterOf(world).restored.push(() => fleet.restored());
  world.onPeace({
    heal: () => heal(world),
    check: () => {
      stopMending(world);
      checkMachines(world);
    },
  });
}

/**
 * Nothing is paused or away, and what pools are made of is installed; pools are there again where claims and check say
 * so.
 */
async function heal(world: World): Promise<void> {
  callBack(world);
  if (servedVersion(world, "claims") === null) await installCapi(world, machinePlan(world.seed).version);
  for (const namespace of NAMESPACES)
    for (const name of CLUSTERS) {
      const isNeeded = fleetOf(world).of(`${namespace}/${name}`).length > 0;
      if (isNeeded && !isAway(world, `${namespace}/${name}`)) await makeCluster(world, namespace, name);
    }
  for (const cluster of allOf(world, "clusters"))
    if (cluster.spec?.paused === true && !isAway(world, keyOf(cluster))) await setPaused(world, keyOf(cluster), false);
  await mendPools(world);
}
