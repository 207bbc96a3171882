import { RefusalError, refuse } from "../ipam/refusals.ts";
import { refusedBy } from "../kube/answers.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import { changeNetworkObject, readNetworkObject } from "../kube/network-object.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { type IPNetwork, namespacedPath, objectPath } from "../kube/objects.ts";
import type { Log } from "../platform/log.ts";
import type { DefinitionCatalog } from "./definition-catalog.ts";
import { listDefinitions } from "./listed-definitions.ts";
import {
  isAdministratorsWord,
  type NetworkOwner,
  NODES_OWN,
  RECORDED_OWNER_ANNOTATION,
  readOwner,
} from "./network-owner.ts";
import { CUDNS_PATH, UDNS_PATH } from "./udn/udn-object.ts";

const CUDN_PREFIX = "cluster_udn_";

export interface RecordOwnerOptions {
  readonly catalog: DefinitionCatalog;
  /** Whether the nodes' own CNI configuration is known to define the network, should no NAD do. */
  readonly byNodes?: boolean;
  /** Called with each IPNetwork that is read; null: there is none. */
  readonly seen?: (object: IPNetwork | null) => void;
  /** An instant of the API's clock, ms. */
  readonly deadlineMs: number;
  readonly log: Pick<Log, "info">;
}

/** Recorded in its IPNetwork if none was: the first writer wins. null: nothing defines the network. Throws ApiAway. */
export async function recordOwner(
  api: KubeApi,
  network: string,
  options: RecordOwnerOptions,
): Promise<NetworkOwner | null> {
  return changeNetworkObject<NetworkOwner | null>(api, network, {
    decide: async (object) => {
      options.seen?.(object);
      const recorded = readOwner(object);
      if (recorded !== null) return { kind: "leave", result: recorded };
      const definedIn = await chooseOwner(api, network, options);
      if (definedIn === null) return { kind: "leave", result: null };
      const fields = { annotations: { [RECORDED_OWNER_ANNOTATION]: definedIn }, spec: { definedIn } };
      const afterWrite = () => {
        options.log.info({ network, definedIn }, "recorded whose the network is");
        return { definedIn, sharedWith: [] };
      };
      return { kind: "write", fields, afterWrite };
    },
    failed: `whose network ${network} is could not be recorded`,
    priority: "add",
    deadlineMs: options.deadlineMs,
  });
}

/** The recorded owner of a network; null: none is recorded. Throws ApiAway. */
export async function readRecordedOwner(
  api: KubeApi,
  network: string,
  deadlineMs: number,
): Promise<NetworkOwner | null> {
  return readOwner(await readNetworkObject(api, network, deadlineMs));
}

/** The former owner of a network (null: none was recorded), the new one, and the name of its IPNetwork. */
export interface MovedNetwork {
  readonly from: string | null;
  readonly to: string;
  readonly object: string;
}

/**
 * Moves a network to another namespace, or to the administrators (NODES_OWN), for as long as its IPNetwork exists.
 * Throws RefusalError NOT_FOUND when the network has no IPNetwork, API_REFUSED, and ApiAway.
 */
export async function moveNetwork(
  api: KubeApi,
  network: string,
  namespace: string,
  deadlineMs: number,
): Promise<MovedNetwork> {
  return changeNetworkObject<MovedNetwork>(api, network, {
    decide: (object) => {
      if (object === null) throw new RefusalError(refuse("NOT_FOUND", { what: `IPNetwork of network ${network}` }));
      const from = readOwner(object)?.definedIn ?? null;
      const moved = { from, to: namespace, object: object.metadata.name };
      if (from === namespace && isAdministratorsWord(object)) return { kind: "leave", result: moved };
      const fields = { annotations: { [RECORDED_OWNER_ANNOTATION]: null }, spec: { definedIn: namespace } };
      return { kind: "write", fields, afterWrite: () => moved };
    },
    failed: `network ${network} could not be moved`,
    deadlineMs,
    refused: (answer, name) => refusedBy(answer, `write IPNetwork ${name}`),
  });
}

/**
 * The namespace of a (Cluster)UserDefinedNetwork of that name; else of the oldest NAD; else, where the nodes define the
 * network, NODES_OWN. null: nothing defines it.
 */
async function chooseOwner(
  api: KubeApi,
  network: string,
  { catalog: followed, byNodes = false }: RecordOwnerOptions,
): Promise<string | null> {
  // The owner stays: an older definition that the watch has not delivered yet must not be overlooked.
  const catalog = followed.isAhead(network) ? (await listDefinitions(api)).catalog : followed;
  const byName = await udnNamespace(api, network);
  return byName ?? catalog.namespacesOf(network)[0] ?? (byNodes ? NODES_OWN : null);
}

/** Of the UserDefinedNetwork that the name stands for, NODES_OWN for a cluster's; undefined: there is none. */
async function udnNamespace(api: KubeApi, network: string): Promise<string | undefined> {
  const cut = network.indexOf("_");
  if (cut <= 0 || cut === network.length - 1) return undefined;
  const inCluster = network.startsWith(CUDN_PREFIX);
  const namespace = inCluster ? NODES_OWN : network.slice(0, cut);
  const path = inCluster
    ? objectPath(CUDNS_PATH, network.slice(CUDN_PREFIX.length))
    : namespacedPath(UDNS_PATH, namespace, network.slice(cut + 1));
  // Not installed, no such object, or no permission to read it: then it is a network like any other.
  return (await new ObjectClient(api).tryGet(path)).kind === "present" ? namespace : undefined;
}
