import { isSound } from "../../allocations/allocation-object.ts";
import { viewOf } from "../../allocations/views.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ALLOCATIONS_PATH, type IPAllocation } from "../../kube/objects.ts";
import type { Reflected } from "../../kube/reflected-items.ts";
import { Reflector } from "../../kube/reflector.ts";
import { sleep } from "../../platform/time.ts";
import type { NetworkWithClaims } from "../admin-api.ts";
import type { Following, Problem } from "../following.ts";

/** Between two looks at the definitions of networks, ms: they change rarely, and allocations are watched. */
const NETWORKS_MS = 10_000;
/** While the server does not answer, ms. */
const RETRY_MS = 2_000;
const MISSING = "the cluster has no definition of IPAllocation";
const HINTS = {
  forbidden: "ask for the right to list and watch ipallocations of ipam.holdfast.dev",
  missing: "install Holdfast in the cluster: docs/kubernetes.md",
  away: "check the API server and the way to it; the page goes on by itself once it answers",
};

/** What is kept of an allocation: the text that is reported, and which version that is. */
interface Followed extends Reflected {
  readonly row: string;
}

interface ClusterToFollow {
  readonly api: KubeApi;
  /** Rejects with an error that has `message` and `hint`. */
  networks(): Promise<readonly NetworkWithClaims[]>;
}

/** By one list and one watch of allocations, and the networks again and again, until the signal aborts. */
export async function follow(
  { api, networks }: ClusterToFollow,
  following: Following,
  signal: AbortSignal,
): Promise<void> {
  const problems = { allocations: null as Problem | null, networks: null as Problem | null };
  const report = () => following.problem(problems.allocations ?? problems.networks);
  const reflector = new Reflector<Followed>({
    api,
    path: ALLOCATIONS_PATH,
    // Whoever loses the right sees nothing any more, and why.
    forbiddenIsEmpty: true,
    project: (object: IPAllocation) => {
      if (!isSound(object)) return null;
      const { name, uid } = object.metadata;
      // The row says whether anything has changed: one text less for each of very many.
      return { key: name, uid, resourceVersion: "", row: following.rowOf(viewOf(object)) };
    },
    onUpsert: ({ key, row }) => following.upsert(key, row),
    onDelete: ({ key }) => following.gone(key),
    onSynced: () => following.synced(),
    onState: (state, problem) => {
      if (state === "listing") return;
      problems.allocations = state === "watching" ? null : { message: problem || MISSING, hint: HINTS[state] };
      report();
    },
    log: { info: () => {}, warn: () => {} },
  });
  reflector.start();
  while (!signal.aborted) {
    try {
      following.networks(await networks());
      problems.networks = null;
    } catch (error) {
      const { message, hint = "" } = error as { message: string; hint?: string };
      problems.networks = { message, hint };
    }
    report();
    await sleep(api.clock, problems.networks === null ? NETWORKS_MS : RETRY_MS, signal);
  }
  await reflector.stop();
}
