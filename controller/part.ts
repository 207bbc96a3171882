/*
 * controller/: `holdfast controller`, one active in a cluster (lease)
 *
 *   watched          what the API server shows, mirrored
 *   controller       its parts as tasks: address-parts, machine-parts, network-parts
 *   sweep/           every reason of every address judged (claims/reasons), then carried out
 *   claims/          claims that list what nobody has recorded, or whose network was changed; pod-adoption, owner-pods
 *   network-imports  what was in use before a network was ours; whereabouts-records: the same of whereabouts
 *   network-status   what nodes and `kubectl get ipnetworks` see; lean-allocations, orphan-networks, recoveries, udn-conditions
 *   protection/      the finalizer of IPNetworks; networks and allocations that were deleted by force
 *   capi/            machines of Cluster API; machine-data/: Metal3's data of machines
 *   quiet-part       passes over everything that are left out while nothing changes
 *   followed-resources  copies that are believed or doubted together; shared-parts: what they have in common, once
 */

import type { EventWriter } from "../kube/events.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import type { Log } from "../platform/log.ts";
import { logFailure, PeriodicTask, type RestOptions } from "../platform/periodic-task.ts";
import type { Clock } from "../platform/time.ts";
import type { ControllerSettings } from "./settings.ts";
import type { Watched } from "./watched.ts";

/** What some parts act on at once, not only when their interval is over. */
export type Occasion =
  | "owner-ended"
  | "reason-changed"
  | "verdict-due"
  | "claim-listed"
  | "allocation-lost"
  | "cluster-paused"
  | "namespace-asked"
  | "definitions-changed"
  | "udns-changed";

/** One of the things that a controller does again and again, each beside the others and never twice at once. */
export interface ControllerPart {
  /** In the log line of a failure. */
  readonly name: string;
  readonly everyMs: number;
  readonly triggers?: readonly Occasion[];
  readonly rest?: RestOptions;
  /** When it is to run at the latest, ms of the clock. */
  readonly nextMs?: () => number;
  readonly work: (signal: AbortSignal) => Promise<void>;
}

export function taskOf(
  { name, everyMs, rest = {}, nextMs, work }: ControllerPart,
  clock: Clock,
  log: Log,
): PeriodicTask {
  return new PeriodicTask({
    ...{ clock, intervalMs: everyMs, rest, work, ...(nextMs && { nextMs }) },
    onFailure: logFailure(log, name),
  });
}

/** What parts are made from. */
export interface PartContext {
  readonly api: KubeApi;
  readonly log: Log;
  readonly settings: ControllerSettings;
  readonly identity: string;
  readonly events: EventWriter;
  readonly watched: Watched;
  /** The API server's clock, ms since 1970. */
  serverMs(): number;
  /** Why nothing may be written now, or null. */
  idle(): string | null;
  occur(occasion: Occasion): void;
}
