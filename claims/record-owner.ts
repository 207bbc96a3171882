import { RefusalError, refuse } from "../ipam/refusals.ts";
import { ApiAway, type KubeApi } from "../kube/kube-api.ts";
import { networkObjectName } from "../kube/object-names.ts";
import { API_VERSION, type IPNetwork, NETWORKS_PATH, namespacedPath, objectPath } from "../kube/objects.ts";
import { readObject } from "../kube/read-object.ts";
import type { Log } from "../platform/log.ts";
import { refusedBy } from "../store/cluster/allocations/allocation-client.ts";
import type { DefinitionBook } from "./definition-book.ts";
import { readNetworkObject } from "./network-object.ts";
import {
  isAdministratorsWord,
  type NetworkOwner,
  NODES_OWN,
  RECORDED_OWNER_ANNOTATION,
  readOwner,
} from "./network-owner.ts";
import { namespacesInUse } from "./network-users.ts";
import { CUDNS_PATH, UDNS_PATH } from "./udn/udn-object.ts";

/** Writers that may come in between: each is one of few controllers and daemons. */
const ATTEMPTS_MAX = 10;
const CONFLICT = 409;
const CUDN_PREFIX = "cluster_udn_";

export interface RecordOwnerOptions {
  readonly book: DefinitionBook;
  /** Whether the nodes' own CNI configuration is known to define the network, should no NAD do. */
  readonly byNodes?: boolean;
  /** Called with each IPNetwork that is read; null: there is none. */
  readonly seen?: (object: IPNetwork | null) => void;
  /** performance.now(), ms. */
  readonly deadlineMs: number;
  readonly log: Pick<Log, "info" | "warn">;
}

/**
 * Whose a network is, recorded in its IPNetwork now where it was not: of any number of writers at once the first has it.
 * null: nobody defines the network. Throws ApiAway.
 */
export async function recordOwner(
  api: KubeApi,
  network: string,
  options: RecordOwnerOptions,
): Promise<NetworkOwner | null> {
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
    const object = await readNetworkObject(api, network, options.deadlineMs);
    options.seen?.(object);
    const recorded = readOwner(object);
    if (recorded !== null) return recorded;
    const owner = await chooseOwner(api, network, object, options);
    if (owner === null) return null;
    if (performance.now() >= options.deadlineMs) break;
    const written = await write(api, network, object, owner, options.deadlineMs);
    if (written === "again") continue;
    if (readOwner(written) === null) {
      options.log.warn(
        { network },
        "the installed definition of IPNetworks is of an earlier release, and whose the network is cannot be recorded: apply deploy/crds",
      );
    } else options.log.info({ network, ...owner }, "recorded whose the network is");
    return owner;
  }
  throw new ApiAway(`whose network ${network} is could not be recorded: others kept writing its IPNetwork`);
}

/** Whose a network is; null: nobody has recorded it. Throws ApiAway. */
export async function readRecordedOwner(
  api: KubeApi,
  network: string,
  deadlineMs: number,
): Promise<NetworkOwner | null> {
  return readOwner(await readNetworkObject(api, network, deadlineMs));
}

/** Whose a network was (null: nobody had recorded it) and is, and the name of the IPNetwork that says so. */
interface MovedNetwork {
  readonly from: string | null;
  readonly to: string;
  readonly object: string;
}

/**
 * An administrator gives a network to another namespace, or to the administrators (NODES_OWN), for as long as its IPNetwork
 * exists. Throws RefusalError NOT_FOUND when the network has no IPNetwork, API_REFUSED, and ApiAway.
 */
export async function moveNetwork(
  api: KubeApi,
  network: string,
  namespace: string,
  deadlineMs: number,
): Promise<MovedNetwork> {
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
    const object = await readNetworkObject(api, network, deadlineMs);
    if (object === null)
      throw new RefusalError(refuse("NOT_FOUND", { what: `IPNetwork of network ${network}` }));
    const { name, resourceVersion } = object.metadata;
    const from = readOwner(object)?.definedIn ?? null;
    const moved = { from, to: namespace, object: name };
    if (from === namespace && isAdministratorsWord(object)) return moved;
    const path = objectPath(NETWORKS_PATH, name);
    const answer = await api.send({
      method: "PATCH",
      patch: "merge",
      path,
      body: {
        metadata: { resourceVersion, annotations: { [RECORDED_OWNER_ANNOTATION]: null } },
        spec: { definedIn: namespace },
      },
      priority: "housekeeping",
      deadlineMs,
    });
    if (answer.status === CONFLICT) continue;
    if (answer.status !== 200) throw refusedBy(answer, `write IPNetwork ${name}`);
    return moved;
  }
  throw new ApiAway(`network ${network} could not be moved: others kept writing its IPNetwork`);
}

/**
 * Who defined it as far as an earlier release wrote down; else a (Cluster)UserDefinedNetwork of the name; else the namespace
 * of the oldest NAD. A network that was in use before owners were recorded stays shared with whoever uses it.
 */
async function chooseOwner(
  api: KubeApi,
  network: string,
  object: IPNetwork | null,
  { book, byNodes = false }: RecordOwnerOptions,
): Promise<NetworkOwner | null> {
  const before = object?.status?.definedBy?.split("/")[0] || undefined;
  const byName = before ?? (await udnNamespace(api, network));
  const definedIn = byName ?? book.namespacesOf(network)[0] ?? (byNodes ? NODES_OWN : undefined);
  if (definedIn === undefined) return null;
  if (object === null) return { definedIn, sharedWith: [] };
  return { definedIn, sharedWith: await namespacesInUse(api, network, { book, definedIn }) };
}

/** The namespace of the UserDefinedNetwork that a network's name stands for, NODES_OWN for a cluster's; undefined: there is none. */
async function udnNamespace(api: KubeApi, network: string): Promise<string | undefined> {
  const cut = network.indexOf("_");
  if (cut <= 0 || cut === network.length - 1) return undefined;
  const inCluster = network.startsWith(CUDN_PREFIX);
  const namespace = inCluster ? NODES_OWN : network.slice(0, cut);
  const path = inCluster
    ? objectPath(CUDNS_PATH, network.slice(CUDN_PREFIX.length))
    : namespacedPath(UDNS_PATH, namespace, network.slice(cut + 1));
  // Not installed, no such object, or no right to read it: then it is a network like any other.
  return (await readObject(api, path)).kind === "present" ? namespace : undefined;
}

/** "again": somebody else wrote or made it meanwhile. */
async function write(
  api: KubeApi,
  network: string,
  known: IPNetwork | null,
  owner: NetworkOwner,
  deadlineMs: number,
): Promise<IPNetwork | "again"> {
  const name = known?.metadata.name ?? networkObjectName(network);
  const { definedIn, sharedWith } = owner;
  const spec = sharedWith.length === 0 ? { definedIn } : { definedIn, sharedWith };
  const annotations = { [RECORDED_OWNER_ANNOTATION]: definedIn };
  const { status, body } = await api.send({
    ...(known === null
      ? {
          method: "POST",
          path: NETWORKS_PATH,
          body: {
            apiVersion: API_VERSION,
            kind: "IPNetwork",
            metadata: { name, annotations },
            spec: { network, ...spec },
          },
        }
      : {
          method: "PATCH",
          patch: "merge",
          path: objectPath(NETWORKS_PATH, name),
          body: { metadata: { resourceVersion: known.metadata.resourceVersion, annotations }, spec },
        }),
    priority: "add",
    deadlineMs,
  });
  if (status < 300) return body as IPNetwork;
  if (status === CONFLICT || status === 404) return "again";
  throw new ApiAway(`IPNetwork ${name}: ${status} ${body?.message ?? ""}`);
}
