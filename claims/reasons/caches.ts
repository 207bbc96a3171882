import type { IPAllocation } from "../../kube/objects.ts";
import type { ClaimView } from "../../kube/views/claim-view.ts";
import { soundAddress } from "../../store/cluster/allocations/allocation-object.ts";
import type { DefinitionCatalog } from "../definition-catalog.ts";
import type { SweptPod } from "./fact-views.ts";
import {
  ABSENT,
  type Cache,
  type ClaimFact,
  type Facts,
  type Found,
  type NamingPod,
  type NodeFact,
  present,
  UNKNOWN,
} from "./facts.ts";
import { cachedMachineFacts, type MachineSources, NO_MACHINES } from "./machine-facts.ts";
import type { StoppedPods } from "./stopped-pods.ts";
import type { JudgedAllocation } from "./verdict.ts";

export type { Cache } from "./facts.ts";

/** An allocation in the cache: the whole object. `key` is its name. */
export interface CachedAllocation extends JudgedAllocation {
  readonly key: string;
  readonly uid: string;
  readonly resourceVersion: string;
}

/** Everything the controller follows. Claims and pods by `namespace/name`, the others by name. */
export interface Caches {
  readonly allocations: Cache<CachedAllocation>;
  readonly claims: Cache<ClaimViewWithFact>;
  readonly pods: Cache<SweptPod>;
  readonly nodes: Cache<NodeFact>;
  readonly stoppedPods: Pick<StoppedPods, "has">;
  readonly catalog: Pick<DefinitionCatalog, "networkOfNad">;
  /** null: no machines are followed. */
  readonly machines: MachineSources | null;
}

/** A claim, with its addresses parsed. */
export interface ClaimViewWithFact extends ClaimView {
  readonly fact: ClaimFact;
}

/**
 * Projects an allocation object; whether it is sound is computed once for each version. Throws TypeError without
 * metadata.
 */
export function projectAllocation(object: IPAllocation): CachedAllocation {
  const { name, uid, resourceVersion } = object.metadata;
  // managedFields are half of the object, and nothing here reads them.
  const { managedFields: _, ...metadata } = object.metadata as IPAllocation["metadata"] & {
    managedFields?: unknown;
  };
  return { key: name, uid, resourceVersion, object: { ...object, metadata }, address: soundAddress(object) };
}

/** Facts from the caches: enough to suspect, never to act. Valid for one pass. */
export function cachedFacts(caches: Caches): Facts {
  const attachedTo = attachedClaims(caches.allocations.items);
  let naming: ReadonlyMap<string, readonly SweptPod[]> | null = null;
  return {
    ...(caches.machines === null ? NO_MACHINES : cachedMachineFacts(caches.machines, caches.allocations)),
    claim: (namespace, name) => find(caches.claims, `${namespace}/${name}`, ({ fact }) => fact),
    pod: (namespace, name) => find(caches.pods, `${namespace}/${name}`, (pod) => pod),
    node: (name) => find(caches.nodes, name, (node) => node),
    wasSeenStopped: (podUid) => caches.stoppedPods.has(podUid),
    networkOfNad: (nad) => {
      const network = caches.catalog.networkOfNad(nad);
      return network === null ? UNKNOWN : present(network);
    },
    podsNaming: (namespace, claim) => {
      if (!caches.pods.known) return UNKNOWN;
      naming ??= podsByClaim(caches.pods.items);
      const pods = naming.get(`${namespace}/${claim}`) ?? [];
      return present(
        pods.map((pod): NamingPod => ({ ...pod, attachedToClaim: (uid) => attachedTo(pod, uid) })),
      );
    },
  };
}

/** Tells whether a pod is attached to an address of the claim with a UID. Indexes the allocations at the first call. */
export function attachedClaims(
  allocations: ReadonlyMap<string, CachedAllocation>,
): (pod: { readonly uid: string; readonly staticUid: string | null }, claimUid: string) => boolean {
  let pairs: Set<string> | null = null;
  return (pod, claimUid) => {
    pairs ??= new Set(
      [...allocations.values()].flatMap(({ object: { spec, status } }) =>
        Object.values(status?.attachments ?? {}).map((one) => `${one.pod?.uid} ${spec?.owner?.uid}`),
      ),
    );
    return pairs.has(`${pod.uid} ${claimUid}`) || pairs.has(`${pod.staticUid} ${claimUid}`);
  };
}

function find<T, F>(cache: Cache<T>, key: string, read: (item: T) => F): Found<F> {
  if (!cache.known) return UNKNOWN;
  const item = cache.items.get(key);
  return item === undefined ? ABSENT : present(read(item));
}

function podsByClaim(pods: ReadonlyMap<string, SweptPod>): Map<string, SweptPod[]> {
  const byClaim = new Map<string, SweptPod[]>();
  for (const pod of pods.values()) {
    if (pod.terminal) continue;
    for (const claim of pod.claims) {
      const key = `${pod.namespace}/${claim}`;
      const known = byClaim.get(key);
      if (known === undefined) byClaim.set(key, [pod]);
      else known.push(pod);
    }
  }
  return byClaim;
}
