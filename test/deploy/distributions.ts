import type { KubeObject } from "../harness/kube-api.ts";

/**
 * What each distribution's own documents and sources say about pods such as ours, as read on 2026-11-29, and the
 * verdict on rendered objects by these rules. docs/kubernetes.md has the same rows.
 */

/** Where a rule stands: a document or a source file of the distribution, and what it says in our words. */
type Source = readonly [where: string, says: string];

export interface Distribution {
  /** As docs/kubernetes.md calls it. */
  readonly title: string;
  /** The runtime executes plugins of this directory. */
  readonly plugins: string;
  /** Below these a pod may have a directory created on the node; `/var/run` counts as `/run`. */
  readonly writable: readonly string[];
  /** The kubelet is a container that has the node's /run at /var/run, and something of its own at /run. */
  readonly runIsVarRun?: boolean;
  /** SELinux keeps confined containers from directories and sockets of the node. */
  readonly selinux?: boolean;
  /** Pods are admitted by SecurityContextConstraints that their account may use. */
  readonly scc?: boolean;
  /** Pods of the system's priority classes need a ResourceQuota that names the class in their namespace. */
  readonly criticalNeedsQuota?: boolean;
  /** A namespace without a label is held to this level of PodSecurity. */
  readonly podSecurity?: "baseline";
  readonly sources: readonly Source[];
}

const ORDINARY = ["/var", "/run", "/etc", "/opt"];
const CONTAINERD: Source = [
  "containerd, docs/cri/config.md",
  "plugins are in /opt/cni/bin unless bin_dirs (bin_dir before 2.1) names others",
];
const SCC: readonly Source[] = [
  [
    "OpenShift, Authentication and authorization, Managing security context constraints",
    "a pod is made only if one that its account may use, by a role with the verb use, allows all that it asks for",
  ],
  [
    "openshift/cluster-kube-apiserver-operator, bindata/bootkube/scc-manifests (restricted-v2, privileged)",
    "every account may use restricted-v2: no host paths, no host network or ports, users of the namespace's range; privileged allows everything",
  ],
];

/** By the value `distribution` of the chart. */
export const DISTRIBUTIONS: Readonly<Record<string, Distribution>> = {
  kubeadm: { title: "kubeadm", plugins: "/opt/cni/bin", writable: ORDINARY, sources: [CONTAINERD] },
  kind: {
    title: "kind",
    plugins: "/opt/cni/bin",
    writable: ORDINARY,
    sources: [
      ["kubernetes-sigs/kind, images/base/Dockerfile", "the node image has its plugins in /opt/cni/bin"],
      CONTAINERD,
    ],
  },
  k3s: {
    title: "k3s",
    plugins: "/var/lib/rancher/k3s/data/cni",
    writable: ORDINARY,
    sources: [
      [
        "K3s documentation, Multus and IPAM plugins",
        "plugins are in data/cni of the data directory since the releases of October 2024 (1.28.15, 1.29.10, 1.30.6, 1.31.2)",
      ],
    ],
  },
  "k3s-old": {
    title: "k3s before October 2024",
    plugins: "/var/lib/rancher/k3s/data/current/bin",
    writable: ORDINARY,
    sources: [["K3s documentation, Multus and IPAM plugins", "older releases have them in data/current/bin"]],
  },
  rke2: {
    title: "RKE2",
    plugins: "/opt/cni/bin",
    writable: ORDINARY,
    sources: [["RKE2 documentation, Known issues and limitations (Istio)", "further plugins belong into /opt/cni/bin"]],
  },
  microk8s: {
    title: "MicroK8s",
    plugins: "/var/snap/microk8s/current/opt/cni/bin",
    writable: [...ORDINARY, "/var/snap"],
    sources: [
      [
        "canonical/microk8s, microk8s-resources/default-args/containerd-template.toml",
        "bin_dir is opt/cni/bin of the snap's data, which /var/snap/microk8s/current leads to",
      ],
    ],
  },
  k0s: {
    title: "k0s",
    plugins: "/opt/cni/bin",
    writable: ORDINARY,
    sources: [
      [
        "k0sproject/k0s, docs/selinux.md and pkg/component/controller/kuberouter.go",
        "its own network's plugins are put into /opt/cni/bin by a host path",
      ],
    ],
  },
  openshift: {
    title: "OpenShift",
    plugins: "/var/lib/cni/bin",
    writable: ["/var", "/run", "/etc"],
    selinux: true,
    scc: true,
    sources: [
      [
        "openshift/machine-config-operator, templates/worker/01-worker-container-runtime/_base/files/crio.yaml",
        "CRI-O's plugin_dirs begins with /var/lib/cni/bin",
      ],
      ["openshift/cluster-network-operator, pkg/network/multus.go", "Multus looks there as well"],
      ...SCC,
    ],
  },
  microshift: {
    title: "MicroShift",
    plugins: "/run/cni/bin",
    writable: ["/var", "/run", "/etc"],
    selinux: true,
    scc: true,
    sources: [
      [
        "openshift/microshift, packaging/crio.conf.d/10-microshift_base.conf and 12-microshift-multus.conf",
        "CRI-O's plugin_dirs is /run/cni/bin alone, with and without Multus",
      ],
      [
        "openshift/microshift, assets/controllers/openshift-default-scc-manager",
        "it installs OpenShift's SecurityContextConstraints",
      ],
      ...SCC,
    ],
  },
  talos: {
    title: "Talos",
    plugins: "/opt/cni/bin",
    writable: ["/var", "/run", "/opt", "/etc/cni", "/etc/kubernetes"],
    runIsVarRun: true,
    podSecurity: "baseline",
    sources: [
      [
        "siderolabs/talos, internal/app/machined/pkg/runtime/v1alpha2/etc_overlay.go",
        "/etc is bound read-only, but for /etc/cni and /etc/kubernetes",
      ],
      ["siderolabs/talos, pkg/machinery/constants/constants.go (Overlays)", "a writable overlay lies over /opt"],
      [
        "siderolabs/talos, internal/app/machined/pkg/system/services/kubelet.go",
        "the kubelet's container has the node's /run at /var/run only",
      ],
      [
        "Talos documentation, Multus CNI",
        "a volume of the node's network namespaces has to be /var/run/netns; with /run/netns pods fail",
      ],
      [
        "siderolabs/talos, pkg/machinery/config/types/k8s/admission_control.go",
        "PodSecurity enforces baseline where a namespace says nothing",
      ],
    ],
  },
  bottlerocket: {
    title: "Bottlerocket",
    plugins: "/opt/cni/bin",
    writable: ["/var", "/run", "/opt/cni", "/etc/cni"],
    selinux: true,
    sources: [
      [
        "bottlerocket-os/bottlerocket-core-kit, packages/containerd/containerd-config-toml_k8s_containerd_sock",
        "bin_dir is /opt/cni/bin",
      ],
      [
        "bottlerocket-os/bottlerocket-core-kit, packages/release/opt-cni.mount and etc-cni.mount",
        "/opt/cni is an overlay that may be written and executed, /etc/cni a tmpfs",
      ],
      [
        "bottlerocket-os/bottlerocket-core-kit, packages/selinux-policy/subject.cil",
        "spc_t is another name for the type of containers that control the system",
      ],
    ],
  },
  flatcar: {
    title: "Flatcar",
    plugins: "/opt/cni/bin",
    writable: ORDINARY,
    sources: [
      ["Flatcar documentation, Disk layout (sdk-disk-partitions)", "/usr is read-only, / is written and kept"],
      ["Flatcar documentation, Getting started with Kubernetes", "kubeadm, and its binaries in /opt/bin"],
      CONTAINERD,
    ],
  },
  "fedora-coreos": {
    title: "Fedora CoreOS",
    plugins: "/opt/cni/bin",
    writable: ORDINARY,
    selinux: true,
    sources: [
      ["Fedora CoreOS documentation, composefs", "/ is read-only, and nothing can be created directly in it"],
      ["Fedora CoreOS documentation, Managing files", "directories of one's own are created below /opt and /etc"],
      ["Fedora CoreOS documentation, SELinux", "it is enforcing, and disabling it is not supported"],
      CONTAINERD,
    ],
  },
  eks: {
    title: "EKS (Amazon Linux)",
    plugins: "/opt/cni/bin",
    writable: ORDINARY,
    sources: [["awslabs/amazon-eks-ami, nodeadm/internal/containerd/config.template.toml", "bin_dir is /opt/cni/bin"]],
  },
  gke: {
    title: "GKE Standard",
    plugins: "/home/kubernetes/bin",
    writable: ["/var", "/run", "/etc", "/home"],
    criticalNeedsQuota: true,
    sources: [
      [
        "Container-Optimized OS documentation, Disks and file system overview",
        "/ is read-only; /home, /var and /etc are written, and what is in /home and /var is not executed",
      ],
      ["GoogleCloudPlatform/netd, netd.yaml", "the network's own daemon looks for plugins in /home/kubernetes/bin"],
      [
        "kubernetes/kubernetes, cluster/gce/gci/node.yaml",
        "/home/kubernetes/bin is mounted so that it may be executed",
      ],
      [
        "kubernetes/kubernetes, cluster/gce/addons/admission-resource-quota-critical-pods/resource-quota.yaml",
        "pods of the system's priority classes are refused unless a quota of their namespace allows the class",
      ],
    ],
  },
  aks: {
    title: "AKS",
    plugins: "/opt/cni/bin",
    writable: ORDINARY,
    sources: [
      [
        "Azure/AgentBaker, aks-node-controller/parser/templates/containerd_no_GPU.toml.gtpl",
        "bin_dir is not set, which means /opt/cni/bin, or set to it",
      ],
      CONTAINERD,
    ],
  },
};

interface Workload {
  readonly name: string;
  readonly pod: KubeObject;
}

const isBelow = (path: string, roots: readonly string[]) =>
  roots.some((root) => path === root || path.startsWith(`${root}/`));
/** /var/run is a link to /run on every node. */
const onNode = (path: string) => path.replace(/^\/var\/run(?=\/|$)/, "/run");

/** What a distribution refuses of rendered objects, or would not find; none: everything starts. */
export function problemsOf(
  distribution: Distribution,
  objects: readonly KubeObject[],
  namespaceLevel: string | undefined,
): string[] {
  const workloads = objects.flatMap(({ metadata, spec }): Workload[] =>
    spec?.template?.spec === undefined ? [] : [{ name: metadata.name, pod: spec.template.spec }],
  );
  return [
    ...workloads.flatMap((one) => [
      ...pathProblems(distribution, one),
      ...pluginProblems(distribution, one),
      ...(distribution.selinux ? selinuxProblems(one) : []),
      ...(distribution.scc ? sccProblems(objects, one) : []),
      ...(distribution.criticalNeedsQuota ? quotaProblems(objects, one) : []),
    ]),
    ...(distribution.podSecurity !== undefined && namespaceLevel !== "privileged"
      ? [`the namespace is held to ${distribution.podSecurity}, which host paths and the host's network are beyond`]
      : []),
  ];
}

const hostPathsOf = ({ pod }: Workload): KubeObject[] =>
  (pod.volumes ?? []).filter(({ hostPath }: KubeObject) => hostPath !== undefined);
const containersOf = ({ pod }: Workload): KubeObject[] => [...(pod.initContainers ?? []), ...pod.containers];

function pathProblems({ writable, runIsVarRun }: Distribution, workload: Workload): string[] {
  return hostPathsOf(workload).flatMap(({ name, hostPath: { path, type } }) => {
    const what = `${workload.name}: volume ${name}`;
    // What the kernel shows is there on every node.
    if (type === "File") return isBelow(path, ["/proc", "/sys"]) ? [] : [`${what}: is there a file ${path}?`];
    if (!isBelow(onNode(path), writable)) return [`${what}: ${path} cannot be created`];
    return runIsVarRun && isBelow(path, ["/run"]) ? [`${what}: the kubelet has another ${path}`] : [];
  });
}

function pluginProblems({ plugins }: Distribution, workload: Workload): string[] {
  return hostPathsOf(workload)
    .filter(({ name, hostPath }) => name === "plugins" && hostPath.path !== plugins)
    .map(({ hostPath }) => `${workload.name}: the runtime looks for plugins in ${plugins}, not ${hostPath.path}`);
}

function selinuxProblems(workload: Workload): string[] {
  const volumes = new Set(hostPathsOf(workload).map(({ name }) => name));
  return containersOf(workload)
    .filter(({ volumeMounts = [] }) => volumeMounts.some(({ name }: KubeObject) => volumes.has(name)))
    .filter(({ securityContext: own }) => own?.privileged !== true && own?.seLinuxOptions?.type !== "spc_t")
    .map(({ name }) => `${workload.name}: SELinux keeps ${name} from the node's files`);
}

/** Verdict of admission: what restricted-v2 refuses needs an SCC that the account may use. */
function sccProblems(objects: readonly KubeObject[], workload: Workload): string[] {
  const { name, pod } = workload;
  if (usableBy(objects, pod.serviceAccountName).includes("privileged")) return [];
  const contexts = [pod.securityContext, ...containersOf(workload).map((one) => one.securityContext)];
  const refused = [
    hostPathsOf(workload).length > 0 && "host paths",
    pod.hostNetwork === true && "the host's network",
    contexts.some((one) => one?.runAsUser !== undefined) && "a user outside of the namespace's range",
    contexts.some((one) => one?.privileged === true) && "privileged",
    contexts.some((one) => one?.seLinuxOptions !== undefined) && "a type of SELinux",
    contexts.some((one) => one?.capabilities?.add !== undefined) && "capabilities",
  ].filter((what) => what !== false);
  return refused.length === 0
    ? []
    : [`${name}: ${pod.serviceAccountName} may use restricted-v2 only, which refuses ${refused.join(", ")}`];
}

/** Names of the SecurityContextConstraints that roles let an account use. */
function usableBy(objects: readonly KubeObject[], account: string): string[] {
  const roleOf = ({ roleRef }: KubeObject) =>
    objects.find(({ kind, metadata }) => kind === roleRef.kind && metadata.name === roleRef.name);
  return objects
    .filter(({ kind }) => kind === "RoleBinding" || kind === "ClusterRoleBinding")
    .filter(({ subjects }) => subjects.some((one: KubeObject) => one.name === account))
    .flatMap((binding) => roleOf(binding)?.rules ?? [])
    .filter(
      ({ apiGroups, resources, verbs }: KubeObject) =>
        apiGroups.includes("security.openshift.io") &&
        resources.includes("securitycontextconstraints") &&
        verbs.includes("use"),
    )
    .flatMap(({ resourceNames }: KubeObject) => resourceNames);
}

function quotaProblems(objects: readonly KubeObject[], { name, pod }: Workload): string[] {
  const { priorityClassName: wanted = "" } = pod;
  if (!wanted.startsWith("system-")) return [];
  const allows = objects
    .filter(({ kind }) => kind === "ResourceQuota")
    .flatMap(({ spec }) => spec.scopeSelector.matchExpressions)
    .some(({ scopeName, values }) => scopeName === "PriorityClass" && values.includes(wanted));
  return allows ? [] : [`${name}: no quota of the namespace allows ${wanted}`];
}
