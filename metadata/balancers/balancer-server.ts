import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { z } from "zod";
import { BALANCERS_PATH } from "../../guests/ovn/balancers-wire.ts";
import { createBoundedServer } from "../../platform/listeners/bounded-server.ts";
import type { Log } from "../../platform/log.ts";
import { closeServer, listen, listenOnSocket } from "../../platform/socket.ts";
import type { Clock } from "../../platform/time.ts";
import type { BalancerService } from "./balancer-service.ts";

/** Thousands of networks, with a problem each. */
const BODY_BYTES_MAX = 4 << 20;
const WAIT_MS_MAX = 60_000;
const PROBLEM_CHARS_MAX = 1_000;
const STOP_GRACE_MS = 500;

const name = z.string().min(1).max(1_000);
const reportOf = z.object({
  applied: z.string().nullable(),
  networks: z.array(name),
  written: z.array(name),
  problems: z.array(
    z.object({
      network: name,
      kind: z.enum(["failed", "no-router"]),
      problem: z.string().transform((text) => text.slice(0, PROBLEM_CHARS_MAX)),
    }),
  ),
  waitMs: z.number().int().min(0).max(WAIT_MS_MAX),
});

/** Answers metadata-net of this node, on a socket that only root and this process' user can open. */
export class BalancerServer {
  readonly #service: BalancerService;
  readonly #clock: Clock;
  readonly #server: Server;

  constructor(service: BalancerService, clock: Clock, log: Pick<Log, "warn">) {
    this.#service = service;
    this.#clock = clock;
    this.#server = createBoundedServer("balancers", (request, answer) => {
      this.#answer(request, answer).catch((error: Error) => {
        log.warn({ err: error }, "a report about balancers cannot be answered");
        end(answer, 500, { error: "internal error" });
      });
    });
  }

  /** Throws Error when the socket cannot be listened on. */
  async start(path: string): Promise<void> {
    await listenOnSocket({ listen: (where) => listen(this.#server, where) }, path, {
      flag: "--balancers-socket",
    });
    this.#service.start();
  }

  async stop(): Promise<void> {
    await this.#service.stop();
    await closeServer(this.#server, this.#clock, STOP_GRACE_MS);
  }

  async #answer(request: IncomingMessage, answer: ServerResponse): Promise<void> {
    if (request.method !== "POST" || request.url !== BALANCERS_PATH) {
      end(answer, 404, { error: `expected POST ${BALANCERS_PATH}` });
      return;
    }
    const report = reportOf.safeParse(parse(await bodyOf(request)));
    if (!report.success) {
      end(answer, 400, { error: z.prettifyError(report.error) });
      return;
    }
    const hungUp = new AbortController();
    answer.once("close", () => hungUp.abort());
    const wanted = await this.#service.poll(report.data, hungUp.signal);
    if (wanted === null)
      end(answer, 503, {
        error: "which balancers are wanted is not known yet, or the metadata server stops",
      });
    else end(answer, 200, wanted);
  }
}

function end(answer: ServerResponse, status: number, body: object): void {
  if (!answer.headersSent) answer.writeHead(status, { "content-type": "application/json" });
  answer.end(JSON.stringify(body));
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) {
    text += chunk;
    if (text.length > BODY_BYTES_MAX) return "";
  }
  return text;
}

/** undefined: it is no JSON. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
