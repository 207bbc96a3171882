import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface PluginDirectory {
  readonly path: string;
  /** Who looks there. */
  readonly of: string;
}

interface Distribution {
  readonly name: string;
  /** Exists on its nodes only. */
  readonly mark: string;
  /** Where its container runtime looks for plugins, the first that exists. */
  readonly directories: readonly string[];
}

/** Their documented defaults. */
const DISTRIBUTIONS: readonly Distribution[] = [
  {
    name: "k3s",
    mark: "var/lib/rancher/k3s",
    directories: ["/var/lib/rancher/k3s/data/cni", "/var/lib/rancher/k3s/data/current/bin"],
  },
  { name: "RKE2", mark: "var/lib/rancher/rke2", directories: ["/opt/cni/bin"] },
  { name: "microk8s", mark: "var/snap/microk8s", directories: ["/var/snap/microk8s/current/opt/cni/bin"] },
  { name: "OpenShift", mark: "etc/kubernetes/cni/net.d", directories: ["/var/lib/cni/bin"] },
  { name: "podman of Debian", mark: "usr/lib/cni", directories: ["/usr/lib/cni"] },
];

const STANDARD: PluginDirectory = { path: "/opt/cni/bin", of: "the CNI default" };

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
  for (const [file, key] of RUNTIME_FILES)
    for (const path of directoriesIn(join(root, file), key)) add(path, file);
  for (const { name, mark, directories } of DISTRIBUTIONS) {
    if (!existsSync(join(root, mark))) continue;
    add(directories.find((one) => existsSync(join(root, one))) ?? (directories[0] as string), name);
  }
  if (found.size === 0 || existsSync(join(root, STANDARD.path))) add(STANDARD.path, STANDARD.of);
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
