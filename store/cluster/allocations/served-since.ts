import type { KubeApi, WatchEnd } from "../../../kube/kube-api.ts";
import { ALLOCATIONS_PATH } from "../../../kube/objects.ts";

/** No cache goes back so far: etcd had written the resource's definition before. */
const FIRST_VERSION = "1";
/** How a watch cache refuses what it does not go back to; etcd's own words are others. */
const REFUSED_BY_CACHE = /too old resource version: \d+ \(\d+\)/;

/** An IPAllocation at the instant of its creation. In no other history of the cluster is there one with this UID. */
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
 * Whether an API server has run without a break since an object was created. It answers watches from a cache in memory, which
 * begins with the version of etcd that the server finds at its start, and refuses earlier ones (410). So whoever still shows the
 * creation as an event was there when it happened. A server without such a cache (--watch-cache=false) shows what etcd has, and
 * a restored etcd has the event as well: that one is told by what it says to a watch of the first version of all.
 *
 * False also where it cannot be told: the cache has forgotten the event, or no answer came. Never throws.
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
