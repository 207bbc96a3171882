import { soundAddress } from "../../allocations/allocation-object.ts";
import { isObject } from "../../ipam/definition/definition-keys.ts";
import { type MachineResource, METAL3_DATA_PATHS, machinePaths } from "../../kube/cluster-api.ts";
import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { readNetworkObject } from "../../kube/network-object.ts";
import {
  ADDRESS_POOLS_PATH,
  ALLOCATIONS_PATH,
  CLAIMS_PATH,
  type IPAllocation,
  NADS_PATH,
  NAMESPACES_PATH,
  NODES_PATH,
  namespacedPath,
  objectPath,
  PODS_PATH,
} from "../../kube/objects.ts";
import { projectAddressPool } from "../../kube/views/address-pool-view.ts";
import { projectClaim } from "../../kube/views/claim-view.ts";
import { projectCapiCluster, projectMachineAddress, projectMachineClaim } from "../../kube/views/machine-claim-view.ts";
import { readMetadata } from "../../kube/views/object-metadata.ts";
import { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import { projectNad } from "../../networks/nad-view.ts";
import type { SingleFlight } from "../../platform/single-flight.ts";
import { claimFact, nodeFact, projectSweptPod } from "./fact-views.ts";
import {
  ABSENT,
  type ClaimFact,
  type Facts,
  type Found,
  type NamespaceFact,
  present,
  UNKNOWN,
  type Wants,
} from "./facts.ts";
import { listFacts, readFact } from "./fresh-read.ts";
import { type FactMemory, type FactReader, type MachineMemory, type ReadKinds, readFacts } from "./read-facts.ts";
import { readVmWants } from "./vm-wants.ts";

/** Facts that one verdict may require one after the other; more than any allocation has attachments. */
const ROUNDS_MAX = 64;
/** What many machines have in common is read once for all that ask at the same time, and so are lists. */
const SHARED: ReadonlySet<keyof ReadKinds> = new Set(["cluster", "network", "namespace"]);

export interface RememberedFacts extends FactMemory {
  readonly machines: MachineMemory;
  /** Decisions that are made at the same time share what many of them ask for. */
  readonly sharedReads: SingleFlight<Found<unknown>>;
  /** What was answered to earlier decisions that may be as old as those; absent: everything is read for this one. */
  readonly answers?: Map<string, Found<unknown>>;
}

/**
 * Runs `decide` on quorum reads alone, each of which begins after it is asked for, by this decision or by an earlier
 * one that shares its answers: facts that are not read yet are read, and it runs again, until it has all of them. Facts
 * that cannot be read stay unknown. Never throws when the server is away.
 */
export async function decideFresh<T>(
  api: KubeApi,
  remembered: RememberedFacts,
  decide: (facts: Facts) => T,
): Promise<T> {
  const kinds = freshKinds(api, remembered.machines);
  const { answers = new Map<string, Found<unknown>>() } = remembered;
  for (let round = 0; ; round++) {
    const missing = new Map<string, () => Promise<Found<unknown>>>();
    const ask = <F>(question: string, isShared: boolean, read: () => Promise<Found<F>>): Found<F> => {
      const known = answers.get(question);
      if (known === undefined)
        missing.set(question, isShared ? () => remembered.sharedReads.next(read, question) : read);
      return (known ?? UNKNOWN) as Found<F>;
    };
    const reader: FactReader = {
      get: (kind, key) => ask(`${kind} ${key}`, SHARED.has(kind), () => kinds[kind](key)),
      podsNaming: (namespace, claim) => {
        const path = namespacedPath(PODS_PATH, namespace);
        const pods = ask(`pods ${namespace}`, true, () => listFacts(api, path, projectSweptPod));
        if (pods.kind !== "present") return UNKNOWN;
        return present(pods.it.filter((pod) => !pod.terminal && pod.claims.includes(claim)));
      },
      wants: (claim) => ask(`wants ${claim.namespace}/${claim.name}`, false, () => readWants(api, claim)),
      launcherLives: (namespace, vmi) => {
        const path = namespacedPath(PODS_PATH, namespace);
        const pods = ask(`pods ${namespace}`, true, () => listFacts(api, path, projectSweptPod));
        return pods.kind === "present"
          ? present(pods.it.some((pod) => !pod.terminal && pod.vmi?.uid === vmi))
          : UNKNOWN;
      },
      addressPools: (namespace) => {
        const path = namespacedPath(ADDRESS_POOLS_PATH, namespace);
        return ask(`pools ${namespace}`, true, () => listFacts(api, path, projectAddressPool));
      },
    };
    const decision = decide(readFacts(reader, remembered));
    if (missing.size === 0 || round === ROUNDS_MAX) return decision;
    for (const [question, read] of missing) answers.set(question, await read());
  }
}

/** By quorum reads of the VMI or VM, and of the NAD that it names. */
async function readWants(api: KubeApi, { namespace, name, vm }: ClaimFact): Promise<Found<Wants>> {
  const wanted = vm === null ? UNKNOWN : await readVmWants(api, { namespace, name, vm });
  if (wanted.kind !== "present") return UNKNOWN;
  const { nad, asks, vmi } = wanted.it;
  const verdict = await readFact(api, [namespacedPath(NADS_PATH, split(nad).namespace, split(nad).name)], (object) => {
    const catalog = new DefinitionCatalog(api.clock);
    const view = projectNad(object);
    catalog.upsert(view);
    return catalog.verdict(view.key);
  });
  if (verdict.kind !== "present") return UNKNOWN;
  const { it } = verdict;
  if (it.kind === "not-ours" || (it.kind === "ok" && !it.definition.allowPersistentIPs))
    return present({ network: null, asks, vmi, nad });
  return it.kind === "ok" ? present({ network: it.network, asks, vmi, nad }) : UNKNOWN;
}

function freshKinds(api: KubeApi, machines: MachineMemory) {
  const get = <F>(path: string, project: (object: unknown) => F) => readFact(api, [path], project);
  const namespaced = <F>(collection: string, key: string, project: (object: unknown) => F) => {
    const { namespace, name } = split(key);
    return get(namespacedPath(collection, namespace, name), project);
  };
  const machine = <F>(resource: MachineResource, key: string, project: (object: unknown) => F) =>
    readFact(api, machinePaths(resource, split(key), machines.servedPath(resource)), project);
  const kinds: { readonly [K in keyof ReadKinds]: (key: string) => Promise<Found<ReadKinds[K]>> } = {
    claim: (key) => namespaced(CLAIMS_PATH, key, (it) => claimFact(projectClaim(it))),
    pod: (key) => namespaced(PODS_PATH, key, projectSweptPod),
    node: (key) => get(objectPath(NODES_PATH, key), (it) => nodeFact(it as { status?: unknown })),
    nad: async (key) => {
      const found = await namespaced(NADS_PATH, key, (object) => {
        const nad = projectNad(object);
        const catalog = new DefinitionCatalog(api.clock);
        catalog.upsert(nad);
        return catalog.networkOfNad(nad.key);
      });
      // One that is not ours, or invalid, says nothing.
      return found.kind === "present" && found.it !== null ? present(found.it) : UNKNOWN;
    },
    allocation: (key) =>
      get(objectPath(ALLOCATIONS_PATH, key), (it) => {
        const object = it as IPAllocation;
        return { object, address: soundAddress(object) };
      }),
    addressClaim: (key) => machine("ipaddressclaims", key, projectMachineClaim),
    address: (key) => machine("ipaddresses", key, projectMachineAddress),
    cluster: (key) => machine("clusters", key, projectCapiCluster),
    machineData: (key) => {
      const { namespace, name } = split(key);
      const paths = METAL3_DATA_PATHS.map((path) => namespacedPath(path, namespace, name));
      return readFact(api, paths, (object) => readMetadata(object, "Metal3Data"));
    },
    network: async (key) => {
      try {
        const object = await readNetworkObject(api, key);
        return object === null ? ABSENT : present(object);
      } catch (error) {
        if (error instanceof ApiAway) return UNKNOWN;
        throw error;
      }
    },
    namespace: (key) => readNamespace(api, key),
  };
  return kinds;
}

function split(key: string): { readonly namespace: string; readonly name: string } {
  const [namespace = "", name = ""] = key.split("/");
  return { namespace, name };
}

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
