import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
} from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { HeaderLine } from "../../guests/haproxy/client-headers.ts";
import { BoundedMap } from "../../platform/bounded-map.ts";
import { hearSocketErrors } from "../../platform/socket.ts";
import type { Clock, Timer } from "../../platform/time.ts";
import { type Headers, headerLines } from "./proxy-headers.ts";

/** A connection that takes longer than this will not succeed, ms. */
const CONNECT_MS_MAX = 5_000;
/** Of one answer, held in memory until it is whole: a cut one is never passed on. Nova's largest is below 100 KiB. */
const BACKEND_ANSWER_BYTES_MAX = 1 << 20;
/** Kept for the next request, for each backend. */
const IDLE_CONNECTIONS_MAX = 16;
/** Sets of connections, one for each authority that was ever used; an exchanged certificate makes another. */
const AGENTS_MAX = 8;
/** Have a length even if it is 0 (RFC 9110, 8.6). */
const WITH_BODY: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH"]);
/** May be sent again without harm when a kept connection ends at that moment. */
const REPEATABLE: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);

export interface BackendRequest {
  /** `http://10.0.0.5:8775`. */
  readonly origin: string;
  readonly method: string;
  readonly path: string;
  readonly headers: Headers;
  readonly body: Buffer;
  /** PEM; null: the authorities that Node believes. */
  readonly ca: Buffer | null;
  /** Until the whole answer is there. */
  readonly timeoutMs: number;
  /** Aborted when the answer is no longer needed. */
  readonly signal: AbortSignal;
}

export type BackendResult =
  | {
      readonly kind: "status";
      readonly status: number;
      readonly headers: readonly HeaderLine[];
      readonly body: Buffer;
    }
  /** No connection was made: nothing was sent. */
  | { readonly kind: "unreachable"; readonly why: string }
  | { readonly kind: "late" }
  | { readonly kind: "broken"; readonly why: string }
  /** The guest has disconnected. */
  | { readonly kind: "gone" };

/** Requests to backends, over connections that are kept. Never rejects. */
export class BackendTransport {
  readonly #clock: Clock;
  readonly #http = new HttpAgent({ keepAlive: true, maxFreeSockets: IDLE_CONNECTIONS_MAX });
  readonly #https = new BoundedMap<string, HttpsAgent>(AGENTS_MAX);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async send(request: BackendRequest): Promise<BackendResult> {
    const first = await this.#sendOnce(request, REPEATABLE.has(request.method));
    if (first !== "stale") return first;
    const again = await this.#sendOnce(request, false);
    return again === "stale" ? { kind: "broken", why: "the connection ended" } : again;
  }

  close(): void {
    this.#http.destroy();
    for (const agent of this.#https.values()) agent.destroy();
  }

  /** stale: a kept connection ended before it was used. With `keep` false the connection is new, so never stale. */
  #sendOnce(request: BackendRequest, keep: boolean): Promise<BackendResult | "stale"> {
    return new Promise((resolve) => {
      const { signal, timeoutMs } = request;
      if (signal.aborted) return resolve({ kind: "gone" });
      let connected = false;
      let sent: ClientRequest | null = null;
      const timers: Timer[] = [];
      const finish = (result: BackendResult | "stale") => {
        for (const timer of timers) timer.cancel();
        signal.removeEventListener("abort", leave);
        resolve(result);
        if (result === "stale" || result.kind !== "status") sent?.destroy();
      };
      const leave = () => finish({ kind: "gone" });
      signal.addEventListener("abort", leave);
      timers.push(this.#clock.timer(timeoutMs, () => finish({ kind: "late" })));
      timers.push(
        this.#clock.timer(Math.min(CONNECT_MS_MAX, timeoutMs), () => {
          if (!connected) finish({ kind: "unreachable", why: "no connection in time" });
        }),
      );
      try {
        sent = this.#open(request, keep);
      } catch (error) {
        return finish({ kind: "broken", why: wordOf(error) });
      }
      const client = hearSocketErrors(sent);
      client.on("socket", (socket) => {
        const isSecure = "encrypted" in socket;
        if (client.reusedSocket || !socket.connecting) connected = true;
        else
          socket.once(isSecure ? "secureConnect" : "connect", () => {
            connected = true;
          });
      });
      client.on("error", (error) => {
        if (!connected) finish({ kind: "unreachable", why: wordOf(error) });
        else finish(client.reusedSocket ? "stale" : { kind: "broken", why: wordOf(error) });
      });
      // Unexpected: none was requested.
      client.on("upgrade", (_, socket) => {
        socket.destroy();
        finish({ kind: "broken", why: "its answer is another protocol" });
      });
      client.on("response", (answer) => {
        readAnswer(answer).then(finish, (error) => finish({ kind: "broken", why: wordOf(error) }));
      });
      client.end(request.body);
    });
  }

  #open({ origin, method, path, headers, body, ca }: BackendRequest, keep: boolean): ClientRequest {
    // Always said: for DELETE or GET Node would send a body without its length, and so as the next request.
    const length = body.length > 0 || WITH_BODY.has(method) ? { "content-length": body.length } : {};
    const options = { method, headers: { ...(headers as OutgoingHttpHeaders), ...length }, path };
    // The path is given beside the URL: joined with it, dots in it would be resolved.
    if (!origin.startsWith("https:")) return httpRequest(origin, { ...options, agent: keep ? this.#http : false });
    return httpsRequest(origin, {
      ...options,
      agent: keep ? this.#secureAgent(ca) : false,
      ...(ca === null ? {} : { ca }),
    });
  }

  #secureAgent(ca: Buffer | null): HttpsAgent {
    const key = ca === null ? "" : createHash("sha256").update(ca).digest("hex");
    const known = this.#https.get(key);
    if (known) return known;
    const agent = new HttpsAgent({
      keepAlive: true,
      maxFreeSockets: IDLE_CONNECTIONS_MAX,
      ...(ca === null ? {} : { ca }),
    });
    this.#https.set(key, agent);
    return agent;
  }
}

function readAnswer(answer: IncomingMessage): Promise<BackendResult> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    answer.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      chunks.push(chunk);
      if (bytes > BACKEND_ANSWER_BYTES_MAX)
        answer.destroy(new Error(`its answer has more than ${BACKEND_ANSWER_BYTES_MAX} bytes`));
    });
    answer.on("end", () =>
      resolve({
        kind: "status",
        status: answer.statusCode ?? 0,
        headers: headerLines(answer.rawHeaders),
        body: Buffer.concat(chunks),
      }),
    );
    answer.on("error", reject);
    answer.on("aborted", () => reject(new Error("its answer was cut off")));
  });
}

/** For the log: a code where there is one. Messages of Node's parser would quote the answer. */
function wordOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code ?? message;
}
