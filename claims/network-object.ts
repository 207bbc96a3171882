import { ApiAway, type KubeApi } from "../kube/kube-api.ts";
import { networkObjectName, networkObjectNames } from "../kube/object-names.ts";
import { type IPNetwork, NETWORKS_PATH, objectPath } from "../kube/objects.ts";
import { readObject } from "../kube/read-object.ts";

type ByName = (objectName: string) => IPNetwork | null | undefined;

/** The IPNetwork of a network, also under the name that release 0.1.0 gave it; null: there is none. */
export function networkObjectOf(network: string, byName: ByName): IPNetwork | null {
  for (const name of networkObjectNames(network)) {
    const object = byName(name);
    if (object?.spec?.network === network) return object;
  }
  return null;
}

/** The network whose IPNetwork has the name that this network's object needs; null: the name is free, or its own. */
export function nameTakenBy(network: string, byName: ByName): string | null {
  const other = byName(networkObjectName(network))?.spec?.network;
  return other === undefined || other === network ? null : other;
}

/** A quorum read; null: it does not exist yet. Throws ApiAway, also when another network's object has its name. */
export async function readNetworkObject(
  api: KubeApi,
  network: string,
  deadlineMs?: number,
): Promise<IPNetwork | null> {
  const found = new Map<string, IPNetwork>();
  for (const name of networkObjectNames(network)) {
    const path = objectPath(NETWORKS_PATH, name);
    const read = await readObject(api, path, deadlineMs);
    if (read.kind === "unknown") throw new ApiAway(`GET ${path}: ${read.problem}`);
    if (read.kind === "absent") continue;
    found.set(name, read.it);
    if (found.get(name)?.spec?.network === network) break;
  }
  const byName: ByName = (name) => found.get(name);
  const object = networkObjectOf(network, byName);
  const other = nameTakenBy(network, byName);
  if (object !== null || other === null) return object;
  throw new ApiAway(`IPNetwork ${networkObjectName(network)} is of network ${other}; delete it`);
}
