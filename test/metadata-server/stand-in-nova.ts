import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import { isSignatureOf } from "../../metadata/proxy/signature.ts";
import type { Certificate } from "../harness/certificate.ts";

export interface NovaRequest {
  readonly method: string;
  readonly url: string;
  /** As they came, flat. */
  readonly rawHeaders: readonly string[];
  readonly body: string;
}

/** What Nova's metadata handler checks, in its order (nova/api/metadata/handler.py), and a project for each instance. */
export class StandInNova {
  readonly #server: Server;
  readonly requests: NovaRequest[] = [];
  readonly #secret: string;
  /** By instance ID. */
  readonly projects = new Map<string, string>();
  /** Instead of Nova's own answer. */
  misbehave: ((request: IncomingMessage, response: ServerResponse) => void) | null = null;
  connections = 0;
  /** Connections that the other side ended before it was answered. */
  abandoned = 0;

  private constructor(secret: string, certificate: Certificate | null) {
    this.#secret = secret;
    const handle = (request: IncomingMessage, response: ServerResponse) => this.#handle(request, response);
    this.#server =
      certificate === null
        ? createServer(handle)
        : (createSecureServer(
            { key: certificate.key, cert: certificate.certificate },
            handle,
          ) as unknown as Server);
    this.#server.on("connection", () => {
      this.connections += 1;
    });
  }

  static async start(
    secret: string,
    { certificate = null, port = 0 }: { certificate?: Certificate | null; port?: number } = {},
  ): Promise<StandInNova> {
    const nova = new StandInNova(secret, certificate);
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
      const [status, text] = this.#judge(request);
      response.writeHead(status, { "content-type": "text/plain; charset=UTF-8", "x-nova": "secret thing" });
      response.end(request.method === "HEAD" ? undefined : text);
    });
  }

  #judge({ headers, url = "", method = "" }: IncomingMessage): [status: number, text: string] {
    if (url === "/" || url === "") return [200, "1.0\nlatest"];
    if (headers["x-metadata-provider"] !== undefined) return [400, "a load balancer's request"];
    const id = headers["x-instance-id"] as string | undefined;
    const signature = headers["x-instance-id-signature"] as string | undefined;
    const tenant = headers["x-tenant-id"];
    if (id === undefined) return [400, "X-Instance-ID header is missing from request."];
    if (signature === undefined) return [400, "X-Instance-ID-Signature header is missing from request."];
    if (tenant === undefined) return [400, "X-Tenant-ID header is missing from request."];
    if (!isSignatureOf(Buffer.from(this.#secret), id, signature))
      return [403, "Invalid proxy request signature."];
    if (headers["x-forwarded-for"] === undefined) return [500, "An unknown error has occurred."];
    const project = this.projects.get(id);
    if (project === undefined || project !== tenant) return [404, "Not Found"];
    if (!url.startsWith("/openstack") && !url.startsWith("/latest")) return [404, "Not Found"];
    return [200, `${method} ${url} for ${id}`];
  }
}
