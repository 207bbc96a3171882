import { isObject } from "../../ipam/definition/definition-keys.ts";
import { CAPI_GROUP, CAPI_IPAM_GROUP, capiPaths, METAL3_DATA_PATHS } from "../../kube/cluster-api.ts";
import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { ADDRESS_POOLS_PATH, NAMESPACES_PATH, namespacedPath, objectPath } from "../../kube/objects.ts";
import { projectAddressPool } from "../../kube/views/address-pool-view.ts";
import {
  projectCapiCluster,
  projectMachineAddress,
  projectMachineClaim,
} from "../../kube/views/machine-claim-view.ts";
import { readMetadata } from "../../kube/views/object-metadata.ts";
import type { NextFlight } from "../../platform/next-flight.ts";
import { readNetworkObject } from "../network-object.ts";
import { type Found, type MachineFacts, type NamespaceFact, UNKNOWN } from "./facts.ts";
import { listFacts, readFact } from "./fresh-read.ts";
import {
  addressPoolFact,
  type MachineMemory,
  type MachineResource,
  machineAddressFact,
  pausedIn,
} from "./machine-facts.ts";

/** Answers a question if it was read already, and has it read otherwise. */
export type Ask = <F>(question: string, read: () => Promise<Found<F>>) => Found<F>;

interface FreshMachines {
  readonly api: KubeApi;
  readonly machines: MachineMemory;
  /** What many machines have in common is read once for all that ask at the same time. */
  readonly sharedReads: NextFlight;
}

/** Machines' facts from quorum reads alone, each of which begins after it is asked for. */
export function freshMachineFacts({ api, machines, sharedReads }: FreshMachines, ask: Ask): MachineFacts {
  const askShared: Ask = (question, read) => ask(question, () => sharedReads.run(question, read));
  const capi = <F>(resource: MachineResource, at: string, project: (object: unknown) => F) =>
    ask(`${resource} ${at}`, () => readFact(api, machinePaths(machines, resource, at), project));
  return {
    addressClaim: (namespace, name) => capi("ipaddressclaims", `${namespace}/${name}`, projectMachineClaim),
    machineAddress: (namespace, name) =>
      capi("ipaddresses", `${namespace}/${name}`, (object) =>
        machineAddressFact(projectMachineAddress(object)),
      ),
    cluster: (namespace, name) => {
      const at = `${namespace}/${name}`;
      return askShared(`clusters ${at}`, () =>
        readFact(api, machinePaths(machines, "clusters", at), projectCapiCluster),
      );
    },
    machineData: (namespace, name) =>
      ask(`data ${namespace}/${name}`, () => {
        const paths = METAL3_DATA_PATHS.map((path) => namespacedPath(path, namespace, name));
        return readFact(api, paths, (object) => readMetadata(object, "Metal3Data"));
      }),
    addressPools: (namespace) =>
      askShared(`pools ${namespace}`, () =>
        listFacts(api, namespacedPath(ADDRESS_POOLS_PATH, namespace), (object) =>
          addressPoolFact(projectAddressPool(object)),
        ),
      ),
    namespace: (name) => askShared(`namespace ${name}`, () => readNamespace(api, name)),
    wasPaused: (network, cluster) =>
      askShared(`paused ${network} ${cluster}`, async () => {
        try {
          return pausedIn(await readNetworkObject(api, network), cluster, machines);
        } catch (error) {
          if (error instanceof ApiAway) return UNKNOWN;
          throw error;
        }
      }),
  };
}

/** The paths of an object of Cluster API in every version, the served one first. `at`: its `namespace/name`. */
export function machinePaths(
  { servedPath }: Pick<MachineMemory, "servedPath">,
  resource: MachineResource,
  at: string,
): readonly [string, ...string[]] {
  const [namespace = "", name = ""] = at.split("/");
  const all = capiPaths(resource === "clusters" ? CAPI_GROUP : CAPI_IPAM_GROUP, resource);
  const served = servedPath(resource) ?? all[0];
  const path = (collection: string) => namespacedPath(collection, namespace, name);
  return [path(served), ...all.filter((one) => one !== served).map(path)];
}

/** A namespace, by a quorum read. */
export function readNamespace(api: KubeApi, name: string): Promise<Found<NamespaceFact>> {
  return readFact(api, [objectPath(NAMESPACES_PATH, name)], (object) => {
    const metadata = isObject(object) && isObject(object.metadata) ? object.metadata : {};
    return { isEnding: metadata.deletionTimestamp !== undefined && metadata.deletionTimestamp !== null };
  });
}
