import type { Attachment, PodIdentity } from "../../allocations/records.ts";
import type { Configuration } from "../../ipam/definition/read-keys.ts";
import type { Log } from "../../platform/log.ts";
import type { WarnOnce } from "../../platform/warn-once.ts";
import type { AttachOutcome } from "../../store/allocations.ts";
import type { CniStore, PortStore } from "../../store/node-store.ts";
import { type GuestAnswer, guestAnswer } from "./guest-route.ts";
import { isOpen, type OpenGuestsContext, refuseOpen } from "./open-guests.ts";
import type { PortState } from "./reports.ts";

interface AdmissionContext extends OpenGuestsContext {
  readonly store: Pick<CniStore, "definition" | "attachmentsOfContainer"> & Pick<PortStore, "keepPluginMtu">;
  /** null: no Kubernetes behind this daemon. */
  readonly cluster: { warnPod(pod: PodIdentity | null, reason: string, message: string): void } | null;
  readonly log: Log;
  readonly warnings: WarnOnce;
  /** Why ADD cannot be served now; null when it can. */
  notReady(): string | null;
}

/** The runtime's configuration of a network on this node. */
interface NodeConfig {
  readonly conf: Configuration;
}

type Attached = Extract<AttachOutcome, { kind: "attached" }>;

/**
 * The addresses and routes in the answer to an ADD that has its addresses. On a network with metadata it is answered
 * when the guest's own port is served on this node, or will never be, or after `metadataWaitMs`, or when the ADD has to
 * end. Throws RefusalError METADATA_OPEN where the guest would reach the node's own 169.254.169.254 by then.
 */
export function answerOf(
  context: AdmissionContext,
  config: NodeConfig,
  { attachment, definition }: Attached,
  deadlineMs: number,
): GuestAnswer | Promise<GuestAnswer> {
  const { ports, store } = context;
  // Without a definition in the cluster nobody asked for metadata: the default is for those that are defined.
  const isDefined = store.definition(attachment.network) !== undefined;
  const counts = isDefined ? ports.here(definition) : definition;
  if (counts.metadata === null || !ports.enabled) return { ips: attachment.ips, routes: definition.routes };
  return withMetadata(context, config, { attachment, definition: counts }, deadlineMs);
}

async function withMetadata(
  context: AdmissionContext,
  { conf }: NodeConfig,
  { attachment, definition }: Pick<Attached, "attachment" | "definition">,
  deadlineMs: number,
): Promise<GuestAnswer> {
  const { network, ips } = attachment;
  const { routes } = definition;
  const reason = whyNot(context, network);
  if (reason !== null) {
    const message = `network ${network} gives no metadata here: ${reason}`;
    context.warnings.warn(network, message);
    context.cluster?.warnPod(attachment.pod, "MetadataRefused", message);
    return { ips, routes };
  }
  await context.store.keepPluginMtu(network, mtuOf(conf));
  const state = await waitForPort(context, conf, { attachment, definition }, deadlineMs);
  // A route into the void would keep a later interface, which may be served, from getting one.
  if (state?.kind === "final") return { ips, routes };
  return guestAnswer({
    ips,
    routes,
    conf,
    isLater: hasEarlier(context, attachment),
  });
}

/** Why an attachment gets no metadata although the configuration of its node asks for it; null: it gets it. */
function whyNot({ notReady, store, ports }: AdmissionContext, network: string): string | null {
  const definition = store.definition(network);
  const isWanted = definition !== undefined && ports.here(definition).metadata !== null;
  if (notReady() !== null || isWanted) return null;
  return "only the configuration on this node asks for it, and no NetworkAttachmentDefinition defines the network";
}

/** `mtu` of the plugin; null: none. */
function mtuOf({ mtu }: NodeConfig["conf"]): number | null {
  return typeof mtu === "number" && Number.isSafeInteger(mtu) && mtu > 0 ? mtu : null;
}

function hasEarlier({ store, ports }: AdmissionContext, attachment: Attachment): boolean {
  return store
    .attachmentsOfContainer(attachment.containerId)
    .some((one) => one.id < attachment.id && ports.leadsToMetadata(one));
}

async function waitForPort(
  context: AdmissionContext,
  conf: NodeConfig["conf"],
  { attachment, definition }: Pick<Attached, "attachment" | "definition">,
  deadlineMs: number,
): Promise<PortState> {
  // It asks for addresses before it makes the interface: there is nothing to be served yet.
  const { network, containerId, interface: name, pod } = attachment;
  if (conf.type === "ptp") {
    await refuseOpen(context, { network, conf }, "holdfast metadata-net is not heard on this node");
    return null;
  }
  const { clock, ports, metadataWaitMs } = context;
  const startMs = clock.monotonicMs();
  const waitMs = Math.min(metadataWaitMs, Math.max(0, deadlineMs - startMs));
  let state = await ports.untilServed(attachment, definition, waitMs);
  // The first guest of a bridge would be refused: its port may still be searched for.
  const leftMs = waitMs - (clock.monotonicMs() - startMs);
  if (state?.kind === "pending" && (await isOpen(context, conf)))
    state = await ports.untilServed(attachment, definition, leftMs, leftMs);
  ports.waits[state === null ? "late" : state.kind === "up" ? "up" : "failed"] += 1;
  if (state?.kind === "up") return state;
  const why = whyUnserved(state, waitMs);
  if (state?.kind !== "final") await refuseOpen(context, { network, conf }, why);
  const { reason, message } = unserved(network, name, { kind: state?.kind, why });
  context.log.warn({ network, containerId, interface: name }, message);
  context.cluster?.warnPod(pod, reason, message);
  return state;
}

function whyUnserved(state: Exclude<PortState, { kind: "up" }>, waitMs: number): string {
  if (state !== null) return state.problem;
  return `it was not served within ${Math.round(waitMs)} ms; is holdfast metadata-net running on this node?`;
}

function unserved(
  network: string,
  name: string,
  { kind, why }: { readonly kind: "final" | "pending" | undefined; readonly why: string },
) {
  return kind === "final"
    ? { reason: "MetadataRefused", message: `network ${network} gives no metadata to ${name}: ${why}` }
    : { reason: "MetadataNotReady", message: `network ${network} gives no metadata to ${name} yet: ${why}` };
}
