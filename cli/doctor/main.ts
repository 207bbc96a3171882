/*
 * cli/doctor/: `holdfast doctor` on a node
 *
 *   main             the entry of the bundle; the order of what is examined; a node, or what a pod sees of it; kernel
 *                    settings, the clock, and what guests' metadata needs
 *   daemon           socket, version, unit, state directory
 *   plugin-directories   where container runtimes look for plugins, by distribution; plugin: what is there
 *   network-files    the runtime's own configuration files
 *   run              programs of the system
 */

import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Diagnosis } from "../../admin/admin-api.ts";
import { part } from "../../admin/diagnosis.ts";
import type { NodeAbilities } from "../../guests/probe.ts";
import { type DaemonAnswer, examineDaemon, examineStateDirectory, examineUnit } from "./daemon.ts";
import { examineNetworkFiles } from "./network-files.ts";
import { examinePluginOfImage, examinePlugins } from "./plugin.ts";
import { AS_ROOT, ON_THE_NODE, run } from "./run.ts";

export interface NodeDoctorOptions {
  /** The directory that counts as `/`. */
  readonly root: string;
  readonly daemon: DaemonAnswer;
  /** Of the metadata listeners; rejects with an Error where it cannot be found out. */
  readonly probe: () => Promise<NodeAbilities>;
}

const SEE_POD = "kubectl describe and kubectl logs of this pod say why";

/** Changes nothing. */
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

/** Every pod of Holdfast that may ask the API server has it, and no node. */
const SERVICE_ACCOUNT = "var/run/secrets/kubernetes.io/serviceaccount";

/** Where the command runs. A pod has its own root directory and programs: of the node it sees what is mounted. */
type Place = "node" | "daemon's pod" | "other pod";

function placeOf(root: string, socket: string): Place {
  if (!existsSync(join(root, SERVICE_ACCOUNT, "token"))) return "node";
  return existsSync(join(root, dirname(socket))) ? "daemon's pod" : "other pod";
}

/** All that a pod without a daemon's directories can say. */
function examineOtherPod(root: string): Diagnosis[] {
  return part("place").unknown(
    "this pod has no daemon: nothing of a node can be seen from here",
    `kubectl -n ${namespaceOf(root)} exec daemonset/holdfast-node -- holdfast doctor examines a node; holdfast --kubeconfig FILE doctor, where you use kubectl, the cluster`,
  );
}

function namespaceOf(root: string): string {
  try {
    return readFileSync(join(root, SERVICE_ACCOUNT, "namespace"), "utf8").trim();
  } catch {
    return "holdfast-system";
  }
}

/** Whether frames between two interfaces of one Linux bridge pass the node's IP filters. */
const BRIDGE_FILTER = "proc/sys/net/bridge/bridge-nf-call-iptables";

/** Nothing where br_netfilter is not loaded: bridged frames are not filtered then. */
async function examineBridges(root: string, place: Place): Promise<Diagnosis[]> {
  const { ok, warning, unknown } = part("bridged traffic");
  if (!existsSync(join(root, BRIDGE_FILTER))) return [];
  const value = readFileSync(join(root, BRIDGE_FILTER), "utf8").trim();
  if (value === "0") return ok("is not filtered by the node's rules");
  const rules = `passes the node's FORWARD rules (bridge-nf-call-iptables is ${value})`;
  if (place !== "node") return unknown(`${rules}, which a pod cannot read`, ON_THE_NODE);
  const { code, stdout, stderr } = await run("iptables", ["-S", "FORWARD"]);
  if (code !== 0)
    return unknown(
      `${rules}, which cannot be read: ${stderr.trim()}`,
      process.getuid?.() === 0 ? "see that they accept the traffic of your bridges" : AS_ROOT,
    );
  if (/^-P FORWARD ACCEPT$/m.test(stdout)) return ok("passes the node's FORWARD rules, whose policy is ACCEPT");
  return warning(
    "passes the node's FORWARD rules, whose policy is DROP: VMs on one bridge may not reach each other",
    "accept it: iptables -I FORWARD -i BRIDGE -o BRIDGE -j ACCEPT; where nothing needs the filter (kube-proxy does): sysctl net.bridge.bridge-nf-call-iptables=0",
  );
}

/** Durations are measured without the wall clock; times in the history are from it. */
async function examineClock(root: string, place: Place): Promise<Diagnosis[]> {
  const { ok, warning, unknown } = part("clock");
  if (place !== "node") return unknown("a pod cannot see whether it is synchronised", ON_THE_NODE);
  const { code, stdout } = await run("timedatectl", ["show", "-p", "NTPSynchronized", "--value"]);
  const isSynchronised =
    existsSync(join(root, "run/systemd/timesync/synchronized")) || (code === 0 && stdout.trim() === "yes");
  if (isSynchronised) return ok("is synchronised");
  if (code !== 0) return unknown("nothing here says whether it is synchronised (timedatectl)");
  return warning(
    "is not synchronised: times in the history may be wrong; addresses are not affected",
    "timedatectl set-ntp true, or run chrony",
  );
}

const UNIT = "holdfast-metadata.target";
const PROBE_AGAIN =
  "see docs/metadata-listener.md, Which interfaces are served; holdfast metadata-net --probe tries it again";

/** What guests' metadata needs, where the units that serve it are enabled. */
async function examineMetadata(root: string, probe: () => Promise<NodeAbilities>): Promise<Diagnosis[]> {
  const { ok, unknown } = part("metadata");
  if (!existsSync(join(root, "run/systemd/system"))) return [];
  const enabled = (await run("systemctl", ["is-enabled", UNIT])).stdout.trim();
  if (enabled !== "enabled") return ok(`off; systemctl enable --now ${UNIT} serves it`);
  try {
    const { items } = await probe();
    return items.flatMap(({ name, serves, ok: serving, notes }) =>
      part(`metadata: ${name}`)[serving ? "ok" : serves === "everybody" ? "failed" : "warning"](
        [`for ${serves}`, ...notes].join("; "),
        serving ? "" : PROBE_AGAIN,
      ),
    );
  } catch (error) {
    return unknown((error as Error).message, AS_ROOT);
  }
}
