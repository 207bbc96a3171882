import { RefusalError, refuse } from "../ipam/refusals.ts";
import { ApiAway, type KubeApi, ListRefused } from "../kube/kube-api.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { CLAIMS_PATH, namespacedPath, PODS_PATH, WHEREABOUTS_POOLS_PATH } from "../kube/objects.ts";
import type { ObjectName } from "../kube/views/claim-reference.ts";
import { projectClaim } from "../kube/views/claim-view.ts";
import { MalformedObjectError } from "../kube/views/object-metadata.ts";
import { projectPod } from "../kube/views/pod-view.ts";
import { readPool } from "../kube/views/whereabouts.ts";
import { severalAtOnce } from "../platform/several-at-once.ts";
import type { ImportCandidates } from "./import-candidates.ts";

/** Pods read in parallel. */
const READ_AT_ONCE = 16;

/**
 * Reads, once for the candidates of all networks, everything that may have an address. `networks`: what a refusal
 * names. Throws ApiAway, and RefusalError IMPORT_UNREADABLE.
 */
export async function readCandidates(api: KubeApi, all: readonly ImportCandidates[], networks: string): Promise<void> {
  const tell = (problem: string) => {
    for (const one of all) one.problems.push(problem);
  };
  // Claims first: a pod whose claim is known gives its address to the claim. Without their definition there are none.
  await api.list({
    path: CLAIMS_PATH,
    each: (object) => {
      const claim = attempt(() => projectClaim(object), tell);
      if (claim !== null) for (const one of all) one.addClaim(claim);
    },
    restarted: () => {
      for (const one of all) one.forgetClaims();
    },
  });
  try {
    // Without whereabouts' definition there are no pools.
    await api.list({
      path: WHEREABOUTS_POOLS_PATH,
      each: (object) => {
        const pool = readPool(object);
        if (typeof pool === "string") tell(pool);
        else for (const one of all) one.addPool(pool);
      },
      restarted: () => {
        for (const one of all) one.forgetPools();
      },
    });
  } catch (error) {
    if (!(error instanceof ListRefused)) throw error;
    const remedy = "give the account the right to list ippools.whereabouts.cni.cncf.io (deploy/rbac.yaml)";
    throw new RefusalError(refuse("IMPORT_UNREADABLE", { network: networks, remedy, problem: error.message }));
  }
  if (all.some(({ isOfNodes }) => isOfNodes)) await listPods(api, all, tell);
  else await readConcernedPods(api, all, tell);
}

/** All pods as a whole: what kubelets report is in their status. */
async function listPods(
  api: KubeApi,
  all: readonly ImportCandidates[],
  tell: (problem: string) => void,
): Promise<void> {
  const pods = await api.list({
    path: PODS_PATH,
    each: (object) => {
      const pod = attempt(() => projectPod(object, { addresses: true }), tell);
      if (pod !== null) for (const one of all) one.addPod(pod);
    },
    restarted: () => {
      for (const one of all) one.forgetPods();
    },
  });
  if (pods.kind === "missing") throw new ApiAway("the server does not know pods");
}

/** The metadata of all pods, with the annotations that tell addresses; then those that have any here, as a whole. */
async function readConcernedPods(
  api: KubeApi,
  all: readonly ImportCandidates[],
  tell: (problem: string) => void,
): Promise<void> {
  const concerned = new Map<string, { readonly pod: ObjectName; readonly by: readonly ImportCandidates[] }>();
  const listed = await api.list({
    path: PODS_PATH,
    metadataOnly: true,
    each: (object) => {
      const pod = attempt(() => projectPod(object, { addresses: true }), tell);
      const by = pod === null ? [] : all.filter((one) => one.concerns(pod));
      if (pod !== null && by.length > 0) concerned.set(pod.key, { pod, by });
    },
    restarted: () => concerned.clear(),
  });
  if (listed.kind === "missing") throw new ApiAway("the server does not know pods");
  const objects = new ObjectClient(api);
  await severalAtOnce(concerned.values(), READ_AT_ONCE, async ({ pod: { namespace, name }, by }) => {
    const object = await objects.find(namespacedPath(PODS_PATH, namespace, name));
    const pod = object === null ? null : attempt(() => projectPod(object, { addresses: true }), tell);
    if (pod !== null) for (const one of by) one.addPod(pod);
  });
}

function attempt<T>(read: () => T, tell: (problem: string) => void): T | null {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof MalformedObjectError)) throw error;
    tell(error.message);
    return null;
  }
}
