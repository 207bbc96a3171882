import { ACTOR_KINDS, OWED } from "../actors/all.ts";
import { setUp } from "../actors/setup.ts";
import { makeCluster, simClusterOf } from "../cluster/cluster.ts";
import { makeControllers } from "../cluster/controllers.ts";
import { makeMachines } from "../machine/machines.ts";
import { oracleOf } from "../oracle/oracle.ts";
import type { ActionKinds, Cluster, ControllerPlace, Machine, Oracle, World } from "../world.ts";
import type { Chance } from "./chance.ts";

/**
 * What a world is made of. Each is given the world as far as it is made: what comes before it in here is there, the
 * rest when time begins to pass.
 */
export interface Parts {
  readonly makeCluster: (world: World) => Cluster | Promise<Cluster>;
  readonly makeOracle: (world: World) => Oracle | Promise<Oracle>;
  readonly makeMachines: (world: World, count: number) => readonly Machine[] | Promise<readonly Machine[]>;
  readonly makeControllers: (world: World) => readonly ControllerPlace[] | Promise<readonly ControllerPlace[]>;
  /** What is there in the beginning, and who acts by itself. Time passes meanwhile, but nothing goes wrong. */
  readonly setUp: (world: World, chance: Chance) => Promise<void>;
  readonly kinds: ActionKinds;
  /** Names of counts, none of which may be zero after a long run. */
  readonly owed: readonly string[];
}

export const PARTS: Parts = {
  makeCluster,
  makeOracle: oracleOf,
  makeMachines,
  makeControllers: (world) => makeControllers(world, simClusterOf(world)),
  setUp,
  kinds: ACTOR_KINDS,
  owed: OWED,
};
