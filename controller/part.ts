/*
 * controller/: `holdfast controller`, one active in a cluster (lease)
 *
 *   watched          what the API server shows, mirrored
 *   controller       its parts as tasks: address-parts, machine-parts, network-parts
 *   sweep/           every reason of every address judged (claims/reasons), then carried out
 *   claims/          claims that list what nobody has recorded, or whose network was changed; pod-adoption, owner-pods
 *   network-imports  what was in use before a network was ours; whereabouts-records: the same of whereabouts
 *   network-status   what is seen of networks; lean-allocations, orphan-networks, recoveries, udn-conditions
 *   protection/      the finalizer of IPNetworks; networks and allocations that were deleted by force
 *   capi/            machines of Cluster API; machine-data/: Metal3's data of machines
 *   part-task        what begins the passes of a part; quiet-part: those over everything, few while nothing changes
 *   followed-resources  copies that are believed or doubted together; shared-parts: what they have in common, once
 */

import type { EventWriter } from "../kube/events.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import type { Log } from "../platform/log.ts";
import type { RestOptions } from "../platform/periodic-task.ts";
import type { ControllerSettings } from "./settings.ts";
import type { Watched } from "./watched.ts";

/** What begins a pass of a part before its interval is over: at once, and after "changed" as PartTask says. */
export type Occasion =
  /** What the controller follows, but for nodes, or whether it may work. */
  | "changed"
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
  /** From the end of a pass to the next one, ms, where none is begun sooner. */
  readonly everyMs: number;
  /** The same while nothing has changed; absent: it makes no difference. */
  readonly quietMs?: number;
  readonly triggers?: readonly Occasion[];
  readonly rest?: RestOptions;
  /** When it is to run at the latest, ms of the clock. */
  readonly nextMs?: () => number;
  /** One pass. Throws ApiAway. */
  readonly work: (signal: AbortSignal) => Promise<void>;
}

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
