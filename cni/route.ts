/*
 * cni/: one verb of a container runtime, request in, result out
 *
 *   route                read, run, answer or refuse
 *   request, result      CNI's JSON in and out, by version
 *   add, add-in-cluster  ADD on a standalone node, and in Kubernetes, over add-parts
 *   del, check, gc, status
 *   ready-gate           where requests wait until the daemon is ready
 *   context              what the verbs need
 */

import type { FastifyInstance } from "fastify";
import type { CniWireRequest } from "../cni-shim/wire.ts";
import type { Refusal } from "../ipam/refusals.ts";
import { refusalOf } from "../store/refusal-of.ts";
import { addStandalone } from "./add.ts";
import { ClusterAdds } from "./add-in-cluster.ts";
import { cniCheck } from "./check.ts";
import type { CniContext, CniMetrics } from "./context.ts";
import { cniDel } from "./del.ts";
import { cniGc } from "./gc.ts";
import { errorVersionOf, readWireRequest } from "./request.ts";
import { formatError } from "./result.ts";
import { cniStatus } from "./status.ts";

/** What the plugin binary hears: a status, and a CNI result or error; no body where a verb has none. */
export interface CniReply {
  readonly status: 200 | 422 | 503;
  readonly body?: object;
  /** The daemon ends, and the plugin binary is to ask the next one. */
  readonly isLeft?: true;
}

export class CniService {
  readonly #context: CniContext;
  readonly #metrics: CniMetrics;
  readonly #clusterAdds: ClusterAdds | null;

  constructor(context: CniContext, metrics: CniMetrics) {
    const { cluster } = context;
    this.#context = context;
    this.#metrics = metrics;
    this.#clusterAdds = cluster && new ClusterAdds(context, cluster);
  }

  /** `body`: a CniWireRequest, unchecked. Never rejects. */
  async answer(body: unknown): Promise<CniReply> {
    const { clock } = this.#context;
    const startMs = clock.monotonicMs();
    let wire: CniWireRequest | null = null;
    try {
      wire = readWireRequest(body);
      const result = await runVerb(this.#context, this.#clusterAdds, wire);
      this.#metrics.cniDone(wire.command, clock.monotonicMs() - startMs);
      return result === undefined ? { status: 200 } : { status: 200, body: result };
    } catch (error) {
      const refusal = refusalOf(error);
      this.#metrics.cniRefused(wire?.command ?? "unknown", refusal.code, clock.monotonicMs() - startMs);
      report(this.#context, wire, refusal, error);
      return refused(errorVersionOf(wire?.config ?? ""), refusal);
    }
  }
}

export function addCniRoute(server: FastifyInstance, cni: CniService): void {
  server.post("/cni", async (request, reply) => {
    const { status, body, isLeft } = await cni.answer(request.body);
    if (isLeft) reply.header("Retry-After", "1");
    return reply.code(status).send(body);
  });
}

/** Returns the body of the answer; undefined for verbs without one. Throws errors that refusalOf understands. */
async function runVerb(
  context: CniContext,
  clusterAdds: ClusterAdds | null,
  wire: CniWireRequest,
): Promise<object | undefined> {
  const { gate, clock, addDeadlineMs } = context;
  const limits = { deadlineMs: clock.monotonicMs() + addDeadlineMs };
  switch (wire.command) {
    case "ADD":
      return clusterAdds === null ? addStandalone(context, wire) : clusterAdds.add(wire);
    case "DEL":
      await cniDel(context, wire, "DEL");
      return undefined;
    case "CHECK":
      // It needs no more than the state.
      await gate.serve(limits, () => cniCheck(context, wire));
      return undefined;
    case "GC":
      await gate.serve(limits, async (unready) => (unready === null ? cniGc(context, wire) : null));
      return undefined;
    case "STATUS":
      await cniStatus(context, wire);
      return undefined;
  }
}

/** 5xx means "not done, retry" (the plugin binary then spools a DEL), 4xx "not possible as requested". */
export function refused(cniVersion: string, refusal: Refusal): CniReply {
  const again = refusal.cniCode === 11 || refusal.cniCode === 50 || refusal.cniCode === 999;
  const reply = { status: again ? 503 : 422, body: formatError(cniVersion, refusal) } as const;
  return refusal.code === "DAEMON_ENDING" ? { ...reply, isLeft: true } : reply;
}

function report(context: CniContext, wire: CniWireRequest | null, refusal: Refusal, error: unknown): void {
  const about = {
    verb: wire?.command,
    containerId: wire?.containerId,
    interface: wire?.ifname,
    code: refusal.code,
  };
  if (refusal.code === "INTERNAL_ERROR") context.log.error({ ...about, err: error }, refusal.message);
  else context.log.warn(about, refusal.message);
}
