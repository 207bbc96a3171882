import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import type { Route } from "../../ipam/definition/routes-and-dns.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { cidrContains, networkOf, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { Log } from "../../platform/log.ts";
import type { Clock } from "../../platform/time.ts";
import type { WarnOnce } from "../../platform/warn-once.ts";
import type { AttachOutcome } from "../../store/allocations.ts";
import type { CniStore } from "../../store/node-store.ts";
import type { Attachment, PodIdentity } from "../../store/records.ts";
import { type RequestedPlan, readPlan, refusedOutsideOwnersPlaces } from "./bridge-plan.ts";
import type { ListenerService } from "./listener-service.ts";
import { ipv4Of } from "./need.ts";
import type { WaitOutcome } from "./reports.ts";
import { METADATA_ROUTE_DST } from "./wire.ts";

/** What is needed of the cluster behind the daemon. */
export interface AdmissionCluster {
  /** Where the owner of a network has put it: one plan for each of the NADs of the namespace that it belongs to. */
  listenerPlans(network: string): RequestedPlan[];
  warnPod(pod: PodIdentity | null, reason: string, message: string): void;
}

interface AdmissionContext {
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly store: Pick<CniStore, "definition" | "attachmentsOfContainer">;
  /** null: no Kubernetes behind this daemon. */
  readonly cluster: AdmissionCluster | null;
  readonly listeners: ListenerService;
  readonly log: Log;
  readonly warnings: WarnOnce;
  /** Longest wait of an ADD for the metadata listener of its network, ms. */
  readonly metadataWaitMs: number;
  /** Why ADD cannot be served now; null when it can. */
  notReady(): string | null;
}

/** The runtime's configuration of a network on this node. */
interface NodeConfig {
  readonly conf: Readonly<Record<string, unknown>>;
}

type Attached = Extract<AttachOutcome, { kind: "attached" }>;

/**
 * The routes of an ADD that has its addresses. On a network with metadata it is answered when the listener on this node
 * is up, or after `metadataWaitMs`, or when the ADD has to end; the first such network of a container gets the route to
 * it.
 */
export function routesOf(
  context: AdmissionContext,
  config: NodeConfig,
  { attachment, definition }: Attached,
  deadlineMs: number,
): readonly Route[] | Promise<readonly Route[]> {
  const { metadata, routes } = definition;
  if (metadata === null || !context.listeners.enabled) return routes;
  if (metadata.kind === "on" && ipv4Of(attachment).length === 0) return routes;
  return withMetadata(context, config, { attachment, definition }, deadlineMs);
}

async function withMetadata(
  context: AdmissionContext,
  config: NodeConfig,
  { attachment, definition }: Pick<Attached, "attachment" | "definition">,
  deadlineMs: number,
): Promise<readonly Route[]> {
  const { routes, metadata } = definition;
  const reason = await whyNot(context, config, attachment, definition);
  if (reason !== null || metadata?.kind !== "on") {
    refuse(context, attachment, reason ?? "it is off");
    return routes;
  }
  await waitForListener(context, attachment, definition, deadlineMs);
  if (routes.some(({ dst }) => dst === METADATA_ROUTE_DST) || hasOtherRoute(context, attachment))
    return routes;
  return [...routes, { dst: METADATA_ROUTE_DST, gw: formatAddress(metadata.address.address) }];
}

/** Why an attachment gets no metadata although its network asks for it; null: it gets it. */
async function whyNot(
  context: AdmissionContext,
  config: NodeConfig,
  attachment: Attachment,
  definition: NetworkDefinition,
): Promise<string | null> {
  if (definition.metadata?.kind === "refused") return definition.metadata.reason;
  const owners = context.cluster?.listenerPlans(attachment.network) ?? [];
  const requested = refusedOutsideOwnersPlaces(readPlan(config.conf), owners);
  const reason = await context.listeners.admit(attachment, requested, definition);
  if (reason !== null) return reason;
  if (context.notReady() === null && context.store.definition(attachment.network)?.metadata?.kind !== "on") {
    return "only the configuration on this node asks for it, and no NetworkAttachmentDefinition defines the network";
  }
  return isOnLink(attachment, definition)
    ? null
    : `${attachment.ips[0]?.address} is in another subnet than the network's reserved address`;
}

/** The kernel refuses a route by a gateway that no address of the interface can reach. */
export function isOnLink({ ips }: Pick<Attachment, "ips">, { metadata }: NetworkDefinition): boolean {
  if (metadata?.kind !== "on") return false;
  const reserved = metadata.address.address;
  return ips
    .map((ip) => parseInterfaceAddress(ip.address))
    .some(({ address, prefixLength }) => cidrContains(networkOf(address, prefixLength), reserved));
}

/** Two routes to one destination would be a multipath route, and half of the requests would go to the other network. */
function hasOtherRoute({ store, listeners }: AdmissionContext, attachment: Attachment): boolean {
  return store
    .attachmentsOfContainer(attachment.containerId)
    .some((one) => one.id < attachment.id && listeners.serves(one) && ipv4Of(one).length > 0);
}

async function waitForListener(
  context: AdmissionContext,
  attachment: Attachment,
  definition: NetworkDefinition,
  deadlineMs: number,
): Promise<void> {
  const { clock, listeners, metadataWaitMs } = context;
  const waitMs = Math.min(metadataWaitMs, Math.max(0, deadlineMs - clock.monotonicMs()));
  const state = await listeners.untilUp(attachment, definition, waitMs);
  const outcome: WaitOutcome = state?.state ?? "late";
  listeners.reports.waits[outcome] += 1;
  if (outcome === "up") return;
  const { network, containerId, interface: name, pod } = attachment;
  const why =
    state === null
      ? `its listener was not up within ${Math.round(waitMs)} ms; is holdfast metadata-net running on this node?`
      : `its listener cannot be set up on this node: ${state.problem ?? "no reason was given"}`;
  const message = `network ${network} has no metadata yet: ${why}`;
  context.log.warn({ network, containerId, interface: name }, message);
  context.cluster?.warnPod(pod, "MetadataNotReady", message);
}

function refuse(context: AdmissionContext, { network, pod }: Attachment, reason: string): void {
  const message = `network ${network} gives no metadata here: ${reason}`;
  context.warnings.warn(network, message);
  context.cluster?.warnPod(pod, "MetadataRefused", message);
}
