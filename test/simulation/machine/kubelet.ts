import { sleep } from "../../../platform/time.ts";
import type { KubeObject } from "../../harness/kube-fake/objects.ts";
import type { World } from "../world.ts";
import { type MachineClock, ProcessClock } from "./clocks.ts";
import { type KubeletTools, PodObject } from "./pod-care.ts";
import { PodWorker } from "./pod-worker.ts";
import type { FormerSandbox, Runtime, Sandbox } from "./runtime.ts";
import { type ManifestDirectory, StaticPodWorker } from "./static-pod.ts";

/** How late a kubelet may hear of a pod, ms. */
const HEARD_MS_MAX = 150;

/** How late it sees a change of the directory of manifests, ms. */
const MANIFEST_MS = 100;

/** After it has found a mirror without a manifest, ms. */
const MIRROR_MS = 1_000;
/** How often it looks at its Node object, ms. */
const REPORT_MS = 10_000;

export interface KubeletParts {
  readonly node: string;
  readonly world: World;
  readonly machineClock: MachineClock;
  readonly runtime: Runtime;
  readonly bootNumber: number;
  readonly bootId: string;
  readonly manifests: ManifestDirectory;
  /** Of its node, by number. */
  podIp(number: number): string;
  /** How often this node has begun with pods of that name. */
  countOf(name: string): number;
}

/** One kubelet, from its start until it is killed: it follows the pods that are bound to its node. */
export class Kubelet {
  readonly clock: ProcessClock;
  readonly #parts: KubeletParts;
  readonly #statics = new Map<string, StaticPodWorker>();
  readonly #workers = new Map<string, PodWorker>();
  /** What it will look at, by UID: the pod's key in etcd. */
  readonly #dirty = new Map<string, string>();
  #ips = 0;

  constructor(parts: KubeletParts) {
    this.#parts = parts;
    this.clock = new ProcessClock(parts.machineClock);
  }

  /** What the runtime has of a pod has changed. */
  wake(uid: string): void {
    this.#workers.get(uid)?.wake();
  }

  /** `pods`: those that are bound to the node. */
  start(pods: readonly KubeObject[]): void {
    void this.#register();
    const { manifests } = this.#parts;
    const ids = new Set([...pods, ...manifests.values()].map(({ metadata: { uid } }) => uid));
    manifests.changed = () => {
      if (!this.clock.isDead) this.clock.timer(MANIFEST_MS, () => this.#runStatic());
    };
    manifests.changed();
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
    // A history that is replayed has the same times but for their last digits.
    const now = Math.round(world.time.nowMs * 1_000);
    const lateMs = HEARD_MS_MAX * world.faults.number(`kubelet ${node} ${uid} ${now}`);
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
    const mirrored = object.metadata.annotations?.["kubernetes.io/config.mirror"];
    if (mirrored !== undefined) {
      this.#lookAtMirror(object, mirrored);
      return;
    }
    const { node, countOf } = this.#parts;
    const { uid } = object.metadata;
    const name = keyOf(object);
    const key = `kubelet ${node} ${name}#${countOf(name)}`;
    const worker = new PodWorker(this.#tools(), object, this.#nextIp(), key);
    this.#workers.set(uid, worker);
    void worker.run(this.#adopt(uid)).then(() => this.#workers.delete(uid));
  }

  /** Of a static pod that it runs the object is kept by itself; of one whose manifest is gone it is removed. */
  #lookAtMirror({ metadata: { namespace, name, uid } }: KubeObject, mirrored: string): void {
    const { world, manifests } = this.#parts;
    if (this.#statics.has(mirrored)) return;
    if ([...manifests.values()].some(({ metadata }) => metadata.uid === mirrored)) return;
    const mirror = new PodObject(world, { namespace, name, uid }, "");
    this.clock.timer(MIRROR_MS, () => void mirror.remove());
  }

  /** Looks at the manifests. */
  #runStatic(): void {
    const manifests = [...this.#parts.manifests.values()];
    const uids = new Set(manifests.map(({ metadata: { uid } }) => uid));
    for (const [uid, worker] of this.#statics) if (!uids.has(uid)) worker.end();
    for (const manifest of manifests) {
      const { uid } = manifest.metadata;
      if (this.#statics.has(uid)) continue;
      const worker = new StaticPodWorker(this.#tools(), manifest, this.#nextIp());
      this.#statics.set(uid, worker);
      void worker.run(this.#adopt(uid)).then(() => this.#statics.delete(uid));
    }
  }

  /** The sandbox that the runtime has of a pod already; others of it are ended. */
  #adopt(uid: string): Sandbox | null {
    const known = [...this.#parts.runtime.sandboxes.values()].filter(
      (one) => one.pod.uid === uid && one.state !== "dead",
    );
    const adopted = known.findLast(({ state }) => state === "ready") ?? null;
    for (const sandbox of known) {
      // A runtime gives up what is being made as soon as the kubelet that asked for it is gone, and makes no other
      // until then.
      if (sandbox.state === "creating") void this.#parts.runtime.tearDown(sandbox);
      else if (sandbox !== adopted) this.#endFormer(sandbox);
    }
    return adopted;
  }

  #tools(): KubeletTools {
    const { node, world, runtime, bootNumber } = this.#parts;
    return { node, world, runtime, bootNumber, clock: this.clock };
  }

  #nextIp(): string {
    this.#ips += 1;
    return this.#parts.podIp(this.#ips);
  }

  /** The Node object, as a kubelet keeps it. */
  async #register(): Promise<void> {
    const { node, bootId } = this.#parts;
    const path = `/api/v1/nodes/${node}`;
    await sleep(this.clock, 100);
    for (;;) {
      await this.#reportNode(path, bootId);
      await sleep(this.clock, REPORT_MS);
    }
  }

  /** Where it is not as it should be: a person deletes it, a restored etcd has an older one. */
  async #reportNode(path: string, bootId: string): Promise<void> {
    const { world, node } = this.#parts;
    const there = world.cluster.etcd.get("/nodes", node);
    if (there?.status?.nodeInfo?.bootID === bootId && isReady(there)) return;
    if (there === null)
      await world.cluster.admin.create("/api/v1/nodes", {
        apiVersion: "v1",
        kind: "Node",
        metadata: { name: node },
      });
    const conditions = [{ type: "Ready", status: "True", reason: "KubeletReady", message: "" }];
    await world.cluster.admin.patch(`${path}/status`, { status: { nodeInfo: nodeInfo(bootId), conditions } });
  }
}

function isReady(node: KubeObject): boolean {
  return node.status.conditions?.some(({ type, status }: KubeObject) => type === "Ready" && status === "True");
}

function keyOf({ metadata: { namespace, name } }: KubeObject): string {
  return `${namespace}/${name}`;
}

function nodeInfo(bootID: string): object {
  const texts = ["architecture", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion"];
  const more = ["kubeletVersion", "machineID", "operatingSystem", "osImage", "systemUUID"];
  return { ...Object.fromEntries([...texts, ...more].map((key) => [key, ""])), bootID };
}
