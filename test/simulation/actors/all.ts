import { CLUSTER_OWED, clusterActions } from "../cluster/actions.ts";
import type { ActionKinds } from "../world.ts";
import { kubevirtKinds } from "./kubevirt/kubevirt.ts";
import { podKinds } from "./pods/pods.ts";

/** Everything that anybody does. */
export const ACTOR_KINDS: ActionKinds = {
  ...clusterActions,
  ...kubevirtKinds,
  ...podKinds,
};

/** What must have been counted at least once in a long run. */
export const OWED: readonly string[] = [...CLUSTER_OWED];
