import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import type { TestCluster } from "./cluster.ts";
import { ServerApi } from "./kube-api.ts";
import { freePorts, type KubeProcess } from "./kube-process.ts";
import { until } from "./wait.ts";

interface Backend {
  readonly port: number;
  readonly api: ServerApi;
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** Two API servers on one etcd, and a TCP balancer before them that leads every connection to one of them. */
export class BalancedServers {
  readonly #balancer: Server;
  readonly #another: KubeProcess;
  readonly #sockets = new Set<Socket>();
  /** The first one serves. */
  #backends: readonly [Backend, Backend];

  private constructor(cluster: TestCluster, port: number) {
    const first = Number(new URL(cluster.server).port);
    this.#another = cluster.anotherApiServer(port);
    const api = (at: number) => new ServerApi(`https://127.0.0.1:${at}`, cluster.ca, cluster.token("admin"));
    this.#backends = [
      {
        port: first,
        api: api(first),
        start: () => cluster.startApiServer(),
        stop: () => cluster.stopApiServer(),
      },
      {
        port,
        api: api(port),
        start: async () => this.#another.start(),
        stop: () => this.#another.end(),
      },
    ];
    this.#balancer = createServer((client) => this.#lead(client));
  }

  static async start(cluster: TestCluster): Promise<BalancedServers> {
    const [port] = (await freePorts(1)) as [number];
    const servers = new BalancedServers(cluster, port);
    await servers.#serve(servers.#backends[1]);
    servers.#balancer.listen(0, "127.0.0.1");
    await once(servers.#balancer, "listening");
    return servers;
  }

  get url(): string {
    return `https://127.0.0.1:${(this.#balancer.address() as AddressInfo).port}`;
  }

  /** Kills the server that serves: the other one takes over, and every connection is made again. */
  async takeOver(): Promise<void> {
    const [serving, other] = this.#backends;
    this.#backends = [other, serving];
    await serving.stop();
    this.cut();
  }

  /** Starts the one again that was killed; the other one goes on serving. Resolves when it is ready. */
  bringBack(): Promise<void> {
    return this.#serve(this.#backends[1]);
  }

  async stop(): Promise<void> {
    this.#balancer.close();
    this.cut();
    for (const { api } of this.#backends) api.close();
    await this.#another.end();
  }

  /** Ends every connection, as a balancer does that is configured again. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async #serve({ api, start }: Backend): Promise<void> {
    await start();
    const isReady = async () => (await api.call("GET", "/readyz").catch(() => null))?.status === 200;
    await until(isReady, "the API server");
  }

  #lead(client: Socket): void {
    const server = connect(this.#backends[0].port, "127.0.0.1");
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  }
}
