/*
 * cni/: one verb of a container runtime, request in, result out
 *
 *   route                read, run, answer or refuse; CHECK, GC, STATUS
 *   request, result      CNI's JSON in and out, by version
 *   add                  ADD on a standalone node, and in Kubernetes, over add-parts
 *   del                  DEL
 *   ready-gate           where requests wait until the daemon is ready
 *   context              what the verbs need
 */

import type { FastifyInstance } from "fastify";
import type { CniWireRequest } from "../cni-shim/wire.ts";
import { isGiven } from "../ipam/definition/definition-keys.ts";
import { foldAsGo } from "../ipam/definition/go-json.ts";
import { type Configuration, PREVIOUS_RESULT_KEYS } from "../ipam/definition/read-keys.ts";
import { type Refusal, RefusalError, refuse } from "../ipam/refusals.ts";
import { sameAddress } from "../ipam/space/address.ts";
import { parseInterfaceAddress } from "../ipam/space/cidr.ts";
import { refusalOf } from "../store/refusal-of.ts";
import { addStandalone, ClusterAdds } from "./add.ts";
import type { CniContext, CniMetrics } from "./context.ts";
import { cniDel } from "./del.ts";
import { errorVersionOf, readConfig, readDefinedConfig, readWireRequest, stampOfLive } from "./request.ts";
import { formatError } from "./result.ts";

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

/** STATUS: whether ADD can be served. Throws RefusalError UNAVAILABLE. */
async function cniStatus(context: CniContext, wire: CniWireRequest): Promise<void> {
  const { definition: given } = readDefinedConfig(wire.config, "STATUS", "1.1.0");
  const reason = context.notReady();
  if (reason !== null) throw new RefusalError(refuse("UNAVAILABLE", { reason }));
  const definition = context.store.definition(given.name) ?? given;
  if (definition.statusWhenFull !== "fail") return;
  const view = (await context.store.networks()).find((network) => network.name === given.name);
  const full = view?.ranges.find((range) => range.free === "0" && range.cooling === "0");
  if (full) {
    const said = `network ${given.name} has no free address in ${full.subnets.join(", ")}`;
    throw new RefusalError(refuse("UNAVAILABLE", { reason: said }));
  }
}

/** The specification's two names for the list: libcni writes the first, the section about GC the second. */
const GC_LIST_KEYS = ["cni.dev/valid-attachments", "cni.dev/attachments"] as const;

/**
 * Of the named network alone, and no claim: ends what the runtime does not list and whose network namespace is gone; in
 * Kubernetes only if its pod has ended too. Throws RefusalError GC_LIST_MISSING, CONFIG_INVALID.
 */
async function cniGc(context: CniContext, wire: CniWireRequest): Promise<void> {
  const { conf } = readConfig(wire.config, "GC", "1.1.0");
  const network = conf.name;
  if (typeof network !== "string" || network === "") {
    throw new RefusalError(
      refuse("CONFIG_INVALID", {
        key: "name",
        value: String(network),
        remedy: "expected the name of the network to collect",
      }),
    );
  }
  const valid = readValid(conf);
  const stamp = stampOfLive(context, wire);
  for (const attachment of context.store.attachmentsOfNetwork(network)) {
    if (valid.has(`${attachment.containerId}/${attachment.interface}`)) continue;
    const state = context.namespaces.stateOf(attachment.netns);
    if (state !== "gone" && state !== "never-there") continue;
    if (context.cluster !== null && !(await context.cluster.podHasEnded(attachment.pod))) continue;
    if (await context.store.endAttachment(attachment, "GC", stamp)) {
      context.log.info(
        { network, containerId: attachment.containerId, interface: attachment.interface },
        "ended by GC",
      );
    }
  }
}

/** Of two lists, what either of them names is valid. */
function readValid(conf: Configuration): Set<string> {
  const given = GC_LIST_KEYS.filter((key) => isGiven(conf[key]));
  if (given.length === 0) throw new RefusalError(refuse("GC_LIST_MISSING", {}));
  return new Set(given.flatMap((key) => readList(key, conf[key])));
}

function readList(key: string, list: unknown): string[] {
  const wanted = 'expected a list of {"containerID": …, "ifname": …}';
  if (!Array.isArray(list)) invalid(key, list, wanted);
  return list.map((one: unknown) => {
    const { containerID, ifname } = (one ?? {}) as { containerID?: unknown; ifname?: unknown };
    if (typeof containerID !== "string" || typeof ifname !== "string") invalid(key, one, wanted);
    return `${containerID}/${ifname}`;
  });
}

function invalid(key: string, value: unknown, remedy: string): never {
  throw new RefusalError(refuse("CONFIG_INVALID", { key, value: JSON.stringify(value), remedy }));
}

/** CHECK: journal, store and prevResult must agree. Throws RefusalError CHECK_FAILED with the difference. */
async function cniCheck(context: CniContext, wire: CniWireRequest): Promise<void> {
  const { definition, conf } = readDefinedConfig(wire.config, "CHECK", "0.4.0");
  const fail = (problem: string): never => {
    const { containerId, ifname } = wire;
    throw new RefusalError(refuse("CHECK_FAILED", { containerId, interface: ifname, problem }));
  };
  const attachment = context.store.attachment(definition.name, wire.containerId, wire.ifname);
  if (!attachment) return fail(`nothing is attached to network ${definition.name}`);
  for (const { address } of attachment.ips) {
    const holder = await context.store.holderOf(definition.name, parseInterfaceAddress(address).address);
    if (holder === null || holder.uid !== attachment.owner.uid) {
      fail(`${address} is not allocated to it any more`);
    }
  }
  const previous = previousAddresses(foldAsGo(conf.prevResult, PREVIOUS_RESULT_KEYS));
  if (previous === null) return;
  const missing = attachment.ips.find(({ address }) => !previous.some((text) => isSame(text, address)));
  if (missing) fail(`${missing.address} is allocated, but prevResult has ${previous.join(", ") || "no address"}`);
}

/** Addresses in prevResult that may be ours; null when the runtime sent none. */
function previousAddresses(prevResult: unknown): string[] | null {
  if (typeof prevResult !== "object" || prevResult === null) return null;
  const { ips } = prevResult as { ips?: unknown };
  if (!Array.isArray(ips)) return [];
  return ips.map((ip) => String((ip as { address?: unknown } | null)?.address));
}

/** The same address in any notation. */
function isSame(text: string, address: string): boolean {
  try {
    const [a, b] = [parseInterfaceAddress(text), parseInterfaceAddress(address)];
    return sameAddress(a.address, b.address) && a.prefixLength === b.prefixLength;
  } catch {
    return false;
  }
}
