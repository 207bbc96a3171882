import { request } from "node:http";
import type { ListenerState, WantedListener, WantedListeners } from "../../metadata/listeners/wire.ts";
import { type ApiAnswer, network, type ServedDaemon } from "./daemon.ts";
import { pause, until } from "./wait.ts";

/** A bridge network whose VMs have metadata. */
export function withMetadata(name: string, ipam: object = {}, plugin: object = {}): object {
  return network(name, { metadata: true, ...ipam }, { bridge: `br-${name}`, ...plugin });
}

type Decide = (listener: WantedListener) => ListenerState | Promise<ListenerState>;

/** Plays `holdfast metadata-net`: asks what is wanted, and reports it as up, or as the test says. */
export class ListenerClient {
  /** Every answer, oldest first. */
  readonly answers: WantedListeners[] = [];
  readonly #daemon: ServedDaemon;
  readonly #decide: Decide;
  readonly #life = new AbortController();
  #running: Promise<void> = Promise.resolve();

  private constructor(daemon: ServedDaemon, decide: Decide) {
    this.#daemon = daemon;
    this.#decide = decide;
  }

  static start(
    daemon: ServedDaemon,
    decide: Decide = ({ network: name }) => ({ network: name, state: "up" }),
  ): ListenerClient {
    const client = new ListenerClient(daemon, decide);
    client.#running = client.#run();
    return client;
  }

  get wanted(): readonly WantedListener[] {
    return this.answers.at(-1)?.networks ?? [];
  }

  /** What is wanted, in short: `blue: c1/eth0 c2/eth0`. */
  get summary(): string[] {
    return this.wanted.map(summaryOf);
  }

  async untilWanted(summary: readonly string[]): Promise<void> {
    const reached = () => this.answers.length > 0 && this.summary.join() === summary.join();
    await until(reached, `${JSON.stringify(summary)} to be wanted`);
  }

  async stop(): Promise<void> {
    this.#life.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    let applied: string | null = null;
    let listeners: ListenerState[] = [];
    while (!this.#life.signal.aborted) {
      const answer = await poll(
        this.#daemon,
        { applied, listeners, waitMs: 20_000 },
        this.#life.signal,
      ).catch(() => null);
      if (answer?.status !== 200) {
        await pause(20);
        continue;
      }
      const wanted: WantedListeners = answer.json();
      this.answers.push(wanted);
      const decided = await this.#orStopped(Promise.all(wanted.networks.map(this.#decide)));
      if (decided === null) return;
      listeners = decided;
      applied = wanted.version;
    }
  }

  #orStopped<T>(work: Promise<T>): Promise<T | null> {
    const { signal } = this.#life;
    return new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => resolve(null), { once: true });
      work.then(resolve, reject);
    });
  }
}

function summaryOf({ network: name, attachments }: WantedListener): string {
  return `${name}: ${attachments.map((one) => `${one.containerId}/${one.interface}`).join(" ")}`;
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
        path: "/v1/metadata/listeners",
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
        answer.on("end", () =>
          resolve({ status: answer.statusCode ?? 0, body: text, json: () => JSON.parse(text) }),
        );
      },
    );
    sent.on("error", reject);
    sent.end(body);
  });
}

/** Asks once and does not wait. */
export async function wantedNow(daemon: ServedDaemon): Promise<WantedListeners> {
  return (await poll(daemon, { applied: null, listeners: [], waitMs: 5_000 })).json();
}

/** The log comes through a pipe, some time after the answer. */
export function untilLogged(daemon: ServedDaemon, text: string): Promise<void> {
  return until(() => daemon.log.includes(text), `the log to say ${text}`);
}

/** A metric without labels of other kinds: `metric(daemon, 'holdfast_metadata_listeners{state="up"}')`. */
export async function metric(daemon: ServedDaemon, series: string): Promise<number> {
  const { body } = await daemon.get("/metrics");
  const line = body.split("\n").find((one) => one.startsWith(`${series} `));
  return Number(line?.slice(series.length + 1) ?? Number.NaN);
}
