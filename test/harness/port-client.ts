import { mkdirSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { CLOSED_BRIDGES } from "../../guests/ports/closed-bridges.ts";
import type { FailedPort, PortReport, WantedPort, WantedPorts } from "../../guests/ports/wire.ts";
import { sleep } from "../../platform/time.ts";
import { type ApiAnswer, network, type ServedDaemon } from "./daemon.ts";

/** A bridge network whose VMs have metadata. */
export function withMetadata(name: string, ipam: object = {}, plugin: object = {}): object {
  return network(name, { metadata: true, ...ipam }, { bridge: `br-${name}`, ...plugin });
}

/** As a metadata-net leaves it that keeps guests of these bridges, and of no others, from the node's own address. */
export function closeBridges({ directory }: Pick<ServedDaemon, "directory">, ...names: string[]): void {
  mkdirSync(join(directory, "net"), { recursive: true });
  writeFileSync(join(directory, "net", CLOSED_BRIDGES), names.map((name) => `${name}\n`).join(""));
}

/** What becomes of one port; null: it is served. */
type Verdict = Pick<FailedPort, "kind" | "problem"> | null;
type Decide = (port: WantedPort) => Verdict | Promise<Verdict>;

/** What is reported where nothing is carried out. */
export const NOTHING_APPLIED: PortReport = { applied: null, failed: [], problem: null, waitMs: 5_000 };

/** Plays `holdfast metadata-net`: asks what is wanted, and reports each port as served, or as the test says. */
export class PortClient {
  /** Every answer, oldest first. */
  readonly answers: WantedPorts[] = [];
  /** Why no guest at all is served; reported with the next request. */
  problem: string | null = null;
  readonly #daemon: ServedDaemon;
  readonly #decide: Decide;
  readonly #life = new AbortController();
  #running: Promise<void> = Promise.resolve();

  private constructor(daemon: ServedDaemon, decide: Decide) {
    this.#daemon = daemon;
    this.#decide = decide;
  }

  static start(daemon: ServedDaemon, decide: Decide = () => null): PortClient {
    const client = new PortClient(daemon, decide);
    client.#running = client.#run();
    return client;
  }

  get wanted(): readonly WantedPort[] {
    return this.answers.at(-1)?.ports ?? [];
  }

  /** What is wanted, in short: `blue c1/eth0`. */
  get summary(): string[] {
    return this.wanted.map((one) => `${one.network} ${one.containerId}/${one.interface}`);
  }

  async untilWanted(summary: readonly string[]): Promise<void> {
    const reached = () => this.answers.length > 0 && this.summary.join() === summary.join();
    await this.#daemon.time.until(reached, `${JSON.stringify(summary)} to be wanted`);
  }

  async stop(): Promise<void> {
    this.#life.abort();
    await this.#daemon.time.run(this.#running);
  }

  async #run(): Promise<void> {
    let applied: string | null = null;
    let failed: FailedPort[] = [];
    while (!this.#life.signal.aborted) {
      const answer = await poll(
        this.#daemon,
        { applied, failed, problem: this.problem, waitMs: 20_000 },
        this.#life.signal,
      ).catch(() => null);
      if (answer?.status !== 200) {
        await sleep(this.#daemon.time.clock, 20);
        continue;
      }
      const wanted: WantedPorts = answer.json();
      this.answers.push(wanted);
      const decided = await this.#orStopped(Promise.all(wanted.ports.map((port) => this.#carryOut(port))));
      if (decided === null) return;
      failed = decided.flat();
      applied = wanted.version;
    }
  }

  async #carryOut(port: WantedPort): Promise<FailedPort[]> {
    const verdict = await this.#decide(port);
    return verdict === null ? [] : [{ containerId: port.containerId, interface: port.interface, ...verdict }];
  }

  #orStopped<T>(work: Promise<T>): Promise<T | null> {
    const { signal } = this.#life;
    return new Promise((resolve, reject) => {
      const stopped = () => resolve(null);
      signal.addEventListener("abort", stopped, { once: true });
      work.then(resolve, reject).finally(() => signal.removeEventListener("abort", stopped));
    });
  }
}

/** One request. Rejects when the daemon hangs up, or the signal is aborted. */
export function poll(daemon: ServedDaemon, report: unknown, signal?: AbortSignal): Promise<ApiAnswer> {
  const body = JSON.stringify(report);
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const sent = request(
      {
        socketPath: daemon.socket,
        method: "POST",
        path: "/v1/metadata/ports",
        headers,
        agent: false,
        ...(signal ? { signal } : {}),
      },
      (answer) => {
        let text = "";
        answer.on("data", (chunk: Buffer) => {
          text += chunk.toString();
        });
        answer.on("error", reject);
        answer.on("end", () => resolve({ status: answer.statusCode ?? 0, body: text, json: () => JSON.parse(text) }));
      },
    );
    sent.on("error", reject);
    sent.end(body);
  });
}

/** Asks once and does not wait. */
export async function wantedNow(daemon: ServedDaemon): Promise<WantedPorts> {
  return (await daemon.time.run(poll(daemon, NOTHING_APPLIED))).json();
}

/** The log comes through a pipe, some time after the answer. */
export function untilLogged(daemon: ServedDaemon, text: string): Promise<void> {
  return daemon.time.until(() => daemon.log.includes(text), `the log to say ${text}`);
}

/** A metric without labels of other kinds: `metric(daemon, 'holdfast_metadata_ports{state="up"}')`. */
export async function metric(daemon: ServedDaemon, series: string): Promise<number> {
  const { body } = await daemon.get("/metrics");
  const line = body.split("\n").find((one) => one.startsWith(`${series} `));
  return Number(line?.slice(series.length + 1) ?? Number.NaN);
}
