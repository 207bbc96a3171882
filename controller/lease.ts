import { ApiAway, type KubeAnswer, type KubeApi } from "../kube/kube-api.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { namespacedPath } from "../kube/objects.ts";
import type { Log } from "../platform/log.ts";
import { isoTimeMs } from "../platform/time.ts";

const LEASES_PATH = "/apis/coordination.k8s.io/v1/leases";
const LEASE_NAME = "holdfast-controller";
/** A holder that was not seen to renew for so long, seconds, counts as gone. */
const LEASE_SECONDS = 15;
/** A holder that could not renew for so long, ms, stops leading: before another one starts. */
const RENEW_DEADLINE_MS = 10_000;
/** How often to renew, or to check, ms. */
export const LEASE_RETRY_MS = 2_000;
/** For the last write before the end, ms: it is not waited for any longer. */
const STEP_DOWN_MS = 1_000;

export interface LeaseOptions {
  readonly api: KubeApi;
  readonly namespace: string;
  /** Of this process, and of no other at the same time. */
  readonly identity: string;
  readonly log: Pick<Log, "info" | "warn">;
}

interface LeaseObject {
  readonly metadata: { readonly resourceVersion: string };
  readonly spec?: {
    readonly holderIdentity?: string;
    readonly leaseDurationSeconds?: number;
    readonly acquireTime?: string;
    readonly leaseTransitions?: number;
  };
}

/**
 * Decides which of several controllers works. It only saves work: every write is safe without it, and where leases
 * cannot be used at all every controller works. Whether a holder is alive is judged by the observed changes of its
 * lease, on this machine's monotonic clock; times in the lease are for people.
 */
export class LeaderLease {
  readonly #options: LeaseOptions;
  readonly #objects: ObjectClient;
  #renewedMs = Number.NEGATIVE_INFINITY;
  #seen: { readonly resourceVersion: string; readonly sinceMs: number } | null = null;
  /** Leases are refused here, or unknown to the server. */
  #unusable = false;
  #wasHeld = false;

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.#objects = new ObjectClient(options.api);
  }

  get held(): boolean {
    return this.#nowMs - this.#renewedMs < RENEW_DEADLINE_MS;
  }

  /** Whether to work: this process holds the lease, or leases cannot be used. */
  get leads(): boolean {
    return this.held || this.#unusable;
  }

  /** Acquires, renews, or reads the holder; called every LEASE_RETRY_MS. Never throws. */
  async turn(): Promise<void> {
    try {
      await this.#turn();
    } catch (error) {
      if (!(error instanceof ApiAway)) throw error;
    }
    if (this.held === this.#wasHeld) return;
    this.#wasHeld = this.held;
    this.#options.log.info({ identity: this.#options.identity }, this.held ? "leading" : "no longer leading");
  }

  /** Lets another one take over at once. Never throws. */
  async stepDown(): Promise<void> {
    if (!this.held) return;
    this.#renewedMs = Number.NEGATIVE_INFINITY;
    try {
      const lease = await this.#objects.find(this.#path, this.#nowMs + STEP_DOWN_MS);
      if (lease?.spec?.holderIdentity !== this.#options.identity) return;
      const without = { ...lease, spec: { ...lease.spec, holderIdentity: "" } };
      await this.#objects.replace(this.#path, without, this.#nowMs + STEP_DOWN_MS);
    } catch (error) {
      if (!(error instanceof ApiAway)) throw error;
    }
  }

  async #turn(): Promise<void> {
    // Taken before the request: a slow renewal is as old as its request.
    const requestedMs = this.#nowMs;
    const read = await this.#objects.get(this.#path, this.#deadlineMs);
    if (read.kind === "absent") return this.#acquire(null, requestedMs);
    if (read.kind !== "present") return this.#giveUp(read.answer);
    this.#unusable = false;
    const lease: LeaseObject = read.object;
    const holder = lease.spec?.holderIdentity ?? "";
    if (holder === this.#options.identity || holder === "") return this.#acquire(lease, requestedMs);
    const { resourceVersion } = lease.metadata;
    if (this.#seen?.resourceVersion !== resourceVersion)
      this.#seen = { resourceVersion, sinceMs: requestedMs };
    if (requestedMs - this.#seen.sinceMs > LEASE_SECONDS * 1_000) return this.#acquire(lease, requestedMs);
    this.#renewedMs = Number.NEGATIVE_INFINITY;
  }

  async #acquire(lease: LeaseObject | null, requestedMs: number): Promise<void> {
    const { identity, namespace } = this.#options;
    // MicroTime requires six digits.
    const time = isoTimeMs(this.#options.api.clock.wallMs()).replace("Z", "000Z");
    const own = lease?.spec?.holderIdentity === identity;
    const spec = {
      holderIdentity: identity,
      leaseDurationSeconds: LEASE_SECONDS,
      acquireTime: own ? (lease.spec?.acquireTime ?? time) : time,
      renewTime: time,
      leaseTransitions: (lease?.spec?.leaseTransitions ?? 0) + (own || lease === null ? 0 : 1),
    };
    const metadata = { name: LEASE_NAME, namespace };
    const created = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata, spec };
    const written =
      lease === null
        ? await this.#objects.create(namespacedPath(LEASES_PATH, namespace), created, this.#deadlineMs)
        : await this.#objects.replace(this.#path, { ...lease, spec }, this.#deadlineMs);
    if (written.kind === "done") {
      this.#unusable = false;
      this.#renewedMs = requestedMs;
    } else if (written.kind === "refused") this.#giveUp(written.answer);
    else this.#renewedMs = Number.NEGATIVE_INFINITY;
  }

  /** No right to leases, no namespace for them, or a policy that refuses them: logged once, asked again each turn. */
  #giveUp({ status, body }: KubeAnswer): void {
    if (this.#unusable) return;
    this.#options.log.warn({ status, problem: body?.message }, "no lease can be had; working without one");
    this.#unusable = true;
  }

  get #nowMs(): number {
    return this.#options.api.clock.monotonicMs();
  }

  get #deadlineMs(): number {
    return this.#nowMs + RENEW_DEADLINE_MS;
  }

  get #path(): string {
    return namespacedPath(LEASES_PATH, this.#options.namespace, LEASE_NAME);
  }
}
