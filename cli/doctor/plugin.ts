import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Diagnosis } from "../../admin/admin-api.ts";
import { part } from "../../admin/diagnosis.ts";
import { VERSION } from "../../version.ts";
import { type PluginDirectory, pluginDirectories } from "./plugin-directories.ts";
import { AS_ROOT, isExecutable, ON_THE_NODE, run } from "./run.ts";

const PLUGIN = "holdfast-ipam";
/** In the image, for its init container. */
const PLUGIN_OF_IMAGE = "usr/local/lib/holdfast/bin/holdfast-ipam";
const UNIT = "systemctl start holdfast";
const DAEMON_SET = "see kubectl describe of its pod";

/** Asks for nothing and records nothing: 192.0.2.0/24 is for documentation. */
const STATUS_CONFIG = JSON.stringify({
  cniVersion: "1.1.0",
  name: "holdfast-doctor",
  type: "bridge",
  ipam: { type: PLUGIN, subnets: "192.0.2.0/24" },
});

export async function examinePlugins(root: string): Promise<Diagnosis[]> {
  const directories = pluginDirectories(root);
  const there = directories.filter(({ path }) => existsSync(join(root, path, PLUGIN)));
  const found: Diagnosis[] = [];
  for (const directory of directories) found.push(...(await examineDirectory(root, directory, there.length > 0)));
  const [usable] = there.filter(({ path }) => isExecutable(join(root, path, PLUGIN)));
  if (usable !== undefined) found.push(...(await examineWay(join(root, usable.path, PLUGIN), UNIT)));
  return found;
}

/** The init container has installed the image's own plugin binary, which can ask this daemon as well. */
export async function examinePluginOfImage(root: string): Promise<Diagnosis[]> {
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
