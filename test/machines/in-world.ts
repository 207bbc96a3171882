import type { ClusterApi, ClusterApiOptions } from "../harness/machines/cluster-api.ts";
import { CutLink } from "../harness/world/cut-link.ts";
import { World } from "../harness/world/world.ts";

/** A world in memory with Cluster API, a controller and the network "blue", 10.1.0.0/24. */
export interface MachineWorld {
  readonly world: World;
  readonly capi: ClusterApi;
  /** Of the controller. */
  readonly way: CutLink;
}

export async function startMachines(options: ClusterApiOptions = {}): Promise<MachineWorld> {
  const world = await World.start({ api: "memory" });
  // Before the controller, which looks for missing definitions now and then only.
  const capi = await world.startClusterApi(options);
  const way = new CutLink();
  await world.startController({}, way);
  await world.network("blue", { subnets: "10.1.0.0/24", gateway: "10.1.0.1" });
  return { world, capi, way };
}

/** Such a world for one test. */
export async function inMachines(
  options: ClusterApiOptions,
  work: (machines: MachineWorld) => Promise<void>,
): Promise<void> {
  const machines = await startMachines(options);
  try {
    await work(machines);
  } finally {
    await machines.world.stop();
  }
}
