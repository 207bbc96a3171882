import { type CniAnswer, type Release, TestDaemon } from "./daemon.ts";
import type { KubeObject } from "./kube-api.ts";

export interface NodeOptions {
  /** The node's name. */
  readonly node: string;
  /** Path of a kubeconfig file, from `cluster.kubeconfig("holdfast-node")`. */
  readonly kubeconfig: string;
  /** An existing folder to start on again; default: a new one. */
  readonly folder?: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Wait for readiness; default true. */
  readonly wait?: boolean;
  /** As DaemonOptions. */
  readonly release?: Release | undefined;
}

export interface AttachmentOptions {
  /** The NAD's configuration: the object, or its text. */
  readonly config: object | string;
  /** Default `net1`, which Multus gives to the first secondary network. */
  readonly ifname?: string;
  /** Default: the sandbox of the pod, `sandbox-<uid>`. Another one stands for a sandbox made anew. */
  readonly containerId?: string;
  readonly netns?: string;
  /** More of CNI_ARGS, e.g. `;MAC=02:00:00:00:00:01`. */
  readonly moreArgs?: string;
}

/** `holdfast daemon` in Kubernetes mode on a node, and the container runtime that runs its plugin binary. */
export class NodeDaemon {
  readonly options: NodeOptions;
  /** The daemon process; another one after `restart`. */
  daemon: TestDaemon;

  private constructor(options: NodeOptions, daemon: TestDaemon) {
    this.options = options;
    this.daemon = daemon;
  }

  /** Throws with the daemon's log when it ends before it is ready. */
  static async start(options: NodeOptions): Promise<NodeDaemon> {
    return new NodeDaemon(options, await launch(options));
  }

  get name(): string {
    return this.options.node;
  }

  get log(): string {
    return this.daemon.log;
  }

  add(pod: KubeObject, options: AttachmentOptions): Promise<CniAnswer> {
    return this.#cni("ADD", pod, options);
  }

  del(pod: KubeObject, options: AttachmentOptions): Promise<CniAnswer> {
    return this.#cni("DEL", pod, options);
  }

  /** `config` carries `prevResult`. */
  check(pod: KubeObject, options: AttachmentOptions): Promise<CniAnswer> {
    return this.#cni("CHECK", pod, options);
  }

  /** Ends the process, SIGKILL unless told otherwise, and starts another one on the same state. */
  async restart(signal: NodeJS.Signals = "SIGKILL", more: Partial<NodeOptions> = {}): Promise<void> {
    await this.daemon.end(signal);
    this.daemon = await launch({ ...this.options, ...more, folder: this.daemon.folder });
  }

  /** Ends the process and removes its folder. */
  stop(): Promise<void> {
    return this.daemon.stop();
  }

  #cni(verb: string, pod: KubeObject, options: AttachmentOptions): Promise<CniAnswer> {
    const containerId = options.containerId ?? `sandbox-${pod.metadata.uid}`;
    return this.daemon.cni(verb, containerId, {
      config: options.config,
      ifname: options.ifname ?? "net1",
      args: cniArgs(pod, containerId) + (options.moreArgs ?? ""),
      ...(options.netns === undefined ? {} : { netns: options.netns }),
    });
  }
}

/** CNI_ARGS as container runtimes set them for a pod. */
export function cniArgs(pod: KubeObject, containerId: string): string {
  const { namespace, name, uid } = pod.metadata;
  return [
    "IgnoreUnknown=1",
    `K8S_POD_NAMESPACE=${namespace}`,
    `K8S_POD_NAME=${name}`,
    `K8S_POD_UID=${uid}`,
    `K8S_POD_INFRA_CONTAINER_ID=${containerId}`,
  ].join(";");
}

function launch(options: NodeOptions): Promise<TestDaemon> {
  return TestDaemon.start({
    args: ["--kubeconfig", options.kubeconfig, "--node", options.node, ...(options.args ?? [])],
    release: options.release,
    ...(options.folder === undefined ? {} : { folder: options.folder }),
    ...(options.env === undefined ? {} : { env: options.env }),
    ...(options.wait === undefined ? {} : { wait: options.wait }),
  });
}
