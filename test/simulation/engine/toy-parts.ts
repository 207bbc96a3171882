import { Etcd } from "../../harness/kube-fake/etcd.ts";
import type { ActionKinds, Cluster, Oracle } from "../world.ts";
import type { Parts } from "./parts.ts";

/** A world in which only these actions happen, and in which something is wrong when `isWrong` throws. */
export function toyParts(kinds: ActionKinds, isWrong: () => void, begin: () => void): Parts {
  const nobody = () => {
    throw new Error("nobody is there");
  };
  const cluster: Cluster = {
    defects: [],
    etcd: new Etcd(),
    admin: { get: nobody, list: nobody, create: nobody, patch: nobody, remove: nobody },
    connect: nobody,
    cut: nobody,
    heal: () => {},
  };
  const nothing = () => {};
  const oracle: Oracle = {
    up: nothing,
    down: nothing,
    refused: nothing,
    lossTold: nothing,
    excused: nothing,
    identified: nothing,
    hasForfeited: () => false,
    machineUp: nothing,
    machineDown: nothing,
    deleted: nothing,
    journalLost: nothing,
    checked: nothing,
    claimWritten: nothing,
    slipped: nothing,
    withoutControllers: nothing,
    afterStep: isWrong,
    atRest: async () => {},
  };
  return {
    makeCluster: () => cluster,
    makeOracle: () => oracle,
    makeMachines: () => [],
    makeControllers: () => [],
    setUp: async () => begin(),
    kinds,
    owed: [],
  };
}
