import type { Cache, MachineSources } from "../../claims/reasons/caches.ts";
import type { IPNetwork } from "../../kube/objects.ts";
import type { AskedNamespaces } from "./asked-namespaces.ts";
import type { MachineCaches } from "./machine-caches.ts";
import type { PausedClusters } from "./paused-clusters.ts";

export interface MachineSourcesOptions {
  readonly caches: Pick<MachineCaches, "claims" | "addresses" | "pools" | "clusters">;
  /** Metal3Data by `namespace/name`; null: they are not followed. */
  readonly data: Cache<{ readonly uid: string }> | null;
  readonly networks: Cache<{ readonly object: IPNetwork }>;
  readonly namespaces: Pick<AskedNamespaces, "of">;
  readonly pausedClusters: Pick<PausedClusters, "wasSeenPaused">;
}

export function machineSources(options: MachineSourcesOptions): MachineSources {
  const { caches, data, networks, namespaces, pausedClusters } = options;
  const { claims, addresses, pools, clusters } = caches;
  return {
    claims,
    addresses,
    pools,
    clusters,
    data,
    networks,
    namespaceOf: (name) => namespaces.of(name),
    wasSeenPaused: (cluster) => pausedClusters.wasSeenPaused(cluster),
    servedPath: servedPathIn(caches),
    addressAt: (key) => (addresses.known ? (addresses.items.get(key) ?? null) : null),
  };
}

export function servedPathIn({
  claims,
  addresses,
  clusters,
}: Pick<MachineCaches, "claims" | "addresses" | "clusters">): MachineSources["servedPath"] {
  const followed = { ipaddressclaims: claims, ipaddresses: addresses, clusters };
  return (resource) => (followed[resource].known ? followed[resource].path : null);
}
