import { sleep } from "../../../platform/time.ts";
import type { Chance } from "../engine/chance.ts";
import type { ActionKinds, World } from "../world.ts";
import { simClusterOf } from "./cluster.ts";
import type { Broken, SimLink } from "./sim-link.ts";

const WAYS: readonly Broken[] = ["both", "both", "requests", "answers"];
/** TCP notices after so long at most that nobody is at the other end, ms. */
const SILENT_MS_MAX = 30_000;

/** What happens between processes and the API server. */
export const linkActions: ActionKinds = {
  "link-partition": {
    weight: 1.5,
    run: (world, chance) => {
      const link = linkOf(world, chance);
      if (link === undefined) return;
      const way = chance.of(WAYS) as Broken;
      const ms = chance.happens(0.3) ? chance.between(8_000, 45_000) : chance.between(200, 6_000);
      world.counts.add(way === "both" ? "api.partition" : `api.partition-${way}`);
      world.story.tell(link.name, `has no connection to the API server (${way}) for ${ms} ms`);
      if (chance.happens(0.4)) link.cutWatches();
      link.break(way, ms);
    },
  },
  /** Its watches stay, and much of what is asked has trouble. */
  "link-lossy": {
    weight: 0.4,
    run: (world, chance) => {
      const link = linkOf(world, chance);
      if (link === undefined) return;
      const ms = chance.between(2_000, 25_000);
      world.counts.add("api.link-lossy");
      world.story.tell(link.name, `has a bad connection to the API server for ${ms} ms`);
      link.lossyUntilMs = link.clock.monotonicMs() + ms;
    },
  },
  "link-cut-watches": {
    weight: 1,
    run: (world, chance) => {
      const link = linkOf(world, chance);
      if (link === undefined) return;
      world.counts.add("api.watches-cut");
      world.story.tell(link.name, "loses the connections of its watches");
      link.cutWatches();
    },
  },
  "link-silent-watches": {
    weight: 0.4,
    run: async (world, chance) => {
      const link = linkOf(world, chance);
      if (link === undefined) return;
      const ms = chance.between(1_000, SILENT_MS_MAX);
      world.counts.add("api.watches-silent");
      world.story.tell(link.name, `hears nothing of its watches for ${ms} ms, then their connections end`);
      link.silenceWatches();
      await sleep(world.clock, ms);
      link.cutWatches();
    },
  },
};

function linkOf(world: World, chance: Chance): SimLink | undefined {
  return chance.of(simClusterOf(world).links);
}
