import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { PROBLEM_CHARS_MAX, WAIT_MS_MAX } from "../../guests/long-poll.ts";
import { BALANCERS_PATH, type BalancerProblem, type BalancerReport } from "../../guests/ovn/balancers-wire.ts";
import { SERVICES_PATH, type ServicesReport } from "../../guests/services/services-wire.ts";
import { JsonFields } from "../../platform/json-fields.ts";
import { createBoundedServer } from "../../platform/listeners/bounded-server.ts";
import type { Log } from "../../platform/log.ts";
import { closeServer, listen, listenOnSocket } from "../../platform/socket.ts";
import type { Clock } from "../../platform/time.ts";
import type { ServiceRelay } from "../relay/service-relay.ts";
import type { BalancerService } from "./balancer-service.ts";

/** Thousands of networks, with a problem each. */
const BODY_BYTES_MAX = 4 << 20;
const NAME_CHARS_MAX = 1_000;
const KINDS: readonly string[] = ["failed", "no-router"] satisfies BalancerProblem["kind"][];
const STOP_GRACE_MS = 500;

/** Answers metadata-net of this node, on a socket that only root and this process' user can open. */
export class BalancerServer {
  readonly #service: BalancerService;
  readonly #relay: ServiceRelay;
  readonly #clock: Clock;
  readonly #server: Server;

  constructor(
    { service, relay }: { service: BalancerService; relay: ServiceRelay },
    clock: Clock,
    log: Pick<Log, "warn">,
  ) {
    this.#service = service;
    this.#relay = relay;
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
    const hungUp = new AbortController();
    answer.once("close", () => hungUp.abort());
    if (request.method === "POST" && request.url === BALANCERS_PATH)
      await poll(request, answer, readReport, (report) => this.#service.poll(report, hungUp.signal));
    else if (request.method === "POST" && request.url === SERVICES_PATH)
      await poll(request, answer, readServicesReport, (report) => this.#relay.poll(report, hungUp.signal));
    else end(answer, 404, { error: `expected POST ${BALANCERS_PATH} or ${SERVICES_PATH}` });
  }
}

async function poll<T>(
  request: IncomingMessage,
  answer: ServerResponse,
  read: (value: unknown) => T,
  wantedAfter: (report: T) => Promise<object | null>,
): Promise<void> {
  const body = await bodyOf(request);
  let report: T;
  try {
    report = read(JSON.parse(body));
  } catch (error) {
    end(answer, 400, { error: (error as Error).message });
    return;
  }
  const wanted = await wantedAfter(report);
  if (wanted === null)
    end(answer, 503, {
      error: "what is wanted is not known yet, or the metadata server stops",
    });
  else end(answer, 200, wanted);
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

/** Throws Error. */
function readServicesReport(value: unknown): ServicesReport {
  const report = new JsonFields(value);
  // On a machine without pods metadata-net is restarted by itself, and may be of the release before.
  const problem = report.get("problem") === undefined ? null : report.stringOrNull("problem");
  return { ...readPoll(report), problem: problem?.slice(0, PROBLEM_CHARS_MAX) ?? null };
}

function readPoll(report: JsonFields) {
  return {
    applied: report.stringOrNull("applied"),
    networks: report.list("networks", (one) => readName("networks", one)),
    waitMs: report.integer("waitMs", 0, WAIT_MS_MAX),
  };
}

/** Throws Error. */
function readReport(value: unknown): BalancerReport {
  const report = new JsonFields(value);
  return {
    ...readPoll(report),
    written: report.list("written", (one) => readName("written", one)),
    problems: report.list("problems", readProblem),
  };
}

function readName(field: string, name: unknown): string {
  if (typeof name !== "string" || name === "" || name.length > NAME_CHARS_MAX)
    throw new Error(`${field}: expected names of networks, of at most ${NAME_CHARS_MAX} characters`);
  return name;
}

function readProblem(value: unknown): BalancerProblem {
  const problem = new JsonFields(value);
  return {
    network: readName("problems.network", problem.get("network")),
    kind: problem.string("kind", (kind) => KINDS.includes(kind)) as BalancerProblem["kind"],
    problem: problem.string("problem").slice(0, PROBLEM_CHARS_MAX),
  };
}
