/** Where container runtimes look for CNI plugins where nobody says otherwise. */
export const PLUGIN_DIRECTORY = "/opt/cni/bin";

/** Documented defaults (docs/kubernetes.md, Distributions); the first is that of present releases. */
export const PLUGIN_DIRECTORIES = {
  k3s: ["/var/lib/rancher/k3s/data/cni", "/var/lib/rancher/k3s/data/current/bin"],
  RKE2: [PLUGIN_DIRECTORY],
  OpenShift: ["/var/lib/cni/bin"],
  GKE: ["/home/kubernetes/bin"],
  microk8s: ["/var/snap/microk8s/current/opt/cni/bin"],
} as const satisfies Readonly<Record<string, readonly string[]>>;

export type Distribution = keyof typeof PLUGIN_DIRECTORIES;
