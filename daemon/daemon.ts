/*
 * daemon/: `holdfast daemon`, one on each node: what is made, in which order, and how it ends
 *
 *   main, settings      the process
 *   daemon              a node with its sockets; server: what is served at the main one
 *   node-core           the parts of a node, put together
 *   cluster-node        the parts that need the Kubernetes API
 *   import-waits        nothing is given of a network before a controller has imported it
 *   private-directory      the rights of the state directory and the spool
 *   spool, witness      DELs and ends that nobody told, found out
 *   metrics, network-series
 */

import { dirname, join } from "node:path";
import type { FastifyInstance } from "fastify";
import { IdentityServer } from "../identity/server.ts";
import type { Connect } from "../kube/kube-api.ts";
import { bootFileOf, publishBootId } from "../platform/boot-id.ts";
import { HealthServer } from "../platform/health-server.ts";
import type { Log } from "../platform/log.ts";
import { thisMachine } from "../platform/machine.ts";
import { listenOnSocket, removeStale } from "../platform/socket.ts";
import type { Clock } from "../platform/time.ts";
import { NodeCore } from "./node-core.ts";
import { buildReadOnlyServer, buildServer } from "./server.ts";
import type { DaemonSettings } from "./settings.ts";

/** Beside the main socket. */
const READ_ONLY_SOCKET = "readonly.sock";

/** ms: longer than any whole request takes by then; a client that sent half of one would hold up the end for ever. */
const STOP_GRACE_MS = 3_000;

/** A node on this machine, and its sockets. `start` before `stop`. */
export class Daemon {
  readonly #settings: DaemonSettings;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #core: NodeCore;
  readonly #bootId: string;
  readonly #server: FastifyInstance;
  /** null: nobody but the daemon's own user may look. */
  readonly #readOnlyServer: FastifyInstance | null;
  readonly #identityServer: IdentityServer;
  readonly #health: HealthServer;
  #stopping = false;

  /** `connect`: default: over HTTP. Throws when the state directory or the kubeconfig cannot be used. */
  static async create(
    settings: DaemonSettings,
    log: Log,
    clock: Clock,
    version: string,
    connect?: Connect,
  ): Promise<Daemon> {
    const machine = thisMachine(settings);
    const core = await NodeCore.create(settings, { machine, log, clock, version, connect });
    return new Daemon(settings, log, clock, { core, bootId: machine.bootId });
  }

  private constructor(
    settings: DaemonSettings,
    log: Log,
    clock: Clock,
    { core, bootId }: { readonly core: NodeCore; readonly bootId: string },
  ) {
    this.#bootId = bootId;
    this.#settings = settings;
    this.#log = log;
    this.#clock = clock;
    this.#core = core;
    const notReady = () => core.notReady();
    this.#identityServer = new IdentityServer({
      service: core.identity,
      content: core.content,
      clock,
      log,
      notReady,
      watchChanges: (changed) => core.watchChanges(changed),
    });
    core.metrics.addProcess();
    this.#server = buildServer(core, log, clock);
    this.#readOnlyServer = settings.readGroup === null ? null : buildReadOnlyServer(core, log, clock);
    const address = settings.metricsAddress;
    this.#health = new HealthServer({
      address,
      metrics: core.metrics,
      notReady: () => core.whyNothingNew(),
      log,
      clock,
      keepsTrying: true,
    });
    core.moreFindings = () => this.#health.findings();
  }

  /** Opens the state, serves the sockets, then drains the spool; only after that is ADD served. */
  async start(): Promise<void> {
    await this.#core.open();
    try {
      const { socket, identitySocket, identityGroup, readGroup } = this.#settings;
      await removeStale(socket, "--socket");
      publishBootId(bootFileOf(socket), this.#bootId);
      if (identitySocket !== null) await this.#identityServer.listen(identitySocket, identityGroup);
      if (this.#readOnlyServer !== null) {
        const path = join(dirname(socket), READ_ONLY_SOCKET);
        await listenOnSocket(this.#readOnlyServer, path, { flag: "--read-group", gid: readGroup });
      }
      await listenOnSocket(this.#server, socket);
    } catch (error) {
      await Promise.all([this.#server.close(), this.#readOnlyServer?.close(), this.#identityServer.close()]);
      this.#identityServer.end();
      await this.#core.close();
      throw error;
    }
    this.#log.info(
      { socket: this.#settings.socket, state: this.#settings.state, node: this.#settings.node },
      "listening",
    );
    await this.#health.start();
    await this.#core.begin();
  }

  /** What was asked before is answered first; what waits is left to the next daemon, and what takes too long. */
  async stop(): Promise<void> {
    if (this.#stopping) return;
    this.#stopping = true;
    this.#core.halt();
    const servers = [this.#server, this.#readOnlyServer].filter((one) => one !== null);
    const hangUp = this.#clock.timer(STOP_GRACE_MS, () => {
      for (const { server } of servers) server.closeAllConnections();
    });
    await Promise.all([...servers, this.#identityServer, this.#health].map((server) => server.close()));
    hangUp.cancel();
    await this.#core.end();
    // Before the state is free for a successor, whose file it would be by then.
    this.#identityServer.end();
    await this.#core.close();
  }
}
