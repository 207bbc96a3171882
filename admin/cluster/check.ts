import type { Finding } from "../../ipam/finding.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { sleep } from "../../platform/time.ts";
import { checkDefinitions } from "../../store/cluster/check-definitions.ts";
import type { CheckReport } from "../admin-api.ts";
import { checkClaims, checkPods } from "./check-holders.ts";
import { checkNames } from "./check-names.ts";
import {
  checkBroken,
  checkConflicts,
  checkCounts,
  checkGateways,
  checkImports,
  checkOwners,
} from "./check-networks.ts";
import { checkReasons } from "./check-reasons.ts";
import { checkRecovery } from "./check-recovery.ts";
import { checkWhereabouts } from "./check-whereabouts.ts";
import { Grace } from "./grace.ts";
import { type Look, lookAt } from "./look.ts";
import { type ClusterNetworkView, clusterNetworks } from "./network-views.ts";

/** Between two looks, ms. The lists of one are not of the same instant: what only one of them shows was on its way. */
const LOOK_AGAIN_MS = 2_000;

export type ClusterCheck = Required<CheckReport>;

/**
 * Proves the invariants for the whole cluster, or tells what is wrong. What is younger than `graceSeconds` is not reported.
 * Throws what the API throws.
 */
export async function checkCluster(api: KubeApi, graceSeconds: number): Promise<ClusterCheck> {
  const definitions = await checkDefinitions(api);
  const judge = async () => {
    const look = await lookAt(api);
    return judged(look, { nowMs: api.clock.wallMs(), graceSeconds, definitions });
  };
  const first = await judge();
  if (first.findings.length === 0) return first;
  await sleep(api.clock, LOOK_AGAIN_MS);
  const before = new Set(first.findings.map(({ message }) => message));
  const second = await judge();
  return { ...second, findings: second.findings.filter(({ message }) => before.has(message)) };
}

function judged(
  look: Look,
  {
    nowMs,
    graceSeconds,
    definitions,
  }: { nowMs: number; graceSeconds: number; definitions: readonly Finding[] },
): ClusterCheck {
  const grace = new Grace(nowMs, graceSeconds);
  const objects = [...look.allocations.values()].map(({ object }) => object);
  const views = clusterNetworks(look.book, objects, look.networks, nowMs);
  const findings = [
    ...definitions,
    ...checkNames(look),
    ...checkClaims(look, grace),
    ...checkPods(look, grace),
    ...checkReasons(look, grace),
    ...checkCounts(look, views),
    ...checkImports(look, grace),
    ...checkOwners(look, grace),
    ...checkRecovery(look, grace),
    ...checkGateways(look),
    ...checkBroken(look),
    ...checkConflicts(look),
    ...checkWhereabouts(look, grace),
  ].sort((a, b) => (a.invariant < b.invariant ? -1 : Number(a.invariant > b.invariant)));
  return { findings, counted: { ...countedOf(look, views), allocations: boundCount(look) } };
}

function boundCount({ allocations }: Look): number {
  return [...allocations.values()].filter(({ object }) => object.status?.state === "Bound").length;
}

function countedOf({ book, claims }: Look, views: readonly ClusterNetworkView[]) {
  const ours = new Set(book.networks());
  return {
    attachments: views.reduce((total, { attachments }) => total + attachments, 0),
    claims: [...claims.items.values()].filter(({ network }) => ours.has(network)).length,
    networks: views.length,
  };
}
