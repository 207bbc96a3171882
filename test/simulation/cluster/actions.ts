import type { ActionKinds } from "../world.ts";
import { controllerActions } from "./controller-actions.ts";
import { linkActions } from "./link-actions.ts";
import { serverActions } from "./server-actions.ts";
import { TROUBLES } from "./troubles.ts";

/** What happens to API servers, to those who ask them, and to Holdfast's controllers. */
export const clusterActions: ActionKinds = { ...serverActions, ...linkActions, ...controllerActions };

/** Counts that are not zero after a long run. */
export const CLUSTER_OWED: readonly string[] = [
  ...TROUBLES.map(({ name }) => name),
  ...["starting-401", "starting-403", "starting-429", "starting-503"],
  ...["event-late", "watch-cut", "watches-cut", "watches-silent", "link-lossy", "gap", "gap-recreated"],
  ...["partition", "partition-requests", "partition-answers"],
  ...["restart", "away", "starting", "slow", "compaction", "cache-lag", "balanced", "404-kind"],
  ...["restore", "restore-bumped", "caretakers-away", "garbage-collected", "namespace-emptied"],
  ...["controller-killed", "controller-restarted", "controller-suspended", "leader-cut", "controllers-absent"],
].map((name) => `api.${name}`);
