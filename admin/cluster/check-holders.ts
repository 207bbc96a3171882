import { describeHolder } from "../../allocations/owners.ts";
import type { ClaimViewWithFact } from "../../claims/reasons/caches.ts";
import { isPod } from "../../claims/reasons/facts.ts";
import type { Finding } from "../../ipam/finding.ts";
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

/** I2: every address that a claim lists is allocated to it. */
export function checkClaims(snapshot: ClusterSnapshot, grace: Grace): Finding[] {
  const ours = new Set(snapshot.catalog.networks());
  const findings: Finding[] = [];
  for (const claim of snapshot.claims.items.values()) {
    if (!ours.has(claim.network) || !grace.isOver(claim.creationTimestamp)) continue;
    for (const text of claim.ips) {
      const wrong = wrongWith(snapshot, claim, text);
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
): { readonly problem: string; readonly hint: string } | null {
  let address: Address;
  try {
    ({ address } = parseInterfaceAddress(text));
  } catch (error) {
    const hint = "correct status.ips of the claim, as whoever wrote it meant it; nothing is given to it before";
    return { problem: `cannot be read: ${(error as Error).message}`, hint };
  }
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
