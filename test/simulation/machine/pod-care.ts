import type { KubeObject } from "../../harness/kube-fake/objects.ts";
import type { World } from "../world.ts";
import type { ProcessClock } from "./clocks.ts";
import { NETWORK_STATUS, networkStatus, type Selected } from "./multus.ts";
import { PODS, type Runtime, type Sandbox } from "./runtime.ts";

const HAS_SANDBOX = "PodReadyToStartContainers";
/** It is gone, or another one. */
const CONFLICTS = [404, 409, 422];

/** What a kubelet works with. */
export interface KubeletTools {
  readonly node: string;
  readonly world: World;
  readonly runtime: Runtime;
  /** Of this kubelet. */
  readonly clock: ProcessClock;
  readonly bootNumber: number;
}

/** A pod's object in the API, as its kubelet writes it. Whatever became of the object meanwhile is no matter. */
export class PodObject {
  readonly #world: World;
  readonly #namespace: string;
  readonly #name: string;
  podIp: string;
  uid: string;

  constructor(world: World, pod: { namespace: string; name: string; uid: string }, podIp: string) {
    this.#world = world;
    this.#namespace = pod.namespace;
    this.#name = pod.name;
    this.uid = pod.uid;
    this.podIp = podIp;
  }

  /** As it is now; null: it is gone, or another one. */
  get now(): KubeObject | null {
    const there = this.#world.cluster.etcd.get(PODS, `${this.#namespace}/${this.#name}`);
    return there?.metadata.uid === this.uid ? there : null;
  }

  /** By its status. */
  get hasEveryContainerEnded(): boolean {
    const states: KubeObject[] = this.now?.status?.containerStatuses ?? [];
    return states.every(({ state }) => state?.running === undefined);
  }

  /** By its status, or there is no object to say it. */
  get saysItRuns(): boolean {
    const { now } = this;
    if (now === null) return true;
    const states: KubeObject[] = now.status?.containerStatuses ?? [];
    return now.status?.phase === "Running" && states.every(({ state }) => state?.running !== undefined);
  }

  /** The sandbox that its status tells of is gone. */
  async reportNoSandbox(phase: string | null): Promise<void> {
    const has = this.now?.status?.conditions?.some(
      ({ type, status }: KubeObject) => type === HAS_SANDBOX && status === "True",
    );
    if (phase === null && !has) return;
    await this.report(phase, { waiting: { reason: "ContainerCreating" } });
  }

  /** The state of all containers, and the phase; null: as it is. */
  async report(phase: string | null, state: object, more: object = {}): Promise<void> {
    const names: string[] = (this.now?.spec?.containers ?? []).map(({ name }: KubeObject) => name);
    const isRunning = "running" in state;
    const same = { image: "none", imageID: "", ready: isRunning, restartCount: 0, state };
    const status = {
      ...(phase === null ? {} : { phase }),
      containerStatuses: names.map((name) => ({ name, ...same })),
      conditions: [{ type: HAS_SANDBOX, status: "waiting" in state ? "False" : "True" }],
      ...(isRunning ? { podIP: this.podIp, podIPs: [{ ip: this.podIp }] } : {}),
      ...more,
    };
    await this.#patch("/status", {}, { status });
  }

  /** What its own interface has is the pod's address. */
  takeAddressOf(sandbox: Sandbox): void {
    this.podIp = sandbox.attachments.find(isPrimary)?.ips?.[0]?.replace(/\/.*/, "") ?? this.podIp;
  }

  /** As Multus does, when every interface is there. */
  async reportNetworks(sandbox: Sandbox): Promise<void> {
    this.takeAddressOf(sandbox);
    const others = sandbox.attachments.filter((one) => !isPrimary(one));
    if (others.length === 0) return;
    const reported = others.map(({ selected, mac, ips }) => ({ selected, mac, ips: ips ?? [] }));
    await this.#patch("", { annotations: { [NETWORK_STATUS]: networkStatus(this.podIp, reported) } }, {});
  }

  async remove(): Promise<void> {
    if (this.now !== null) await this.#world.cluster.admin.remove(this.#path, { graceSeconds: 0 });
  }

  /** Only of this very pod. */
  async #patch(subresource: string, metadata: object, more: object): Promise<void> {
    if (this.now === null) return;
    const patch = { metadata: { uid: this.uid, ...metadata }, ...more };
    try {
      await this.#world.cluster.admin.patch(`${this.#path}${subresource}`, patch);
    } catch (error) {
      if (!CONFLICTS.includes((error as { status?: number }).status ?? 0)) throw error;
    }
  }

  get #path(): string {
    return `/api/v1/namespaces/${this.#namespace}/pods/${this.#name}`;
  }
}

function isPrimary({ selected }: { readonly selected: Selected }): boolean {
  return selected.namespace === "";
}

/** What a sandbox that failed, or died, leaves: DEL at once, late, or never. */
export async function dispose({ world, runtime, clock }: KubeletTools, sandbox: Sandbox): Promise<void> {
  const { faults, counts } = world;
  if (!sandbox.isUnseen && faults.decide(`${sandbox.key} DEL lost`, 0.05)) {
    lose({ world, runtime }, sandbox);
    return;
  }
  if (!faults.decide(`${sandbox.key} DEL late`, 0.15)) return unlessKilled(clock, runtime.tearDown(sandbox));
  runtime.vanish(sandbox);
  counts.add("cni.del.late");
  const lateMs = 8_000 * faults.number(`${sandbox.key} DEL late by`);
  clock.timer(lateMs, () => {
    // A runtime that uses an ID again (podman, cnitool) has done with its former use: DEL names nothing but the ID.
    const isUsedAgain = (runtime.sandboxes.get(sandbox.id) ?? sandbox) !== sandbox;
    if (!isUsedAgain) void runtime.tearDown(sandbox);
  });
}

/**
 * DEL at the end of a pod; now and then nobody sends it. Of a container whose namespace nobody sees it always comes:
 * its address is held without it (docs/known-limits.md).
 */
export async function end({ world, runtime, clock }: KubeletTools, sandbox: Sandbox): Promise<void> {
  if (sandbox.state === "dead") return;
  if (!sandbox.isUnseen && world.faults.decide(`${sandbox.key} DEL never`, 0.03)) lose({ world, runtime }, sandbox);
  else await unlessKilled(clock, runtime.tearDown(sandbox));
}

/** What the runtime does goes on when the kubelet is killed, and the kubelet does not. */
export async function unlessKilled<T>(clock: ProcessClock, work: Promise<T>): Promise<T> {
  const done = await work;
  return clock.isDead ? new Promise<never>(() => {}) : done;
}

function lose({ world, runtime }: Pick<KubeletTools, "world" | "runtime">, sandbox: Sandbox): void {
  runtime.vanish(sandbox);
  runtime.forget(sandbox);
  world.counts.add("cni.del.lost");
}
