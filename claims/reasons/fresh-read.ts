import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { ABSENT, type Found, present, UNKNOWN } from "./facts.ts";

/** By a quorum read. `paths`: in every version of its kind; the first served tells. A malformed object: unknown. */
export async function readFact<F>(
  api: KubeApi,
  paths: readonly string[],
  project: (object: unknown) => F,
): Promise<Found<F>> {
  for (const path of paths) {
    const answer = await new ObjectClient(api).tryGet(path);
    if (answer.kind === "not-served") continue;
    if (answer.kind === "absent") return ABSENT;
    if (answer.kind !== "present") return UNKNOWN;
    try {
      return present(project(answer.object));
    } catch {
      return UNKNOWN;
    }
  }
  return UNKNOWN;
}

/** Every object of a collection, by a quorum read. A malformed one might be any: unknown. */
export async function listFacts<F>(
  api: KubeApi,
  path: string,
  project: (object: unknown) => F,
): Promise<Found<readonly F[]>> {
  let found: F[] = [];
  let nonsense = false;
  try {
    const answer = await api.list({
      path,
      each: (object) => {
        try {
          found.push(project(object));
        } catch {
          nonsense = true;
        }
      },
      restarted: () => {
        found = [];
      },
    });
    return answer.kind === "listed" && !nonsense ? present(found) : UNKNOWN;
  } catch (error) {
    if (error instanceof ApiAway) return UNKNOWN;
    throw error;
  }
}
