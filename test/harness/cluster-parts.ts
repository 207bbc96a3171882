import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { KubeProcess } from "./kube-process.ts";

/** See ClusterOptions. */
interface ApiServerOptions {
  readonly requestsMax?: number;
  readonly apiServerArgs?: readonly string[];
}

const ISSUER = "https://kubernetes.default.svc";
/** The version of tools/kube-assets is 1.20. */
const MINOR_BUILT = 20;
/** From this minor version on, kube-controller-manager has no insecure port to turn off. */
const WITHOUT_INSECURE_PORT = 24;

/** etcd on two ports of the loopback; its data outlives a stop. */
export function etcd(assets: string, directory: string, port: number, peerPort: number): KubeProcess {
  const client = `http://127.0.0.1:${port}`;
  const peer = `http://127.0.0.1:${peerPort}`;
  return new KubeProcess(join(assets, "etcd"), [
    `--data-dir=${join(directory, "etcd")}`,
    // What a killed process wrote survives it; nobody pulls the plug of a test.
    "--unsafe-no-fsync",
    `--listen-client-urls=${client}`,
    `--advertise-client-urls=${client}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=default=${peer}`,
    // It elects nobody but itself; by default that takes a second.
    "--heartbeat-interval=10",
    "--election-timeout=50",
    "--log-level=warn",
  ]);
}

/** Of API Priority and Fairness, in Kubernetes 1.20. */
const FLOW_CONTROL = "flowcontrol.apiserver.k8s.io/v1beta1";
/** Of Kubernetes 1.20, which tools/kube-assets builds: what neither Holdfast nor its tests talk to. */
const UNUSED_GROUPS = [
  ...["autoscaling/v1", "autoscaling/v2beta1", "autoscaling/v2beta2", "batch/v1", "batch/v1beta1"],
  ...["certificates.k8s.io/v1", "certificates.k8s.io/v1beta1", "extensions/v1beta1", "policy/v1beta1"],
  ...[FLOW_CONTROL, "node.k8s.io/v1", "node.k8s.io/v1beta1"],
  ...["storage.k8s.io/v1", "storage.k8s.io/v1beta1", "networking.k8s.io/v1", "networking.k8s.io/v1beta1"],
  ...["events.k8s.io/v1", "events.k8s.io/v1beta1", "scheduling.k8s.io/v1", "scheduling.k8s.io/v1beta1"],
  ...["admissionregistration.k8s.io/v1beta1", "apiextensions.k8s.io/v1beta1", "apiregistration.k8s.io/v1beta1"],
  ...["authentication.k8s.io/v1beta1", "authorization.k8s.io/v1beta1", "coordination.k8s.io/v1beta1"],
  "rbac.authorization.k8s.io/v1beta1",
];
/** What waits for them. */
const UNUSED_ADMISSION = [
  ...["Priority", "DefaultStorageClass", "StorageObjectInUseProtection", "PersistentVolumeClaimResize"],
  ...["RuntimeClass", "CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction"],
  ...["DefaultIngressClass", "DefaultTolerationSeconds", "TaintNodesByCondition"],
];
/** It would refuse pods until a controller has made their namespace's account. */
const NO_ACCOUNTS = "ServiceAccount";

/**
 * Half of what a server does when it starts is for groups that nobody here uses. Another version has others: it serves
 * them all.
 */
function reducedTo(minor: number, fairness: boolean): string[] {
  if (minor !== MINOR_BUILT) return [`--disable-admission-plugins=${NO_ACCOUNTS}`];
  const groups = UNUSED_GROUPS.map((group) => `${group}=${fairness && group === FLOW_CONTROL}`);
  return [
    `--disable-admission-plugins=${[NO_ACCOUNTS, ...UNUSED_ADMISSION].join(",")}`,
    `--runtime-config=${groups.join(",")}`,
    `--feature-gates=APIPriorityAndFairness=${fairness}`,
  ];
}

/** Priority levels share the sum of both. */
function atOnce(requestsMax: number): string[] {
  const mutating = Math.ceil(requestsMax / 3);
  return [`--max-requests-inflight=${requestsMax - mutating}`, `--max-mutating-requests-inflight=${mutating}`];
}

/** 20 of `Kubernetes v1.20.2`. */
function minorOf(assets: string): number {
  const version = execFileSync(join(assets, "kube-apiserver"), ["--version"], { encoding: "utf8" });
  return Number(/v1\.(\d+)/.exec(version)?.[1]);
}

/**
 * kube-apiserver with RBAC, service-account tokens and the usual watch cache. `directory` has its certificate, keys and
 * tokens.
 */
export function apiServer(
  assets: string,
  directory: string,
  port: number,
  etcdUrl: string,
  { requestsMax, apiServerArgs = [] }: ApiServerOptions,
): KubeProcess {
  const certificates = join(directory, "apiserver");
  mkdirSync(certificates, { recursive: true });
  const signing = join(directory, "signing.key");
  const flags = [
    `--etcd-servers=${etcdUrl}`,
    "--bind-address=127.0.0.1",
    "--advertise-address=127.0.0.1",
    // Nobody looks for the server under the service's address.
    "--endpoint-reconciler-type=none",
    `--secure-port=${port}`,
    `--cert-dir=${certificates}`,
    `--tls-cert-file=${join(directory, "tls.crt")}`,
    `--tls-private-key-file=${join(directory, "tls.key")}`,
    `--token-auth-file=${join(directory, "tokens.csv")}`,
    `--service-account-issuer=${ISSUER}`,
    `--service-account-key-file=${signing}`,
    `--service-account-signing-key-file=${signing}`,
    "--authorization-mode=RBAC",
    ...reducedTo(minorOf(assets), requestsMax !== undefined),
    ...(requestsMax === undefined ? [] : atOnce(requestsMax)),
    "--service-cluster-ip-range=10.0.0.0/24",
    ...apiServerArgs,
  ];
  // Two cores serve many test files: memory is cheaper than collecting it.
  return new KubeProcess(join(assets, "kube-apiserver"), flags, { GOGC: "400" });
}

/** kube-controller-manager with what deletes dependents and namespaces. `minor` is the server's version 1.`minor`. */
export function controllerManager(assets: string, kubeconfig: string, minor: number): KubeProcess {
  const flags = [
    `--kubeconfig=${kubeconfig}`,
    "--controllers=garbagecollector,namespace,serviceaccount",
    "--leader-elect=false",
    "--secure-port=0",
    ...(minor < WITHOUT_INSECURE_PORT ? ["--port=0"] : []),
    "--kube-api-qps=1000",
    "--kube-api-burst=2000",
  ];
  return new KubeProcess(join(assets, "kube-controller-manager"), flags, { GOGC: "400" });
}
