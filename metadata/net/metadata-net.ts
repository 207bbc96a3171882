import { rmSync } from "node:fs";
import { join } from "node:path";
import { HealthServer } from "../../platform/health-server.ts";
import type { Log } from "../../platform/log.ts";
import type { Clock } from "../../platform/time.ts";
import { Agent } from "./agent.ts";
import { Frontends } from "./haproxy/frontends.ts";
import { Haproxy } from "./haproxy/haproxy.ts";
import { Firewall } from "./kernel/firewall.ts";
import { FirewallWatch } from "./kernel/firewall-watch.ts";
import { type Names, namesOf } from "./kernel/names.ts";
import { PortMemory } from "./kernel/port-memory.ts";
import { Listeners, type Repair } from "./listeners.ts";
import { NetMetrics } from "./metrics.ts";
import { lockRunDir } from "./run-lock.ts";
import type { NetSettings } from "./settings.ts";

/** The parts of one running metadata-net, wired together. `start` before `stop`. */
export class MetadataNet {
  readonly #settings: NetSettings;
  readonly #log: Log;
  readonly #names: Names;
  readonly #haproxy: Haproxy;
  readonly #metrics: NetMetrics;
  readonly #firewall: Firewall;
  readonly #listeners: Listeners;
  readonly #agent: Agent;
  readonly #watch: FirewallWatch;
  readonly #health: HealthServer;
  readonly #unlock: () => void;
  /** What `start` has started; resolves when it has ended. */
  #running: Promise<void> = Promise.resolve();

  /** Throws Error when the run folder cannot be used, or another process uses it. */
  constructor(settings: NetSettings, log: Log, clock: Clock) {
    const { runDir, metadataSocket, rateLimit, haproxyUser: user, haproxyGroup: group } = settings;
    // Before anything reads what is in it.
    this.#unlock = lockRunDir(runDir);
    this.#settings = settings;
    this.#log = log;
    this.#names = namesOf(runDir);
    this.#haproxy = new Haproxy(settings.haproxy, runDir, clock);
    this.#metrics = new NetMetrics({
      states: () => this.#agent.states,
      connected: () => this.#agent.connected,
      lostPorts: () => this.#listeners.lostCount,
      statsSocket: join(runDir, "stats.sock"),
    });
    this.#firewall = new Firewall(this.#names.table);
    const frontends = new Frontends(
      this.#haproxy,
      { runDir, metadataSocket, rateLimit, runAs: { user, group } },
      (outcome) => this.#metrics.reloaded(outcome),
    );
    this.#listeners = new Listeners({
      names: this.#names,
      memory: new PortMemory(runDir),
      firewall: this.#firewall,
      frontends,
      log,
      repaired: (repair) => this.#repaired(repair),
    });
    this.#agent = new Agent({
      socket: settings.socket,
      listeners: this.#listeners,
      haproxy: this.#haproxy,
      log,
      clock,
    });
    this.#watch = new FirewallWatch(clock, () => void this.#rulesGone(), log);
    this.#health = new HealthServer({
      address: settings.metricsAddress,
      metrics: this.#metrics,
      notReady: () => this.#agent.notReady(),
      log,
      clock,
    });
  }

  /** Creates nothing before it listens, so that a signal until then leaves nothing to remove. */
  async start(): Promise<void> {
    try {
      await this.#health.start();
    } catch (error) {
      this.#unlock();
      throw error;
    }
    const adopted = this.#haproxy.adopt();
    if (adopted !== null) this.#log.info({ pid: adopted }, "haproxy of an earlier run goes on");
    this.#watch.start();
    const { runDir } = this.#settings;
    const { namespacePrefix: names, table } = this.#names;
    this.#log.info({ runDir, names, table, metrics: this.#health.address }, "started");
    this.#running = this.#agent.run();
  }

  /** Removes what was created. */
  async stop(): Promise<void> {
    try {
      this.#watch.stop();
      this.#agent.stop();
      await this.#running;
      await this.#haproxy.stop();
      await this.#listeners.carryOut({ version: "", networks: [] }, true);
      rmSync(join(this.#settings.runDir, "ports.json"), { force: true });
      await this.#health.close();
    } finally {
      this.#unlock();
    }
  }

  #repaired(repair: Repair): void {
    const named = repair.what === "link" ? `the link of network ${repair.network}` : "the table of rules";
    this.#log.warn(repair, `${named} had been changed by somebody else; it is as it was`);
    this.#metrics.repaired(repair.what);
  }

  async #rulesGone(): Promise<void> {
    const restored = await this.#firewall.restore();
    if (restored) this.#repaired({ what: "firewall" });
    if (restored || !(await this.#firewall.isThere())) this.#agent.checkSoon();
  }
}
