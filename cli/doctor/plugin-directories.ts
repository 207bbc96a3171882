import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { PLUGIN_DIRECTORIES, PLUGIN_DIRECTORY } from "../../admin/plugin-directories.ts";

export interface PluginDirectory {
  readonly path: string;
  /** Who looks there. */
  readonly of: string;
}

/** A path that exists only where a runtime looks into the directories, of which the first that exists counts. */
const MARKS: readonly (readonly [mark: string, of: string, directories: readonly string[]])[] = [
  ["var/lib/rancher/k3s", "k3s", PLUGIN_DIRECTORIES.k3s],
  ["var/lib/rancher/rke2", "RKE2", PLUGIN_DIRECTORIES.RKE2],
  ["var/snap/microk8s", "microk8s", PLUGIN_DIRECTORIES.microk8s],
  ["etc/kubernetes/cni/net.d", "OpenShift", PLUGIN_DIRECTORIES.OpenShift],
  ["usr/lib/cni", "podman of Debian", ["/usr/lib/cni"]],
];

/** Of containerd, CRI-O and podman, and the key that names directories of plugins. */
const RUNTIME_FILES: readonly (readonly [file: string, key: RegExp])[] = [
  ["/etc/containerd/config.toml", /^\s*bin_dirs?\s*=\s*(.+)$/m],
  ["/var/lib/rancher/k3s/agent/etc/containerd/config.toml", /^\s*bin_dirs?\s*=\s*(.+)$/m],
  ["/var/lib/rancher/rke2/agent/etc/containerd/config.toml", /^\s*bin_dirs?\s*=\s*(.+)$/m],
  ["/etc/crio/crio.conf", /^\s*plugin_dirs\s*=\s*(\[[^\]]*\])/m],
  ["/etc/containers/containers.conf", /^\s*cni_plugin_dirs\s*=\s*(\[[^\]]*\])/m],
];

/** The directories of plugins that something on this node reads; the CNI default where nothing else is known. */
export function pluginDirectories(root: string): PluginDirectory[] {
  const found = new Map<string, PluginDirectory>();
  const add = (path: string, of: string) => {
    if (!found.has(path)) found.set(path, { path, of });
  };
  for (const [file, key] of RUNTIME_FILES) for (const path of directoriesIn(join(root, file), key)) add(path, file);
  for (const [mark, of, directories] of MARKS) {
    if (!existsSync(join(root, mark))) continue;
    add(directories.find((one) => existsSync(join(root, one))) ?? (directories[0] as string), of);
  }
  if (found.size === 0 || existsSync(join(root, PLUGIN_DIRECTORY))) add(PLUGIN_DIRECTORY, "the CNI default");
  return [...found.values()];
}

function directoriesIn(file: string, key: RegExp): string[] {
  try {
    const [, value = ""] = key.exec(readFileSync(file, "utf8")) ?? [];
    return [...value.matchAll(/["'](\/[^"']+)["']/g)].map(([, path]) => path as string);
  } catch {
    return [];
  }
}
