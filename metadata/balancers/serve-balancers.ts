import type { Log } from "../../platform/log.ts";
import { BALANCERS_SOCKET_DEFAULT } from "../../platform/settings/common.ts";
import { BalancerServer } from "./balancer-server.ts";
import { BalancerService, type BalancerServiceOptions } from "./balancer-service.ts";

export interface ServeOptions extends BalancerServiceOptions {
  readonly socket: string;
  readonly log: Log;
}

/**
 * Offers metadata-net the balancers that are wanted. Resolves with what ends it. Throws Error when a socket that was
 * asked for cannot be listened on; the default one may be missing, as on a node without OVN-Kubernetes.
 */
export async function serveBalancers(options: ServeOptions): Promise<() => Promise<void>> {
  const { socket, clock, log } = options;
  const server = new BalancerServer(new BalancerService(options), clock, log);
  try {
    await server.start(socket);
  } catch (error) {
    if (socket !== BALANCERS_SOCKET_DEFAULT) throw error;
    const problem = (error as Error).message;
    log.warn({ socket, problem }, "networks of OVN-Kubernetes get no balancers: their socket cannot be made");
  }
  return () => server.stop();
}
