import type { IncomingMessage } from "node:http";
import { type Clock, parseTime } from "../../platform/time.ts";
import type { Contact } from "../client/contact.ts";
import type {
  AttemptOutcome,
  KubeTransport,
  ListPageOutcome,
  ListPageRequest,
  WatchAttempt,
} from "../client/kube-transport.ts";
import { type ExchangeFailure, Limit } from "../client/limit.ts";
import type { KubeRequest, WatchEnd } from "../kube-api.ts";
import { TurnBudget } from "../turn-budget.ts";
import { parseBody, readBody, retryAfterMs } from "./answer-body.ts";
import type { Connections } from "./connections.ts";
import { ListStream } from "./list-stream.ts";
import { WatchStream } from "./watch-stream.ts";
import { WriteQueue } from "./write-queue.ts";

const JSON_TYPE = "application/json";

const PATCH_TYPES = {
  json: "application/json-patch+json",
  merge: "application/merge-patch+json",
} as const;

export class HttpTransport implements KubeTransport {
  readonly clock: Clock;
  readonly contact: Contact;
  readonly life: AbortSignal;
  readonly #connections: Connections;
  readonly #writes: WriteQueue;

  constructor(connections: Connections, clock: Clock, writesMax?: number) {
    this.clock = clock;
    this.contact = connections.contact;
    this.life = connections.life;
    this.#connections = connections;
    this.#writes = new WriteQueue(clock, writesMax);
  }

  inTurn<T>({ priority, deadlineMs }: KubeRequest, work: () => Promise<T>): Promise<T> {
    return this.#writes.run(priority, deadlineMs, work);
  }

  async exchange(request: KubeRequest, limitMs: number): Promise<AttemptOutcome> {
    const limit = new Limit(this.clock, limitMs, [this.life]);
    try {
      const response = await this.#connections.open({
        verb: request.method,
        method: request.method,
        path: request.path,
        query: request.query,
        ...bodyOf(request),
        limit,
      });
      return await answerOf(response);
    } catch (error) {
      // The other idle connections probably lead to the same nowhere.
      if (limit.isOver) this.#connections.dropIdle();
      return nothing(limit.reasonOf(error));
    } finally {
      limit.dispose();
    }
  }

  async page(request: ListPageRequest, silenceMs: number): Promise<ListPageOutcome> {
    const { path, query, metadataOnly, signal } = request;
    const limit = new Limit(this.clock, silenceMs, [signal, this.life]);
    try {
      const headers = { accept: acceptOf("list", metadataOnly) };
      const response = await this.#connections.open({
        verb: "LIST",
        method: "GET",
        path,
        query,
        headers,
        limit,
      });
      if (response.statusCode === 200) return await this.#items(response, request, limit);
      return await answerOf(response);
    } catch (error) {
      return nothing(limit.reasonOf(error));
    } finally {
      limit.dispose();
    }
  }

  async watch(request: WatchAttempt, openMs: number): Promise<WatchEnd | AttemptOutcome> {
    const limit = new Limit(this.clock, openMs, [request.signal, this.life]);
    try {
      const { path, query, metadataOnly } = request;
      const headers = { accept: acceptOf("watch", metadataOnly) };
      const response = await this.#connections.open({
        verb: "WATCH",
        method: "GET",
        path,
        query,
        headers,
        limit,
      });
      if (response.statusCode !== 200) return await answerOf(response);
      limit.disarm();
      return await this.#events(response, request);
    } catch (error) {
      return nothing(limit.reasonOf(error));
    } finally {
      limit.dispose();
    }
  }

  async #items(response: IncomingMessage, { each, arrived }: ListPageRequest, limit: Limit): Promise<ListPageOutcome> {
    const stream = new ListStream((json) => each(JSON.parse(json)));
    const budget = new TurnBudget(this.clock);
    for await (const chunk of response) {
      limit.touch();
      arrived?.((chunk as Buffer).length);
      stream.push(chunk as Buffer);
      if (budget.isSpent) await budget.nextTurn();
    }
    const { metadata } = stream.end();
    return {
      kind: "read",
      resourceVersion: metadata?.resourceVersion ?? "",
      next: metadata?.continue ?? "",
    };
  }

  async #events(response: IncomingMessage, request: WatchAttempt): Promise<WatchEnd> {
    request.opened?.();
    const stream = new WatchStream(request.event);
    const budget = new TurnBudget(this.clock);
    for await (const chunk of response) {
      request.arrived?.((chunk as Buffer).length);
      const end = stream.push(chunk as Buffer);
      if (end) return end;
      if (request.signal.aborted) break;
      if (budget.isSpent) await budget.nextTurn();
    }
    return { kind: "closed" };
  }
}

function nothing({ message, code }: ExchangeFailure): AttemptOutcome {
  return { kind: "nothing", problem: message, code };
}

async function answerOf(response: IncomingMessage): Promise<AttemptOutcome> {
  const status = response.statusCode ?? 0;
  const body = parseBody(await readBody(response), status);
  const serverMs = parseTime(response.headers.date ?? "");
  return {
    kind: "answered",
    status,
    body,
    serverMs: Number.isNaN(serverMs) ? null : serverMs,
    retryAfterMs: retryAfterMs(response),
  };
}

function bodyOf(request: KubeRequest): { headers: Record<string, string>; body?: string } {
  const accept = "application/json";
  if (request.body === undefined) return { headers: { accept } };
  const type = request.patch === undefined ? accept : PATCH_TYPES[request.patch];
  return { headers: { accept, "content-type": type }, body: JSON.stringify(request.body) };
}

/** The Accept header of a list or a watch. Metadata is asked for first; a server that cannot sends whole objects. */
function acceptOf(what: "list" | "watch", metadataOnly = false): string {
  if (!metadataOnly) return JSON_TYPE;
  const kind = what === "list" ? "PartialObjectMetadataList" : "PartialObjectMetadata";
  return `${JSON_TYPE};as=${kind};g=meta.k8s.io;v=v1,${JSON_TYPE}`;
}
