import { join } from "node:path";
import { EventWriter } from "../../../kube/events.ts";
import type { OpenKubeApi } from "../../../kube/kube-api.ts";
import { namespacedPath } from "../../../kube/objects.ts";
import { KubeServiceBackends } from "../../../metadata/tenant/services.ts";
import { CUDNS_PATH, UDNS_PATH } from "../../../networks/udn/udn-object.ts";
import type { KubeObject } from "../kube-api.ts";
import { readManifests } from "../kube-manifests.ts";
import { pathOf } from "../kube-pods.ts";
import type { Cluster } from "./cluster.ts";

const CRDS = join(import.meta.dirname, "../crds/udn");
export const quiet = { info: () => {}, warn: () => {} };

/** Definitions of (Cluster)UserDefinedNetworks; `change` may alter the status of the schema. */
export function udnDefinitions(variant: "keeping" | "pruning"): KubeObject[] {
  return readManifests(join(CRDS, `${variant}.yaml`));
}

/** The API as the account of the metadata server has it. Close it. */
export function metadataApi(cluster: Cluster): OpenKubeApi {
  return cluster.connect("holdfast-metadata")(null, cluster.time.clock);
}

export function serviceBackends({ time }: Cluster, api: OpenKubeApi, node: string): KubeServiceBackends {
  const events = new EventWriter({ api, component: "holdfast-metadata", host: node });
  const backends = new KubeServiceBackends({ api, log: quiet, node, events, secret: () => null });
  return time.waitedFor(backends, "backendOf", "stop");
}

/** What administrators, tenants and OVN-Kubernetes do around (Cluster)UserDefinedNetworks and Services. */
export class UdnObjects {
  readonly #cluster: Cluster;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  udn(namespace: string, name: string, spec: object, annotations: object = {}): Promise<KubeObject> {
    return this.#cluster.api.create(namespacedPath(UDNS_PATH, namespace), {
      apiVersion: "k8s.ovn.org/v1",
      kind: "UserDefinedNetwork",
      metadata: { name, namespace, annotations },
      spec,
    });
  }

  cudn(name: string, network: object, annotations: object = {}): Promise<KubeObject> {
    return this.#cluster.api.create(CUDNS_PATH, {
      apiVersion: "k8s.ovn.org/v1",
      kind: "ClusterUserDefinedNetwork",
      metadata: { name, annotations },
      spec: { namespaceSelector: {}, network },
    });
  }

  service(namespace: string, name: string, spec: object = {}): Promise<KubeObject> {
    return this.#cluster.api.create(pathOf(namespace, "services"), {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name, namespace },
      spec: { ports: [{ name: "http", port: 80 }], ...spec },
    });
  }

  /** As the API server of the tests has them: v1beta1. */
  slice(namespace: string, service: string, name: string, more: object): Promise<KubeObject> {
    return this.#cluster.api.create(pathOf(namespace, "endpointslices", "", "discovery.k8s.io/v1beta1"), {
      apiVersion: "discovery.k8s.io/v1beta1",
      kind: "EndpointSlice",
      metadata: { name, namespace, labels: { "kubernetes.io/service-name": service } },
      addressType: "IPv4",
      ports: [{ name: "http", port: 8080, protocol: "TCP" }],
      ...more,
    });
  }

  /** Gives a pod an address, as its kubelet reports it. */
  address(pod: KubeObject, ip: string): Promise<KubeObject> {
    const path = `${pathOf(pod.metadata.namespace, "pods", pod.metadata.name)}/status`;
    return this.#cluster.api.patch(path, { status: { podIP: ip, podIPs: [{ ip }] } });
  }

  async condition(path: string): Promise<KubeObject> {
    const { status } = await this.#cluster.api.get(path);
    return status?.conditions?.find(({ type }: KubeObject) => type === "MetadataServiceReady");
  }

  async event(namespace: string, name: string, reason: string): Promise<KubeObject> {
    let found: KubeObject;
    await this.#cluster.time.until(async () => {
      const events = await this.#cluster.api.list(`/api/v1/namespaces/${namespace}/events`);
      found = events.find((one) => one.reason === reason && one.involvedObject.name === name);
      return found !== undefined;
    }, `event ${reason} of ${name}`);
    return found;
  }
}

/** An endpoint that is a pod. */
export function endpointOf(pod: KubeObject, address: string, more: object = {}): object {
  const { namespace, name, uid } = pod.metadata;
  return {
    addresses: [address],
    conditions: { ready: true },
    topology: { "kubernetes.io/hostname": pod.spec.nodeName },
    targetRef: { kind: "Pod", namespace, name, uid },
    ...more,
  };
}
