import { fill } from "../../allocations/network-space.ts";
import type { NetworkView } from "../../allocations/records.ts";
import { viewNetwork } from "../../allocations/views.ts";
import { networkNameIn } from "../../ipam/definition/nad-config.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { type Address, formatAddress } from "../../ipam/space/address.ts";
import { Pool } from "../../ipam/space/pool.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { CLAIMS_PATH, NADS_PATH, PODS_PATH } from "../../kube/objects.ts";
import { listedAddresses, projectClaim } from "../../kube/views/claim-view.ts";
import { statusAddresses } from "../../kube/views/held-addresses.ts";
import { MalformedObjectError } from "../../kube/views/object-metadata.ts";
import { projectPod } from "../../kube/views/pod-view.ts";
import { projectNad } from "../../networks/nad-view.ts";
import { defineUdn } from "../../networks/udn/udn-definition.ts";
import {
  CUDNS_PATH,
  describeUdn,
  projectUdn,
  UDNS_PATH,
  type UdnKind,
  type UdnView,
} from "../../networks/udn/udn-object.ts";
import { ifPermitted, listObjects } from "./asking/lists.ts";

interface UdnNetwork {
  readonly view: UdnView;
  readonly definition: NetworkDefinition;
}

/**
 * The networks that a (Cluster)UserDefinedNetwork defines and none of ours does, counted from the addresses that pods
 * and claims report: OVN-Kubernetes allocates there. Without Layer3 networks, whose nodes have a range each, and
 * those whose ranges cannot be read. Empty if the kinds are not installed or may not be read. Throws ApiAway,
 * ClusterProblem.
 */
export function udnNetworks(api: KubeApi, ours: ReadonlySet<string>): Promise<NetworkView[]> {
  return ifPermitted(() => countedNetworks(api, ours));
}

async function countedNetworks(api: KubeApi, ours: ReadonlySet<string>): Promise<NetworkView[]> {
  const networks = await readNetworks(api, ours);
  if (networks.length === 0) return [];
  const held = await readHeld(api, new Set(networks.map(({ definition }) => definition.name)));
  return networks.map(({ view, definition }) => {
    const { addresses, pods } = held.get(definition.name) ?? { addresses: new Map(), pods: 0 };
    const pools = definition.rangeSets.map((rangeSet) => new Pool(rangeSet));
    for (const address of addresses.values()) fill(pools, { address, cooling: false, coolingSinceMs: 0 }, null, 0);
    const counts = { bound: addresses.size, attachments: pods };
    return viewNetwork(definition.name, { definition, by: describeUdn(view) }, pools, counts);
  });
}

async function readNetworks(api: KubeApi, ours: ReadonlySet<string>): Promise<UdnNetwork[]> {
  const kinds: readonly (readonly [UdnKind, string])[] = [
    ["UserDefinedNetwork", UDNS_PATH],
    ["ClusterUserDefinedNetwork", CUDNS_PATH],
  ];
  const lists = await Promise.all(
    kinds.map(async ([kind, path]) =>
      (await listObjects<unknown>(api, path)).map((object) => sound(() => projectUdn(object, kind))),
    ),
  );
  return lists.flat().flatMap((view): UdnNetwork[] => {
    if (view === null || ours.has(view.network)) return [];
    const definition = defineUdn(view);
    return definition === null ? [] : [{ view, definition }];
  });
}

type Addresses = Map<string, Address>;
type AddressesInUse = Map<string, { readonly addresses: Addresses; pods: number }>;

/** Each once. */
async function readHeld(api: KubeApi, networks: ReadonlySet<string>): Promise<AddressesInUse> {
  const [nads, pods, claims] = await Promise.all(
    [NADS_PATH, PODS_PATH, CLAIMS_PATH].map((path) => listObjects<unknown>(api, path)),
  );
  const held: AddressesInUse = new Map([...networks].map((network) => [network, { addresses: new Map(), pods: 0 }]));
  const networkOfNad = new Map<string, string>();
  for (const object of nads ?? []) {
    const nad = sound(() => projectNad(object));
    const network = nad && networkNameIn(nad.config, nad.name);
    if (nad && network && networks.has(network)) networkOfNad.set(nad.key, network);
  }
  for (const object of pods ?? []) {
    const pod = sound(() => projectPod(object, { addresses: true }));
    const touched = new Set<string>();
    for (const { nad, address } of pod ? statusAddresses(pod).held : []) {
      const network = nad && networkOfNad.get(`${nad.namespace}/${nad.name}`);
      if (!network) continue;
      held.get(network)?.addresses.set(formatAddress(address), address);
      touched.add(network);
    }
    for (const network of touched) (held.get(network) as { pods: number }).pods += 1;
  }
  for (const object of claims ?? []) {
    const claim = sound(() => projectClaim(object));
    for (const { address } of claim ? listedAddresses(claim) : [])
      held.get(claim?.network ?? "")?.addresses.set(formatAddress(address), address);
  }
  return held;
}

function sound<T>(project: () => T): T | null {
  try {
    return project();
  } catch (error) {
    if (error instanceof MalformedObjectError) return null;
    throw error;
  }
}
