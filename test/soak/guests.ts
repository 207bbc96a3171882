import type { Random } from "../faults/random.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import type { KubeVirt, Vm } from "../harness/kubevirt.ts";
import { pause } from "../harness/wait.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import { NAMESPACE, type Network } from "../harness/world/network.ts";
import type { Gate } from "./gate.ts";
import type { Ledger } from "./ledger.ts";
import type { Attaching, Runtime, Sandbox } from "./runtime.ts";

/** What guests share. */
export interface GuestParts {
  readonly kubevirt: KubeVirt;
  readonly runtime: Runtime;
  readonly ledger: Ledger;
  readonly gate: Gate;
  /** Names of the nodes. */
  readonly nodes: readonly string[];
}

/** How long a guest lives undisturbed, ms. */
const LIFE_MS = { from: 4_000, to: 14_000 };
/** Longest life of a VM: starts, and migrations within one. */
const LIVES_MAX = 4;

abstract class SoakGuest {
  protected readonly name: string;
  protected readonly network: Network;
  protected readonly random: Random;
  protected readonly parts: GuestParts;

  constructor(name: string, network: Network, random: Random, parts: GuestParts) {
    this.name = name;
    this.network = network;
    this.random = random;
    this.parts = parts;
  }

  /** Lives until the run ends, and everything is given back then. */
  abstract run(): Promise<void>;

  protected get isEnding(): boolean {
    return this.parts.gate.isEnding;
  }

  protected anyNode(except = ""): string {
    return this.random.pick(this.parts.nodes.filter((node) => node !== except));
  }

  protected rest(): Promise<void> {
    return this.parts.gate.rest(LIFE_MS.from + this.random.below(LIFE_MS.to - LIFE_MS.from));
  }

  /** What a runtime does with what runs: repeats, CHECK, a new sandbox, whose ADD comes before the old one's DEL. */
  protected async disturb(sandbox: Sandbox, attaching: Attaching): Promise<Sandbox> {
    const { runtime, ledger } = this.parts;
    const dice = this.random.below(10);
    if (dice < 2) await runtime.repeat(sandbox);
    else if (dice < 3) await runtime.check(sandbox);
    else if (dice < 5) {
      const next = await runtime.attach(sandbox.pod, attaching);
      // A full network has no room for another owner, but for the same one it needs none.
      if (next === null)
        ledger.violate(`a new sandbox of ${sandbox.pod.metadata.name} was refused: the network is full`);
      else if (next.ips.join() !== sandbox.ips.join())
        ledger.violate(`a new sandbox of ${sandbox.pod.metadata.name} has ${next.ips}, the old one ${sandbox.ips}`);
      await runtime.remove(sandbox);
      return next ?? sandbox;
    }
    return sandbox;
  }
}

/** A VM: created, started, migrated, stopped, started elsewhere, deleted; then another one of its name. */
export class SoakVm extends SoakGuest {
  override async run(): Promise<void> {
    while (!this.isEnding) {
      const { name } = this.network;
      const vm = await this.parts.kubevirt.createVm(NAMESPACE, this.name, [
        { logical: name, nad: name, network: name },
      ]);
      for (let life = this.random.below(LIVES_MAX); life >= 0 && !this.isEnding; life -= 1) await this.#live(vm);
      await this.#delete(vm);
    }
  }

  /** From start to stop. */
  async #live(vm: Vm): Promise<void> {
    const { kubevirt, runtime } = this.parts;
    let { pod } = await kubevirt.startVm(vm, this.anyNode());
    const attaching = await this.#attaching(vm);
    let sandbox = await runtime.attach(pod, attaching);
    if (sandbox !== null) {
      await kubevirt.setPhase(pod, "Running");
      await this.rest();
      for (let more = this.random.below(3); more > 0 && !this.isEnding; more -= 1) {
        [pod, sandbox] = await this.#migrate(vm, pod, sandbox, attaching);
        if (!this.isEnding) sandbox = await this.disturb(sandbox, attaching);
        await this.rest();
      }
    }
    const last = sandbox;
    await kubevirt.stopVm(vm, { meanwhile: async () => last !== null && (await runtime.remove(last)) });
    await this.rest();
  }

  /** One in four fails half-way, and the source goes on. The pod that ends stays until the VM is stopped. */
  async #migrate(vm: Vm, source: KubeObject, running: Sandbox, attaching: Attaching): Promise<[KubeObject, Sandbox]> {
    const { kubevirt, runtime, ledger } = this.parts;
    const target = await kubevirt.migrate(vm, this.anyNode(source.spec.nodeName));
    const sandbox = await runtime.attach(target, attaching);
    if (sandbox === null) ledger.violate(`the target of ${vm.name}'s migration was refused: the network is full`);
    if (sandbox === null || this.random.chance(0.25)) {
      await kubevirt.failMigration(target);
      if (sandbox !== null) await runtime.remove(sandbox);
      return [source, running];
    }
    await kubevirt.setPhase(target, "Running");
    runtime.ending(running);
    await kubevirt.finishPod(source);
    await runtime.remove(running);
    return [target, sandbox];
  }

  async #attaching(vm: Vm): Promise<Attaching> {
    const { name } = this.network;
    const claim = await this.parts.kubevirt.claim(vm, name);
    return { network: this.network, ifname: interfaceOf(name), claim: claim.metadata.uid };
  }

  async #delete(vm: Vm): Promise<void> {
    const { kubevirt, ledger } = this.parts;
    const { name } = this.network;
    const claim = await kubevirt.claim(vm, name);
    if (claim !== null) ledger.released(claim.metadata.uid);
    await kubevirt.deleteVm(vm, "Background", { release: false });
    await kubevirt.releaseClaims(vm);
    // The garbage collector follows; after a restart of the API server it takes its time.
    while ((await kubevirt.claim(vm, name)) !== null) await pause(500);
  }
}

type Ending = "ordinary" | "by force" | "completed" | "DEL lost" | "DEL twice";
const ENDINGS: readonly Ending[] = ["ordinary", "ordinary", "by force", "completed", "DEL lost", "DEL twice"];

/** Plain pods, one after another, each with a name of its own or that of the one before. */
export class SoakPod extends SoakGuest {
  #made = 0;

  override async run(): Promise<void> {
    while (!this.isEnding) {
      await this.live();
      await this.rest();
    }
  }

  /** One pod, from its creation to its end. `isPatient`: how long it waits while the network is full. */
  protected async live(isPatient?: () => boolean): Promise<void> {
    const { kubevirt, runtime } = this.parts;
    this.#made += this.random.chance(0.5) ? 1 : 0;
    const networks = [{ name: this.network.name }];
    const options = { node: this.anyNode(), networks, phase: "Pending" } as const;
    const pod = await kubevirt.createPod(NAMESPACE, `${this.name}-${this.#made}`, options);
    const attaching = { network: this.network, ifname: "net1", claim: null };
    let sandbox = await runtime.attach(pod, attaching, isPatient);
    if (sandbox === null) return void (await kubevirt.removePod(pod));
    await kubevirt.setPhase(pod, "Running");
    await this.rest();
    if (!this.isEnding) {
      sandbox = await this.disturb(sandbox, attaching);
      await this.rest();
    }
    await this.#end(sandbox, this.random.pick(ENDINGS));
  }

  async #end(sandbox: Sandbox, ending: Ending): Promise<void> {
    const { kubevirt, runtime } = this.parts;
    const { pod } = sandbox;
    if (ending === "by force") await kubevirt.removePod(pod);
    runtime.ending(sandbox);
    if (ending === "completed") await kubevirt.finishPod(pod);
    if (ending === "ordinary") await kubevirt.terminatePod(pod);
    await pause(this.random.below(2_000));
    if (ending === "DEL lost") await runtime.vanish(sandbox);
    else await runtime.remove(sandbox, ending === "DEL twice" ? 2 : 1);
    if (ending === "ordinary") await kubevirt.endPod(pod);
    else await kubevirt.removePod(pod);
  }
}

/** Pods that come at once, once a wave, and find the network full, some of them. */
export class SoakCrowd extends SoakPod {
  readonly #waveMs: number;

  constructor(waveMs: number, ...[name, network, random, parts]: ConstructorParameters<typeof SoakPod>) {
    super(name, network, random, parts);
    this.#waveMs = waveMs;
  }

  override async run(): Promise<void> {
    while (!this.isEnding) {
      await this.parts.gate.rest(this.#waveMs - (performance.now() % this.#waveMs));
      if (this.isEnding) return;
      const startMs = performance.now();
      await this.live(() => performance.now() - startMs < this.#waveMs / 3);
    }
  }
}
