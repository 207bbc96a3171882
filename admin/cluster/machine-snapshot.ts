import type { MachineSources } from "../../claims/reasons/caches.ts";
import { UNKNOWN } from "../../claims/reasons/facts.ts";
import { NO_MEMORY } from "../../claims/reasons/read-facts.ts";
import { CAPI_GROUP, CAPI_IPAM_GROUP, capiPaths } from "../../kube/cluster-api.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ADDRESS_POOLS_PATH, type IPNetwork } from "../../kube/objects.ts";
import { projectAddressPool } from "../../kube/views/address-pool-view.ts";
import {
  projectCapiCluster,
  projectMachineAddress,
  projectMachineClaim,
} from "../../kube/views/machine-claim-view.ts";
import { readAll } from "./read-all.ts";

/** One reading of what machines of Cluster API have, as the controller follows it. Namespaces are not read. */
export async function readMachines(
  api: KubeApi,
  networks: ReadonlyMap<string, IPNetwork>,
): Promise<MachineSources> {
  const [claims, addresses, clusters, pools] = await Promise.all([
    readVersions(api, capiPaths(CAPI_IPAM_GROUP, "ipaddressclaims"), projectMachineClaim),
    readVersions(api, capiPaths(CAPI_IPAM_GROUP, "ipaddresses"), projectMachineAddress),
    readVersions(api, capiPaths(CAPI_GROUP, "clusters"), projectCapiCluster),
    readVersions(api, [ADDRESS_POOLS_PATH], projectAddressPool),
  ]);
  const objects = new Map([...networks].map(([name, object]) => [name, { object }]));
  return {
    ...NO_MEMORY,
    claims,
    addresses,
    clusters,
    pools,
    data: null,
    networks: { items: objects, known: true },
    namespaceOf: () => UNKNOWN,
  };
}

/** Every object of a collection, in the first version that is served; not known where none is, or one is malformed. */
async function readVersions<T extends { readonly key: string }>(
  api: KubeApi,
  paths: readonly string[],
  project: (object: unknown) => T,
): Promise<{ readonly items: ReadonlyMap<string, T>; readonly known: boolean }> {
  for (const path of paths) {
    const { items, complete, served } = await readAll(api, path, project);
    if (served) return { items, known: complete };
  }
  return { items: new Map(), known: false };
}
