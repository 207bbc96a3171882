import type { KubeObject } from "../../../kube/fake/objects.ts";
import { sleep } from "../../../platform/time.ts";
import type { World } from "../world.ts";
import { type MachineClock, ProcessClock } from "./clocks.ts";
import { PodWorker } from "./pod-worker.ts";
import type { FormerSandbox, Runtime } from "./runtime.ts";

/** How late a kubelet may hear of a pod, ms. */
const HEARD_MS_MAX = 150;

export interface KubeletParts {
  readonly node: string;
  readonly world: World;
  readonly machineClock: MachineClock;
  readonly runtime: Runtime;
  readonly bootNumber: number;
  readonly bootId: string;
  /** Of its node, by number. */
  podIp(number: number): string;
  /** How often this node has begun with pods of that name. */
  countOf(name: string): number;
}

/** One kubelet, from its start until it is killed: it follows the pods that are bound to its node. */
export class Kubelet {
  readonly clock: ProcessClock;
  readonly #parts: KubeletParts;
  readonly #workers = new Map<string, PodWorker>();
  /** What it will look at, by UID: the pod's key in etcd. */
  readonly #dirty = new Map<string, string>();
  #ips = 0;

  constructor(parts: KubeletParts) {
    this.#parts = parts;
    this.clock = new ProcessClock(parts.machineClock);
  }

  get workers(): readonly PodWorker[] {
    return [...this.#workers.values()];
  }

  /** `pods`: those that are bound to the node. */
  start(pods: readonly KubeObject[]): void {
    void this.#register();
    const ids = new Set(pods.map(({ metadata: { uid } }) => uid));
    for (const pod of pods) this.heard(pod.metadata.uid, keyOf(pod));
    for (const sandbox of [...this.#parts.runtime.sandboxes.values()])
      if (sandbox.state !== "dead" && !ids.has(sandbox.pod.uid)) this.#endFormer(sandbox);
  }

  /** Something was written about a pod of this node: it will be seen a little later. */
  heard(uid: string, key: string): void {
    if (this.clock.isDead) return;
    const isAlreadyDirty = this.#dirty.has(uid);
    this.#dirty.set(uid, key);
    if (isAlreadyDirty) return;
    const { world, node } = this.#parts;
    const lateMs = HEARD_MS_MAX * world.faults.number(`kubelet ${node} ${uid} ${world.time.nowMs}`);
    this.clock.timer(lateMs, () => this.#look(uid));
  }

  /** Sandboxes of an earlier boot, which its runtime still remembers. */
  endFormer(sandboxes: readonly FormerSandbox[]): void {
    for (const sandbox of sandboxes) this.#endFormer(sandbox);
  }

  kill(): void {
    this.clock.kill();
  }

  #endFormer(sandbox: FormerSandbox): void {
    const { world, runtime } = this.#parts;
    const lateMs = 200 + 5_000 * world.faults.number(`${sandbox.key} former`);
    this.clock.timer(lateMs, () => void runtime.tearDown(sandbox));
  }

  #look(uid: string): void {
    const key = this.#dirty.get(uid) as string;
    this.#dirty.delete(uid);
    const found = this.#parts.world.cluster.etcd.get("/pods", key);
    const object = found?.metadata.uid === uid ? found : null;
    const worker = this.#workers.get(uid);
    if (worker !== undefined) worker.seen(object);
    else if (object !== null) this.#begin(object);
  }

  #begin(object: KubeObject): void {
    const { node, runtime, countOf, podIp, world, bootNumber } = this.#parts;
    const { uid } = object.metadata;
    const name = keyOf(object);
    this.#ips += 1;
    const key = `kubelet ${node} ${name}#${countOf(name)}`;
    const { clock } = this;
    const parts = { node, world, runtime, clock, bootNumber, podIp: podIp(this.#ips) };
    const worker = new PodWorker(parts, object, uid, key);
    this.#workers.set(uid, worker);
    const known = [...runtime.sandboxes.values()].filter(
      (one) => one.pod.uid === uid && one.state !== "dead",
    );
    const adopted = known.findLast(({ state }) => state === "ready") ?? null;
    for (const sandbox of known) if (sandbox !== adopted) this.#endFormer(sandbox);
    void worker.run(adopted).then(() => this.#workers.delete(uid));
  }

  /** The Node object, as a kubelet keeps it. */
  async #register(): Promise<void> {
    const { world, node, bootId } = this.#parts;
    const path = `/api/v1/nodes/${node}`;
    await sleep(this.clock, 100);
    if ((await world.cluster.admin.get(path)) === null)
      await world.cluster.admin.create("/api/v1/nodes", {
        apiVersion: "v1",
        kind: "Node",
        metadata: { name: node },
      });
    const conditions = [{ type: "Ready", status: "True", reason: "KubeletReady", message: "" }];
    await world.cluster.admin.patch(`${path}/status`, { status: { nodeInfo: nodeInfo(bootId), conditions } });
  }
}

function keyOf({ metadata: { namespace, name } }: KubeObject): string {
  return `${namespace}/${name}`;
}

function nodeInfo(bootID: string): object {
  const texts = ["architecture", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion"];
  const more = ["kubeletVersion", "machineID", "operatingSystem", "osImage", "systemUUID"];
  return { ...Object.fromEntries([...texts, ...more].map((key) => [key, ""])), bootID };
}
