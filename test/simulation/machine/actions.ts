import type { ActionKinds } from "../world.ts";

/** What happens to machines. */
export const machineActions: ActionKinds = {};
