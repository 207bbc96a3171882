import { rmSync } from "node:fs";
import { join } from "node:path";
import type { CniWireRequest } from "../../../cni-shim/wire.ts";
import type { DaemonSettings } from "../../../daemon/settings.ts";
import type { KillPoint } from "../../../platform/kill-point.ts";
import type { KubeObject } from "../../harness/kube-fake/objects.ts";
import { Chance, numberOf } from "../engine/chance.ts";
import type { Interface, Machine, RunningDaemon, World } from "../world.ts";
import { MachineClock, ProcessClock } from "./clocks.ts";
import { DaemonProcess } from "./daemon-process.ts";
import { forgetDatabase, isSyncing, makeRoom } from "./databases.ts";
import { Disk } from "./disk.ts";
import { Kubelet } from "./kubelet.ts";
import type { OtherPlugins } from "./other-plugins.ts";
import { type FormerSandbox, Runtime } from "./runtime.ts";
import { ManifestDirectory } from "./static-pod.ts";

/** After a daemon has ended, systemd starts another one, ms. */
const RESTART_MS = 1_000;

/** What distinguishes the machines of one world from those of another. */
export interface MachineKind {
  /** In which their daemons' settings differ from those of settings.ts. */
  readonly settings: Partial<DaemonSettings>;
  /** Between the slowest clock and the fastest one. */
  readonly rateSpread: number;
}

/** What all machines have in common. */
export interface SharedParts {
  /** A directory of the real machine. */
  readonly root: string;
  /** See RuntimeParts. */
  readonly claimsInUse: Map<string, number>;
  readonly others: OtherPlugins;
  readonly kind: MachineKind;
  /** Pods that are bound to a node. */
  podsOf(node: string): readonly KubeObject[];
}

const NONE: ReadonlyMap<Interface, readonly string[]> = new Map();

/** See Machine. */
export class SimMachine implements Machine {
  readonly name: string;
  readonly disk: Disk;
  readonly #world: World;
  readonly #index: number;
  readonly #shared: SharedParts;
  /** See Machine. */
  readonly staticPods = new ManifestDirectory();
  readonly #podCounts = new Map<string, number>();
  readonly #waiting = new Set<() => void>();
  #boots = 0;
  #daemons = 0;
  #clock!: MachineClock;
  /** Of the processes of this boot. */
  #life!: ProcessClock;
  #runtime!: Runtime;
  #kubelet!: Kubelet;
  #daemon: DaemonProcess | null = null;
  #formerSandboxes: FormerSandbox[] = [];
  #killAt: { readonly point: KillPoint; passes: number } | null = null;
  #isUp = false;
  #isBootUntold = false;
  /** As if somebody had disabled the unit. */
  #isDaemonOff = false;
  /** Of the product. */
  version = "1.0.0";

  constructor(world: World, name: string, index: number, shared: SharedParts) {
    this.#world = world;
    this.name = name;
    this.#index = index;
    this.disk = new Disk(join(shared.root, name));
    this.#shared = shared;
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  get daemon(): RunningDaemon | null {
    return this.#isUp && this.#daemon?.isServing ? this.#daemon : null;
  }

  get interfaces(): ReadonlyMap<Interface, readonly string[]> {
    return this.#runtime?.interfaces ?? NONE;
  }

  /** What other plugins gave, in the whole cluster. */
  get others(): OtherPlugins {
    return this.#shared.others;
  }

  /** Whether it sleeps, or its daemon is stopped: who does, notices nothing. */
  get isSuspended(): boolean {
    return this.#clock?.isSuspended || this.#daemon?.clock.isStopped === true;
  }

  get backupDirectory(): string {
    return this.disk.backupDirectory;
  }

  /** See Machine. */
  get identitySocket(): string {
    return join(this.disk.run, "identity.sock");
  }

  get kubelet(): Kubelet {
    return this.#kubelet;
  }

  get runtime(): Runtime {
    return this.#runtime;
  }

  get clock(): MachineClock {
    return this.#clock;
  }

  boot(): void {
    if (this.#isUp) this.losePower();
    this.#boots += 1;
    const { seed, time } = this.#world;
    const rate = 1 + this.#shared.kind.rateSpread * (numberOf(seed, `${this.name} rate`) - 0.5);
    const offMs = 4 * 3_600_000 * (numberOf(seed, `${this.name} wall`) - 0.5);
    this.#clock = new MachineClock(time.clock({ rate, wallMs: this.#world.clock.wallMs() + offMs }));
    this.#life = new ProcessClock(this.#clock);
    this.#isUp = true;
    this.#tell("boots");
    const namespaces = new Map<string, string>();
    this.#namespaces = namespaces;
    const plugin = {
      clock: this.#life,
      bootId: () => (this.#isBootUntold ? "" : this.bootId),
      disk: this.disk,
      bootUs: () => this.#clock.bootUs(),
      namespaceIdAt: (path: string) => namespaces.get(path) ?? "",
      daemon: () => (this.#daemon?.isServing ? this.#daemon : null),
      whenListening: (then: () => void) => this.#whenListening(then),
      spooled: (wire: CniWireRequest) => this.#spooled(wire),
    };
    const { claimsInUse, others } = this.#shared;
    this.#runtime = new Runtime(
      { node: this.name, world: this.#world, plugin, claimsInUse, others, clock: this.#life },
      namespaces,
    );
    this.disk.emptyRun();
    this.startKubelet();
    this.#startDaemon();
  }

  losePower(): void {
    if (!this.#isUp) return;
    this.#isUp = false;
    this.#tell("loses its power");
    this.#world.counts.add("node.power-lost");
    this.#life.kill();
    this.#kubelet.kill();
    this.#waiting.clear();
    const chance = this.#chance("power");
    const daemon = this.#daemon;
    this.#daemon = null;
    const before = this.disk.loseUnsynced(chance);
    if (daemon === null) rmSync(before, { recursive: true, force: true });
    else {
      daemon.kill();
      this.#buryLater(daemon);
    }
    this.#formerSandboxes = [...this.#formerSandboxes, ...this.#runtime.sandboxes.values()];
    for (const sandbox of this.#runtime.sandboxes.values()) this.#runtime.vanish(sandbox);
  }

  killDaemon(): void {
    const daemon = this.#daemon;
    if (daemon === null || daemon.clock.isDead) return;
    this.#tell("its daemon is killed");
    this.disk.fork();
    daemon.kill();
    this.#daemon = null;
    this.#buryLater(daemon);
    this.#restartLater(RESTART_MS);
  }

  restartDaemon(): void {
    if (this.#daemon === null) return;
    this.#tell("its daemon is restarted");
    void this.#daemon.terminate();
  }

  /** SIGSTOP, and SIGCONT after a while. A daemon that is killed meanwhile has not been continued. */
  stopDaemon(ms: number): void {
    const daemon = this.#daemon;
    if (daemon === null || daemon.clock.isStopped) return;
    this.#tell(`its daemon is stopped for ${Math.round(ms)} ms`);
    daemon.clock.stop();
    this.#world.clock.timer(ms, () => daemon.clock.continue());
  }

  /** The machine sleeps for a while, and its daemon, kubelet and plugin binaries with it. */
  suspend(ms: number): void {
    if (!this.#isUp || this.#clock.isSuspended) return;
    const clock = this.#clock;
    this.#tell(`is suspended for ${Math.round(ms)} ms`);
    clock.suspend();
    this.#world.clock.timer(ms, () => clock.resume());
  }

  /** No daemon until `startDaemon`, as while its package is replaced. */
  async turnDaemonOff(): Promise<void> {
    this.#isDaemonOff = true;
    await this.#daemon?.terminate();
  }

  startDaemon(): void {
    this.#isDaemonOff = false;
    this.#startDaemon();
  }

  /** Nobody uses the disk. */
  get isDiskIdle(): boolean {
    return this.#daemon === null;
  }

  /** The plugin binary cannot read for a while which boot this is, neither beside the socket nor from the kernel. */
  hideBoot(ms: number): void {
    this.#isBootUntold = true;
    this.#world.clock.timer(ms, () => {
      this.#isBootUntold = false;
    });
  }

  /** It is killed when it passes the point for the n-th time from now. */
  killAt(point: KillPoint, passes: number): void {
    this.#killAt = { point, passes };
  }

  startKubelet(): void {
    this.#kubelet?.kill();
    const { seed } = this.#world;
    this.#kubelet = new Kubelet({
      node: this.name,
      world: this.#world,
      machineClock: this.#clock,
      runtime: this.#runtime,
      bootNumber: this.#boots,
      bootId: this.bootId,
      manifests: this.staticPods,
      podIp: (number) => `10.${200 + this.#index}.${Math.floor(number / 250) % 250}.${(number % 250) + 2}`,
      countOf: (name) => {
        const count = (this.#podCounts.get(name) ?? 0) + 1;
        this.#podCounts.set(name, count);
        return count;
      },
    });
    this.#kubelet.start(this.#shared.podsOf(this.name));
    const former = this.#formerSandboxes;
    this.#formerSandboxes = [];
    this.#kubelet.endFormer(former.filter((one) => numberOf(seed, `${one.key} remembered`) < 0.7));
  }

  heal(): void {
    this.#killAt = null;
    this.#isBootUntold = false;
    this.#isDaemonOff = false;
    if (!this.#isUp) this.boot();
    this.#clock.resume();
    this.#daemon?.clock.continue();
    makeRoom(this.disk.state);
    // A page that nobody reads is only found at a start, which is what `holdfast check` asks for.
    if (this.disk.isDamaged) this.killDaemon();
    if (this.#daemon === null) this.#startDaemon();
  }

  get bootId(): string {
    const digits = (what: string, count: number) =>
      Math.floor(numberOf(this.#world.seed, `${this.name} boot ${this.#boots} ${what}`) * 16 ** count)
        .toString(16)
        .padStart(count, "0");
    return `${digits("a", 8)}-${digits("b", 4)}-4${digits("c", 3)}-8${digits("d", 3)}-${digits("e", 12)}`;
  }

  #namespaces = new Map<string, string>();

  #startDaemon(): void {
    if (!this.#isUp || this.#isDaemonOff || this.#daemon !== null) return;
    this.#daemons += 1;
    const daemon: DaemonProcess = new DaemonProcess({
      node: this.name,
      link: `${this.name}/${this.#daemons}`,
      state: this.disk.state,
      identitySocket: this.identitySocket,
      bootId: this.bootId,
      version: this.version,
      clock: this.#clock,
      cluster: this.#world.cluster,
      settings: this.#shared.kind.settings,
      namespaceIdAt: (path) => this.#namespaces.get(path) ?? "",
      passed: (point) => this.#passed(point),
      listens: () => this.#listens(),
      ended: (problem) => this.#ended(daemon, problem),
      logged: (level, _fields, message) => {
        if (level !== "info") this.#world.story.tell(`daemon ${this.name}`, this.#withoutDirectory(message));
      },
    });
    this.#daemon = daemon;
    daemon.start();
  }

  #listens(): void {
    if (this.disk.isDamaged) this.#world.oracle.journalLost(this.name);
    this.disk.noteOpened();
    this.#tell("its daemon listens");
    for (const then of [...this.#waiting]) then();
    this.#waiting.clear();
  }

  #ended(daemon: DaemonProcess, problem: string | null): void {
    if (this.#daemon !== daemon) return;
    this.#tell(problem === null ? "its daemon has ended" : `its daemon fails: ${this.#withoutDirectory(problem)}`);
    this.#daemon = null;
    this.#restartLater(problem === null ? 50 : RESTART_MS);
  }

  #restartLater(ms: number): void {
    this.#life.timer(ms, () => this.#startDaemon());
  }

  #passed(point: KillPoint): void {
    if (point === "after-commit" && isSyncing(this.disk.state)) this.disk.noteSynced();
    const armed = this.#killAt;
    if (armed === null || armed.point !== point) return;
    armed.passes -= 1;
    if (armed.passes > 0) return;
    this.#killAt = null;
    this.#world.counts.add(`crash.${point}`);
    this.#tell(`its daemon is about to pass ${point}`);
    this.killDaemon();
  }

  /** Not in the middle of what it does. */
  #buryLater(daemon: DaemonProcess): void {
    this.#world.clock.timer(0, () => {
      daemon.bury();
      forgetDatabase(daemon.state);
    });
  }

  #whenListening(then: () => void): () => void {
    this.#waiting.add(then);
    return () => this.#waiting.delete(then);
  }

  #spooled(wire: CniWireRequest): void {
    this.#world.counts.add("cni.del.spooled");
    this.#tell(`a DEL of ${wire.ifname} goes to the spool`);
  }

  #chance(what: string): Chance {
    return new Chance(`${this.#world.seed} ${this.name} ${this.#boots} ${what}`);
  }

  #withoutDirectory(message: string): string {
    return message.replaceAll(this.disk.root, "");
  }

  #tell(what: string): void {
    this.#world.story.tell(this.name, what);
  }
}
