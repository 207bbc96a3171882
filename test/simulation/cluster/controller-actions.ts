import { sleep } from "../../../platform/time.ts";
import type { Chance } from "../engine/chance.ts";
import type { ActionKinds, World } from "../world.ts";
import { simClusterOf } from "./cluster.ts";
import { LEASE, LEASES, SimController } from "./controllers.ts";

/** Longer than a lease lasts, ms. */
const WITHOUT_LEASE_MS = [16_000, 40_000] as const;

/** What happens to Holdfast's controllers. */
export const controllerActions: ActionKinds = {
  "controller-kill": {
    weight: 0.5,
    run: async (world, chance) => {
      const one = runningOf(world, chance);
      if (one === undefined) return;
      one.kill();
      world.counts.add("api.controller-killed");
      await startedAfter(world, one, chance.between(500, 25_000));
    },
  },
  "controller-restart": {
    weight: 0.4,
    run: async (world, chance) => {
      const one = runningOf(world, chance);
      if (one === undefined) return;
      world.counts.add("api.controller-restarted");
      await one.stop();
      await startedAfter(world, one, chance.below(2_000));
    },
  },
  "controller-suspend": {
    weight: 0.5,
    run: async (world, chance) => {
      const one = runningOf(world, chance);
      if (one === undefined || one.isSuspended) return;
      const ms = chance.happens(0.5) ? chance.between(300, 8_000) : chance.between(8_000, 60_000);
      const { link } = one;
      world.counts.add("api.controller-suspended");
      world.story.tell(one.name, `stands still for ${ms} ms`);
      one.suspend();
      await sleep(world.clock, ms);
      if (one.link === link) one.resume();
    },
  },
  /** As if the Deployment had no replicas: the nodes are on their own until there is peace, and for some of it. */
  "controllers-absent": {
    weight: 0.1,
    run: (world) => {
      world.counts.add("api.controllers-absent");
      for (const one of placesOf(world)) {
        one.isAbsent = true;
        one.kill();
      }
    },
  },
  "controller-loses-lease": {
    weight: 0.4,
    run: (world, chance) => {
      const one = leaderOf(world);
      const link = simClusterOf(world).links.find(({ name }) => name === one?.link);
      if (one === undefined || link === undefined) return;
      const [from, to] = WITHOUT_LEASE_MS;
      const ms = chance.between(from, to);
      const way = chance.happens(0.5) ? "answers" : "both";
      world.counts.add("api.leader-cut");
      world.story.tell(one.name, `leads, and is cut off for ${ms} ms (${way})`);
      link.break(way, ms);
    },
  },
};

const placesOf = ({ controllers }: World) =>
  controllers.filter((one): one is SimController => one instanceof SimController);

function runningOf(world: World, chance: Chance): SimController | undefined {
  return chance.of(placesOf(world).filter(({ isRunning }) => isRunning));
}

function leaderOf(world: World): SimController | undefined {
  const { etcd } = simClusterOf(world);
  const lease = etcd.get(LEASES, LEASE);
  return placesOf(world).find(({ isRunning, identity }) => isRunning && identity === lease?.spec?.holderIdentity);
}

async function startedAfter(world: World, one: SimController, ms: number): Promise<void> {
  await sleep(world.clock, ms);
  one.start();
}
