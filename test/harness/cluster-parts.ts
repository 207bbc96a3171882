import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { KubeProcess } from "./kube-process.ts";

const ISSUER = "https://kubernetes.default.svc";
/** From this minor version on, kube-controller-manager has no insecure port to turn off. */
const WITHOUT_INSECURE_PORT = 24;

/** etcd on two ports of the loopback; its data outlives a stop. */
export function etcd(assets: string, folder: string, port: number, peerPort: number): KubeProcess {
  const client = `http://127.0.0.1:${port}`;
  const peer = `http://127.0.0.1:${peerPort}`;
  return new KubeProcess(join(assets, "etcd"), [
    `--data-dir=${join(folder, "etcd")}`,
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

/** kube-apiserver with RBAC, service-account tokens and the usual watch cache. `folder` has its certificate, keys and tokens. */
export function apiServer(
  assets: string,
  folder: string,
  port: number,
  etcdUrl: string,
  more: readonly string[],
): KubeProcess {
  const certificates = join(folder, "apiserver");
  mkdirSync(certificates, { recursive: true });
  const signing = join(folder, "signing.key");
  const flags = [
    `--etcd-servers=${etcdUrl}`,
    "--bind-address=127.0.0.1",
    "--advertise-address=127.0.0.1",
    // Nobody looks for the server under the service's address.
    "--endpoint-reconciler-type=none",
    `--secure-port=${port}`,
    `--cert-dir=${certificates}`,
    `--tls-cert-file=${join(folder, "tls.crt")}`,
    `--tls-private-key-file=${join(folder, "tls.key")}`,
    `--token-auth-file=${join(folder, "tokens.csv")}`,
    `--service-account-issuer=${ISSUER}`,
    `--service-account-key-file=${signing}`,
    `--service-account-signing-key-file=${signing}`,
    "--authorization-mode=RBAC",
    // It would refuse pods until a controller has made their namespace's account.
    "--disable-admission-plugins=ServiceAccount",
    "--service-cluster-ip-range=10.0.0.0/24",
    ...more,
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
