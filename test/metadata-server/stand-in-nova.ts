import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { Certificate } from "../harness/certificate.ts";

export interface NovaRequest {
  readonly method: string;
  readonly url: string;
  /** As they came, flat. */
  readonly rawHeaders: readonly string[];
  readonly body: string;
}

/** In Nova's place: says what it was asked, or misbehaves as Nova's own handler (RealNova) cannot be made to. */
export class StandInNova {
  readonly #server: Server;
  readonly requests: NovaRequest[] = [];
  /** Instead of Nova's own answer. */
  misbehave: ((request: IncomingMessage, response: ServerResponse) => void) | null = null;
  connections = 0;
  /** Connections that the other side ended before it was answered. */
  abandoned = 0;

  private constructor(certificate: Certificate | null) {
    const handle = (request: IncomingMessage, response: ServerResponse) => this.#handle(request, response);
    this.#server =
      certificate === null
        ? createServer(handle)
        : (createSecureServer({ key: certificate.key, cert: certificate.certificate }, handle) as unknown as Server);
    this.#server.on("connection", () => {
      this.connections += 1;
    });
  }

  static async start({
    certificate = null,
    port = 0,
  }: {
    certificate?: Certificate | null;
    port?: number;
  } = {}): Promise<StandInNova> {
    const nova = new StandInNova(certificate);
    await new Promise<void>((resolve) => nova.#server.listen(port, "127.0.0.1", resolve));
    return nova;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** The last request's header lines of a name, in whatever case. */
  sent(name: string): readonly string[] {
    const raw = this.requests.at(-1)?.rawHeaders ?? [];
    return raw.filter((_, at) => at % 2 === 1 && raw[at - 1]?.toLowerCase() === name.toLowerCase());
  }

  async stop(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeAllConnections();
    });
  }

  #handle(request: IncomingMessage, response: ServerResponse): void {
    response.on("close", () => {
      if (!response.writableFinished) this.abandoned += 1;
    });
    let body = "";
    request.on("data", (chunk: Buffer) => {
      body += chunk;
    });
    request.on("end", () => {
      const { method = "", url = "", rawHeaders } = request;
      this.requests.push({ method, url, rawHeaders, body });
      if (this.misbehave) return this.misbehave(request, response);
      response.writeHead(200, { "content-type": "text/plain; charset=UTF-8", "x-nova": "secret thing" });
      const text = `${method} ${url} for ${request.headers["x-instance-id"]}`;
      response.end(request.method === "HEAD" ? undefined : text);
    });
  }
}
