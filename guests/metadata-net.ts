import { hostname } from "node:os";
import { dirname, join } from "node:path";
import { findGid, HAPROXY_ACCOUNT, HAPROXY_ACCOUNT_SHARED, isUser } from "../platform/groups.ts";
import { HealthServer } from "../platform/health-server.ts";
import type { Log } from "../platform/log.ts";
import type { Clock } from "../platform/time.ts";
import { Agent } from "./agent.ts";
import { Datapath } from "./datapath.ts";
import { BridgeDriver } from "./drivers/bridge/bridge-driver.ts";
import type { DatapathDriver } from "./drivers/driver.ts";
import { IngressDriver } from "./drivers/ingress/ingress-driver.ts";
import { OpenflowDriver } from "./drivers/openflow/openflow-driver.ts";
import { GuardMemory } from "./guard-memory.ts";
import { Frontend } from "./haproxy/frontend.ts";
import { Haproxy } from "./haproxy/haproxy.ts";
import { mapFile, servicesFile } from "./haproxy/haproxy-text.ts";
import { PortMap } from "./haproxy/port-map.ts";
import { type Names, namesOf } from "./kernel/names.ts";
import { hasIpv6, Listener } from "./listener/listener.ts";
import { NetMetrics } from "./metrics.ts";
import { NodeGuard } from "./node-guard.ts";
import { Balancers } from "./ovn/balancers.ts";
import { OvnPods } from "./ovn-pods.ts";
import { OvsPorts } from "./ovs/ovs-ports.ts";
import { PortMemory } from "./port-memory.ts";
import { lockRunDir } from "./run-lock.ts";
import { Ports } from "./served-ports.ts";
import { type OpenPorts, ServicePorts } from "./services/service-ports.ts";
import { RELAY_SOCKET, serviceKey } from "./services/services-wire.ts";
import type { NetSettings } from "./settings.ts";

/** What is repaired, other than by drivers. */
const WHAT: Readonly<Record<string, string>> = {
  listener: "the listener",
  balancer: "the balancer of a network",
  guard: "the routing rules that keep guests from the node's own 169.254.169.254",
};

/** The parts of one running metadata-net, wired together. `start` before `stop`. */
export class MetadataNet {
  readonly #settings: NetSettings;
  readonly #log: Log;
  readonly #names: Names;
  readonly #haproxy: Haproxy;
  readonly #metrics: NetMetrics;
  /** null: it is not to be looked for. */
  readonly #ovs: OvsPorts | null;
  readonly #pods: OvnPods;
  readonly #drivers: readonly DatapathDriver[];
  readonly #guard: NodeGuard;
  readonly #ports: Ports;
  readonly #agent: Agent;
  readonly #health: HealthServer;
  /** null: no northbound database is to be written to. */
  readonly #balancers: Balancers | null;
  readonly #services: ServicePorts;
  readonly #unlock: () => void;
  /** What `start` has started; resolves when it has ended. */
  #running: Promise<void> = Promise.resolve();

  /** Throws Error when the run directory cannot be used, or another process uses it. */
  constructor(settings: NetSettings, log: Log, clock: Clock) {
    const { runDir } = settings;
    // Before anything reads what is in it.
    this.#unlock = lockRunDir(runDir);
    this.#settings = settings;
    this.#log = log;
    this.#names = namesOf(runDir);
    this.#haproxy = new Haproxy(settings.haproxy, runDir, clock);
    const statsSocket = join(runDir, "stats.sock");
    this.#metrics = new NetMetrics({
      served: () => this.#ports.servedByDriver,
      failed: () => this.#ports.failed,
      connected: () => this.#agent.connected,
      balancers: () => this.#balancers?.counts ?? null,
      statsSocket,
    });
    const memory = new PortMemory(runDir, clock);
    const listener = new Listener({
      portsLost: () => this.#services.lost(),
      names: this.#names,
      secretMac: memory.secretMac,
      blocksOf: (door) => memory.blocksOf(door),
      repaired: (difference) => this.#repaired("listener", { difference }),
    });
    const socket = settings.ovsdbSocket;
    this.#ovs = socket === "off" ? null : new OvsPorts({ socket, clock, log });
    const { tag, table } = this.#names;
    this.#drivers = [
      // First: links at the userspace datapath look like any other.
      ...(this.#ovs === null ? [] : [new OpenflowDriver({ tag, doors: listener, ovs: this.#ovs, clock })]),
      ...(settings.driver === "bridge" ? [] : [new IngressDriver({ table, doors: listener, clock })]),
      // Last: where the kernel has no better.
      new BridgeDriver({ table: `${table}_ports`, doors: listener, clock }),
    ];
    this.#pods = new OvnPods({ ovs: this.#ovs, memory, clock, log });
    this.#guard = new NodeGuard({
      memory: new GuardMemory({ runDir, state: settings.state, tag }, log),
      ovsBridgeOf: async (link) => {
        await this.#ovs?.ready();
        return this.#ovs?.ports().get(link)?.bridge ?? null;
      },
      log,
      clock,
      repaired: () => this.#repaired("guard", {}),
    });
    const frontend = this.#frontend(statsSocket);
    this.#services = new ServicePorts({
      socket: settings.balancersSocket,
      open: (ports) => openPorts(ports, frontend, listener),
      log,
      clock,
    });
    this.#ports = new Ports({
      memory,
      pods: this.#pods,
      listener,
      frontend,
      datapath: new Datapath({
        drivers: this.#drivers,
        guard: this.#guard,
        log,
        repaired: (driver) => this.#repaired(driver, {}),
      }),
      log,
      clock,
      networks: (names) => this.#services.serve(names),
      changed: () => this.#agent.reportSoon(),
    });
    this.#agent = new Agent({
      socket: settings.socket,
      ports: this.#ports,
      haproxy: this.#haproxy,
      log,
      clock,
    });
    const { ovnNorthbound: northbound = null, balancersSocket, node = hostname() } = settings;
    const repaired = (network: string) => this.#repaired("balancer", { network });
    this.#balancers =
      northbound === "off" ? null : new Balancers({ northbound, node, socket: balancersSocket, log, clock, repaired });
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
    this.#ovs?.start();
    // Before the daemon is asked.
    await this.#ports.look();
    this.#guard.watch(() => void this.#ports.look());
    for (const driver of this.#drivers) {
      driver.watch(() => {
        void this.#ports.restore(driver);
        this.#agent.checkSoon();
      });
    }
    this.#pods.watch(() => this.#agent.takeSoon());
    const { runDir } = this.#settings;
    const { namespace, table } = this.#names;
    this.#log.info({ runDir, namespace, table, metrics: this.#health.address }, "started");
    this.#balancers?.start();
    this.#services.start();
    this.#running = this.#agent.run();
  }

  /** Ends the listener. What guards guests stays, and what is known of ports: KubeVirt lets nobody find it again. */
  async stop(): Promise<void> {
    try {
      for (const driver of this.#drivers) driver.close();
      this.#guard.close();
      this.#pods.close();
      this.#agent.stop();
      await Promise.all([this.#balancers?.stop(), this.#services.stop()]);
      await this.#running;
      await this.#ports.end("shut");
      this.#ovs?.close();
      await this.#health.close();
    } finally {
      this.#unlock();
    }
  }

  /** Instead of `start`: takes away all that a stop leaves, but for what is known of the ports. */
  async remove(): Promise<void> {
    try {
      this.#haproxy.adopt();
      this.#ovs?.start();
      await this.#ports.end("remove");
    } finally {
      this.#ovs?.close();
      this.#unlock();
    }
  }

  /** Instead of `start`: closes the bridges that were closed before a reboot. Nothing else is there yet. */
  async close(): Promise<void> {
    try {
      await this.#guard.restore();
    } finally {
      this.#unlock();
    }
  }

  #frontend(statsSocket: string): Frontend {
    const { runDir, metadataSocket, balancersSocket, rateLimit } = this.#settings;
    return new Frontend({
      haproxy: this.#haproxy,
      map: new PortMap(mapFile(runDir), statsSocket),
      services: new PortMap(servicesFile(runDir), statsSocket),
      plan: {
        namespace: this.#names.namespace,
        ipv6: hasIpv6(),
        runDir,
        metadataSocket,
        relaySocket: join(dirname(balancersSocket), RELAY_SOCKET),
        rateLimit,
        runAs: haproxyAccount(this.#settings, this.#log),
      },
      reloaded: (outcome) => this.#metrics.reloaded(outcome),
    });
  }

  #repaired(what: string, details: Readonly<Record<string, string>>): void {
    const named = WHAT[what] ?? `what the driver ${what} had made`;
    this.#log.warn({ what, ...details }, `${named} had been changed by somebody else; it is as it was`);
    this.#metrics.repaired(what);
  }
}

/** A port that comes is known to haproxy before it leads there; of one that goes haproxy refuses what still comes. */
async function openPorts(ports: OpenPorts, frontend: Frontend, listener: Listener): Promise<boolean> {
  const all = [...new Set([...ports.values()].flat())].sort((a, b) => a - b);
  const entries = [...ports].flatMap(([network, own]) =>
    own.map((port) => [`${network}|${port}`, serviceKey(network, port)] as const),
  );
  return (await frontend.offer(new Map(entries))) && listener.openPorts(all);
}

/** Its own, where there is one: an operator should know that somebody else's haproxy can speak for guests. */
function haproxyAccount(settings: NetSettings, log: Log): { readonly user: string; readonly group: string } {
  const hasOwnUser = isUser(HAPROXY_ACCOUNT);
  if (settings.haproxyUser === undefined && !hasOwnUser)
    log.warn(
      { user: HAPROXY_ACCOUNT_SHARED },
      `haproxy runs as a user that others may have too, who could ask as any guest: make install adds the user ${HAPROXY_ACCOUNT}`,
    );
  const hasOwnGroup = findGid(HAPROXY_ACCOUNT) !== null;
  return {
    user: settings.haproxyUser ?? (hasOwnUser ? HAPROXY_ACCOUNT : HAPROXY_ACCOUNT_SHARED),
    group: settings.haproxyGroup ?? (hasOwnGroup ? HAPROXY_ACCOUNT : HAPROXY_ACCOUNT_SHARED),
  };
}
