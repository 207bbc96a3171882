/*
 * test/simulation/large/: a cluster in which a node that asked for what the cluster holds would be noticed
 *
 *   large      its parts, with the settings that are shipped; its servers count who asks for what
 *   prepared   what is there before time begins to pass
 *   history    what happens: a power-on of all nodes, restarts, a gap in contact, an hour of rest; then the bill
 */

import { loadControllerSettings } from "../../../controller/settings.ts";
import { PROCESSES } from "../../../platform/settings/processes.ts";
import { Bill } from "../cluster/bill.ts";
import { makeCluster, type SimCluster, simClusterOf } from "../cluster/cluster.ts";
import { makeControllers } from "../cluster/controllers.ts";
import { PARTS, type Parts } from "../engine/parts.ts";
import { makeMachines } from "../machine/machines.ts";
import type { Charge, World } from "../world.ts";
import { LARGE_KINDS, setUpLarge } from "./history.ts";
import { prepare } from "./prepared.ts";

export interface LargeWorld {
  readonly parts: Parts;
  /** What has been asked so far. */
  charges(): readonly Charge[];
}

/** A world in which so many addresses are taken before its nodes boot. */
export function largeWorld(allocations: number): LargeWorld {
  let bill: Bill | null = null;
  const { witnessIntervalSeconds, witnessGraceSeconds, reassertIntervalSeconds, recoverySeconds } =
    PROCESSES.daemon.settings;
  const kind = {
    settings: {
      witnessIntervalSeconds: witnessIntervalSeconds.default,
      witnessGraceSeconds: witnessGraceSeconds.default,
      reassertIntervalSeconds: reassertIntervalSeconds.default,
      recoverySeconds: recoverySeconds.default,
      // Its look at bridges every second is no request, and takes time.
      metadata: "off",
    },
    // What many do at the same time is seen as such.
    rateSpread: 0,
  } as const;
  const parts: Parts = {
    ...PARTS,
    makeCluster: async (world) => {
      const cluster = await makeCluster(world);
      cluster.bill = bill = new Bill(() => world.time.nowMs);
      prepare(firstServer(cluster), allocations);
      return cluster;
    },
    makeMachines: (world, count) => makeMachines(world, count, kind),
    makeControllers: (world: World) => makeControllers(world, simClusterOf(world), shippedSettings),
    setUp: setUpLarge,
    kinds: LARGE_KINDS,
  };
  return { parts, charges: () => bill?.charges ?? [] };
}

/** In place of a kubeconfig's path the connection is handed over. */
const shippedSettings = (identity: string) =>
  loadControllerSettings({ kubeconfig: "handed over", identity, metricsAddress: "off" }, {});

function firstServer({ front }: SimCluster) {
  const [server] = front.servers;
  if (server === undefined) throw new Error("the cluster has no API server");
  return server;
}
