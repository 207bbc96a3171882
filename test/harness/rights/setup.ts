import { afterAll } from "vitest";
import { takeUsedRights } from "./used.ts";

declare module "vitest" {
  interface TaskMeta {
    /** Of a test file: titles of the shipped rights that were used in it. */
    usedRights?: readonly string[];
  }
}

// Whatever a worker did before is another file's.
takeUsedRights();

// biome-ignore lint/correctness/noEmptyPattern: vitest reads from the pattern which fixtures a hook takes
afterAll(({}, file) => {
  file.meta.usedRights = takeUsedRights();
});
