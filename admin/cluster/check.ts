import { addressOf, isSound } from "../../allocations/allocation-object.ts";
import { usersOfMacs } from "../../allocations/mac-users.ts";
import { describeHolder } from "../../allocations/owners.ts";
import { isAnswer } from "../../claims/pools/pool-ledger.ts";
import { duplicateMacFindings } from "../../ipam/duplicate-macs.ts";
import type { Finding } from "../../ipam/finding.ts";
import { type Address, formatAddress, parseAddress } from "../../ipam/space/address.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { allocationName } from "../../kube/object-names.ts";
import { ANNOTATION_ALLOCATION, type IPAllocation } from "../../kube/objects.ts";
import { isAddressPool, type MachineAddressView } from "../../kube/views/machine-claim-view.ts";
import { definitionFindings, definitionNotes } from "../../networks/definition-findings.ts";
import { sleep } from "../../platform/time.ts";
import { checkDefinitions } from "../../store/cluster/checks/check-definitions.ts";
import type { CheckReport } from "../admin-api.ts";
import { checkClaims, checkPods, checkReasons } from "./check-holders.ts";
import {
  checkCounts,
  checkDeletions,
  checkGateways,
  checkImports,
  checkOwners,
  checkRecovery,
  checkWhereabouts,
} from "./check-networks.ts";
import { checkPolicies } from "./check-policies.ts";
import { formerHoldersIn } from "./former-holders.ts";
import { Grace } from "./grace.ts";
import { type ClusterNetworkView, clusterNetworks } from "./network-views.ts";
import { allocationAt, type ClusterSnapshot, readSnapshot } from "./snapshot.ts";

/** Pause before the second snapshot, ms. The lists of one are not from one instant: only findings of both count. */
const LOOK_AGAIN_MS = 2_000;
/** Each further pause is twice the one before, up to this, ms. */
const PAUSE_MS_MAX = 16_000;

/** What does not depend on the snapshot. */
interface Found {
  readonly findings: readonly Finding[];
  readonly notes: readonly string[];
}

export type ClusterCheck = CheckReport & Required<Pick<CheckReport, "counted">>;

/** A report, and the messages of those findings of which no object says since when they stand. */
interface Look {
  readonly report: ClusterCheck;
  readonly undated: ReadonlySet<string>;
}

/**
 * Findings that stand for less than `graceSeconds` are not reported: where no object says since when (a claim that is
 * gone left no time), they are watched for so long, or until they pass. Throws errors of the API.
 */
export async function checkCluster(api: KubeApi, graceSeconds: number): Promise<ClusterCheck> {
  const definitions = await checkDefinitions(api);
  const policies = await checkPolicies(api);
  const found = { findings: [...definitions, ...policies.findings], notes: policies.notes };
  const judge = async (): Promise<Look> => {
    const snapshot = await readSnapshot(api);
    const macs = duplicateMacFindings(
      await usersOfMacs(snapshot.allocations.values(), api.clock, ({ namespace, name }) =>
        snapshot.pods.items.get(`${namespace}/${name}`),
      ),
    );
    return judgeSnapshot(snapshot, { nowMs: api.clock.wallMs(), graceSeconds, found, macs });
  };
  const sinceMs = api.clock.monotonicMs();
  let { report } = await judge();
  for (let pauseMs = LOOK_AGAIN_MS; report.findings.length > 0; pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX)) {
    const standing = new Set(report.findings.map(({ message }) => message));
    const leftMs = sinceMs + graceSeconds * 1_000 - api.clock.monotonicMs();
    await sleep(api.clock, Math.max(LOOK_AGAIN_MS, Math.min(pauseMs, leftMs)));
    const look = await judge();
    const findings = look.report.findings.filter(({ message }) => standing.has(message));
    report = { ...look.report, findings };
    const isOver = api.clock.monotonicMs() - sinceMs >= graceSeconds * 1_000;
    if (isOver || !findings.some(({ message }) => look.undated.has(message))) break;
  }
  return report;
}

function judgeSnapshot(
  snapshot: ClusterSnapshot,
  { nowMs, graceSeconds, found, macs }: { nowMs: number; graceSeconds: number; found: Found; macs: readonly Finding[] },
): Look {
  const grace = new Grace(nowMs, graceSeconds);
  const objects = [...snapshot.allocations.values()].map(({ object }) => object);
  const views = clusterNetworks(snapshot.catalog, objects, snapshot.networks, nowMs);
  const deletions = checkDeletions(snapshot, grace);
  const notes = [
    ...found.notes,
    ...deletions.notes,
    ...definitionNotes(snapshot.catalog),
    ...formerHoldersIn(snapshot).notes(),
  ];
  const reasons = checkReasons(snapshot, grace);
  const undated = [
    ...checkClaims(snapshot, grace),
    ...checkPods(snapshot, grace),
    ...checkMachines(snapshot, grace),
    ...reasons.undated,
  ];
  const findings = [
    ...found.findings,
    ...checkNames(snapshot),
    ...undated,
    ...reasons.dated,
    ...checkCounts(snapshot, views),
    ...checkImports(snapshot, grace),
    ...checkOwners(snapshot, grace),
    ...deletions.findings,
    ...checkRecovery(snapshot, grace),
    ...checkGateways(snapshot),
    ...macs,
    ...definitionFindings(snapshot.catalog),
    ...checkWhereabouts(snapshot, grace),
  ].sort((a, b) => (a.invariant < b.invariant ? -1 : Number(a.invariant > b.invariant)));
  const counted = { ...countedOf(snapshot, views), allocations: boundCount(snapshot) };
  const report = { findings, counted, ...(notes.length > 0 && { notes }) };
  return { report, undated: new Set(undated.map(({ message }) => message)) };
}

function boundCount({ allocations }: ClusterSnapshot): number {
  return [...allocations.values()].filter(({ object }) => object.status?.state === "Bound").length;
}

function countedOf({ catalog, claims }: ClusterSnapshot, views: readonly ClusterNetworkView[]) {
  const ours = new Set(catalog.networks());
  return {
    attachments: views.reduce((total, { attachments }) => total + attachments, 0),
    claims: [...claims.items.values()].filter(({ network }) => ours.has(network)).length,
    networks: views.length,
  };
}

/** I1: an address has one object, named after it; two objects for one address can only come from outside. */
function checkNames({ allocations }: ClusterSnapshot): Finding[] {
  const findings: Finding[] = [];
  const byAddress = new Map<string, string[]>();
  for (const { key: name, object } of allocations.values()) {
    const what = addressText(object);
    if (what === null) {
      findings.push(strange(name, "names no network and address that can be read"));
      continue;
    }
    const names = byAddress.get(what.text);
    if (names === undefined) byAddress.set(what.text, [name]);
    else names.push(name);
    if (what.name === name && !isSound(object))
      findings.push(strange(name, `(${what.text}) has no state, or an owner without UID`));
  }
  for (const [text, names] of byAddress) {
    const [name = "", ...others] = names;
    const object = allocations.get(name)?.object;
    if (others.length > 0) {
      const message = `${text} has ${names.length} IPAllocations: ${names.sort().join(", ")}`;
      const hint =
        "the one that Holdfast made is named after the address; find out who wrote the others, and delete them";
      findings.push({ invariant: "I1", message, hint });
    } else if (object && addressText(object)?.name !== name) {
      const message = `IPAllocation ${name} claims ${text}, but has another address's name: ${text} may be given a second time`;
      const hint = `find out who wrote it (kubectl get ipallocation ${name} -o yaml), and delete it once nothing uses the address`;
      findings.push({ invariant: "I1", message, hint });
    }
  }
  return findings;
}

function strange(name: string, problem: string): Finding {
  const hint = `it is left alone; see kubectl get ipallocation ${name} -o yaml, and delete it once nothing uses its address`;
  return { invariant: "object", message: `IPAllocation ${name} ${problem}`, hint };
}

/** null: it has no network or address. */
function addressText(object: IPAllocation): { text: string; name: string } | null {
  try {
    const address = addressOf(object);
    const { network } = object.spec;
    return {
      text: `${formatAddress(address)} of network ${network}`,
      name: allocationName(network, address),
    };
  } catch {
    return null;
  }
}

/** I2: what a machine was told is recorded as its claim's. I3: what is left of a claim that is gone. */
function checkMachines(snapshot: ClusterSnapshot, grace: Grace): Finding[] {
  const { machines } = snapshot;
  if (machines === null || !machines.claims.known || !machines.addresses.known) return [];
  const held = addressesByClaim(snapshot);
  return [...machines.addresses.items.values()].flatMap((sent) => {
    const claim = machines.claims.items.get(`${sent.namespace}/${sent.claim}`);
    const pool = machines.pools.items.get(`${sent.namespace}/${sent.pool.name}`);
    if (!isAddressPool(sent.pool) || sent.deletionTimestamp !== null) return [];
    if (!grace.isOver(sent.creationTimestamp)) return [];
    if (claim === undefined) return leftBehind(snapshot, sent);
    // A claim of another pool has the name of a former one, and cannot be answered while this is there.
    if (claim.pool.name !== sent.pool.name)
      return sent.owners.some(({ uid }) => uid === claim.uid) ? [] : leftBehind(snapshot, sent);
    if (pool === undefined) return isAnswer(sent, claim) ? withoutPool(snapshot, sent, claim.uid) : [];
    if (!isAnswer(sent, claim)) return answersNobody(sent, pool.network);
    const address = readAddress(sent.address);
    const problem =
      address === null ? "cannot be read" : problemOf(allocationAt(snapshot, pool.network, address), claim.uid);
    if (problem === null || (address !== null && held.get(claim.uid)?.has(formatAddress(address)))) return [];
    const message = `${sent.address} of network ${pool.network}, which IPAddress ${sent.key} names for a machine, ${problem}`;
    const hint = `the controller records it, or says in the claim why not: kubectl get ipaddressclaim -n ${sent.namespace} ${sent.claim} -o yaml`;
    return [{ invariant: "I2", message, hint }];
  });
}

/**
 * What claims have, by their UID, on whatever network: a pool may be of another one by now, and another provider's
 * IPAddress does not say which IPAllocation is its own.
 */
function addressesByClaim({ allocations }: ClusterSnapshot): ReadonlyMap<string, ReadonlySet<string>> {
  const held = new Map<string, Set<string>>();
  for (const { object, address } of allocations.values()) {
    const { uid } = object.spec.owner;
    if (address === null || problemOf(object, uid) !== null) continue;
    held.set(uid, (held.get(uid) ?? new Set()).add(address));
  }
  return held;
}

/** Its pool is gone, and only the IPAddress itself tells which IPAllocation was its own: nothing records it again. */
function withoutPool(
  { allocations }: ClusterSnapshot,
  { key, namespace, annotations, pool, address }: MachineAddressView,
  claimUid: string,
): Finding[] {
  const allocation = annotations.get(ANNOTATION_ALLOCATION);
  if (allocation === undefined) return [];
  const problem = problemOf(allocations.get(allocation)?.object, claimUid);
  if (problem === null) return [];
  const message = `${address}, which IPAddress ${key} names for a machine, ${problem}, and its AddressPool ${pool.name} is gone`;
  const hint = `create AddressPool ${pool.name} in namespace ${namespace} again: then the controller records the address, or says in the claim why not`;
  return [{ invariant: "I2", message, hint }];
}

/** Holdfast has not made it, and will not record it. */
function answersNobody({ key, namespace, name, claim, address }: MachineAddressView, network: string): Finding[] {
  const message = `${address} of network ${network} is in IPAddress ${key}, which does not answer claim ${namespace}/${claim} though it names it: pods may get the address`;
  const hint = `when no machine uses the address: kubectl delete ipaddresses.ipam.cluster.x-k8s.io -n ${namespace} ${name}`;
  return [{ invariant: "I2", message, hint }];
}

/**
 * Nobody else deletes an IPAddress whose allocation was taken away by hand while its claim ended: the controller
 * deletes it before it frees the allocation.
 */
function leftBehind(snapshot: ClusterSnapshot, { key, namespace, name, annotations }: MachineAddressView): Finding[] {
  const allocation = annotations.get(ANNOTATION_ALLOCATION);
  if (allocation === undefined || snapshot.allocations.has(allocation)) return [];
  const message = `IPAddress ${key} is left, though its IPAddressClaim and its IPAllocation ${allocation} are gone`;
  const hint = `when no machine uses its address any more: kubectl delete ipaddresses.ipam.cluster.x-k8s.io -n ${namespace} ${name}`;
  return [{ invariant: "I3", message, hint }];
}

function problemOf(object: IPAllocation | undefined, uid: string): string | null {
  if (object === undefined) return "has no IPAllocation";
  if (object.status?.state !== "Bound") return "is not Bound";
  const { owner } = object.spec;
  if (owner.kind === "IPAddressClaim" && owner.uid === uid) return null;
  return `belongs to ${describeHolder(owner)}`;
}

function readAddress(text: string): Address | null {
  try {
    return parseAddress(text);
  } catch {
    return null;
  }
}
