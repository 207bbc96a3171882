import type { FastifyInstance } from "fastify";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { invalid, readBody, readQuery } from "../../platform/api-query.ts";
import { PROBLEM_CHARS_MAX, WAIT_MS_MAX } from "../long-poll.ts";
import type { PortService } from "./port-service.ts";
import { type FailedPort, PORTS_PATH, type PortReport } from "./wire.ts";

/** `POST /v1/metadata/ports`: what `holdfast metadata-net` has carried out, and what it shall. */
export function addPortRoute(server: FastifyInstance, service: PortService): void {
  server.post(PORTS_PATH, async (request, reply) => {
    readQuery(request.query, []);
    const report = readReport(request.body);
    const hungUp = new AbortController();
    reply.raw.once("close", () => hungUp.abort());
    const wanted = await service.poll(report, hungUp.signal);
    if (wanted !== null) return wanted;
    const reason = "which ports get metadata is not known now";
    throw new RefusalError(refuse("NOT_READY", { reason }));
  });
}

/** Throws RefusalError REQUEST_INVALID. */
function readReport(body: unknown): PortReport {
  const { applied, failed, problem, waitMs } = readBody(body, ["applied", "failed", "problem", "waitMs"]);
  if (applied !== null && typeof applied !== "string") {
    invalid("applied", applied, "expected the version that was applied last, or null");
  }
  if (!Array.isArray(failed)) invalid("failed", failed, "expected a list of ports");
  if (problem !== null && typeof problem !== "string") {
    invalid("problem", problem, "expected a string or null");
  }
  if (typeof waitMs !== "number" || !Number.isInteger(waitMs) || waitMs < 0 || waitMs > WAIT_MS_MAX) {
    invalid("waitMs", waitMs, `expected a whole number from 0 to ${WAIT_MS_MAX}`);
  }
  return {
    applied,
    failed: failed.map(readFailed),
    problem: problem === null ? null : problem.slice(0, PROBLEM_CHARS_MAX),
    waitMs,
  };
}

function readFailed(one: unknown, i: number): FailedPort {
  const key = `failed[${i}]`;
  if (typeof one !== "object" || one === null || Array.isArray(one)) invalid(key, one, "expected an object");
  const { containerId, interface: name, kind, problem } = one as Record<string, unknown>;
  if (typeof containerId !== "string" || containerId === "") {
    invalid(`${key}.containerId`, containerId, "expected the ID of a container");
  }
  if (typeof name !== "string" || name === "") {
    invalid(`${key}.interface`, name, "expected the name of an interface");
  }
  if (kind !== "final" && kind !== "pending") invalid(`${key}.kind`, kind, 'expected "final" or "pending"');
  if (typeof problem !== "string") invalid(`${key}.problem`, problem, "expected a string");
  return { containerId, interface: name, kind, problem: problem.slice(0, PROBLEM_CHARS_MAX) };
}
