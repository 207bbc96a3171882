/*
 * metadata/proxy/: a backend of Nova's that answers in place of Holdfast
 *
 *   proxy, proxy-target, proxy-transport  the request passed on
 *   proxy-headers, signature              what it carries, and what it must not
 *   backend-answer                        what comes back
 */

import type { Buffer } from "node:buffer";
import type { HeaderLine } from "../../guests/haproxy/client-headers.ts";
import type { QuietLog } from "../../platform/log.ts";
import type { Clock } from "../../platform/time.ts";
import { sentence, withoutBody } from "../documents/answer.ts";
import type { Backend } from "../tenant/tenant-source.ts";
import { judgeBackend } from "./backend-answer.ts";
import { type Headers, novaAnswerHeaders, novaHeaders, serviceAnswerHeaders, serviceHeaders } from "./proxy-headers.ts";
import { novaTarget, serviceTarget } from "./proxy-target.ts";
import { type BackendResult, BackendTransport } from "./proxy-transport.ts";
import type { SignedIdentity } from "./signature.ts";

export interface ProxiedRequest {
  readonly method: string;
  readonly target: string;
  readonly headers: readonly HeaderLine[];
  readonly body: Buffer;
  /** Aborted when the guest disconnects. */
  readonly signal: AbortSignal;
}

/** Header names in lower case. */
export interface ProxiedAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Buffer;
}

export type ProxyOutcome = "passed" | "refused" | "no-endpoint" | Exclude<BackendResult["kind"], "status">;

export interface ProxyOptions {
  readonly timeoutMs: number;
  readonly log: QuietLog;
  readonly clock: Clock;
  onOutcome(kind: Backend["kind"], outcome: ProxyOutcome): void;
}

/** Forwards guests' requests to a backend, with a signed identity. Of a request only its network is ever logged. */
export class BackendProxy {
  readonly #options: ProxyOptions;
  readonly #transport: BackendTransport;
  /** By service: the endpoint that is used next. */
  readonly #turns = new Map<string, number>();

  constructor(options: ProxyOptions) {
    this.#options = options;
    this.#transport = new BackendTransport(options.clock);
  }

  /** null: the guest has disconnected. Throws TypeError when a header cannot carry the identity. */
  async forward(request: ProxiedRequest, backend: Backend, identity: SignedIdentity): Promise<ProxiedAnswer | null> {
    const { method } = request;
    const target = (backend.kind === "nova" ? novaTarget : serviceTarget)(method, request.target);
    if (target.kind === "bad") return sentence(target.status, target.why, target.headers);
    const result =
      backend.kind === "nova"
        ? await this.#transport.send({
            ...request,
            origin: backend.url,
            path: target.path,
            headers: novaHeaders(identity, backend.secret),
            ca: backend.ca,
            timeoutMs: this.#options.timeoutMs,
          })
        : await this.#askService(request, target.path, backend, identity);
    return this.#judge(result, backend, { method, network: identity.network });
  }

  close(): void {
    this.#transport.close();
  }

  /** The endpoints take turns; one that cannot be reached is skipped: nothing was sent to it. */
  async #askService(
    request: ProxiedRequest,
    path: string,
    { service, endpoints, secret }: Extract<Backend, { kind: "service" }>,
    identity: SignedIdentity,
  ): Promise<BackendResult> {
    const { clock, timeoutMs } = this.#options;
    const endMs = clock.monotonicMs() + timeoutMs;
    const headers = serviceHeaders(request.headers, identity, secret);
    const turn = this.#turns.get(service) ?? 0;
    this.#turns.set(service, (turn + 1) % Math.max(1, endpoints.length));
    let result: BackendResult = { kind: "unreachable", why: "no ready endpoint on this node" };
    for (let tried = 0; tried < endpoints.length; tried++) {
      const endpoint = endpoints[(turn + tried) % endpoints.length];
      const left = { timeoutMs: Math.max(1, endMs - clock.monotonicMs()), ca: null };
      result = await this.#transport.send({
        ...request,
        ...left,
        origin: `http://${endpoint}`,
        path,
        headers,
      });
      if (result.kind !== "unreachable") break;
    }
    return result;
  }

  #judge(
    result: BackendResult,
    backend: Backend,
    { method, network }: { method: string; network: string },
  ): ProxiedAnswer | null {
    const { onOutcome, log } = this.#options;
    if (result.kind === "gone") {
      onOutcome(backend.kind, "gone");
      return null;
    }
    const decision = judgeBackend(result, backend.kind);
    if (decision.kind === "replace") {
      const hasNoEndpoint =
        result.kind === "unreachable" && backend.kind === "service" && backend.endpoints.length === 0;
      onOutcome(backend.kind, outcomeOf(result, hasNoEndpoint));
      if (decision.note !== null) {
        const name = backend.kind === "nova" ? backend.url : backend.service;
        log.warn({ network, backend: name, ...("why" in result ? { why: result.why } : {}) }, decision.note);
      }
      return method === "HEAD" ? withoutBody(decision.answer) : decision.answer;
    }
    if (result.kind !== "status") throw new Error(`a request that ended ${result.kind} passes nothing on`);
    onOutcome(backend.kind, "passed");
    const { status, headers, body } = result;
    const passed = backend.kind === "nova" ? novaAnswerHeaders(headers) : serviceAnswerHeaders(headers);
    return { status, headers: { ...passed, ...lengthOf(result, method) }, body };
  }
}

function outcomeOf(result: BackendResult, hasNoEndpoint: boolean): ProxyOutcome {
  if (hasNoEndpoint) return "no-endpoint";
  return result.kind === "status" ? "refused" : result.kind;
}

/** Of HEAD's answer, that of the body which there would be; of 204 none (RFC 9110, 8.6). */
function lengthOf({ status, headers, body }: Extract<BackendResult, { kind: "status" }>, method: string): Headers {
  if (status === 204) return {};
  if (method !== "HEAD") return { "content-length": String(body.length) };
  const told = headers.find(([name]) => name.toLowerCase() === "content-length")?.[1];
  return told === undefined ? {} : { "content-length": told };
}
