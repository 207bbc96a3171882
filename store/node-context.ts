import type { PassKillPoint } from "../platform/kill-point.ts";
import type { Log } from "../platform/log.ts";
import type { NamespaceIdentity } from "../platform/namespaces.ts";
import type { Clock } from "../platform/time.ts";
import type { HostLocalDirs } from "./host-local/data-dir.ts";

export interface NodeContext {
  readonly clock: Clock;
  readonly node: string;
  readonly bootId: string;
  /** As the kubelet reports it; absent: the same. */
  readonly kernelBootId?: string;
  /** Microseconds of CLOCK_BOOTTIME now. Absent: not known. */
  bootTimeUs?(): number;
  /** host-local's directories, without a cluster; absent: its default, and those that configurations name. */
  readonly hostLocalDirs?: HostLocalDirs;
  /** Whether something is at a path, whatever hides it from this process; null, or absent: it cannot be told. */
  pathExists?(path: string): boolean | null;
  /** A file outside of the state directory, kept until the next boot; absent: that directory alone says what it had. */
  readonly bootRecord?: string;
  /** Whether an attachment's network namespace is certainly gone. Unknown is false. */
  namespaceGone(netns: NamespaceIdentity): boolean;
  /** Whether that namespace certainly still exists at its path. Unknown is false; absent: it cannot be determined. */
  namespaceAlive?(netns: NamespaceIdentity): boolean;
  /** For tests of crashes. */
  readonly killPoint?: PassKillPoint;
}
export type StoreLog = Pick<Log, "info" | "error">;
/** A cluster's store also warns about other nodes and the API server. */
export type ClusterStoreLog = Pick<Log, "info" | "warn" | "error">;
