import { type Agent, type IncomingHttpHeaders, request } from "node:http";
import { join } from "node:path";
import { LISTENER_HEADERS } from "../../../guests/haproxy/listener-headers.ts";
import { ProductProcess } from "../product-process.ts";

export interface TestMetadataServerOptions {
  /** Flags beside those for its sockets, its state and its metrics. */
  readonly args?: readonly string[];
  /** Default: a free port of the loopback. */
  readonly metricsAddress?: string;
  /** The command to run it under. */
  readonly within?: readonly string[];
}

/** A real `holdfast metadata` on a directory, in which `identity.sock` is the daemon's; a process after another. */
export class TestMetadataServer {
  readonly directory: string;
  readonly #runs: ProductProcess[] = [];
  #options: TestMetadataServerOptions;

  constructor(directory: string, options: TestMetadataServerOptions = {}) {
    this.directory = directory;
    this.#options = options;
  }

  /** Where listeners ask it. */
  get socket(): string {
    return join(this.directory, "metadata.sock");
  }

  /** Its state directory. */
  get state(): string {
    return join(this.directory, "metadata");
  }

  /** Everything that all of its processes have printed. */
  get log(): string {
    return this.#runs.map(({ log }) => log).join("");
  }

  /** The latest process; null before the first. */
  get process(): ProductProcess | null {
    return this.#runs.at(-1) ?? null;
  }

  get pid(): number {
    return this.process?.child.pid ?? 0;
  }

  /** URL of the health server. */
  get metrics(): string {
    const { address, port } = saidOf(this.process as ProductProcess)?.metrics ?? { address: "", port: 0 };
    return `http://${address}:${port}`;
  }

  /** Starts a process, with other flags from now on if there are any, and waits until it listens. */
  async run(args?: readonly string[]): Promise<void> {
    if (args !== undefined) this.#options = { ...this.#options, args };
    const { args: more = [], metricsAddress = "127.0.0.1:0", within = [] } = this.#options;
    const own = ["--metadata-socket", this.socket, "--state", this.state, "--metrics-address", metricsAddress];
    const identity = ["--identity-socket", join(this.directory, "identity.sock")];
    const started = new ProductProcess(["metadata", ...own, ...identity, ...more], within);
    this.#runs.push(started);
    await listening(started);
  }

  /** Ends the process; the directory stays. */
  async end(signal?: NodeJS.Signals): Promise<number | null> {
    return (await this.process?.end(signal)) ?? null;
  }

  /** One request as a listener hands it on; from 10.10.0.5 of network blue unless told otherwise. */
  ask(target: string, asked: Asked = {}): Promise<Answered> {
    return ask({ socketPath: this.socket }, target, asked);
  }
}

interface Listening {
  readonly address: { readonly port: number };
  readonly metrics: { readonly address: string; readonly port: number };
}

/** What a metadata server says when it listens, once it does. */
export async function listening(process: ProductProcess): Promise<Listening> {
  await process.until(() => saidOf(process) !== null, "listening");
  return saidOf(process) as Listening;
}

function saidOf({ log }: ProductProcess): Listening | null {
  const line = log.split("\n").find((text) => text.includes('"listening"') && text.endsWith("}"));
  return line === undefined ? null : JSON.parse(line);
}

export interface Asked {
  readonly method?: string;
  readonly network?: string | null;
  readonly source?: string | null;
  /** Default: net1 of a container that is called as its address; null: none is named. */
  readonly subject?: string | null;
  /** Header lines of the guest, as they are. */
  readonly lines?: readonly (readonly [name: string, value: string])[];
  readonly body?: string | Buffer;
}

export interface Answered {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  json(): any;
}

/** One request, on a connection of its own unless there is an agent. */
export function ask(
  where: { readonly agent?: Agent } & (
    | { readonly socketPath: string }
    | { readonly host: string; readonly port: number }
  ),
  target: string,
  { method = "GET", network = "blue", source = "10.10.0.5", subject, lines = [], body }: Asked = {},
): Promise<Answered> {
  const guest = subject === undefined ? `container/${source}/net1` : subject;
  const raw = ["host", "169.254.169.254"];
  if (network !== null) raw.push(LISTENER_HEADERS.network, network);
  if (source !== null) raw.push(LISTENER_HEADERS.source, source);
  if (guest !== null) raw.push(LISTENER_HEADERS.subject, guest);
  for (const [name, value] of lines) raw.push(name, value);
  if (body !== undefined) raw.push("content-length", String(Buffer.byteLength(body)));
  return new Promise((resolve, reject) => {
    // Node takes header lines as a flat list, and then sends them as they are.
    const headers = raw as unknown as Record<string, string>;
    const sent = request({ agent: false, ...where, method, path: target, headers }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on("data", (chunk: Buffer) => chunks.push(chunk));
      answer.on("error", reject);
      answer.on("end", () => {
        const text = Buffer.concat(chunks).toString();
        resolve({
          status: answer.statusCode ?? 0,
          headers: answer.headers,
          text,
          json: () => JSON.parse(text),
        });
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}
