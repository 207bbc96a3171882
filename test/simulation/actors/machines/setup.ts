import { simClusterOf } from "../../cluster/cluster.ts";
import type { World } from "../../world.ts";
import { checkMachines } from "./at-rest.ts";
import { CLUSTERS, makeCluster, NAMESPACES, setPaused } from "./clusters.ts";
import { setUpData } from "./data.ts";
import { admitCapi, defineOthers, installCapi } from "./definitions.ts";
import { type FleetMachine, fleetOf } from "./fleet.ts";
import { callBack, isAway } from "./move.ts";
import { allOf, at, create, keyOf, servedVersion } from "./objects.ts";
import { machinePlan } from "./plan.ts";
import { ownPool } from "./pools.ts";

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
  world.onPeace({ heal: () => heal(world), check: () => checkMachines(world) });
}

/** Nothing is paused or away, and what pools are made of is installed; pools are there again where claims and check say so. */
async function heal(world: World): Promise<void> {
  callBack(world);
  if (servedVersion(world, "claims") === null) await installCapi(world, machinePlan(world.seed).version);
  for (const namespace of NAMESPACES)
    for (const name of CLUSTERS) {
      const isNeeded = fleetOf(world).of(`${namespace}/${name}`).length > 0;
      if (isNeeded && !isAway(world, `${namespace}/${name}`)) await makeCluster(world, namespace, name);
    }
  for (const cluster of allOf(world, "clusters"))
    if (cluster.spec?.paused === true && !isAway(world, keyOf(cluster)))
      await setPaused(world, keyOf(cluster), false);
  for (const machine of fleetOf(world).machines.values())
    if (lacksAddress(world, machine)) await makeAgain(world, machine);
}

/**
 * It uses an address, and its pool is gone, without which nobody records the address again where nothing keeps it, nor makes its
 * IPAddress again.
 */
function lacksAddress(world: World, { namespace, name, pool, used }: FleetMachine): boolean {
  if (used === null || at(world, "pools", `${namespace}/${pool}`) !== null) return false;
  if (at(world, "addresses", `${namespace}/${name}`) === null) return true;
  return !allOf(world, "allocations").some(
    ({ spec, status }) =>
      spec.network === used.network &&
      spec.owner.namespace === namespace &&
      spec.owner.name === name &&
      status?.state === "Bound",
  );
}

async function makeAgain(world: World, { namespace, pool, used }: FleetMachine): Promise<void> {
  const { network } = used as NonNullable<typeof used>;
  const made = await create(world, "pools", {
    metadata: { name: pool, namespace },
    spec: { network, family: 4 },
  });
  if (made === null) return;
  world.counts.add("machines.pool-made-again");
  world.story.tell(
    "metal admin",
    `makes pool ${namespace}/${pool} of network ${network} again, as its claims and check tell`,
  );
}
