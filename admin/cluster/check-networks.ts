import { describeHolder } from "../../allocations/owners.ts";
import type { RangeView } from "../../allocations/records.ts";
import { gatewaysOf } from "../../ipam/definition/bridge-gateway.ts";
import type { Finding } from "../../ipam/finding.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { placeOf } from "../../ipam/space/range-set.ts";
import { nameTakenBy, networkObjectOf } from "../../kube/network-object.ts";
import { allocationName, networkObjectName } from "../../kube/object-names.ts";
import type { IPNetwork } from "../../kube/objects.ts";
import type { WhereaboutsEntry } from "../../kube/views/whereabouts.ts";
import { shortened } from "../../networks/definition-findings.ts";
import { describeSource, isImported, sourcesOf, uncovered } from "../../networks/import-sources.ts";
import { describeNetworkOwner, NODES_OWN, SHARED_WITH_ANNOTATION } from "../../networks/network-owner.ts";
import { recoveryMark } from "../../store/cluster/contact/recovery.ts";
import { gatewayHeld } from "../../store/journal/check.ts";
import type { Grace } from "./grace.ts";
import type { ClusterNetworkView } from "./network-views.ts";
import { allocationAt, type ClusterSnapshot } from "./snapshot.ts";

/** I5: the counts of every range add up, and those that `kubectl get ipnetworks` shows can be true. */
export function checkCounts({ networks }: ClusterSnapshot, views: readonly ClusterNetworkView[]): Finding[] {
  const findings: Finding[] = [];
  for (const { name, ranges } of views) {
    for (const range of ranges) {
      if (addsUp(range)) continue;
      const message = `the counts of ${range.subnets.join(", ")} of network ${name} do not add up to ${range.size}`;
      const hint = "please report it, with the network's definition and holdfast show -o json";
      findings.push({ invariant: "I5", message, hint });
    }
  }
  for (const { metadata, spec, status } of networks.values()) {
    const { size, allocated, retained = "0", cooling, free } = status ?? {};
    const counts = [allocated, retained, cooling, free].map((text) => numberOf(text));
    const all = numberOf(size);
    if (all === null || counts.includes(null)) continue;
    const sum = (counts as bigint[]).reduce((total, one) => total + one, 0n);
    if (sum <= all) continue;
    const message = `IPNetwork ${metadata.name} counts ${sum} addresses of network ${spec?.network} as allocated, retained, cooling or free, of ${all}`;
    const hint = "the controller writes these counts; see whether it runs, and who else writes them";
    findings.push({ invariant: "I5", message, hint });
  }
  return findings;
}

export function checkGateways({ catalog, allocations }: ClusterSnapshot): Finding[] {
  return catalog.networks().flatMap((network) => {
    const counting = catalog.definitionOf(network);
    return (counting === null ? [] : gatewaysOf(counting.definition)).flatMap((gateway) => {
      const object = allocations.get(allocationName(network, gateway))?.object;
      if (object?.status?.state !== "Bound") return [];
      return [gatewayHeld(network, gateway, describeHolder(object.spec.owner))];
    });
  });
}

/** Networks where no address is allocated yet, because those from before Holdfast are not recorded. */
export function checkImports(snapshot: ClusterSnapshot, grace: Grace): Finding[] {
  return snapshot.catalog.networks().flatMap((network) => {
    const object = networkObjectOf(network, (one) => snapshot.networks.get(one));
    const sources = sourcesOf(snapshot.catalog, network, null);
    // Nobody may use a network that has no definition of those it belongs to, or is shared with.
    if (sources.length === 0 || isImported(object, sources)) return [];
    if (!grace.isOver(snapshot.madeAt.get(network))) return [];
    const name = networkObjectName(network);
    // Without any imported definition, the finding is about the network as a whole.
    const open = uncovered(object, sources);
    const missing = open.length < sources.length ? ` for ${open.map(describeSource).join(", ")}` : "";
    const consequence = missing === "" ? ", and none is given" : "";
    const other = nameTakenBy(network, (one) => snapshot.networks.get(one));
    const message = `network ${network} is not imported${missing}: addresses from before Holdfast may not be recorded${consequence}`;
    const hint =
      other === null
        ? "the controller imports it, usually within seconds: see that one runs, and its log"
        : `IPNetwork ${name} is of network ${other}; delete it`;
    return [{ invariant: "import", message, hint }];
  });
}

function addsUp({ size, allocated, retained, cooling, free, excluded }: RangeView): boolean {
  return [allocated, retained, cooling, free, excluded].reduce((sum, one) => sum + BigInt(one), 0n) === BigInt(size);
}

/** null: absent, or not a number. */
function numberOf(text: string | undefined): bigint | null {
  return text !== undefined && /^\d+$/.test(text) ? BigInt(text) : null;
}

/** Networks whose owner is not recorded or no longer defines them, and NADs that may not use the network they name. */
export function checkOwners({ catalog, madeAt }: ClusterSnapshot, grace: Grace): Finding[] {
  const broken = new Set(catalog.broken().map(({ network }) => network));
  return catalog.networks().flatMap((network): Finding[] => {
    const owner = catalog.ownerOf(network);
    if (owner === null) return [];
    const whose = describeNetworkOwner(owner);
    const findings: Finding[] = [];
    if (!catalog.hasRecordedOwner(network) && grace.isOver(madeAt.get(network))) {
      const message = `nobody has recorded whose network ${network} is: until then it is ${whose}'s, which has the oldest definition`;
      const hint =
        "the controller records it, or the first attachment does; see their logs, and whether deploy/crds of this release is applied";
      findings.push({ invariant: "owner", message, hint });
    }
    // The administrators' own networks are defined on the nodes.
    const isUndefined = catalog.definitionOf(network) === null && !broken.has(network);
    if (owner.definedIn !== NODES_OWN && isUndefined) {
      const message = `network ${network} belongs to ${whose}, where no NetworkAttachmentDefinition defines it now`;
      const hint = `create the definition there again, or move the network: holdfast networks own ${network} --namespace NAMESPACE`;
      findings.push({ invariant: "owner", message, hint });
    }
    const refused = catalog.namespacesOf(network).filter((namespace) => !catalog.permits(network, namespace));
    if (refused.length > 0) {
      const message = `network ${network} belongs to ${whose}, and NetworkAttachmentDefinitions of ${shortened(refused)} name it: ADDs through those are refused`;
      const hint = `where that is meant, share it (annotation ${SHARED_WITH_ANNOTATION} on its definition); else those must use another network name`;
      findings.push({ invariant: "owner", message, hint });
    }
    return findings;
  });
}

/** IPNetworks that were deleted: those in use are to stay until their last address, the others should have gone. */
export function checkDeletions(
  { networks, allocations }: ClusterSnapshot,
  grace: Grace,
): { readonly findings: Finding[]; readonly notes: string[] } {
  const used = new Set(
    [...allocations.values()].flatMap(({ object: { spec, status } }) =>
      status?.state === "Bound" ? [spec.network] : [],
    ),
  );
  const deleted = [...networks.values()].filter(({ metadata }) => metadata.deletionTimestamp !== undefined);
  const isUsed = ({ spec }: IPNetwork) => spec !== undefined && used.has(spec.network);
  return {
    notes: deleted
      .filter(isUsed)
      .map(
        ({ metadata, spec }) =>
          `IPNetwork ${metadata.name} is being deleted, and stays until the last address of network ${spec?.network} is released`,
      ),
    findings: deleted
      .filter((one) => !isUsed(one) && grace.isOver(one.metadata.deletionTimestamp as string))
      .map(({ metadata, spec }) => ({
        invariant: "stuck",
        message: `IPNetwork ${metadata.name} was deleted and does not go, though no address of network ${spec?.network} is in use`,
        hint: "it goes when nobody recovers the network any more; see whether the controller runs, and who else has a finalizer on it",
      })),
  };
}

/** After a restore: networks where no new owner gets an address, and claims in use that list nothing. */
export function checkRecovery(snapshot: ClusterSnapshot, grace: Grace): Finding[] {
  return [...recoveringNetworks(snapshot), ...emptyClaims(snapshot, grace)];
}

function recoveringNetworks({ networks }: ClusterSnapshot): Finding[] {
  return [...networks.values()].flatMap((object) => {
    const mark = recoveryMark(object);
    if (mark === null) return [];
    const message = `network ${object.spec?.network} recovers, and no new address of it is given meanwhile: ${mark.message}`;
    const hint =
      "allocations were taken away (a restored etcd, or IPAllocations deleted by force); it ends by itself once no node has anything more to put back; see the daemons' logs when it stays";
    return [{ invariant: "recovery", message, hint }];
  });
}

function emptyClaims({ allocations, claims }: ClusterSnapshot, grace: Grace): Finding[] {
  const empty = new Map([...claims.items.values()].map((claim) => [claim.uid, claim]));
  for (const [uid, { ips }] of empty) if (ips.length > 0) empty.delete(uid);
  return [...allocations.values()].flatMap(({ object: { spec, status } }) => {
    const claim = spec?.owner?.kind === "IPAMClaim" ? empty.get(spec.owner.uid) : undefined;
    const users = Object.values(status?.attachments ?? {});
    if (claim === undefined || status?.state !== "Bound" || users.length === 0) return [];
    if (!grace.isOver(status.since)) return [];
    const [user] = users;
    const message = `${spec.address} of network ${spec.network} is in use by ${describeHolder(spec.owner)}, which lists no address`;
    const hint = `the daemon of node ${user?.node} publishes the list again when it compares what it holds with the API: at its start, after each loss of contact, and when holdfast check on that node finds this`;
    return [{ invariant: "I2", message, hint }];
  });
}

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
