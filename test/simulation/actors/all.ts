import type { ActionKinds } from "../world.ts";

/** Everything that anybody does. */
export const ACTOR_KINDS: ActionKinds = {};

/** What must have been counted at least once in a long run. */
export const OWED: readonly string[] = [];
