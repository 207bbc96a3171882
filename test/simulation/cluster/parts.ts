import type { World } from "../world.ts";

/** What the cluster needs of the world. */
export type ClusterParts = Pick<World, "seed" | "time" | "clock" | "faults" | "story" | "counts"> & {
  /** Folder of this repository, with the shipped manifests; default: the working directory. */
  readonly root?: string;
};
