import { CLUSTER_OWED, clusterActions } from "../cluster/actions.ts";
import type { ActionKinds } from "../world.ts";

/** Everything that anybody does. */
export const ACTOR_KINDS: ActionKinds = { ...clusterActions };

/** What must have been counted at least once in a long run. */
export const OWED: readonly string[] = [...CLUSTER_OWED];
