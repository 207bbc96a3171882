import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { CniReply } from "../../../cni/route.ts";
import type { CniWireRequest } from "../../../cni-shim/wire.ts";
import { NodeCore } from "../../../daemon/node-core.ts";
import type { DaemonSettings } from "../../../daemon/settings.ts";
import { generationPathOf, IdentityGeneration } from "../../../identity/generation.ts";
import type { KillPoint } from "../../../platform/kill-point.ts";
import type { Log } from "../../../platform/log.ts";
import type { Cluster, RunningDaemon } from "../world.ts";
import { type MachineClock, ProcessClock } from "./clocks.ts";
import { daemonSettings } from "./settings.ts";

/** Lines of its log that are kept. */
const LOG_LINES_MAX = 200;
/** How long a daemon takes to be there, ms: Node, the bundle, SQLite. */
const START_MS = 300;

export interface DaemonSurroundings {
  readonly node: string;
  /** Of its link to the API server. */
  readonly link: string;
  readonly state: string;
  /** Beside which it keeps the generation of its answers. */
  readonly identitySocket: string;
  readonly bootId: string;
  readonly version: string;
  readonly clock: MachineClock;
  readonly cluster: Cluster;
  /** See MachineKind; absent: as in settings.ts. */
  readonly settings?: Partial<DaemonSettings>;
  readonly namespaceIdAt: (path: string) => string | null;
  /** It passes a point of its work; this may be the end of it. */
  readonly passed: (point: KillPoint) => void;
  /** It listens, from now on. */
  readonly listens: () => void;
  /** It ended by itself, or after `terminate`. */
  readonly ended: (problem: string | null) => void;
  readonly logged: (level: string, fields: object, message: string) => void;
}

/** One daemon, from its start until it is killed or ends. */
export class DaemonProcess implements RunningDaemon {
  readonly clock: ProcessClock;
  readonly log: string[] = [];
  readonly state: string;
  readonly #around: DaemonSurroundings;
  readonly #underWay = new Set<() => void>();
  #core: NodeCore | null = null;
  #generation: IdentityGeneration | null = null;
  #listens = false;
  #isEnding = false;

  constructor(around: DaemonSurroundings) {
    this.#around = around;
    this.state = around.state;
    this.clock = new ProcessClock(around.clock);
  }

  /** Throws while it is starting. */
  get core(): NodeCore {
    if (this.#core === null) throw new Error("the daemon is starting");
    return this.#core;
  }

  /** Whether it can be asked. */
  get isServing(): boolean {
    return this.#listens && !this.clock.isDead;
  }

  start(): void {
    this.clock.timer(START_MS, () => void this.#run());
  }

  /** null: the connection broke before there was an answer. */
  answer(wire: CniWireRequest, latencyMs: number): Promise<CniReply | null> {
    return new Promise((resolve) => {
      const broken = () => resolve(null);
      if (!this.isServing) {
        broken();
        return;
      }
      this.#underWay.add(broken);
      const arrived = (reply: CniReply) => {
        this.#underWay.delete(broken);
        resolve(reply);
      };
      this.clock.timer(latencyMs, () => {
        // It never rejects, and a killed one never answers.
        void this.core.cni.answer(wire).then((reply) => this.clock.timer(latencyMs, () => arrived(reply)));
      });
    });
  }

  /** SIGKILL. What it still does in this instant goes to its directory, which nobody reads. */
  kill(): void {
    if (this.clock.isDead) return;
    this.clock.kill();
    this.#around.cluster.cut(this.#around.link);
    this.#listens = false;
    for (const broken of this.#underWay) broken();
    this.#underWay.clear();
  }

  /** The rest of a killed one is cleared away. Not in the middle of its work. */
  bury(): void {
    this.#forgetGeneration();
    const gone = () => rmSync(this.state, { recursive: true, force: true });
    if (this.#core === null) gone();
    else this.#core.close().then(gone, gone);
  }

  /** Its file stays as it is. */
  #forgetGeneration(): void {
    if (this.#generation === null) return;
    const path = generationPathOf(this.#around.identitySocket);
    const kept = existsSync(path) ? readFileSync(path) : null;
    this.#generation.end();
    if (kept !== null) writeFileSync(path, kept);
    this.#generation = null;
  }

  /** SIGTERM. */
  async terminate(): Promise<void> {
    if (this.#isEnding || this.clock.isDead) return;
    this.#isEnding = true;
    this.#listens = false;
    const core = this.#core;
    if (core === null) {
      this.kill();
      this.#around.ended(null);
      return;
    }
    core.halt();
    await this.#answered();
    await core.end();
    if (this.clock.isDead) return;
    this.#generation?.end();
    this.#generation = null;
    await core.close();
    if (this.clock.isDead) return;
    this.kill();
    this.#around.ended(null);
  }

  async #run(): Promise<void> {
    const { node, link, cluster, version, settings } = this.#around;
    try {
      const core = await NodeCore.create(
        { ...daemonSettings(node, this.state), ...settings },
        {
          machine: {
            bootId: this.#around.bootId,
            kernelBootId: this.#around.bootId,
            bootTimeUs: () => this.#around.clock.bootUs(),
            namespaceIdAt: this.#around.namespaceIdAt,
            namespacesInUse: () => new Set(),
            killPoint: (point) => {
              if (!this.clock.isDead) this.#around.passed(point);
            },
          },
          log: this.#log(),
          clock: this.clock,
          version,
          connect: cluster.connect("holdfast-node", link, node),
        },
      );
      if (this.clock.isDead || this.#isEnding) return;
      this.#core = core;
      await core.open();
      if (this.clock.isDead || this.#isEnding) return;
      this.#generation = new IdentityGeneration(this.#around.identitySocket, null, this.clock);
      core.watchChanges(() => this.clock.isDead || this.#generation?.next());
      if (this.clock.isDead || this.#isEnding) return;
      this.#listens = true;
      this.#around.listens();
      await core.begin();
    } catch (error) {
      if (this.clock.isDead) return;
      this.kill();
      this.#around.ended((error as Error).message);
    }
  }

  /** What was asked before is answered first. */
  async #answered(): Promise<void> {
    while (this.#underWay.size > 0 && !this.clock.isDead)
      await new Promise<void>((resolve) => {
        this.clock.timer(10, resolve);
      });
  }

  #log(): Log {
    const line = (level: string) => (first: object | string, message?: string) => {
      if (this.clock.isDead) return;
      const [fields, text] = typeof first === "string" ? [{}, first] : [first, message ?? ""];
      if (this.log.length >= LOG_LINES_MAX) this.log.shift();
      this.log.push(`${level}: ${text}`);
      this.#around.logged(level, fields, text);
    };
    return { debug: () => {}, info: line("info"), warn: line("warn"), error: line("error") };
  }
}
