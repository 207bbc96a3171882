import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { HeaderLine } from "../../guests/haproxy/client-headers.ts";
import { createBoundedServer } from "../../platform/listeners/bounded-server.ts";
import { REQUEST_BODY_BYTES_MAX } from "../../platform/listeners/listeners.ts";
import type { Log } from "../../platform/log.ts";
import { type Answer, sentence } from "../documents/answer.ts";
import type { ProxiedAnswer } from "../proxy/proxy.ts";
import { headerLines } from "../proxy/proxy-headers.ts";
import { type AnswerContext, answerGuest } from "./answer-guest.ts";
import { GuestMemory, Seeds, TokenRules } from "./guest-memory.ts";
import { type Origin, readBody } from "./read-request.ts";
import { RequestScheduler } from "./request-scheduler.ts";
import type { RequestedTree, ServerMetrics } from "./server-metrics.ts";

type Options = GuestServerOptions & AnswerContext;

export interface GuestServerOptions extends Omit<AnswerContext, "tokenRules" | "memory" | "seeds"> {
  origin(incoming: IncomingMessage, lines: readonly HeaderLine[]): Origin | null;
  readonly metrics: ServerMetrics;
  readonly errors: Log;
}

/** The server for guests' requests, not listening yet. */
export function buildGuestServer(given: GuestServerOptions): Server {
  const { clock } = given;
  const own = { tokenRules: new TokenRules(), memory: new GuestMemory(clock), seeds: new Seeds(clock) };
  const options = { ...given, ...own };
  const scheduler = new RequestScheduler(given.clock);
  const server = createBoundedServer("guests", (incoming, outgoing) => {
    scheduler.begin(() => {
      handle(incoming, outgoing, options, server).catch((error: Error) => {
        options.errors.error({ err: error }, "a request could not be answered");
        outgoing.destroy();
      });
    });
  });
  // Their size is bounded. By default Node drops those after the thousandth, and the last may be what says who asks, or
  // that somebody was forwarded by the guest.
  server.maxHeadersCount = 0;
  return server;
}

async function handle(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  options: Options,
  server: Server,
): Promise<void> {
  const { clock } = options;
  const startMs = clock.monotonicMs();
  const lines = headerLines(incoming.rawHeaders);
  const origin = options.origin(incoming, lines);
  const { answer, tree } = await decide(incoming, outgoing, { lines, origin, options });
  if (answer === null) return;
  options.metrics.answered({
    network: origin?.subject.network ?? null,
    tree,
    status: answer.status,
    ms: clock.monotonicMs() - startMs,
  });
  // Once the end was requested, each connection ends with its answer.
  outgoing.shouldKeepAlive &&= server.listening;
  send(outgoing, answer);
}

async function decide(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  given: { lines: readonly HeaderLine[]; origin: Origin | null; options: Options },
): Promise<{ answer: Answer | ProxiedAnswer | null; tree: RequestedTree }> {
  const { lines, origin, options } = given;
  const tree = options.metrics.treeOf(incoming.url ?? "");
  if (origin === null) {
    options.log.warn({}, "a request came without its origin; only a listener may connect here");
    return { tree, answer: sentence(400, "It is not known where this request comes from.") };
  }
  try {
    const body = await readBody(incoming);
    if (body === "too-large") return { tree, answer: tooLarge() };
    const { answer, proxied } = await answerGuest(
      { incoming, lines, origin, body, left: () => whenLeft(outgoing) },
      options,
    );
    return { answer, tree: proxied ? "proxied" : tree };
  } catch (error) {
    if (outgoing.destroyed) return { tree, answer: null };
    options.errors.error({ err: error as Error, network: origin.subject.network }, "a request failed");
    return { tree, answer: sentence(500, "The metadata server failed. Please try again.") };
  }
}

/** Made only where something waits: it costs as much as a whole answer from here. */
function whenLeft(outgoing: ServerResponse): AbortSignal {
  const left = new AbortController();
  if (outgoing.destroyed) left.abort();
  outgoing.on("close", () => left.abort());
  return left.signal;
}

/** The rest of the body is not awaited. */
function tooLarge(): Answer {
  const answer = sentence(413, `A body has at most ${REQUEST_BODY_BYTES_MAX} bytes.`);
  return { ...answer, headers: { ...answer.headers, connection: "close" } };
}

function send(outgoing: ServerResponse, { status, headers, body }: Answer | ProxiedAnswer): void {
  outgoing.writeHead(status, {
    // Said here so that Node does not add how long it keeps connections: that is between it and the listener.
    connection: outgoing.shouldKeepAlive ? "keep-alive" : "close",
    ...(headers as Record<string, string | string[]>),
  });
  outgoing.end(body);
}
