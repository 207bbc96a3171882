import type { ApiServer } from "../api-server.ts";
import { groupPath } from "../resources.ts";
import { pathOf } from "./garbage-collector.ts";

const NAMESPACES_STORAGE = "/namespaces";
const USER = {
  username: "system:serviceaccount:kube-system:namespace-controller",
  groups: ["system:masters"],
};

/**
 * One round of the namespace controller: empties namespaces that are being deleted, and ends those that are empty.
 * Returns how many writes it made. Pods get their time; what has finalizers is waited for.
 */
export async function endNamespaces(server: ApiServer): Promise<number> {
  let writes = 0;
  for (const { key, object } of server.etcd.range(NAMESPACES_STORAGE, "")) {
    if (object.metadata.deletionTimestamp === undefined) continue;
    let left = 0;
    for (const resource of server.served.all.filter((one) => one.namespaced)) {
      for (const entry of server.etcd.range(resource.storage, `${key}/`)) {
        left += 1;
        if (entry.object.metadata.deletionTimestamp !== undefined) continue;
        const path = pathOf(resource, entry.object);
        const body = { propagationPolicy: "Background" };
        const { status } = await server.answer({ user: USER, method: "DELETE", path, query: {}, body });
        if (status < 300) writes += 1;
      }
    }
    if (left > 0 || server.etcd.get(NAMESPACES_STORAGE, key) === null) continue;
    server.remove(`${groupPath({ group: "", version: "v1" })}/namespaces/${key}`);
    writes += 1;
  }
  return writes;
}
