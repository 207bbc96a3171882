import { Etcd } from "../../../kube/fake/etcd.ts";
import { ACTOR_KINDS, OWED } from "../actors/all.ts";
import type { ActionKinds, Cluster, ControllerPlace, Machine, Oracle, World } from "../world.ts";
import type { Chance } from "./chance.ts";

/**
 * What a world is made of. Each is given the world as far as it is made: what comes before it in here is there, the rest when
 * time begins to pass.
 */
export interface Parts {
  readonly makeCluster: (world: World) => Cluster | Promise<Cluster>;
  readonly makeOracle: (world: World) => Oracle | Promise<Oracle>;
  readonly makeMachines: (world: World, count: number) => readonly Machine[] | Promise<readonly Machine[]>;
  readonly makeControllers: (
    world: World,
  ) => readonly ControllerPlace[] | Promise<readonly ControllerPlace[]>;
  /** What is there in the beginning, and who acts by itself. Time passes meanwhile, but nothing goes wrong. */
  readonly setUp: (world: World, chance: Chance) => Promise<void>;
  readonly kinds: ActionKinds;
  /** Names of counts, none of which may be zero after a long run. */
  readonly owed: readonly string[];
}

/** What stands in for parts that do not exist yet: nothing happens. */
const NO_CLUSTER = (): Cluster => {
  const nobody = async () => {
    throw new Error("no API server");
  };
  return {
    defects: [],
    etcd: new Etcd(),
    admin: {
      get: async () => null,
      list: async () => [],
      create: async (_, object) => object,
      patch: nobody,
      remove: async () => {},
    },
    connect: () => {
      throw new Error("no API server");
    },
    cut: () => {},
    heal: () => {},
  };
};
const NO_ORACLE = (): Oracle => ({
  up: () => {},
  down: () => {},
  refused: () => {},
  lossTold: () => {},
  excused: () => {},
  identified: () => {},
  machineUp: () => {},
  machineDown: () => {},
  afterStep: () => {},
  atRest: async () => {},
});

export const PARTS: Parts = {
  makeCluster: NO_CLUSTER,
  makeOracle: NO_ORACLE,
  makeMachines: () => [],
  makeControllers: () => [],
  setUp: async () => {},
  kinds: ACTOR_KINDS,
  owed: OWED,
};
