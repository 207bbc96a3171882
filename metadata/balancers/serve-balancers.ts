import type { Server } from "node:net";
import { dirname, join } from "node:path";
import { RELAY_SOCKET } from "../../guests/services/services-wire.ts";
import type { Log } from "../../platform/log.ts";
import { BALANCERS_SOCKET_DEFAULT } from "../../platform/settings/common.ts";
import { ServiceRelay } from "../relay/service-relay.ts";
import type { KubeServiceBackends } from "../tenant/services.ts";
import { BalancerServer } from "./balancer-server.ts";
import { BalancerService, type BalancerServiceOptions } from "./balancer-service.ts";

export interface ServeOptions extends BalancerServiceOptions {
  readonly source: Pick<KubeServiceBackends, "watch" | "backendsOnNetwork" | "portsOf" | "tellUnopened">;
  readonly socket: string;
  /** Listens where haproxy, which leads guests' connections to the relay, may connect. */
  readonly listenForHaproxy: (server: Server, path: string) => Promise<unknown>;
  readonly log: Log;
}

/**
 * Offers metadata-net the balancers and ports that are wanted, and takes the connections to these ports. Resolves with
 * what ends it. Throws Error when a socket that was asked for cannot be listened on; the default one may be missing,
 * where its directory is not this process' to write.
 */
export async function serveBalancers(options: ServeOptions): Promise<() => Promise<void>> {
  const { socket, clock, log, listenForHaproxy } = options;
  const relay = new ServiceRelay(options);
  const server = new BalancerServer({ service: new BalancerService(options), relay }, clock, log);
  try {
    await listenForHaproxy(relay.server, join(dirname(socket), RELAY_SOCKET));
    relay.start();
    await server.start(socket);
  } catch (error) {
    if (socket !== BALANCERS_SOCKET_DEFAULT) throw error;
    const problem = (error as Error).message;
    log.warn(
      { socket, problem },
      "networks get no balancers and no ports of their Services but the one for metadata: their socket cannot be made",
    );
  }
  return async () => {
    await server.stop();
    await relay.stop();
  };
}
