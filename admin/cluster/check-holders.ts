import { describeHolder, fromAllocationOwner } from "../../allocations/owners.ts";
import { type ClaimViewWithFact, cachedFacts } from "../../claims/reasons/caches.ts";
import { type Facts, isPod } from "../../claims/reasons/facts.ts";
import { judge } from "../../claims/reasons/relations.ts";
import type { Rules, Verdict } from "../../claims/reasons/verdict.ts";
import type { Finding } from "../../ipam/finding.ts";
import { isMachine } from "../../ipam/owner.ts";
import { type Address, formatAddress, parseAddress } from "../../ipam/space/address.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { placeOf } from "../../ipam/space/range-set.ts";
import { networkObjectOf } from "../../kube/network-object.ts";
import type { IPAllocation } from "../../kube/objects.ts";
import { POD_ADDRESSES_MAX } from "../../kube/views/held-addresses.ts";
import { IMPORTED, nodeDefinitionsOf } from "../../networks/import-sources.ts";
import { parseTime } from "../../platform/time.ts";
import type { Grace } from "./grace.ts";
import { allocationAt, type ClusterSnapshot, type SnapshotPod } from "./snapshot.ts";

const CLAIM_HINT =
  "the controller takes in what nobody else has; where somebody else has it, the conditions of the claim tell what to do";
const POD_HINT =
  "the daemon of its node repairs what it can, at the latest within six hours, or when holdfast check on that node finds this; recreate the pod if it stays";

type Wrong = Pick<Finding, "hint"> & { readonly problem: string };

const UNRECORDED: Wrong = {
  problem: "has no IPAllocation",
  hint: "the controller records it within a minute, and holdfast import --kubeconfig does it now; recreate the pod if this stays",
};
const WITHOUT_CONTAINER: Wrong = {
  problem: "is recorded without its container",
  hint: "its IPAllocation and the journal of its node were lost, or another plugin gave it the address; recreate the pod if this stays: until then the metadata service does not know it",
};

/**
 * I2: every address that a claim lists is allocated to it. But what it lists beside what it has is no wish, and the
 * controller takes it off; nobody writes the list of one that is being deleted.
 */
export function checkClaims(snapshot: ClusterSnapshot, grace: Grace): Finding[] {
  const ours = new Set(snapshot.catalog.networks());
  const findings: Finding[] = [];
  const had = new Set<string>();
  for (const { ownerKind, object, address } of snapshot.allocations.values()) {
    if (ownerKind !== "IPAMClaim" || object.status?.state === "Retained") continue;
    had.add(`${object.spec.owner.uid} ${address}`);
    if (object.status?.state === "Bound") had.add(object.spec.owner.uid);
  }
  for (const claim of snapshot.claims.items.values()) {
    if (claim.deletionTimestamp !== null || had.has(claim.uid)) continue;
    if (!ours.has(claim.network) || !grace.isOver(claim.creationTimestamp)) continue;
    for (const text of claim.ips) {
      const wrong = wrongWith(snapshot, claim, text, had);
      if (wrong === null) continue;
      const message = `${text} of network ${claim.network}, listed by claim ${claim.key}, ${wrong.problem}`;
      findings.push({ invariant: "I2", message, hint: wrong.hint });
    }
  }
  return findings;
}

/** I2: every address on our networks that a living pod reports is allocated to it, or to a claim that it uses. */
export function checkPods(snapshot: ClusterSnapshot, grace: Grace): Finding[] {
  const findings: Finding[] = [];
  for (const pod of snapshot.pods.items.values()) {
    // A pod being deleted, or between two sandboxes, may have released its addresses; one that has ended reports none.
    if (pod.beingDeleted || pod.lacksSandbox || !grace.isOver(pod.creationTimestamp)) continue;
    if (pod.addressesCut) findings.push(tooMany(pod));
    const unrecorded = new Map<string, string[]>();
    for (const { network, address, nad } of reportedBy(snapshot, pod)) {
      const wrong = podProblem(snapshot, pod, { network, address, nad }, grace);
      if (wrong === null) continue;
      if (wrong === UNRECORDED) {
        unrecorded.set(network, [...(unrecorded.get(network) ?? []), formatAddress(address)]);
        continue;
      }
      const message = `${formatAddress(address)} of network ${network}, in use by pod ${pod.key}, ${wrong.problem}`;
      findings.push({ invariant: "I2", message, hint: wrong.hint });
    }
    for (const [network, addresses] of unrecorded) findings.push(notRecorded(pod, network, addresses));
  }
  return findings;
}

interface Reported {
  readonly network: string;
  readonly address: Address;
  /** `namespace/name`; null: the nodes' own configuration defines the network. */
  readonly nad: string | null;
}

function reportedBy({ catalog, networks }: ClusterSnapshot, pod: SnapshotPod): Reported[] {
  return pod.addresses.flatMap(({ address: text, nad, network: named }): Reported[] => {
    const address = parseAddress(text);
    if (nad !== null) {
      const network = catalog.networkOfNad(nad);
      return network === null ? [] : [{ network, address, nad }];
    }
    // Networks that the nodes' own configuration defines.
    return [...networks.values()].flatMap((object) => {
      const definitions = nodeDefinitionsOf(object);
      const holds = definitions.some(({ rangeSets }) => placeOf(rangeSets, address) !== null);
      const { network } = object.spec;
      return holds || (definitions.length > 0 && network === named) ? [{ network, address, nad: null }] : [];
    });
  });
}

/** One finding per pod and network: an annotation can list thousands. */
function notRecorded({ key }: SnapshotPod, network: string, addresses: readonly string[]): Finding {
  const [first = "", ...others] = addresses;
  if (others.length === 0) {
    const message = `${first} of network ${network}, in use by pod ${key}, ${UNRECORDED.problem}`;
    return { invariant: "I2", message, hint: UNRECORDED.hint };
  }
  const message = `${first} and ${others.length} other addresses of network ${network}, in use by pod ${key} as it reports, have no IPAllocation`;
  const hint =
    "an interface has one address of each subnet; holdfast import --dry-run --kubeconfig shows why they are not recorded, and the pod's annotations show who claims them";
  return { invariant: "I2", message, hint };
}

function tooMany({ key }: SnapshotPod): Finding {
  const message = `pod ${key} reports more than ${POD_ADDRESSES_MAX} addresses; the others were not compared`;
  const hint = "see who writes its annotations k8s.v1.cni.cncf.io/network-status and k8s.ovn.org/pod-networks";
  return { invariant: "I2", message, hint };
}

function wrongWith(
  snapshot: ClusterSnapshot,
  claim: ClaimViewWithFact,
  text: string,
  had: ReadonlySet<string>,
): { readonly problem: string; readonly hint: string } | null {
  let address: Address;
  try {
    ({ address } = parseInterfaceAddress(text));
  } catch (error) {
    const hint = "correct status.ips of the claim, as whoever wrote it meant it; nothing is given to it before";
    return { problem: `cannot be read: ${(error as Error).message}`, hint };
  }
  if (had.has(`${claim.uid} ${formatAddress(address)}`)) return null;
  const problem = claimProblem(snapshot, claim, address);
  return problem === null ? null : { problem, hint: CLAIM_HINT };
}

function claimProblem(snapshot: ClusterSnapshot, claim: ClaimViewWithFact, address: Address): string | null {
  const object = allocationAt(snapshot, claim.network, address);
  if (!object) return "has no IPAllocation";
  if (object.status?.state !== "Bound") return "is not Bound";
  const { owner } = object.spec;
  if (owner.kind === "IPAMClaim" && owner.uid === claim.uid) return null;
  const same = owner.kind === "IPAMClaim" && `${owner.namespace}/${owner.name}` === claim.key;
  return same ? "belongs to a former claim of this name" : belongsTo(object);
}

function podProblem(
  snapshot: ClusterSnapshot,
  pod: SnapshotPod,
  { network, address, nad }: Reported,
  grace: Grace,
): Wrong | null {
  const object = allocationAt(snapshot, network, address);
  if (!object) return UNRECORDED;
  const { owner } = object.spec;
  if (object.status?.state !== "Bound") {
    // A sandbox that is created again releases its address first.
    return grace.isOver(object.status?.since) ? { problem: "is not Bound", hint: POD_HINT } : null;
  }
  const attached = Object.values(object.status.attachments ?? {}).some(
    (one) => one.pod !== undefined && isPod(pod, one.pod.uid),
  );
  if (attached) return null;
  const named = owner.kind === "IPAMClaim" && owner.namespace === pod.namespace && pod.claims.includes(owner.name);
  if (!named && !(owner.kind === "Pod" && isPod(pod, owner.uid))) return { problem: belongsTo(object), hint: POD_HINT };
  // Nobody but Holdfast can have given it, so a node has recorded its container once.
  const wasAttached = nad !== null && isFromHoldfast(snapshot, pod, { network, nad });
  return wasAttached && grace.isOver(object.status.since) ? WITHOUT_CONTAINER : null;
}

function belongsTo({ spec }: IPAllocation): string {
  return `belongs to ${describeHolder(spec.owner)}`;
}

/**
 * Whether a pod certainly got what it reports on a network from Holdfast, not from the plugin before: the
 * NetworkAttachmentDefinition is older than the pod and was never edited, or it is the one that counts and the network
 * was imported when the pod was created.
 */
function isFromHoldfast(
  { catalog, nads, networks }: Pick<ClusterSnapshot, "catalog" | "nads" | "networks">,
  pod: Pick<SnapshotPod, "creationTimestamp">,
  { network, nad }: { readonly network: string; readonly nad: string },
): boolean {
  const object = nads.get(nad);
  if (object?.generation === 1 && isBefore(object.creationTimestamp, pod.creationTimestamp)) return true;
  if (catalog.definitionOf(network)?.by !== nad) return false;
  const known = networkObjectOf(network, (name) => networks.get(name));
  const imported = known?.status?.conditions?.find(({ type }) => type === IMPORTED);
  return imported?.status === "True" && isBefore(imported.lastTransitionTime, pod.creationTimestamp);
}

/** False when one of them cannot be read. RFC 3339. */
const isBefore = (one: string | undefined, other: string | undefined): boolean =>
  parseTime(one ?? "") < parseTime(other ?? "");

const RELEASE_HINT =
  "the controller releases it; look again in a minute, and see whether the controller runs when this stays";

const WHY: Readonly<Record<Extract<Verdict, { kind: "release" | "repair" | "report" }>["why"], string>> = {
  "another-counts": "which has another in its place",
  "vm-moved": "whose VM is on another network",
  "vm-left": "whose VM runs on a network where no claim follows it",
  "claim-gone": "which is gone, with every pod that used it",
  "pod-completed": "which has ended",
  "pod-gone": "which is gone, with its containers",
  "node-gone": "whose node is gone",
  "claim-does-not-use": "which has another address",
  "cluster-gone": "which is gone, and so is its cluster",
  "preallocation-gone": "for which no AddressPool keeps it any more",
  "retention-over": "for which it was retained long enough",
  "cooling-with-finalizer":
    "which has let go of it; its cool-down is over, but it cannot be deleted: our finalizer is still on it",
  "owner-incomplete": "of which name or namespace is missing: nobody can tell whether it lives",
  "container-without-attachment": "of which no node is recorded: nobody can tell whether it runs",
  unsound: "",
};

/**
 * I3: every allocation has a living reason, and claims that cannot be deleted do not keep unused addresses. `undated`:
 * nothing says when the reason ended, and the controller is about to act.
 */
export function checkReasons(
  snapshot: ClusterSnapshot,
  grace: Grace,
): { readonly dated: Finding[]; readonly undated: Finding[] } {
  const { allocations, claims, pods, nodes, catalog, machines } = snapshot;
  const facts = cachedFacts({
    allocations: { items: allocations, known: true },
    claims: { items: claims.items, known: claims.complete },
    pods: { items: pods.items, known: pods.complete },
    nodes: { items: new Map([...nodes].map((name) => [name, { unreachable: false }])), known: true },
    stoppedPods: { has: () => false },
    catalog,
    machines,
  });
  const rules: Rules = {
    graceSeconds: 0,
    podGoneReleaseSeconds: 0,
    clusterGoneReleaseSeconds: 0,
    coolingKeepSeconds: 0,
    wallMs: () => grace.nowMs,
    definitionOf: (network) => catalog.definitionOf(network)?.definition ?? null,
  };
  const dated: Finding[] = [];
  const undated: Finding[] = [];
  const kept = new KeptForMoved();
  for (const one of allocations.values()) {
    const { object } = one;
    const verdict = judge(one, facts, rules);
    kept.note(object, verdict, (cluster) => machines?.clusters.items.has(cluster) === true);
    const finding = findingOf(object, verdict);
    const { since, retainedUntil } = object.status ?? {};
    if (finding === null || !grace.isOver(retainedUntil ?? since)) continue;
    (retainedUntil === undefined ? undated : dated).push(finding);
  }
  return { dated: [...dated, ...kept.findings, ...stuckClaims(snapshot, facts, grace)], undated };
}

function findingOf(object: IPAllocation, verdict: Verdict): Finding | null {
  const { network, address, owner } = object.spec ?? {};
  const held = () => `${address} of network ${network} is held by ${describeHolder(owner)}`;
  const release = () =>
    `holdfast release ${address.split("/")[0]} --network ${network} takes it back, once nothing uses it`;
  if (isUnattendedPod(object, verdict)) {
    const node = object.status?.node ? `node ${object.status.node}` : "a node that is not recorded";
    const message = `${held()}, which is gone and had it before Holdfast: its containers may run on ${node}`;
    const hint = `the controller releases it within a minute where it has seen them end; else ${release()}`;
    return { invariant: "I3", message, hint };
  }
  const reported = verdict.kind === "release" || verdict.kind === "repair" || verdict.kind === "report";
  // A mismatch with its name is a finding of I1.
  if (!reported || verdict.why === "unsound") return null;
  const message = `${held()}, ${WHY[verdict.why]}`;
  return { invariant: "I3", message, hint: verdict.kind === "report" ? release() : RELEASE_HINT };
}

/** Nothing on its node reports the end of its containers. */
function isUnattendedPod({ spec, status }: IPAllocation, { why }: Verdict): boolean {
  const isAttached = Object.keys(status?.attachments ?? {}).length > 0;
  return why === "container-may-run" && spec.owner.kind === "Pod" && !isAttached;
}

function stuckClaims({ catalog, claims }: ClusterSnapshot, facts: Facts, grace: Grace): Finding[] {
  const ours = new Set(catalog.networks());
  return [...claims.items.values()].flatMap((claim) => {
    const { key, namespace, name, network, ips, deletionTimestamp } = claim;
    if (deletionTimestamp === null || !ours.has(network) || ips.length === 0) return [];
    const users = facts.podsNaming(namespace, name);
    if (users.kind !== "present" || users.it.length > 0 || !grace.isOver(deletionTimestamp)) return [];
    const message = `claim ${key} is being deleted since ${deletionTimestamp} and keeps ${ips.join(", ")} of network ${network}, though no pod names it`;
    const hint = `whoever set its finalizers must remove them: kubectl get ipamclaim -n ${namespace} ${name} -o yaml`;
    return [{ invariant: "stuck", message, hint }];
  });
}

/** I3: addresses that are kept because their machines may live under another management cluster; by cluster. */
class KeptForMoved {
  readonly #counts = new Map<string, { network: string; cluster: string; why: string; count: number }>();

  note({ spec }: IPAllocation, verdict: Verdict, isThere: (cluster: string) => boolean): void {
    const { owner, network } = spec;
    if (verdict.kind !== "keep" || (verdict.why !== "claim-moved" && verdict.why !== "cluster-gone")) return;
    if (!owner.cluster || !isMachine(fromAllocationOwner(owner).kind)) return;
    const cluster = `${owner.namespace}/${owner.cluster}`;
    // A pause ends, and so does a move.
    if (isThere(cluster)) return;
    const key = `${network} ${cluster} ${verdict.why}`;
    const known = this.#counts.get(key) ?? { network, cluster, why: verdict.why, count: 0 };
    this.#counts.set(key, { ...known, count: known.count + 1 });
  }

  get findings(): Finding[] {
    return [...this.#counts.values()].map(({ network, cluster, why, count }) => ({
      invariant: "I3",
      message: `${count} ${count === 1 ? "address" : "addresses"} of network ${network} ${count === 1 ? "is" : "are"} kept for machines of cluster ${cluster}, ${
        why === "claim-moved"
          ? "which moved to another management cluster"
          : "which is gone, and nobody saw whether it moved"
      }`,
      hint: `holdfast release --moved ${cluster} frees them, where no machine of it uses this network any more`,
    }));
  }
}
