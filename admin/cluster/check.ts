import { usersOfMacs } from "../../allocations/mac-users.ts";
import { duplicateMacFindings } from "../../ipam/duplicate-macs.ts";
import type { Finding } from "../../ipam/finding.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { definitionFindings, definitionNotes } from "../../networks/definition-findings.ts";
import { sleep } from "../../platform/time.ts";
import { checkDefinitions } from "../../store/cluster/checks/check-definitions.ts";
import type { CheckReport } from "../admin-api.ts";
import { checkClaims, checkPods } from "./check-holders.ts";
import { checkMachines } from "./check-machines.ts";
import { checkNames } from "./check-names.ts";
import {
  checkCounts,
  checkDeletions,
  checkGateways,
  checkImports,
  checkOwners,
  checkRecovery,
} from "./check-networks.ts";
import { checkPolicies } from "./check-policies.ts";
import { checkReasons } from "./check-reasons.ts";
import { checkWhereabouts } from "./check-whereabouts.ts";
import { formerHoldersIn } from "./former-holders.ts";
import { Grace } from "./grace.ts";
import { type ClusterNetworkView, clusterNetworks } from "./network-views.ts";
import { type ClusterSnapshot, readSnapshot } from "./snapshot.ts";

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
