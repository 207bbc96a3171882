import { RefusalError, refuse } from "../ipam/refusals.ts";
import { problemOf, refusedBy } from "../kube/answers.ts";
import { ApiAway, type KubeApi } from "../kube/kube-api.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { networkObjectName } from "../kube/object-names.ts";
import { type IPNetwork, namespacedPath, objectPath } from "../kube/objects.ts";
import type { Log } from "../platform/log.ts";
import type { DefinitionBook } from "./definition-book.ts";
import { readNetworkObject, writeNetworkObject } from "./network-object.ts";
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
const CUDN_PREFIX = "cluster_udn_";

export interface RecordOwnerOptions {
  readonly book: DefinitionBook;
  /** Whether the nodes' own CNI configuration is known to define the network, should no NAD do. */
  readonly byNodes?: boolean;
  /** Called with each IPNetwork that is read; null: there is none. */
  readonly seen?: (object: IPNetwork | null) => void;
  /** An instant of the API's clock, ms. */
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
    if (api.clock.monotonicMs() >= options.deadlineMs) break;
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
export interface MovedNetwork {
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
  const objects = new ObjectClient(api);
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
    const object = await readNetworkObject(api, network, deadlineMs);
    if (object === null)
      throw new RefusalError(refuse("NOT_FOUND", { what: `IPNetwork of network ${network}` }));
    const { name } = object.metadata;
    const from = readOwner(object)?.definedIn ?? null;
    const moved = { from, to: namespace, object: name };
    if (from === namespace && isAdministratorsWord(object)) return moved;
    const fields = { annotations: { [RECORDED_OWNER_ANNOTATION]: null }, spec: { definedIn: namespace } };
    const written = await writeNetworkObject(objects, network, object, fields, deadlineMs);
    if (written.kind === "refused") throw refusedBy(written.answer, `write IPNetwork ${name}`);
    if (written.kind === "done") return moved;
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
  return (await new ObjectClient(api).look(path)).kind === "present" ? namespace : undefined;
}

/** "again": somebody else wrote or made it meanwhile. */
async function write(
  api: KubeApi,
  network: string,
  known: IPNetwork | null,
  { definedIn, sharedWith }: NetworkOwner,
  deadlineMs: number,
): Promise<IPNetwork | "again"> {
  const fields = {
    annotations: { [RECORDED_OWNER_ANNOTATION]: definedIn },
    spec: sharedWith.length === 0 ? { definedIn } : { definedIn, sharedWith },
  };
  const written = await writeNetworkObject(new ObjectClient(api, "add"), network, known, fields, deadlineMs);
  if (written.kind === "done") return written.object;
  if (written.kind !== "refused") return "again";
  const name = known?.metadata.name ?? networkObjectName(network);
  throw new ApiAway(`IPNetwork ${name}: ${problemOf(written.answer)}`);
}
