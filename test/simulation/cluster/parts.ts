import type { World } from "../world.ts";

/** What the cluster needs of the world. */
export type ClusterParts = Pick<World, "seed" | "time" | "clock" | "faults" | "story" | "counts">;
