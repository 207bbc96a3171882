import { isObject } from "../../ipam/definition/definition-keys.ts";
import { type MachineResource, METAL3_DATA_PATHS, machinePaths } from "../../kube/cluster-api.ts";
import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import {
  ADDRESS_POOLS_PATH,
  ALLOCATIONS_PATH,
  type IPAllocation,
  NAMESPACES_PATH,
  namespacedPath,
  objectPath,
} from "../../kube/objects.ts";
import { projectAddressPool } from "../../kube/views/address-pool-view.ts";
import {
  projectCapiCluster,
  projectMachineAddress,
  projectMachineClaim,
} from "../../kube/views/machine-claim-view.ts";
import { readMetadata } from "../../kube/views/object-metadata.ts";
import type { SingleFlight } from "../../platform/single-flight.ts";
import { soundAddress } from "../../store/cluster/allocations/allocation-object.ts";
import { readNetworkObject } from "../network-object.ts";
import { type Found, type MachineFacts, type NamespaceFact, UNKNOWN } from "./facts.ts";
import { listFacts, readFact } from "./fresh-read.ts";
import {
  addressPoolFact,
  boundFact,
  type MachineMemory,
  machineAddressFact,
  pausedIn,
} from "./machine-facts.ts";

/** Answers a question if it was read already, and has it read otherwise. */
export type Ask = <F>(question: string, read: () => Promise<Found<F>>) => Found<F>;

interface FreshMachines {
  readonly api: KubeApi;
  readonly machines: MachineMemory;
  /** What many machines have in common is read once for all that ask at the same time. */
  readonly sharedReads: SingleFlight<Found<unknown>>;
}

/** Machines' facts from quorum reads alone, each of which begins after it is asked for. */
export function freshMachineFacts({ api, machines, sharedReads }: FreshMachines, ask: Ask): MachineFacts {
  const askShared: Ask = (question, read) =>
    ask(question, () => sharedReads.next(read, question) as ReturnType<typeof read>);
  const read = <F>(
    resource: MachineResource,
    at: { readonly namespace: string; readonly name: string },
    project: (object: unknown) => F,
  ) => readFact(api, machinePaths(resource, at, machines.servedPath(resource)), project);
  return {
    addressClaim: (namespace, name) =>
      ask(`claim of Cluster API ${namespace}/${name}`, () =>
        read("ipaddressclaims", { namespace, name }, projectMachineClaim),
      ),
    machineAddress: (namespace, name) =>
      ask(`IPAddress ${namespace}/${name}`, () =>
        read("ipaddresses", { namespace, name }, (object) =>
          machineAddressFact(projectMachineAddress(object)),
        ),
      ),
    boundTo: (name) => {
      const allocation = ask(`allocation ${name}`, () =>
        readFact(api, [objectPath(ALLOCATIONS_PATH, name)], (object) =>
          boundFact({ object: object as IPAllocation, address: soundAddress(object as IPAllocation) }),
        ),
      );
      return allocation.kind === "present" ? allocation.it : allocation;
    },
    cluster: (namespace, name) =>
      askShared(`cluster ${namespace}/${name}`, () =>
        read("clusters", { namespace, name }, projectCapiCluster),
      ),
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

/** A namespace, by a quorum read. */
export function readNamespace(api: KubeApi, name: string): Promise<Found<NamespaceFact>> {
  return readFact(api, [objectPath(NAMESPACES_PATH, name)], (object) => {
    const metadata = isObject(object) && isObject(object.metadata) ? object.metadata : {};
    const { deletionTimestamp, creationTimestamp } = metadata;
    return {
      isEnding: deletionTimestamp !== undefined && deletionTimestamp !== null,
      creationTimestamp: typeof creationTimestamp === "string" ? creationTimestamp : "",
    };
  });
}
