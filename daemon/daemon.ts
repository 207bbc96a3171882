import { readFileSync } from "node:fs";
import type { FastifyInstance } from "fastify";
import type { Logger } from "pino";
import { systemClock } from "../store/clock.ts";
import type { NodeContext } from "../store/node-context.ts";
import { SqliteStore } from "../store/sqlite/sqlite-store.ts";
import type { ApiContext } from "./api-routes.ts";
import type { CniContext } from "./cni-context.ts";
import { cniDel } from "./cni-del.ts";
import type { Settings } from "./config.ts";
import { ensureFolder } from "./folders.ts";
import { Metrics } from "./metrics.ts";
import { namespaceState, readBootId } from "./namespaces.ts";
import { buildServer } from "./server.ts";
import { listenOnSocket } from "./socket.ts";
import { Spool } from "./spool.ts";
import { WaitingRoom } from "./waiting-room.ts";
import { WarnOnce } from "./warn-once.ts";
import { Witness } from "./witness.ts";

/** Rests end and a full disk is tried again at this pace, ms. */
const HOUSEKEEPING_INTERVAL_MS = 5_000;
/** Longer than any whole request takes once nothing waits; a client that sent half of one would hold up the end for ever. */
const STOP_GRACE_MS = 3_000;

/** The parts of one running daemon, wired together. `start` before `stop`. */
export class Daemon {
  readonly #settings: Settings;
  readonly #log: Logger;
  readonly #store: SqliteStore;
  readonly #spool: Spool;
  readonly #waiting = new WaitingRoom();
  readonly #witness: Witness;
  readonly #server: FastifyInstance;
  readonly #timers: NodeJS.Timeout[] = [];
  #drained = false;
  #stopping = false;

  /** Throws when the state folder cannot be used. */
  constructor(settings: Settings, log: Logger, version: string) {
    this.#settings = settings;
    this.#log = log;
    const bootId = readBootId();
    ensureFolder(settings.state, "state");
    const node: NodeContext = {
      clock: systemClock,
      node: settings.node,
      bootId,
      namespaceGone: (netns) => namespaceState(netns) === "gone",
    };
    this.#store = new SqliteStore(settings.state, node, log);
    const notReady = () => this.#notReady();
    const cni: CniContext = {
      store: this.#store,
      waiting: this.#waiting,
      log,
      warnings: new WarnOnce(log),
      bootId,
      addDeadlineMs: settings.addDeadlineMs,
      notReady,
    };
    this.#spool = new Spool(settings.spool, log, (wire) => cniDel(cni, wire, "DEL from the spool"));
    this.#witness = new Witness(this.#store, systemClock, log, settings.witnessGraceSeconds);
    const spool = () => this.#spool.counts();
    const metrics = new Metrics({ store: this.#store, notReady, spool, waiting: () => this.#waiting.count });
    const api: ApiContext = {
      store: this.#store,
      waiting: this.#waiting,
      version,
      notReady,
      spool,
      rebuild: (backup) => this.#rebuild(backup),
    };
    this.#server = buildServer(cni, api, metrics);
  }

  /** Opens the state, serves the socket, then drains the spool; only after that is ADD served. */
  async start(): Promise<void> {
    await this.#store.open();
    try {
      await listenOnSocket(this.#server, this.#settings.socket);
    } catch (error) {
      this.#store.close();
      throw error;
    }
    this.#log.info(
      { socket: this.#settings.socket, state: this.#settings.state, node: this.#settings.node },
      "listening",
    );
    await this.#becomeReady();
    this.#spool.keepDraining();
    this.#every(this.#settings.witnessIntervalSeconds * 1_000, "witness", () => this.#witness.look());
    this.#every(HOUSEKEEPING_INTERVAL_MS, "housekeeping", () => this.#store.housekeeping(bootTimeUs()));
  }

  /** A rebuilt state knows nothing of the DELs that were spooled meanwhile: they come first again. */
  async #rebuild(backup: string | null): Promise<void> {
    if (this.#store.status.kind === "rebuild-required") this.#drained = false;
    await this.#store.rebuild(backup);
    await this.#becomeReady();
  }

  async #becomeReady(): Promise<void> {
    if (this.#store.status.kind !== "ready") return;
    try {
      await this.#spool.drain();
    } catch (error) {
      this.#log.error({ err: error as Error }, "the spool cannot be drained yet; ADD waits for it");
      return;
    }
    this.#drained = true;
    this.#log.info("ready");
  }

  /** What was asked before is answered first; what waits is sent away to ask again. */
  async stop(): Promise<void> {
    if (this.#stopping) return;
    this.#stopping = true;
    for (const timer of this.#timers) clearInterval(timer);
    this.#waiting.close();
    const hangUp = setTimeout(() => this.#server.server.closeAllConnections(), STOP_GRACE_MS);
    await this.#server.close();
    clearTimeout(hangUp);
    await this.#spool.stop();
    this.#store.close();
    this.#log.info("stopped");
  }

  #notReady(): string | null {
    if (this.#stopping) return "it is stopping";
    const { status } = this.#store;
    if (status.kind !== "ready") return "reason" in status ? status.reason : `its state is ${status.kind}`;
    if (!this.#drained) return "the spool is not drained yet";
    return null;
  }

  /** Runs work again and again, never twice at once; a failure is logged and the next turn comes. */
  #every(intervalMs: number, what: string, work: () => Promise<void>): void {
    let running = false;
    const timer = setInterval(() => {
      if (running || this.#stopping) return;
      running = true;
      const retryReady = this.#drained ? Promise.resolve() : this.#becomeReady();
      retryReady
        .then(work)
        .catch((error: Error) => this.#log.warn({ err: error }, `${what} did not finish; it comes again`))
        .finally(() => {
          running = false;
        });
    }, intervalMs);
    this.#timers.push(timer);
  }
}

/** Microseconds since boot, as the stamps count them: CLOCK_BOOTTIME, to a hundredth of a second. */
function bootTimeUs(): number {
  return Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 1_000_000;
}
