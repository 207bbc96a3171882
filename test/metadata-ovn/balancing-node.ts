import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BalancerReport, WantedBalancer } from "../../guests/ovn/balancers-wire.ts";
import { metadataNet } from "../harness/metadata/parts.ts";
import type { ProductProcess } from "../harness/product-process.ts";
import { until } from "../harness/wait.ts";

/** A real `holdfast metadata-net` at a northbound database, between which and what is wanted a test decides. */
export class BalancingNode {
  readonly directory = mkdtempSync(join(tmpdir(), "holdfast-balance-"));
  readonly #node: string;
  readonly #northbound: string;
  readonly #processes: ProductProcess[] = [];
  readonly #server = createServer((request, answer) => this.#take(request, answer));
  readonly #waiting = new Set<() => void>();
  #balancers: readonly WantedBalancer[] = [];
  #version = 1;
  #instead: ((answer: ServerResponse) => void) | null = null;
  /** The latest. */
  report: BalancerReport | null = null;
  /** Networks that were reported as written, one after the other. */
  readonly written: string[] = [];

  private constructor(node: string, northbound: string) {
    this.#node = node;
    this.#northbound = northbound;
  }

  static async start(node: string, northbound: string): Promise<BalancingNode> {
    const balancing = new BalancingNode(node, northbound);
    balancing.#server.listen(join(balancing.directory, "b.sock"));
    await once(balancing.#server, "listening");
    balancing.startNet();
    return balancing;
  }

  startNet(): void {
    const socket = (name: string) => join(this.directory, name);
    this.#processes.push(
      metadataNet({
        daemonSocket: socket("no-daemon.sock"),
        metadataSocket: socket("no-server.sock"),
        runDir: socket("net"),
        args: [
          ...["--balancers-socket", socket("b.sock"), "--ovn-northbound", `unix:${this.#northbound}`],
          ...["--node", this.#node],
        ],
      }),
    );
  }

  endNet(signal: NodeJS.Signals = "SIGTERM"): Promise<number | null | undefined> {
    return this.#processes.at(-1)?.end(signal) ?? Promise.resolve(undefined);
  }

  get netHasEnded(): boolean {
    return this.#processes.at(-1)?.hasEnded ?? true;
  }

  get log(): string {
    return this.#processes.map(({ log }) => log).join("");
  }

  /** Wants backends by network, and further ports of each, and waits until that is carried out. */
  async want(
    backends: Readonly<Record<string, readonly string[] | null>>,
    ports: WantedBalancer["ports"] = [],
  ): Promise<void> {
    this.#balancers = Object.entries(backends).map(([network, list]) => ({ network, backends: list, ports }));
    this.#version += 1;
    const version = String(this.#version);
    for (const send of [...this.#waiting]) send();
    await until(
      () => {
        const process = this.#processes.at(-1);
        if (process?.hasEnded) throw new Error(`metadata-net ended: ${this.log}`);
        return this.report?.applied === version;
      },
      () => `version ${version} to be applied: ${JSON.stringify(this.report)}; log: ${this.log}`,
    );
  }

  /** From now on this is answered; null: what is wanted. */
  answer(instead: ((answer: ServerResponse) => void) | null): void {
    this.#instead = instead;
    for (const send of [...this.#waiting]) send();
  }

  async stop(): Promise<void> {
    await this.endNet();
    this.#server.closeAllConnections();
    this.#server.close();
    rmSync(this.directory, { recursive: true, force: true });
  }

  #take(request: NodeJS.ReadableStream, answer: ServerResponse): void {
    let body = "";
    request.on("data", (chunk: Buffer) => {
      body += chunk;
    });
    request.on("end", () => {
      const report = JSON.parse(body) as BalancerReport;
      this.report = report;
      this.written.push(...report.written);
      const send = () => {
        clearTimeout(timer);
        this.#waiting.delete(send);
        if (this.#instead !== null) {
          this.#instead(answer);
          return;
        }
        const wanted = { version: String(this.#version), node: this.#node, balancers: this.#balancers };
        answer.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(wanted));
      };
      const timer = setTimeout(send, report.waitMs);
      this.#waiting.add(send);
      answer.on("close", () => {
        clearTimeout(timer);
        this.#waiting.delete(send);
      });
      if (this.#instead !== null || report.applied !== String(this.#version)) send();
    });
  }
}
