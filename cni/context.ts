import type { ClaimWaiters } from "../claims/claim-waiters.ts";
import type { ClusterRequest, ClusterRequestParts } from "../claims/cluster-request.ts";
import type { Refusal, RefusalCode } from "../ipam/refusals.ts";
import type { AdmissionCluster } from "../metadata/listeners/admission.ts";
import type { ListenerService } from "../metadata/listeners/listener-service.ts";
import type { BootAgreement } from "../platform/boot-id.ts";
import type { PassKillPoint } from "../platform/kill-point.ts";
import type { Log } from "../platform/log.ts";
import type { ResolverFiles } from "../platform/resolv-conf.ts";
import type { Clock } from "../platform/time.ts";
import type { WarnOnce } from "../platform/warn-once.ts";
import type { CniStore, LocalAnswers } from "../store/node-store.ts";
import type { PodIdentity } from "../store/records.ts";
import type { AddConfigs } from "./request.ts";

/** What the CNI verbs need of the cluster behind a daemon. */
export interface ClusterContext extends ClusterRequestParts, AdmissionCluster {
  readonly store: LocalAnswers;
  readonly imports: {
    /** What was in use on a network before it was ours is recorded before its first address is given. */
    ensure(network: string, needs: Pick<ClusterRequest, "nad" | "nodes">, deadlineMs: number): Promise<void>;
  };
  /** Tells the pod's owner what a refusal means, where somebody has to act. */
  tellPod(pod: PodIdentity | null, refusal: Refusal): void;
  /** Whether no pod speaks for an attachment any more. False where the API cannot tell. */
  podHasEnded(pod: PodIdentity | null): Promise<boolean>;
}

/** Counts and times of what was asked; `tookMs`: until it was answered. */
export interface CniMetrics {
  cniDone(verb: string, tookMs: number): void;
  cniRefused(verb: string, code: RefusalCode, tookMs: number): void;
}

/** What the CNI verbs work with. */
export interface CniContext {
  readonly clock: Clock;
  readonly store: CniStore;
  /** null: no Kubernetes behind this daemon. */
  readonly cluster: ClusterContext | null;
  readonly waiting: ClaimWaiters;
  readonly log: Log;
  readonly warnings: WarnOnce;
  readonly bootId: string;
  readonly bootAgreement: BootAgreement;
  readonly addDeadlineMs: number;
  readonly listeners: ListenerService;
  /** Longest wait of an ADD for the metadata listener of its network, ms. */
  readonly metadataWaitMs: number;
  readonly resolverFiles: ResolverFiles;
  readonly configs: AddConfigs;
  /** Where a crash is tested. */
  readonly killPoint: PassKillPoint;
  /** Why ADD cannot be served now; null when it can. */
  notReady(): string | null;
}
