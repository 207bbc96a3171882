import type { ChildProcess } from "node:child_process";
import { subscribe } from "node:diagnostics_channel";
import type { ClientRequest, IncomingMessage, ServerResponse } from "node:http";

/** What Node calls requests to the kernel that have no answer yet: of files, connections, names, writes. */
const KERNEL_REQUEST = /Req|^ConnectWrap$|^WriteWrap$|^ShutdownWrap$/;

/**
 * What goes on outside of the code of this process: processes of their own, messages on sockets, work of the kernel.
 */
export class UnderWay {
  readonly #children = new Set<ChildProcess>();
  readonly #sent = new Set<ClientRequest>();
  readonly #fetched = new Set<object>();
  readonly #received = new Map<ServerResponse, IncomingMessage>();

  /** Of everything from now on. */
  constructor() {
    on<{ process: ChildProcess }>("child_process", ({ process }) => keep(this.#children, process));
    on<{ request: ClientRequest }>("http.client.request.created", ({ request }) => keep(this.#sent, request));
    on<{ request: object }>("undici:client:sendHeaders", ({ request }) => this.#fetched.add(request));
    for (const end of ["undici:request:trailers", "undici:request:error"])
      on<{ request: object }>(end, ({ request }) => this.#fetched.delete(request));
    on<{ request: IncomingMessage; response: ServerResponse }>("http.server.request.start", ({ request, response }) => {
      this.#received.set(response, request);
      response.once("close", () => this.#received.delete(response));
    });
  }

  /**
   * Whether anything is under way. Each child and each request of a client in this process counts as one thing; each
   * request that a server in this process has wholly received and has not answered takes one off: it is with our code,
   * whoever sent it. That is so of an answer too that the server has begun and not ended: what it streams for long is
   * no test for a WorldTime.
   */
  get isAny(): boolean {
    return (
      this.#clients > this.#held || process.getActiveResourcesInfo().some((resource) => KERNEL_REQUEST.test(resource))
    );
  }

  /** For the message about a time that stands still. */
  describe(): string {
    const sent = [...this.#sent].map(({ method, path }) => `${method} ${path}`);
    const children = [...this.#children].map(({ spawnargs = [] }) => spawnargs.join(" "));
    const all = [...children, ...sent, `${this.#fetched.size} requests of undici`, `${this.#held} with us`];
    return [...all, ...process.getActiveResourcesInfo().filter((one) => KERNEL_REQUEST.test(one))].join("; ");
  }

  get #clients(): number {
    // A request without a socket waits for another one of this process.
    const sent = [...this.#sent].filter(({ socket }) => socket !== null);
    return this.#children.size + sent.length + this.#fetched.size;
  }

  get #held(): number {
    let count = 0;
    for (const [response, request] of this.#received) if (request.complete && !response.writableEnded) count += 1;
    return count;
  }
}

function on<T>(channel: string, heard: (message: T) => void): void {
  subscribe(channel, (message) => heard(message as T));
}

function keep<T extends ChildProcess | ClientRequest>(all: Set<T>, one: T): void {
  all.add(one);
  one.once("close", () => all.delete(one));
}
