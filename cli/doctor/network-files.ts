import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { Diagnosis } from "../../admin/admin-api.ts";
import { part } from "../../admin/diagnosis.ts";
import { parseConfiguration } from "../../ipam/definition/definition-keys.ts";
import type { Configuration } from "../../ipam/definition/read-keys.ts";
import { readBounded, SMALL_FILE_BYTES_MAX } from "../../platform/files.ts";
import { pluginDirectories } from "./plugin-directories.ts";
import { isExecutable } from "./run.ts";

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
export function examineNetworkFiles(root: string): Diagnosis[] {
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
