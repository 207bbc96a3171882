import type { Written } from "../kube/answers.ts";
import { ApiAway, type KubeApi } from "../kube/kube-api.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { networkObjectName, networkObjectNames } from "../kube/object-names.ts";
import { API_VERSION, type IPNetwork, NETWORKS_PATH, objectPath } from "../kube/objects.ts";

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
  const objects = new ObjectClient(api);
  const found = new Map<string, IPNetwork>();
  for (const name of networkObjectNames(network)) {
    const object: IPNetwork | null = await objects.find(objectPath(NETWORKS_PATH, name), deadlineMs);
    if (object !== null) found.set(name, object);
    if (object?.spec?.network === network) break;
  }
  const byName: ByName = (name) => found.get(name);
  const object = networkObjectOf(network, byName);
  const other = nameTakenBy(network, byName);
  if (object !== null || other === null) return object;
  throw new ApiAway(`IPNetwork ${networkObjectName(network)} is of network ${other}; delete it`);
}

/** Fields of an IPNetwork to set; null removes one. */
interface NetworkFields {
  readonly annotations?: Readonly<Record<string, string | null>>;
  readonly spec?: Partial<IPNetwork["spec"]>;
  readonly status?: Readonly<Record<string, unknown>>;
}

/** Creates the IPNetwork of a network, or changes the one that was read (`known`) against its version. Throws ApiAway. */
export function writeNetworkObject(
  objects: ObjectClient,
  network: string,
  known: IPNetwork | null,
  { annotations, ...fields }: NetworkFields,
  deadlineMs?: number,
): Promise<Written> {
  const annotated = annotations === undefined ? {} : { annotations };
  if (known !== null) {
    const { name, resourceVersion } = known.metadata;
    const body = { metadata: { resourceVersion, ...annotated }, ...fields };
    return objects.patch(objectPath(NETWORKS_PATH, name), body, deadlineMs);
  }
  const metadata = { name: networkObjectName(network), ...annotated };
  const object = { apiVersion: API_VERSION, kind: "IPNetwork", metadata, ...fields };
  return objects.create(NETWORKS_PATH, { ...object, spec: { network, ...fields.spec } }, deadlineMs);
}
