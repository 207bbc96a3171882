/*
 * test/simulation/actors/pods/: what runs beside VMs
 *
 *   pods             everything that anybody does to them
 *   plain            created, deleted, ended; with addresses of their own; more than fit
 *   late-networks    before their network is defined
 *   stateful         the same names again; static-pods: of a node's own
 *   node-lifecycle   nodes that are away, and what becomes of their pods
 */

import type { ActionKinds } from "../../world.ts";
import { lateNetworkKinds } from "./late-networks.ts";
import { plainPodKinds } from "./plain.ts";
import { statefulPodKinds } from "./stateful.ts";
import { staticPodKinds } from "./static-pods.ts";

export const podKinds: ActionKinds = {
  ...plainPodKinds,
  ...lateNetworkKinds,
  ...statefulPodKinds,
  ...staticPodKinds,
};

/** What must have been counted in a long run. */
export const PODS_OWED: readonly string[] = [
  "pod.before-its-network",
  "pod.completed",
  "pod.created-with-address",
  "pod.created-with-several-interfaces",
  "pod.deleted",
  "pod.deleted-by-force",
  "pod.deleted-with-its-node",
  "pod.evicted",
  "pod.failed",
  "pod.flood",
  "pod.job",
  "pod.lost-with-its-node",
  "pod.mirror-deleted",
  "pod.node-removed",
  "pod.node-unreachable",
  "pod.same-name-again",
  "pod.same-name-by-force",
  "pod.static-added",
  "pod.static-edited",
  "pod.static-removed",
];
