import type { KubeObject } from "../../../kube/fake/objects.ts";
import { sleep } from "../../../platform/time.ts";
import type { World } from "../world.ts";
import type { ProcessClock } from "./clocks.ts";
import { NETWORK_STATUS, networkStatus } from "./multus.ts";
import { PODS, type Runtime, type Sandbox, type SandboxPod } from "./runtime.ts";

/** An actor patches it: how the containers of a pod end by themselves. `0`, `1` or `evicted`. */
const EXIT = "simulation/exit";
/** Between two sandboxes of a pod, ms: doubles. */
const BACKOFF_MS = 500;
const BACKOFF_MAX_MS = 8_000;
/** The longest that a kubelet goes on with a pod whose object is gone, ms. */
const ORPHAN_MS_MAX = 20_000;

export interface WorkerParts {
  readonly node: string;
  readonly world: World;
  readonly runtime: Runtime;
  /** Of this kubelet. */
  readonly clock: ProcessClock;
  readonly bootNumber: number;
  readonly podIp: string;
}

/** What a kubelet does about one pod, from its appearance until nothing of it is left. */
export class PodWorker {
  readonly pod: SandboxPod;
  readonly #parts: WorkerParts;
  readonly #key: string;
  #object: KubeObject | null;
  #sandbox: Sandbox | null = null;
  #wake: (() => void) | null = null;
  #restarts = 0;

  constructor(parts: WorkerParts, object: KubeObject, runtimeUid: string, key: string) {
    const { namespace, name, uid } = object.metadata;
    this.#parts = parts;
    this.#object = object;
    this.#key = key;
    this.pod = { namespace, name, uid, runtimeUid };
  }

  get sandbox(): Sandbox | null {
    return this.#sandbox;
  }

  /** The kubelet has heard of it; null: it is gone. */
  seen(object: KubeObject | null): void {
    this.#object = object;
    this.#wake?.();
  }

  /** The sandbox is not what it was. */
  sandboxDied(): void {
    this.#wake?.();
  }

  /** `adopted`: what the runtime has of it already. */
  async run(adopted: Sandbox | null): Promise<void> {
    this.#sandbox = adopted;
    for (;;) {
      await this.#rest(10 + 90 * this.#number("start"));
      if (this.#ending === null && this.#sandbox === null) await this.#bringUp();
      while (this.#ending === null && this.#sandbox?.state === "ready") await this.#woken();
      const sandbox = this.#sandbox as Sandbox | null;
      if (this.#ending !== null) break;
      // Its processes are gone: the pod gets another one.
      if (sandbox !== null) await this.#dispose(sandbox);
    }
    await this.#finish();
  }

  /** Why its containers have to end; null: they do not. */
  get #ending(): "gone" | "deleted" | "ended" | string | null {
    const object = this.#object;
    if (object === null) return "gone";
    if (object.metadata.deletionTimestamp !== undefined) return "deleted";
    const exit = object.metadata.annotations?.[EXIT];
    if (exit !== undefined) return exit;
    return isTerminal(object) ? "ended" : null;
  }

  async #bringUp(): Promise<void> {
    const { world, runtime, bootNumber } = this.#parts;
    for (
      let backoffMs = BACKOFF_MS;
      this.#ending === null;
      backoffMs = Math.min(backoffMs * 2, BACKOFF_MAX_MS)
    ) {
      if (this.#restarts === 0)
        await this.#patchStatus("Pending", { waiting: { reason: "ContainerCreating" } });
      this.#restarts += 1;
      const sandbox = runtime.create(this.pod, bootNumber);
      this.#sandbox = sandbox;
      const setUp = this.#unlessKilled(runtime.setUp(sandbox));
      const early = world.faults.decide(`${sandbox.key} DEL during ADD`, 0.3);
      if (early) await Promise.race([setUp, this.#untilEnding()]);
      if (early && this.#ending !== null && sandbox.state === "creating") {
        world.counts.add("cni.del.during-add");
        return;
      }
      const problem = await setUp;
      if (problem === null) return this.#report(sandbox);
      world.story.tell(`kubelet ${this.#parts.node}`, `the sandbox of ${this.#name} failed: ${problem}`);
      await this.#dispose(sandbox);
      await this.#rest(backoffMs * (0.8 + 0.4 * this.#number("backoff")));
    }
  }

  /** What a sandbox that failed, or died, leaves: DEL at once, late, or never. */
  async #dispose(sandbox: Sandbox): Promise<void> {
    const { world, runtime, clock } = this.#parts;
    const { faults, counts } = world;
    this.#sandbox = null;
    if (faults.decide(`${sandbox.key} DEL lost`, 0.05)) {
      runtime.vanish(sandbox);
      runtime.forget(sandbox);
      counts.add("cni.del.lost");
      return;
    }
    if (faults.decide(`${sandbox.key} DEL late`, 0.15)) {
      runtime.vanish(sandbox);
      counts.add("cni.del.late");
      const lateMs = 8_000 * faults.number(`${sandbox.key} DEL late by`);
      clock.timer(lateMs, () => void runtime.tearDown(sandbox));
      return;
    }
    await this.#unlessKilled(runtime.tearDown(sandbox));
  }

  /** Status and annotation of a pod that runs. */
  async #report(sandbox: Sandbox): Promise<void> {
    const reported = sandbox.attachments.map(({ selected, mac, ips }) => ({ selected, mac, ips: ips ?? [] }));
    if (reported.length > 0)
      await this.#patch(
        "",
        { annotations: { [NETWORK_STATUS]: networkStatus(this.#parts.podIp, reported) } },
        {},
      );
    await this.#rest(20 + 80 * this.#number("containers"));
    if (this.#ending !== null) return;
    await this.#patchStatus("Running", { running: {} });
    const { world, runtime } = this.#parts;
    for (const attachment of sandbox.attachments)
      if (
        attachment.isUp &&
        world.faults.decide(`${sandbox.key} ${attachment.selected.ifname} ADD again`, 0.1)
      )
        await this.#unlessKilled(runtime.repeat(sandbox, attachment));
  }

  async #finish(): Promise<void> {
    const { world, runtime } = this.#parts;
    const why = this.#ending;
    const key = this.#key;
    if (why === "gone") return this.#endOrphan();
    if (why === "evicted") {
      await this.#patchStatus("Failed", { running: {} }, { reason: "Evicted" });
      await this.#rest(1_000 + 8_000 * this.#number("evicted"));
    }
    if (why === "deleted") await this.#rest(50 + 2_000 * this.#number("grace") ** 2);
    const phase = why === "1" || why === "evicted" ? "Failed" : why === "deleted" ? null : "Succeeded";
    if (why !== "ended")
      await this.#patchStatus(phase, { terminated: { exitCode: phase === "Failed" ? 1 : 0 } });
    const stays = why !== "deleted" && world.faults.number(`${key} sandbox stays`) < 0.4;
    if (stays) {
      world.counts.add("pod.completed.sandbox-stays");
      await this.#untilDeleted();
    }
    await this.#end();
    await this.#untilDeleted();
    if (this.#object === null) return;
    await this.#removeObject();
    // Another sandbox of it may be there from before this kubelet.
    for (const sandbox of [...runtime.sandboxes.values()])
      if (sandbox.pod.uid === this.pod.uid && sandbox.state !== "dead")
        await this.#unlessKilled(runtime.tearDown(sandbox));
  }

  /** The object is gone: the containers live on for a while. */
  async #endOrphan(): Promise<void> {
    await this.#rest(ORPHAN_MS_MAX * this.#number("orphan") ** 2);
    this.#parts.world.counts.add("pod.orphan-ended");
    await this.#end();
  }

  async #end(): Promise<void> {
    const sandbox = this.#sandbox;
    this.#sandbox = null;
    if (sandbox === null || sandbox.state === "dead") return;
    const { world, runtime } = this.#parts;
    if (world.faults.decide(`${sandbox.key} DEL never`, 0.03)) {
      world.counts.add("cni.del.lost");
      runtime.vanish(sandbox);
      runtime.forget(sandbox);
      return;
    }
    await this.#unlessKilled(runtime.tearDown(sandbox));
  }

  async #removeObject(): Promise<void> {
    const { world } = this.#parts;
    const { namespace, name, uid } = this.pod;
    const there = world.cluster.etcd.get(PODS, `${namespace}/${name}`);
    if (there?.metadata.uid !== uid) return;
    await world.cluster.admin.remove(this.#path, { graceSeconds: 0 });
  }

  async #untilEnding(): Promise<void> {
    while (this.#ending === null) await this.#woken();
  }

  async #untilDeleted(): Promise<void> {
    while (this.#object !== null && this.#object.metadata.deletionTimestamp === undefined)
      await this.#woken();
  }

  #woken(): Promise<void> {
    return new Promise((resolve) => {
      const before = this.#wake;
      this.#wake = () => {
        before?.();
        this.#wake = null;
        resolve();
      };
    });
  }

  /** What the runtime does goes on when the kubelet is killed, and the kubelet does not. */
  async #unlessKilled<T>(work: Promise<T>): Promise<T> {
    const done = await work;
    return this.#parts.clock.isDead ? new Promise<never>(() => {}) : done;
  }

  #rest(ms: number): Promise<void> {
    return sleep(this.#parts.clock, ms);
  }

  #number(what: string): number {
    return this.#parts.world.faults.number(`${this.#key} ${this.#restarts} ${what}`);
  }

  /** `phase` null: as it is. */
  async #patchStatus(phase: string | null, state: object, more: object = {}): Promise<void> {
    const names: string[] = (this.#object?.spec?.containers ?? []).map(({ name }: KubeObject) => name);
    const isRunning = "running" in state;
    const containerStatuses = names.map((name) => ({
      name,
      image: "none",
      imageID: "",
      ready: isRunning,
      restartCount: 0,
      state,
    }));
    const { podIp } = this.#parts;
    const status = {
      ...(phase === null ? {} : { phase }),
      containerStatuses,
      ...(isRunning ? { podIP: podIp, podIPs: [{ ip: podIp }] } : {}),
      ...more,
    };
    await this.#patch("/status", {}, { status });
  }

  /** Only of this very pod. */
  async #patch(subresource: string, metadata: object, more: object): Promise<void> {
    const { world } = this.#parts;
    const { uid } = this.pod;
    try {
      await world.cluster.admin.patch(`${this.#path}${subresource}`, {
        metadata: { uid, ...metadata },
        ...more,
      });
    } catch (error) {
      const { status } = error as { status?: number };
      if (status !== 404 && status !== 409) throw error;
    }
  }

  get #path(): string {
    return `/api/v1/namespaces/${this.pod.namespace}/pods/${this.pod.name}`;
  }

  get #name(): string {
    return `${this.pod.namespace}/${this.pod.name}`;
  }
}

export function isTerminal(pod: KubeObject): boolean {
  return pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
}
