/*
 * cli/doctor/: `holdfast doctor` on a node
 *
 *   main             the entry of the bundle; the order of what is examined; place: a node, or what a pod sees of it
 *   daemon           socket, version, unit, state directory
 *   plugin-directories   where container runtimes look for plugins, by distribution; plugin: what is there
 *   network-files    the runtime's own configuration files
 *   machine          kernel settings and the clock; metadata: what guests' metadata needs
 *   run              programs of the system
 */

import type { Diagnosis } from "../../admin/admin-api.ts";
import type { NodeAbilities } from "../../guests/probe.ts";
import { type DaemonAnswer, examineDaemon, examineStateDirectory, examineUnit } from "./daemon.ts";
import { examineBridges, examineClock } from "./machine.ts";
import { examineMetadata } from "./metadata.ts";
import { examineNetworkFiles } from "./network-files.ts";
import { examineOtherPod, placeOf } from "./place.ts";
import { examinePluginOfImage, examinePlugins } from "./plugin.ts";

export interface NodeDoctorOptions {
  /** The directory that counts as `/`. */
  readonly root: string;
  readonly daemon: DaemonAnswer;
  /** Of the metadata listeners; rejects with an Error where it cannot be found out. */
  readonly probe: () => Promise<NodeAbilities>;
}

const SEE_POD = "kubectl describe and kubectl logs of this pod say why";

/** Examines everything that Holdfast needs on a node. Changes nothing. */
export async function examineNode({ root, daemon, probe }: NodeDoctorOptions): Promise<Diagnosis[]> {
  const place = placeOf(root, daemon.socket);
  if (place === "other pod") return examineOtherPod(root);
  const isSilentPod = place === "daemon's pod" && daemon.status === null;
  return [
    ...examineDaemon(isSilentPod ? { ...daemon, fix: SEE_POD } : daemon),
    ...(await examineUnit(root, daemon)),
    ...examineStateDirectory(root),
    ...(await (place === "node" ? examinePlugins(root) : examinePluginOfImage(root))),
    ...examineNetworkFiles(root),
    ...(await examineBridges(root, place)),
    ...(await examineClock(root, place)),
    ...(await examineMetadata(root, probe)),
  ];
}
