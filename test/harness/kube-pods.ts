import { readFileSync } from "node:fs";
import type { KubeApi, KubeObject } from "./kube-api.ts";
import { bindingObject, containerStatuses, type PodParts, podObject } from "./world/kubevirt-objects.ts";

export interface PodOptions extends PodParts {
  /** `null` leaves the status empty, as before the kubelet has seen the pod; default Running. */
  readonly phase?: "Pending" | "Running" | "Succeeded" | "Failed" | null;
}

const BOOT_ID = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();

function nodeInfo(bootID: string): object {
  const texts = ["architecture", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion"];
  const more = ["kubeletVersion", "machineID", "operatingSystem", "osImage", "systemUUID"];
  return { ...Object.fromEntries([...texts, ...more].map((key) => [key, ""])), bootID };
}

/** What makes a pod the mirror of a static pod that a node's kubelet runs under a UID of its own. */
export function mirrorOf(uid: string, node: string): Pick<PodOptions, "annotations" | "ownerReferences"> {
  return {
    annotations: { "kubernetes.io/config.mirror": uid, "kubernetes.io/config.hash": uid },
    ownerReferences: [{ apiVersion: "v1", kind: "Node", name: node, uid: `uid-of-${node}`, controller: true }],
  };
}

/** The path of a namespaced object of the core group or, with `group`, of another one. */
export function pathOf(namespace: string, plural: string, name = "", group = ""): string {
  const root = group === "" ? "/api/v1" : `/apis/${group}`;
  return `${root}/namespaces/${namespace}/${plural}${name === "" ? "" : `/${name}`}`;
}

/**
 * Namespaces, nodes, networks and plain pods: what an administrator, a scheduler and kubelets do, on request of a test.
 */
export class KubePods {
  protected readonly api: KubeApi;

  constructor(api: KubeApi) {
    this.api = api;
  }

  createNamespace(name: string): Promise<KubeObject> {
    return this.api.create("/api/v1/namespaces", {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name },
    });
  }

  /** A node whose kubelet runs on this machine. */
  createNode(name: string): Promise<KubeObject> {
    return this.api.create("/api/v1/nodes", {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name },
      status: { nodeInfo: nodeInfo(BOOT_ID) },
    });
  }

  /** What the kubelet reports after a restart of its machine; "": nothing yet. */
  async reportBoot(name: string, bootID: string): Promise<void> {
    await this.api.patch(`/api/v1/nodes/${name}/status`, { status: { nodeInfo: nodeInfo(bootID) } });
  }

  /** What the node's kubelet says; "Unknown": the control plane, which has not heard it for a while. */
  async reportReady(name: string, status: "True" | "False" | "Unknown"): Promise<void> {
    await this.api.patch(`/api/v1/nodes/${name}/status`, {
      status: { conditions: [{ type: "Ready", status }] },
    });
  }

  /** The node leaves the cluster; its pods stay, as without a pod garbage collector. */
  async deleteNode(name: string): Promise<void> {
    await this.api.delete(`/api/v1/nodes/${name}`);
  }

  /** `config` is the CNI configuration: an object, or the text as it is. */
  createNad(namespace: string, name: string, config: object | string): Promise<KubeObject> {
    const text = typeof config === "string" ? config : JSON.stringify(config);
    return this.api.create(pathOf(namespace, "network-attachment-definitions", "", "k8s.cni.cncf.io/v1"), {
      apiVersion: "k8s.cni.cncf.io/v1",
      kind: "NetworkAttachmentDefinition",
      metadata: { name, namespace },
      spec: { config: text },
    });
  }

  /** A pod; without `node` it is bound to none. Returns it as it is stored, with its UID. */
  async createPod(namespace: string, name: string, options: PodOptions): Promise<KubeObject> {
    const pod = await this.api.create(pathOf(namespace, "pods"), podObject(namespace, { name }, options));
    return options.phase === null ? pod : this.setPhase(pod, options.phase ?? "Running");
  }

  /** The scheduler has chosen a node. Returns the pod with it. */
  async bind(pod: KubeObject, node: string): Promise<KubeObject> {
    await this.api.create(`${this.#path(pod)}/binding`, bindingObject(pod, node));
    return this.api.get(this.#path(pod));
  }

  /** What the kubelet reports of a pod. */
  setPhase(pod: KubeObject, phase: string): Promise<KubeObject> {
    return this.report(pod, { phase });
  }

  protected report(pod: KubeObject, status: object): Promise<KubeObject> {
    return this.api.patch(`${this.#path(pod)}/status`, { status });
  }

  /** The pod's containers have ended; the object stays. */
  finishPod(pod: KubeObject, phase: "Succeeded" | "Failed" = "Succeeded"): Promise<KubeObject> {
    return this.setPhase(pod, phase);
  }

  /** A user deletes the pod: it is marked, and stays until the kubelet is done with it (`removePod`). */
  async terminatePod(pod: KubeObject): Promise<void> {
    await this.api.delete(this.#path(pod));
  }

  /**
   * An ordinary deletion, as a kubelet carries it out: the containers are reported as terminated, then the object goes.
   */
  async endPod(pod: KubeObject): Promise<void> {
    await this.terminatePod(pod);
    await this.report(pod, { containerStatuses: containerStatuses({ terminated: { exitCode: 0 } }) });
    await this.removePod(pod);
  }

  /** The pod object goes, at once: deleted by force. Nothing happens when another pod has its name by now. */
  async removePod(pod: KubeObject): Promise<void> {
    const { uid } = pod.metadata;
    const answer = await this.api.call("DELETE", this.#path(pod), {
      gracePeriodSeconds: 0,
      preconditions: { uid },
    });
    if (![200, 202, 404, 409].includes(answer.status))
      throw new Error(`DELETE ${this.#path(pod)}: ${answer.status} ${JSON.stringify(answer.body)}`);
  }

  #path(pod: KubeObject): string {
    return pathOf(pod.metadata.namespace, "pods", pod.metadata.name);
  }
}
