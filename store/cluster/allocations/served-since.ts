import type { KubeApi, WatchEnd } from "../../../kube/kube-api.ts";
import { ALLOCATIONS_PATH } from "../../../kube/objects.ts";

/** No watch cache goes back this far: etcd was written before, with the definition of the resource. */
const FIRST_VERSION = "1";
/** How a watch cache refuses versions before its beginning; etcd words the same error differently. */
const REFUSED_BY_CACHE = /too old resource version: \d+ \(\d+\)/;

/** An IPAllocation at the instant of its creation. No other history of the cluster contains its UID. */
export interface Creation {
  readonly name: string;
  readonly uid: string;
  readonly version: bigint;
}

interface Question {
  readonly name: string;
  readonly resourceVersion: string;
  readonly msMax: number;
}

/**
 * Whether an API server has run without a break since an object was created. A server answers watches from a cache in
 * memory, which begins with etcd's version at the server's start, and refuses earlier versions (410). So a server that
 * still delivers the creation as an event was running when it happened. A server without that cache
 * (--watch-cache=false) answers from etcd, which has the event also after a restore; such a server is recognised by its
 * answer to a watch of the very first version.
 *
 * Also false where it cannot be determined: the cache has dropped the event, or there was no answer. Never throws.
 */
export async function hasServedSince(
  api: KubeApi,
  { name, uid, version }: Creation,
  msMax: number,
): Promise<boolean> {
  const [shown, first] = await Promise.all([
    watchOnce(api, { name, resourceVersion: `${version - 1n}`, msMax }),
    watchOnce(api, { name, resourceVersion: FIRST_VERSION, msMax }),
  ]);
  const isCreation = shown.type === "ADDED" && shown.uid === uid && shown.resourceVersion === `${version}`;
  return isCreation && first.end.kind === "expired" && REFUSED_BY_CACHE.test(first.end.problem);
}

interface First {
  readonly type?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly end: WatchEnd;
}

/** The first event of a watch of one object, and how it ended. */
async function watchOnce(api: KubeApi, { name, resourceVersion, msMax }: Question): Promise<First> {
  const enough = new AbortController();
  const timer = api.clock.timer(msMax, () => enough.abort());
  let first: Omit<First, "end"> | null = null;
  const end = await api.watch({
    path: ALLOCATIONS_PATH,
    query: { fieldSelector: `metadata.name=${name}`, timeoutSeconds: `${Math.ceil(msMax / 1_000)}` },
    metadataOnly: true,
    resourceVersion,
    signal: enough.signal,
    event: (type, { metadata }) => {
      first ??= { type, uid: metadata?.uid, resourceVersion: metadata?.resourceVersion };
      enough.abort();
    },
  });
  timer.cancel();
  return { ...(first ?? {}), end };
}
