import type { FastifyInstance } from "fastify";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { invalid, readBody, readQuery } from "../../platform/api-query.ts";
import type { ListenerService } from "./listener-service.ts";
import type { ListenerReport, ListenerState } from "./wire.ts";

/** Longest wait of one request, ms: proxies in between need not wait longer. */
const WAIT_MS_MAX = 60_000;
/** Longest explanation of a failure that is copied into events and logs, characters. */
const PROBLEM_CHARS_MAX = 1_000;

/** `POST /v1/metadata/listeners`: what `holdfast metadata-net` has set up, and what it shall. */
export function addListenerRoute(server: FastifyInstance, service: ListenerService): void {
  server.post("/v1/metadata/listeners", async (request, reply) => {
    readQuery(request.query, []);
    const report = readReport(request.body);
    const hungUp = new AbortController();
    reply.raw.once("close", () => hungUp.abort());
    const wanted = await service.poll(report, hungUp.signal);
    if (wanted !== null) return wanted;
    const reason = "which metadata listeners are wanted is not known now";
    throw new RefusalError(refuse("NOT_READY", { reason }));
  });
}

/** Throws RefusalError REQUEST_INVALID. */
function readReport(body: unknown): ListenerReport {
  const { applied, listeners, waitMs } = readBody(body, ["applied", "listeners", "waitMs"]);
  if (applied !== null && typeof applied !== "string") {
    invalid("applied", applied, "expected the version that was applied last, or null");
  }
  if (!Array.isArray(listeners)) invalid("listeners", listeners, "expected a list of listeners");
  if (typeof waitMs !== "number" || !Number.isInteger(waitMs) || waitMs < 0 || waitMs > WAIT_MS_MAX) {
    invalid("waitMs", waitMs, `expected a whole number from 0 to ${WAIT_MS_MAX}`);
  }
  return { applied, listeners: listeners.map(readListener), waitMs };
}

function readListener(one: unknown, i: number): ListenerState {
  const key = `listeners[${i}]`;
  if (typeof one !== "object" || one === null || Array.isArray(one)) invalid(key, one, "expected an object");
  const { network, state, problem } = one as Record<string, unknown>;
  if (typeof network !== "string" || network === "") {
    invalid(`${key}.network`, network, "expected the name of a network");
  }
  if (state !== "up" && state !== "failed") invalid(`${key}.state`, state, 'expected "up" or "failed"');
  if (problem !== undefined && typeof problem !== "string") {
    invalid(`${key}.problem`, problem, "expected a string");
  }
  return {
    network,
    state,
    ...(problem === undefined ? {} : { problem: problem.slice(0, PROBLEM_CHARS_MAX) }),
  };
}
