import type { RequestListener, Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createBoundedServer } from "../platform/listeners/bounded-server.ts";

/** A browser asks either of them, whichever answers first, for a name below `localhost`. */
const ADDRESSES = ["127.0.0.1", "::1"] as const;
/** A free port of the first address can be taken on the second one; so often in a row it is not. */
const ATTEMPTS_MAX = 10;
/** There is no such address, so nobody else listens on it either. */
const NO_ADDRESS: readonly string[] = ["EADDRNOTAVAIL", "EAFNOSUPPORT"];

/** One port of all loopback addresses: on one that is left out, another user of the machine could answer instead. */
export class Loopback {
  readonly port: number;
  readonly #servers: readonly Server[];

  private constructor(servers: readonly Server[]) {
    this.#servers = servers;
    this.port = portOf(servers[0] as Server);
  }

  /** `wanted` 0: any port that is free. Rejects with the error of the port. */
  static async listen(answer: RequestListener, wanted: number): Promise<Loopback> {
    for (let attempt = 1; ; attempt++) {
      const servers: Server[] = [];
      try {
        for (const address of ADDRESSES) {
          const port = servers[0] === undefined ? wanted : portOf(servers[0]);
          const server = await listening(createBoundedServer("page", answer), port, address);
          if (server !== null) servers.push(server);
        }
        return new Loopback(servers);
      } catch (error) {
        for (const server of servers) server.close();
        const isTaken = (error as NodeJS.ErrnoException).code === "EADDRINUSE";
        if (!isTaken || wanted !== 0 || attempt === ATTEMPTS_MAX) throw error;
      }
    }
  }

  close(): void {
    for (const server of this.#servers) {
      server.close();
      server.closeAllConnections();
    }
  }
}

/** null: the machine has no such address. */
function listening(server: Server, port: number, address: (typeof ADDRESSES)[number]): Promise<Server | null> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (address !== ADDRESSES[0] && NO_ADDRESS.includes(error.code ?? "")) resolve(null);
      else reject(error);
    });
    server.listen(port, address, () => resolve(server));
  });
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}
