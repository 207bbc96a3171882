import { ApiProxy } from "../harness/api-proxy.ts";
import type { TestCluster } from "../harness/cluster.ts";
import { freePorts } from "../harness/kube-process.ts";
import { ProductProcess } from "../harness/product-process.ts";
import { pause } from "../harness/wait.ts";

/** A real controller behind a proxy of its own. */
export class SoakController {
  readonly name: string;
  readonly isMortal: boolean;
  readonly proxy: ApiProxy;
  restarts = 0;
  #earlierLog = "";
  readonly #port: number;
  readonly #args: readonly string[];
  #process: ProductProcess;

  private constructor(
    name: string,
    isMortal: boolean,
    { proxy, port, kubeconfig }: { proxy: ApiProxy; port: number; kubeconfig: string },
  ) {
    this.name = name;
    this.isMortal = isMortal;
    this.proxy = proxy;
    this.#port = port;
    this.#args = [
      ...["controller", "--kubeconfig", kubeconfig, "--identity", name],
      ...["--metrics-address", `127.0.0.1:${port}`, "--log-level", "warn"],
      ...["--sweep-grace-seconds", "3", "--cooling-keep-seconds", "10"],
    ];
    this.#process = new ProductProcess(this.#args);
  }

  static async start(cluster: TestCluster, name: string, isMortal: boolean): Promise<SoakController> {
    const proxy = await ApiProxy.start(cluster);
    const [port] = (await freePorts(1)) as [number];
    const kubeconfig = cluster.kubeconfig("holdfast-controller", proxy.url, proxy.ca);
    return new SoakController(name, isMortal, { proxy, port, kubeconfig });
  }

  get pid(): number | null {
    return this.#process.hasEnded ? null : (this.#process.child.pid ?? null);
  }

  get log(): string {
    return this.#earlierLog + this.#process.log;
  }

  async metrics(): Promise<string> {
    return (await fetch(`http://127.0.0.1:${this.#port}/metrics`)).text();
  }

  async isReady(): Promise<boolean> {
    const answer = await fetch(`http://127.0.0.1:${this.#port}/readyz`).catch(() => null);
    return answer?.status === 200;
  }

  async kill(awayMs: number): Promise<void> {
    await this.#process.end("SIGKILL");
    this.#earlierLog += this.#process.log;
    await pause(awayMs);
    this.#process = new ProductProcess(this.#args);
    this.restarts += 1;
  }

  async freeze(ms: number): Promise<void> {
    const { child } = this.#process;
    child.kill("SIGSTOP");
    await pause(ms);
    child.kill("SIGCONT");
  }

  /** Ends it as an operator does: its exit code. */
  end(): Promise<number | null> {
    return this.#process.end();
  }
}
