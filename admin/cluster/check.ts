import { duplicateMacFindings } from "../../ipam/duplicate-macs.ts";
import type { Finding } from "../../ipam/finding.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { definitionFindings, definitionNotes } from "../../networks/definition-findings.ts";
import { sleep } from "../../platform/time.ts";
import { usersOfMacs } from "../../store/cluster/allocations/mac-users.ts";
import { checkDefinitions } from "../../store/cluster/checks/check-definitions.ts";
import type { CheckReport } from "../admin-api.ts";
import { checkClaims, checkPods } from "./check-holders.ts";
import { checkMachines } from "./check-machines.ts";
import { checkNames } from "./check-names.ts";
import { checkCounts, checkDeletions, checkGateways, checkImports, checkOwners } from "./check-networks.ts";
import { checkPolicies } from "./check-policies.ts";
import { checkReasons } from "./check-reasons.ts";
import { checkRecovery } from "./check-recovery.ts";
import { checkWhereabouts } from "./check-whereabouts.ts";
import { formerHoldersIn } from "./former-holders.ts";
import { Grace } from "./grace.ts";
import { type ClusterNetworkView, clusterNetworks } from "./network-views.ts";
import { type ClusterSnapshot, readSnapshot } from "./snapshot.ts";

/** Pause between two snapshots, ms. The lists of one are not from one instant: only findings of both count. */
const LOOK_AGAIN_MS = 2_000;

/** What does not depend on the snapshot. */
interface Found {
  readonly findings: readonly Finding[];
  readonly notes: readonly string[];
}

export type ClusterCheck = CheckReport & Required<Pick<CheckReport, "counted">>;

/**
 * Checks the invariants of the whole cluster. Findings younger than `graceSeconds` are not reported. Throws errors of
 * the API.
 */
export async function checkCluster(api: KubeApi, graceSeconds: number): Promise<ClusterCheck> {
  const definitions = await checkDefinitions(api);
  const policies = await checkPolicies(api);
  const found = { findings: [...definitions, ...policies.findings], notes: policies.notes };
  const judge = async () => {
    const snapshot = await readSnapshot(api);
    const macs = duplicateMacFindings(
      await usersOfMacs(snapshot.allocations.values(), api.clock, ({ namespace, name }) =>
        snapshot.pods.items.get(`${namespace}/${name}`),
      ),
    );
    return judgeSnapshot(snapshot, { nowMs: api.clock.wallMs(), graceSeconds, found, macs });
  };
  const first = await judge();
  if (first.findings.length === 0) return first;
  await sleep(api.clock, LOOK_AGAIN_MS);
  const before = new Set(first.findings.map(({ message }) => message));
  const second = await judge();
  return { ...second, findings: second.findings.filter(({ message }) => before.has(message)) };
}

function judgeSnapshot(
  snapshot: ClusterSnapshot,
  {
    nowMs,
    graceSeconds,
    found,
    macs,
  }: { nowMs: number; graceSeconds: number; found: Found; macs: readonly Finding[] },
): ClusterCheck {
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
  const findings = [
    ...found.findings,
    ...checkNames(snapshot),
    ...checkClaims(snapshot, grace),
    ...checkPods(snapshot, grace),
    ...checkMachines(snapshot, grace),
    ...checkReasons(snapshot, grace),
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
  return { findings, counted, ...(notes.length > 0 && { notes }) };
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
