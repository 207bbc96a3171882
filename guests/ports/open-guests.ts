import type { Configuration } from "../../ipam/definition/read-keys.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import type { Clock } from "../../platform/time.ts";
import type { CniStore } from "../../store/node-store.ts";
import { entryOf } from "./entry.ts";
import type { PortService } from "./port-service.ts";

export interface OpenGuestsContext {
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly store: Pick<CniStore, "definition">;
  readonly ports: PortService;
  readonly metadataWaitMs: number;
  /** The bridges whose guests metadata-net keeps from the node's own 169.254.169.254. */
  closedBridges(): Promise<ReadonlySet<string>>;
}

interface Guest {
  readonly network: string;
  readonly conf: Configuration;
}

/**
 * Before an address is taken (docs/decisions/0086): an ADD on a network with metadata waits for metadata-net where
 * nothing keeps its guest from the node's own 169.254.169.254 yet, and is refused while nobody is heard who would.
 * undefined: nothing is to be waited for.
 */
export function waitWhileOpen(context: OpenGuestsContext, guest: Guest, deadlineMs: number): Promise<void> | undefined {
  const { ports, store } = context;
  if (!ports.enabled || !ports.reports.away) return undefined;
  const definition = store.definition(guest.network);
  // What has no definition yet is looked at when it has its addresses.
  if (definition === undefined || ports.here(definition).metadata === null) return undefined;
  return waitUntilHeard(context, guest, deadlineMs);
}

async function waitUntilHeard(context: OpenGuestsContext, guest: Guest, deadlineMs: number): Promise<void> {
  const { clock, metadataWaitMs, ports } = context;
  const open = await openDevice(context, guest.conf);
  if (open === null) return;
  await ports.untilHeard(Math.min(metadataWaitMs, Math.max(0, deadlineMs - clock.monotonicMs())));
  if (ports.reports.away) throw refusal(guest.network, open, "holdfast metadata-net is not heard on this node");
}

/** Whether the guest would be refused if it is not served. */
export async function isOpen(context: OpenGuestsContext, conf: Guest["conf"]): Promise<boolean> {
  return (await openDevice(context, conf)) !== null;
}

/**
 * For a guest that is not known to be served, and may be: throws RefusalError METADATA_OPEN where nothing keeps it from
 * the node's own 169.254.169.254. `problem`: why it is not served.
 */
export async function refuseOpen(context: OpenGuestsContext, guest: Guest, problem: string): Promise<void> {
  // Its link is made after the ADD: metadata-net closes it as soon as it is there, if it runs.
  if (guest.conf.type === "ptp" && !context.ports.reports.away) return;
  const open = await openDevice(context, guest.conf);
  if (open !== null) throw refusal(guest.network, open, problem);
}

/** By which a guest would reach the node's own address; null: there is none. */
async function openDevice(context: OpenGuestsContext, conf: Guest["conf"]): Promise<string | null> {
  const entry = entryOf(conf);
  if (entry.kind === "none") return null;
  if (entry.kind === "own") return "its link";
  const closed = await context.closedBridges();
  return entry.names.find((name) => !closed.has(name)) ?? null;
}

function refusal(network: string, device: string, problem: string): RefusalError {
  return new RefusalError(refuse("METADATA_OPEN", { network, device, problem }));
}
