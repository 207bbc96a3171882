import type { ChildProcess } from "node:child_process";
import type { Connect } from "../../kube/kube-api.ts";
import type { Clock } from "../../platform/time.ts";
import { type CniAnswer, type RunningDaemon, TestDaemon } from "./daemon.ts";
import { DaemonHere } from "./daemon-here.ts";
import type { KubeObject } from "./kube-api.ts";
import { machineTime, type TestTime } from "./wait.ts";

export interface NodeOptions {
  /** The node's name. */
  readonly node: string;
  /** Path of a kubeconfig file, from `cluster.kubeconfig("holdfast-node")`. */
  readonly kubeconfig: string;
  /** The daemon lives in the process of the test, and comes to its API server this way. */
  readonly connect?: Connect | undefined;
  /** An existing directory to start on again; default: a new one. */
  readonly directory?: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Wait for readiness; default true. */
  readonly wait?: boolean;
  /** What it lives in; default: the machine's. */
  readonly time?: TestTime | undefined;
  /** Of a daemon in the process of the test; default: that of its time. */
  readonly clock?: Clock | undefined;
  /** Told of every ADD that has succeeded, before whoever sent it. */
  readonly attached?: (pod: KubeObject, ifname: string) => Promise<void>;
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

/** A daemon in Kubernetes mode on a node, and the container runtime that runs its plugin binary. */
export class NodeDaemon {
  readonly options: NodeOptions;
  /** The daemon; another one after `restart`. */
  daemon: RunningDaemon;

  private constructor(options: NodeOptions, daemon: RunningDaemon) {
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

  get time(): TestTime {
    return this.options.time ?? machineTime;
  }

  /** Of a daemon that is a process of its own. */
  get process(): ChildProcess {
    if (this.daemon instanceof TestDaemon) return this.daemon.process;
    throw new Error("the daemon has no process of its own");
  }

  async add(pod: KubeObject, options: AttachmentOptions): Promise<CniAnswer> {
    const answer = await this.#cni("ADD", pod, options);
    if (answer.code === 0) await this.options.attached?.(pod, options.ifname ?? "net1");
    return answer;
  }

  del(pod: KubeObject, options: AttachmentOptions): Promise<CniAnswer> {
    return this.#cni("DEL", pod, options);
  }

  /** `config` carries `prevResult`. */
  check(pod: KubeObject, options: AttachmentOptions): Promise<CniAnswer> {
    return this.#cni("CHECK", pod, options);
  }

  /** Ends the daemon and starts another one on the same state. A process gets SIGKILL unless told otherwise. */
  async restart(signal = this.#lastSignal, more: Partial<NodeOptions> = {}): Promise<void> {
    await this.daemon.end(signal);
    this.daemon = await launch({ ...this.options, ...more, directory: this.daemon.directory });
  }

  /** Ends the process and removes its directory. */
  stop(): Promise<void> {
    return this.daemon.stop();
  }

  /** How a daemon of its kind ends when nobody is asked. */
  get #lastSignal(): NodeJS.Signals {
    return this.daemon instanceof TestDaemon ? "SIGKILL" : "SIGTERM";
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

async function launch(options: NodeOptions): Promise<RunningDaemon> {
  const { connect, directory, env, time, clock } = options;
  const args = ["--kubeconfig", options.kubeconfig, "--node", options.node, ...(options.args ?? [])];
  if (connect === undefined)
    return TestDaemon.start({
      args,
      ...(directory === undefined ? {} : { directory }),
      ...(env === undefined ? {} : { env }),
      ...(options.wait === undefined ? {} : { wait: options.wait }),
    });
  const daemon = await DaemonHere.start(args, { directory, connect, env, time, clock });
  if (options.wait !== false) await daemon.ready();
  return daemon;
}
