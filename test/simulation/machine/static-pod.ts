import { sleep } from "../../../platform/time.ts";
import type { KubeObject } from "../../harness/kube-fake/objects.ts";
import { dispose, end, type KubeletTools, PodObject, unlessKilled } from "./pod-care.ts";
import { PODS, type Sandbox, type SandboxPod } from "./runtime.ts";

const MIRROR = "kubernetes.io/config.mirror";
/** Between two looks at the mirror, and between two sandboxes, ms. */
const LOOK_MS = 2_000;

/** The directory of manifests that a kubelet runs by itself: pods with the kubelet's own UID, by name. */
export class ManifestDirectory extends Map<string, KubeObject> {
  /** Told after each change. */
  changed: () => void = () => {};

  override set(name: string, pod: KubeObject): this {
    super.set(name, pod);
    this.changed();
    return this;
  }

  override delete(name: string): boolean {
    const was = super.delete(name);
    this.changed();
    return was;
  }
}

/**
 * A static pod: it runs whether or not the API has an object of it, and the kubelet makes that mirror again when
 * somebody deletes it. To the runtime it has the kubelet's UID.
 */
export class StaticPodWorker {
  readonly uid: string;
  readonly #tools: KubeletTools;
  readonly #manifest: KubeObject;
  readonly #name: string;
  readonly #podIp: string;
  #sandbox: Sandbox | null = null;
  #isOver = false;
  #tries = 0;

  constructor(tools: KubeletTools, manifest: KubeObject, podIp: string) {
    this.#tools = tools;
    this.#manifest = manifest;
    this.#name = `${manifest.metadata.name}-${tools.node}`;
    this.#podIp = podIp;
    this.uid = manifest.metadata.uid;
  }

  /** Its manifest is gone. */
  end(): void {
    this.#isOver = true;
  }

  async run(adopted: Sandbox | null): Promise<void> {
    const { runtime, clock } = this.#tools;
    this.#sandbox = adopted;
    while (!this.#isOver) {
      const mirror = await this.#ensureMirror();
      const sandbox = this.#sandbox as Sandbox | null;
      if (sandbox?.state === "dead") {
        this.#sandbox = null;
        await dispose(this.#tools, sandbox);
      } else if (sandbox === null) await this.#bringUp(mirror);
      else if (mirror?.now?.status?.phase === undefined) await this.#report(mirror, sandbox);
      if (!this.#isOver) await sleep(clock, LOOK_MS * (0.5 + this.#number("look")));
    }
    if (this.#sandbox !== null) await end(this.#tools, this.#sandbox);
    for (const left of [...runtime.sandboxes.values()])
      if (left.pod.uid === this.uid) await unlessKilled(clock, runtime.tearDown(left));
    await this.#mirror()?.remove();
  }

  async #bringUp(mirror: PodObject | null): Promise<void> {
    const { runtime, bootNumber, clock, world, node } = this.#tools;
    const { namespace } = this.#manifest.metadata;
    this.#tries += 1;
    await mirror?.reportNoSandbox(null);
    const pod: SandboxPod = { namespace, name: this.#name, uid: this.uid };
    const sandbox = runtime.create(pod, bootNumber);
    this.#sandbox = sandbox;
    const problem = await unlessKilled(clock, runtime.setUp(sandbox));
    if (problem === null) return this.#report(mirror, sandbox);
    world.story.tell(`kubelet ${node}`, `the sandbox of static pod ${this.#name} failed: ${problem}`);
    this.#sandbox = null;
    await dispose(this.#tools, sandbox);
  }

  async #report(mirror: PodObject | null, sandbox: Sandbox): Promise<void> {
    await mirror?.reportNetworks(sandbox);
    await mirror?.report("Running", { running: {} });
  }

  /** As it is now; null: there is none. */
  #mirror(): PodObject | null {
    const { world } = this.#tools;
    const { namespace } = this.#manifest.metadata;
    const there = world.cluster.etcd.get(PODS, `${namespace}/${this.#name}`);
    if (there?.metadata.annotations?.[MIRROR] !== this.uid) return null;
    return new PodObject(world, { namespace, name: this.#name, uid: there.metadata.uid }, this.#podIp);
  }

  async #ensureMirror(): Promise<PodObject | null> {
    const before = this.#mirror();
    if (before !== null && before.now?.metadata.deletionTimestamp === undefined) return before;
    await before?.remove();
    const { world, node } = this.#tools;
    const { namespace, annotations = {}, labels = {} } = this.#manifest.metadata;
    const owner = world.cluster.etcd.get("/nodes", node);
    if (owner === null) return null;
    const mirror = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        namespace,
        name: this.#name,
        labels,
        annotations: { ...annotations, [MIRROR]: this.uid, "kubernetes.io/config.hash": this.uid },
        ownerReferences: [{ apiVersion: "v1", kind: "Node", name: node, uid: owner.metadata.uid, controller: true }],
      },
      spec: { ...this.#manifest.spec, nodeName: node },
    };
    try {
      await world.cluster.admin.create(`/api/v1/namespaces/${namespace}/pods`, mirror);
    } catch {
      // Another pod has the name, or the namespace is going: there is no mirror for now.
      return null;
    }
    world.counts.add("pod.mirror-made");
    return this.#mirror();
  }

  #number(what: string): number {
    const { world, node } = this.#tools;
    return world.faults.number(`static ${node} ${this.#name} ${this.#tries} ${what}`);
  }
}
