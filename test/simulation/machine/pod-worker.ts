import { sleep } from "../../../platform/time.ts";
import type { KubeObject } from "../../harness/kube-fake/objects.ts";
import { dispose, end, type KubeletTools, PodObject, unlessKilled } from "./pod-care.ts";
import type { Sandbox, SandboxPod } from "./runtime.ts";

/** An actor patches it: how the containers of a pod end by themselves. `0`, `1` or `evicted`. */
const EXIT = "simulation/exit";
/** Between two sandboxes of a pod, ms: doubles. */
const BACKOFF_MS = 500;
const BACKOFF_MAX_MS = 8_000;
/** So long after it a kubelet sees at most that the API has another status than it reported, ms. */
const REPORT_MS_MAX = 10_000;
/** The longest that a kubelet goes on with a pod whose object is gone, ms: longer than all graces. */
const ORPHAN_MS_MAX = 60_000;

/** What a kubelet does about one pod, from its appearance until nothing of it is left. */
export class PodWorker {
  readonly pod: SandboxPod;
  readonly #tools: KubeletTools;
  readonly #key: string;
  readonly #api: PodObject;
  #object: KubeObject | null;
  #sandbox: Sandbox | null = null;
  #wake: (() => void) | null = null;
  #tries = 0;

  /** `key`: of its faults. */
  constructor(tools: KubeletTools, object: KubeObject, podIp: string, key: string) {
    const { namespace, name, uid } = object.metadata;
    this.#tools = tools;
    this.#object = object;
    this.#key = key;
    this.pod = { namespace, name, uid };
    this.#api = new PodObject(tools.world, this.pod, podIp);
  }

  /** The kubelet has heard of it; null: it is gone. */
  seen(object: KubeObject | null): void {
    this.#object = object;
    this.wake();
  }

  /** Something of it has changed, such as its sandbox. */
  wake(): void {
    this.#wake?.();
  }

  /** `adopted`: what the runtime has of it already. */
  async run(adopted: Sandbox | null): Promise<void> {
    this.#sandbox = adopted;
    for (;;) {
      await this.#rest(10 + 90 * this.#number("start"));
      if (this.#ending === null && this.#sandbox === null) await this.#bringUp();
      await this.#follow();
      if (this.#ending !== null) break;
      // Its processes are gone: the pod gets another one.
      await this.#dispose();
    }
    const why = this.#ending;
    await this.#finish(why);
    // Whoever restores etcd meanwhile brings its object back: the kubelet begins with it anew.
    if (why === "gone" && this.#object !== null) await this.run(null);
  }

  /**
   * As long as its containers run. What the API has not, because the kubelet of before had no time to report it or etcd
   * was restored, is reported again.
   */
  async #follow(): Promise<void> {
    while (this.#ending === null && this.#sandbox?.state === "ready") {
      if (this.#api.saysItRuns) await this.#woken();
      else {
        await this.#rest(20 + 80 * this.#number("containers"));
        if (this.#ending === null && this.#sandbox?.state === "ready") await this.#reportRunning(this.#sandbox);
      }
    }
  }

  /** Why its containers have to end, or what they ended with; null: they run. */
  get #ending(): string | null {
    const object = this.#object;
    if (object === null) return "gone";
    if (object.metadata.deletionTimestamp !== undefined) return "deleted";
    const isTerminal = object.status?.phase === "Succeeded" || object.status?.phase === "Failed";
    return isTerminal ? "ended" : (object.metadata.annotations?.[EXIT] ?? null);
  }

  async #bringUp(): Promise<void> {
    const { world, runtime, bootNumber, clock, node } = this.#tools;
    for (let backoffMs = BACKOFF_MS; this.#ending === null; backoffMs = Math.min(backoffMs * 2, BACKOFF_MAX_MS)) {
      await this.#api.reportNoSandbox(this.#tries === 0 ? "Pending" : null);
      this.#tries += 1;
      const sandbox = runtime.create(this.pod, bootNumber);
      this.#sandbox = sandbox;
      const setUp = unlessKilled(clock, this.#setUp(sandbox));
      if (world.faults.decide(`${sandbox.key} DEL during ADD`, 0.3)) {
        await Promise.race([setUp, this.#untilEnding()]);
        if (this.#ending !== null && sandbox.state === "creating") {
          world.counts.add("cni.del.during-add");
          return;
        }
      }
      const problem = await setUp;
      if (problem === null) return this.#report(sandbox);
      world.story.tell(`kubelet ${node}`, `the sandbox of ${this.pod.namespace}/${this.pod.name} failed: ${problem}`);
      await this.#dispose();
      await this.#rest(backoffMs * (0.8 + 0.4 * this.#number("backoff")));
    }
  }

  async #dispose(): Promise<void> {
    const sandbox = this.#sandbox;
    this.#sandbox = null;
    if (sandbox !== null) await dispose(this.#tools, sandbox);
  }

  /** Multus tells what it has added before it answers, whatever becomes of the kubelet meanwhile. */
  async #setUp(sandbox: Sandbox): Promise<string | null> {
    const problem = await this.#tools.runtime.setUp(sandbox);
    if (problem === null) await this.#api.reportNetworks(sandbox);
    return problem;
  }

  async #reportRunning(sandbox: Sandbox): Promise<void> {
    this.#api.takeAddressOf(sandbox);
    await this.#api.report("Running", { running: {} });
  }

  /** Status of a pod that runs now. */
  async #report(sandbox: Sandbox): Promise<void> {
    await this.#rest(20 + 80 * this.#number("containers"));
    if (this.#ending !== null) return;
    await this.#reportRunning(sandbox);
    const { world, runtime, clock } = this.#tools;
    for (const attachment of sandbox.attachments)
      if (attachment.isUp && world.faults.decide(`${sandbox.key} ${attachment.selected.ifname} ADD again`, 0.1))
        await unlessKilled(clock, runtime.repeat(sandbox, attachment));
  }

  async #finish(why: string): Promise<void> {
    const { world, runtime, clock } = this.#tools;
    if (why === "gone") return this.#endOrphan();
    if (why === "evicted") {
      await this.#api.report("Failed", { running: {} }, { reason: "Evicted" });
      // A virtual machine takes its time: longer than every grace of those who believe that Failed is the end.
      await this.#rest(1_000 + 60_000 * this.#number("evicted") ** 2);
    }
    if (why === "deleted") await this.#rest(50 + 2_000 * this.#number("grace") ** 2);
    const phase = why === "1" || why === "evicted" ? "Failed" : why === "0" ? "Succeeded" : null;
    const exitCode = why === "0" || why === "deleted" ? 0 : 1;
    // A kubelet that is started after an eviction, or after the power was lost meanwhile, says that nothing runs.
    const isReported = why === "ended" && this.#api.hasEveryContainerEnded;
    if (!isReported) await this.#api.report(phase, { terminated: { exitCode } });
    if (why !== "deleted") {
      world.counts.add(`pod.ended.${why}`);
      if (world.faults.decide(`${this.#key} sandbox stays`, 0.4)) {
        world.counts.add("pod.ended.sandbox-stays");
        await this.#untilDeleted(exitCode);
      }
    }
    await this.#end();
    await this.#untilDeleted(exitCode);
    await this.#api.remove();
    // Another sandbox of it may be there from before this kubelet.
    for (const sandbox of [...runtime.sandboxes.values()])
      if (sandbox.pod.uid === this.pod.uid) await unlessKilled(clock, runtime.tearDown(sandbox));
  }

  /** The object is gone: the containers live on for a while. */
  async #endOrphan(): Promise<void> {
    await this.#rest(ORPHAN_MS_MAX * this.#number("orphan") ** 2);
    this.#tools.world.counts.add("pod.ended.orphan");
    await this.#end();
  }

  async #end(): Promise<void> {
    const sandbox = this.#sandbox;
    this.#sandbox = null;
    if (sandbox !== null) await end(this.#tools, sandbox);
  }

  async #untilEnding(): Promise<void> {
    while (this.#ending === null) await this.#woken();
  }

  /** Whoever restores etcd meanwhile brings an earlier status back: the kubelet reports again how the pod has ended. */
  async #untilDeleted(exitCode: number): Promise<void> {
    const phase = exitCode === 0 ? "Succeeded" : "Failed";
    while (this.#object !== null && this.#object.metadata.deletionTimestamp === undefined) {
      const now = this.#api.now?.status?.phase ?? phase;
      const isTerminal = now === "Succeeded" || now === "Failed";
      if (isTerminal && this.#api.hasEveryContainerEnded) await this.#woken();
      else {
        await this.#rest(REPORT_MS_MAX * this.#number("report again"));
        await this.#api.report(phase, { terminated: { exitCode } });
      }
    }
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

  #rest(ms: number): Promise<void> {
    return sleep(this.#tools.clock, ms);
  }

  #number(what: string): number {
    return this.#tools.world.faults.number(`${this.#key} ${this.#tries} ${what}`);
  }
}
