import type { PassKillPoint } from "../platform/kill-point.ts";
import type { Log } from "../platform/log.ts";
import type { NamespaceIdentity } from "../platform/namespaces.ts";
import type { Clock } from "../platform/time.ts";
import type { HostLocalDirs } from "./host-local/takeover.ts";

/** What a store needs to know of the node it runs on. */
export interface NodeContext {
  readonly clock: Clock;
  /** Node name recorded with every attachment. */
  readonly node: string;
  /** The present boot of this machine. */
  readonly bootId: string;
  /** Microseconds of CLOCK_BOOTTIME now. Absent: not known. */
  bootTimeUs?(): number;
  /** Where host-local kept addresses; absent: its own default, and wherever a configuration says. */
  readonly hostLocalDirs?: HostLocalDirs;
  /** Whether an attachment's network namespace is certainly gone. Unknown is false. */
  namespaceGone(netns: NamespaceIdentity): boolean;
  /** Whether it is certainly still there: the very namespace at its path. Unknown is false; absent: nobody can tell. */
  namespaceAlive?(netns: NamespaceIdentity): boolean;
  /** Where a crash is tested. */
  readonly killPoint?: PassKillPoint;
}

/** What a store says. */
export type StoreLog = Pick<Log, "info" | "error">;
/** A cluster's store has warnings besides: what another node or the API server did. */
export type ClusterStoreLog = Pick<Log, "info" | "warn" | "error">;
