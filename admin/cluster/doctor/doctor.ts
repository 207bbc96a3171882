/*
 * admin/cluster/doctor/: `holdfast doctor` on a cluster: whether everything is there that Holdfast needs
 *
 *   doctor        the order of what is examined
 *   server        the API server: its version and its clock
 *   definitions   the kinds of objects that it serves, ours and those of others
 *   workloads     DaemonSet and Deployment of Holdfast, Multus, the controller that creates claims
 *   nodes         a daemon on each, and the plugin binary where its runtime looks
 *   reading       requests whose refusal is no fault of the cluster
 */

import type { KubeApi } from "../../../kube/kube-api.ts";
import type { Diagnosis } from "../../admin-api.ts";
import { examineDefinitions } from "./definitions.ts";
import { examineNodes } from "./nodes.ts";
import { unlessRefused } from "./reading.ts";
import { examineServer } from "./server.ts";
import { examineClaimCreator, examineController, examineDaemons, examineMultus } from "./workloads.ts";

/** Reads only. Rejects with ClusterProblem when the cluster does not answer. */
export async function examineCluster(api: KubeApi): Promise<Diagnosis[]> {
  const parts: readonly (readonly [part: string, examine: (api: KubeApi) => Promise<Diagnosis[]>])[] = [
    ["API server", examineServer],
    ["definitions", examineDefinitions],
    ["daemons", examineDaemons],
    ["nodes", examineNodes],
    ["controller", examineController],
    ["Multus", examineMultus],
    ["claims of VMs", examineClaimCreator],
  ];
  const found: Diagnosis[] = [];
  for (const [part, examine] of parts) found.push(...(await unlessRefused(part, () => examine(api))));
  return found;
}
