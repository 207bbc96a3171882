import type { PodIdentity } from "../allocations/records.ts";
import type { AddWaiters } from "../claims/add-waiters.ts";
import type { ClusterRequest, ClusterRequestParts } from "../claims/cluster-request.ts";
import type { PortService } from "../guests/ports/port-service.ts";
import type { Refusal, RefusalCode } from "../ipam/refusals.ts";
import type { RuntimeConfigurations } from "../networks/runtime-configurations.ts";
import type { Log } from "../platform/log.ts";
import type { Machine } from "../platform/machine.ts";
import type { Namespaces } from "../platform/namespaces.ts";
import type { ResolverFiles } from "../platform/resolv-conf.ts";
import type { Clock } from "../platform/time.ts";
import type { WarnOnce } from "../platform/warn-once.ts";
import type { CniStore, LocalAnswers, PortStore } from "../store/node-store.ts";
import type { ReadyGate } from "./ready-gate.ts";
import type { AddConfigs } from "./request.ts";

export interface ClusterContext extends ClusterRequestParts {
  readonly store: LocalAnswers;
  readonly imports: {
    /** Records addresses from before the network was ours, before its first address is allocated. */
    ensure(network: string, needs: Pick<ClusterRequest, "nad" | "nodes">, deadlineMs: number): Promise<void>;
  };
  /** Tells the pod's owner about a refusal that a person must resolve. */
  tellPod(pod: PodIdentity | null, refusal: Refusal): void;
  warnPod(pod: PodIdentity | null, reason: string, message: string): void;
  /** Whether an attachment no longer has a pod. False if the API cannot tell. */
  podHasEnded(pod: PodIdentity | null): Promise<boolean>;
}

/** Counts requests and their times; `tookMs`: until the answer. */
export interface CniMetrics {
  cniDone(verb: string, tookMs: number): void;
  cniRefused(verb: string, code: RefusalCode, tookMs: number): void;
}

export interface CniContext {
  readonly clock: Clock;
  readonly store: CniStore & Pick<PortStore, "keepPluginMtu">;
  /** null: a standalone node. */
  readonly cluster: ClusterContext | null;
  readonly waiting: AddWaiters;
  readonly gate: ReadyGate;
  readonly log: Log;
  readonly warnings: WarnOnce;
  readonly machine: Machine;
  readonly namespaces: Namespaces;
  readonly addDeadlineMs: number;
  readonly ports: PortService;
  /** Longest wait of an ADD for its own port to be served with metadata, ms. */
  readonly metadataWaitMs: number;
  /** The bridges whose guests metadata-net keeps from the node's own 169.254.169.254. */
  closedBridges(): Promise<ReadonlySet<string>>;
  readonly resolverFiles: ResolverFiles;
  readonly configs: AddConfigs;
  readonly runtimeConfigurations: Pick<RuntimeConfigurations, "note">;
  /** Why ADD cannot be served now; null when it can. */
  notReady(): string | null;
}
