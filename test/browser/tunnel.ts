import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** What stands between a browser and `holdfast ui`, as ssh does: it can lose the connections that go through it. */
export class Tunnel {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isOpen = true;

  private constructor(to: number) {
    this.#server = createServer((near) => {
      if (!this.#isOpen) {
        near.destroy();
        return;
      }
      const far = connect(to, "127.0.0.1");
      for (const [one, other] of [
        [near, far],
        [far, near],
      ] as const) {
        this.#sockets.add(one);
        one.pipe(other);
        one.on("error", () => {});
        one.on("close", () => {
          this.#sockets.delete(one);
          other.destroy();
        });
      }
    });
  }

  /** `to`: a port of this machine. */
  static async start(to: number): Promise<Tunnel> {
    const tunnel = new Tunnel(to);
    tunnel.#server.listen(0, "127.0.0.1");
    await once(tunnel.#server, "listening");
    return tunnel;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Ends every connection, and each new one. */
  cut(): void {
    this.#isOpen = false;
    for (const one of this.#sockets) one.destroy();
  }

  open(): void {
    this.#isOpen = true;
  }

  async stop(): Promise<void> {
    this.cut();
    const closed = once(this.#server, "close");
    this.#server.close();
    await closed;
  }
}
