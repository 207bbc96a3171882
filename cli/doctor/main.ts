/*
 * cli/doctor/: `holdfast doctor` on a node
 *
 *   main             the entry of the bundle; the order of what is examined; a node, or what a pod sees of it; kernel
 *                    settings, the clock, what guests' metadata needs, the runtime's own configuration files, and the
 *                    plugin binary
 *   daemon           socket, version, unit, state directory
 *   plugin-directories   where container runtimes look for plugins, by distribution
 *   run              programs of the system
 */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Diagnosis } from "../../admin/admin-api.ts";
import { part } from "../../admin/diagnosis.ts";
import type { NodeAbilities } from "../../guests/probe.ts";
import { parseConfiguration } from "../../ipam/definition/definition-keys.ts";
import type { Configuration } from "../../ipam/definition/read-keys.ts";
import { readBounded, SMALL_FILE_BYTES_MAX } from "../../platform/files.ts";
import { VERSION } from "../../version.ts";
import { type DaemonAnswer, examineDaemon, examineStateDirectory, examineUnit } from "./daemon.ts";
import { type PluginDirectory, pluginDirectories } from "./plugin-directories.ts";
import { AS_ROOT, isExecutable, ON_THE_NODE, run } from "./run.ts";

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

const DIRECTORIES = [
  "/etc/cni/net.d",
  "/var/lib/rancher/k3s/agent/etc/cni/net.d",
  "/var/snap/microk8s/current/args/cni-network",
  "/etc/kubernetes/cni/net.d",
];
const PLUGIN = "holdfast-ipam";

interface NetworkFile {
  readonly path: string;
  readonly text: string;
}

/** Each file that names our plugin: whether it can be read, and the plugins it names exist. */
function examineNetworkFiles(root: string): Diagnosis[] {
  const directories = pluginDirectories(root).map(({ path }) => join(root, path));
  return filesIn(root)
    .filter(({ text }) => text.includes(PLUGIN))
    .flatMap((file) => examineFile(file, directories));
}

function examineFile({ path, text }: NetworkFile, directories: readonly string[]): Diagnosis[] {
  const { ok, failed } = part("network file");
  let config: Configuration;
  try {
    config = parseConfiguration(text);
  } catch (error) {
    const found = `${path} is not a network configuration: ${(error as Error).message}`;
    return failed(found, "correct the file; runtimes skip it or refuse to start");
  }
  const plugins: readonly { type?: unknown; ipam?: { type?: unknown } }[] = Array.isArray(config.plugins)
    ? config.plugins
    : [config];
  const named = plugins.flatMap((one) => [one?.type, one?.ipam?.type]);
  const missing = named.find(
    (type) => typeof type === "string" && !directories.some((directory) => isExecutable(join(directory, type))),
  );
  if (missing !== undefined)
    return failed(
      `${path} names the plugin ${missing}, which is in none of ${directories.join(", ")}`,
      `install it there (containernetworking-plugins has bridge, macvlan, ipvlan and others), or correct the file`,
    );
  return ok(`${path} defines network ${config.name}`);
}

function filesIn(root: string): NetworkFile[] {
  return DIRECTORIES.flatMap((directory) =>
    entriesOf(join(root, directory))
      .filter((name) => /\.(conf|conflist|json)$/.test(name))
      .map((name) => ({ path: join(directory, name), text: textOf(join(root, directory, name)) })),
  );
}

function entriesOf(directory: string): string[] {
  try {
    return readdirSync(directory).sort();
  } catch {
    return [];
  }
}

function textOf(file: string): string {
  try {
    return readBounded(file, SMALL_FILE_BYTES_MAX).toString("utf8");
  } catch {
    return "";
  }
}

/** In the image, for its init container. */
const PLUGIN_OF_IMAGE = "usr/local/lib/holdfast/bin/holdfast-ipam";
const START = "systemctl start holdfast";
const DAEMON_SET = "see kubectl describe of its pod";

/** Asks for nothing and records nothing: 192.0.2.0/24 is for documentation. */
const STATUS_CONFIG = JSON.stringify({
  cniVersion: "1.1.0",
  name: "holdfast-doctor",
  type: "bridge",
  ipam: { type: PLUGIN, subnets: "192.0.2.0/24" },
});

async function examinePlugins(root: string): Promise<Diagnosis[]> {
  const directories = pluginDirectories(root);
  const there = directories.filter(({ path }) => existsSync(join(root, path, PLUGIN)));
  const found: Diagnosis[] = [];
  for (const directory of directories) found.push(...(await examineDirectory(root, directory, there.length > 0)));
  const [usable] = there.filter(({ path }) => isExecutable(join(root, path, PLUGIN)));
  if (usable !== undefined) found.push(...(await examineWay(join(root, usable.path, PLUGIN), START)));
  return found;
}

/** The init container has installed the image's own plugin binary, which can ask this daemon as well. */
async function examinePluginOfImage(root: string): Promise<Diagnosis[]> {
  const installed = part("plugin binary").unknown(
    "is on the node, where a pod cannot see it; the init container installed it when this pod started",
    `${ON_THE_NODE}; holdfast --kubeconfig FILE doctor compares its directory with the distribution's`,
  );
  const own = join(root, PLUGIN_OF_IMAGE);
  return isExecutable(own) ? [...installed, ...(await examineWay(own, DAEMON_SET))] : installed;
}

async function examineDirectory(
  root: string,
  { path, of }: PluginDirectory,
  isElsewhere: boolean,
): Promise<Diagnosis[]> {
  const { ok, warning, failed } = part("plugin binary");
  const file = join(path, PLUGIN);
  if (!existsSync(join(root, file)))
    // Of several directories one is that of the runtime in use, and it need not be this one.
    return (isElsewhere ? warning : failed)(
      `${file} does not exist (${of})`,
      `install it there: make install CNI_BIN=${path}; in a cluster set the hostPath of the volume plugins of the DaemonSet holdfast-node`,
    );
  if (!isExecutable(join(root, file))) return failed(`${file} cannot be executed`, `chmod 0755 ${file}`);
  const { code, stdout, stderr } = await run(join(root, file), ["--version"]);
  const version = stdout.trim().replace(`${PLUGIN} `, "");
  if (code !== 0) return failed(`${file} does not run: ${stderr.trim()}`, "install Holdfast again");
  if (version !== VERSION)
    return warning(
      `${file} is of version ${version}, and this command of version ${VERSION}`,
      "install the same version of both",
    );
  return ok(`${file}, version ${version} (${of})`);
}

/** As a container runtime would ask before an ADD. `start`: how the daemon is started. */
async function examineWay(plugin: string, start: string): Promise<Diagnosis[]> {
  const { ok, failed, unknown } = part("plugin to daemon");
  const env = { CNI_COMMAND: "STATUS", CNI_PATH: dirname(plugin) };
  const { code, stdout, stderr } = await run(plugin, [], { env, input: STATUS_CONFIG });
  if (code === 0) return ok("STATUS is answered: an ADD would be served");
  const { msg = stderr.trim(), details = "" } = readError(stdout);
  if (process.getuid?.() !== 0) return unknown("only root may use the main socket", AS_ROOT);
  return failed(
    `${msg}${details === "" ? "" : `: ${details}`}`,
    `start the daemon (${start}); socket in /etc/holdfast/shim.conf and in /etc/holdfast/daemon.yaml must be the same path`,
  );
}

function readError(text: string): { msg?: string; details?: string } {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
