import type { Diagnosis } from "./admin-api.ts";

/** What is found of a part, each as a list of one. `fix`: what to do; without it there is nothing to do. */
export function part(name: string) {
  const as =
    (state: Diagnosis["state"]) =>
    (found: string, fix = ""): Diagnosis[] => [{ part: name, state, found, fix }];
  return { ok: as("ok"), warning: as("warning"), failed: as("failed"), unknown: as("unknown") };
}
