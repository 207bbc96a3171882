import type { Logger } from "pino";
import type { WaitingRoom } from "../claims/waiting-room.ts";
import type { ClusterNode } from "../daemon/cluster-node.ts";
import type { ListenerDesk } from "../metadata/listeners/desk.ts";
import type { BootAgreement } from "../platform/boot-id.ts";
import type { ResolverFiles } from "../platform/resolv-conf.ts";
import type { WarnOnce } from "../platform/warn-once.ts";
import type { NodeStore } from "../store/node-store.ts";

/** What the CNI verbs work with. */
export interface CniContext {
  readonly store: NodeStore;
  /** null: no Kubernetes behind this daemon. */
  readonly cluster: ClusterNode | null;
  readonly waiting: WaitingRoom;
  readonly log: Logger;
  readonly warnings: WarnOnce;
  readonly bootId: string;
  readonly bootAgreement: BootAgreement;
  readonly addDeadlineMs: number;
  readonly listeners: ListenerDesk;
  /** Longest wait of an ADD for the metadata listener of its network, ms. */
  readonly metadataWaitMs: number;
  readonly resolverFiles: ResolverFiles;
  /** Why ADD cannot be served now; null when it can. */
  notReady(): string | null;
}
