import type { Finding } from "../../ipam/finding.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { placeOf } from "../../ipam/space/range-set.ts";
import { networkObjectOf } from "../../kube/network-object.ts";
import type { WhereaboutsEntry } from "../../kube/views/whereabouts.ts";
import { isImported, sourcesOf } from "../../networks/import-sources.ts";
import type { Grace } from "./grace.ts";
import { allocationAt, type ClusterSnapshot } from "./snapshot.ts";

/** Entries of one IPPool without a record on one network: a pool can have thousands. */
interface Unrecorded {
  readonly first: WhereaboutsEntry;
  readonly network: string;
  count: number;
}

/**
 * Of networks that were switched over: without an IPAllocation, of whichever owner, the address can be given again. An
 * IPPool does not name its network, so a record on any network with the range is enough.
 */
export function checkWhereabouts(snapshot: ClusterSnapshot, grace: Grace): Finding[] {
  const networks = importedNetworks(snapshot);
  if (networks.length === 0) return [];
  const unreadable = snapshot.pools.filter((one) => typeof one === "string");
  const unrecorded = new Map<string, Unrecorded>();
  for (const entry of snapshot.pools.flatMap((one) => (typeof one === "string" ? [] : one.entries))) {
    const network = networkWithoutRecord(snapshot, entry, networks, grace);
    if (network === null) continue;
    const known = unrecorded.get(`${entry.pool} ${network}`);
    if (known === undefined) unrecorded.set(`${entry.pool} ${network}`, { first: entry, network, count: 1 });
    else known.count += 1;
  }
  return [...unreadable.map(unreadableFinding), ...[...unrecorded.values()].map(unrecordedFinding)];
}

/** Networks that are not imported yet have a finding of their own. */
function importedNetworks(snapshot: ClusterSnapshot): string[] {
  return snapshot.catalog.networks().filter((network) => {
    const object = networkObjectOf(network, (name) => snapshot.networks.get(name));
    return isImported(object, sourcesOf(snapshot.catalog, network, null));
  });
}

/** null: the address is recorded, on no network of ours, or checked elsewhere. */
function networkWithoutRecord(
  snapshot: ClusterSnapshot,
  entry: WhereaboutsEntry,
  networks: readonly string[],
  grace: Grace,
): string | null {
  if (isJudgedByItsPod(snapshot, entry, grace)) return null;
  const { address } = entry;
  const found = networks.filter((network) => {
    const definition = snapshot.catalog.definitionOf(network)?.definition;
    return definition !== undefined && placeOf(definition.rangeSets, address) !== null;
  });
  const isRecorded = found.some((network) => allocationAt(snapshot, network, address)?.status?.state === "Bound");
  return isRecorded ? null : (found[0] ?? null);
}

/** checkPods compares what a living pod reports itself; a pod that ends, or has just begun, may be in transition. */
function isJudgedByItsPod({ pods }: ClusterSnapshot, { pod: named, address }: WhereaboutsEntry, grace: Grace): boolean {
  const pod = named === null ? undefined : pods.items.get(`${named.namespace}/${named.name}`);
  if (pod === undefined) return false;
  const text = formatAddress(address);
  const onItsWay = pod.beingDeleted || pod.terminal || !grace.isOver(pod.creationTimestamp);
  return onItsWay || pod.addresses.some((one) => one.address === text);
}

function unrecordedFinding({ first, network, count }: Unrecorded): Finding {
  const { pool, address, pod } = first;
  const user = pod === null ? "a container" : `pod ${pod.namespace}/${pod.name}`;
  const which = `${formatAddress(address)}${count === 1 ? "" : ` and ${count - 1} more`} of network ${network}`;
  const message = `${which}, in use by ${user} as whereabouts' IPPool ${pool} says, has no Bound IPAllocation and may be given again`;
  const hint = `holdfast import --network ${network} --kubeconfig F records it; where its container is certainly gone, remove the entry from the IPPool (as whereabouts' ip-reconciler does)`;
  return { invariant: "import", message, hint };
}

function unreadableFinding(problem: string): Finding {
  const hint = "correct spec.range of the IPPool, or delete the IPPool when nothing uses it";
  return { invariant: "import", message: `whereabouts' ${problem}; what it records is not compared`, hint };
}
