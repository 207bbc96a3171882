import { ApiAway, type KubeAnswer, type OpenKubeApi } from "../kube/kube-api.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { namespacedPath } from "../kube/objects.ts";
import type { Log } from "../platform/log.ts";
import { logFailure } from "../platform/periodic-task.ts";
import { isoTimeMs, sleep } from "../platform/time.ts";

const LEASES_PATH = "/apis/coordination.k8s.io/v1/leases";
const LEASE_NAME = "holdfast-controller";
/** A holder that was not seen to renew for so long, seconds, counts as gone. */
const LEASE_SECONDS = 15;
const LEASE_MS = LEASE_SECONDS * 1_000;
/**
 * A holder that could not renew for so long, ms, stops leading. An attempt of a write that it began before then takes 5
 * s at most, so it is over when another one may lead.
 */
const RENEW_DEADLINE_MS = 10_000;
/** From the beginning of one renewal, or one look at the holder, to the next, ms. */
const RETRY_MS = 2_000;
/**
 * For one request, ms. Above that of a slow server; below the 5 s in which somebody must lead after an API server has
 * returned, for a connection from before may lead nowhere.
 */
const REQUEST_MS = 4_000;
/** For giving the lease back, ms: the end of a process does not wait for it any longer. */
const RELEASE_MS = 1_000;

interface LeaseOptions {
  /** Of the lease alone, so that a renewal waits for nothing else; `stop` closes it. */
  readonly api: OpenKubeApi;
  readonly namespace: string;
  /** Of this process, and of no other at the same time. */
  readonly identity: string;
  readonly log: Pick<Log, "info" | "warn">;
  onLead?(): void;
}

interface LeaseObject {
  readonly metadata: { readonly resourceVersion: string };
  readonly spec?: {
    readonly holderIdentity?: string;
    readonly acquireTime?: string;
    readonly leaseTransitions?: number;
  };
}

/**
 * Decides which of several controllers works, as client-go's leader election does: whether a holder is alive is judged
 * by the observed changes of its lease, on this machine's monotonic clock; times in the lease are for people. Where
 * leases cannot be used at all every controller works. See docs/decisions/0054.
 */
export class LeaderLease {
  readonly #options: LeaseOptions;
  readonly #objects: ObjectClient;
  readonly #life = new AbortController();
  #loop: Promise<void> = Promise.resolve();
  /** The beginning of the last renewal that succeeded, ms. */
  #renewedMs = Number.NEGATIVE_INFINITY;
  /** The lease as this process wrote it last; null: what became of it is not known. */
  #written: LeaseObject | null = null;
  /** The lease may name this process. */
  #mayHold = false;
  /** The version that was seen last, null for no lease, and since when it has not changed. */
  #seen: { readonly resourceVersion: string | null; readonly sinceMs: number } = {
    resourceVersion: null,
    sinceMs: Number.NEGATIVE_INFINITY,
  };
  /** Since when leases have been refused, or unknown to the server. */
  #refusedSinceMs: number | null = null;
  /** They have been so for as long as a lease lasts: whoever held one has stopped. */
  #unusable = false;
  #didLead = false;

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.#objects = new ObjectClient(options.api);
  }

  /** Whether to work: this process holds the lease, or leases cannot be used. */
  get leads(): boolean {
    if (this.#life.signal.aborted) return false;
    return this.#unusable || this.#isHeld;
  }

  /** Why this process may not write; null: it leads. */
  get whyNot(): string | null {
    return this.leads ? null : "this controller does not lead";
  }

  /** From now on it acquires and renews the lease, or watches its holder. */
  start(): void {
    this.#loop = this.#run();
  }

  /** Stops leading at once, and lets another one take over. Never throws. */
  async stop(): Promise<void> {
    if (this.#life.signal.aborted) return;
    this.#life.abort();
    try {
      await this.#release(this.#nowMs + RELEASE_MS);
    } catch (error) {
      if (!(error instanceof ApiAway)) throw error;
    }
    this.#options.api.close();
    await this.#loop;
  }

  async #run(): Promise<void> {
    const { api, log, identity, onLead } = this.#options;
    while (!this.#life.signal.aborted) {
      const startMs = this.#nowMs;
      try {
        await this.#turn();
      } catch (error) {
        if (!(error instanceof ApiAway)) logFailure(log, "the lease")(error as Error);
        else if (!this.#unusable) this.#refusedSinceMs = null;
      }
      const { leads } = this;
      if (leads !== this.#didLead) log.info({ identity }, leads ? "leading" : "no longer leading");
      if (leads && !this.#didLead) onLead?.();
      this.#didLead = leads;
      // A turn that took long is followed by the next one at once.
      await sleep(api.clock, startMs + RETRY_MS - this.#nowMs, this.#life.signal);
    }
  }

  async #turn(): Promise<void> {
    const known = this.#written;
    if (known !== null && (await this.#write(known))) return;
    // Once more where it has changed in between: by an earlier renewal of our own that came late, for example.
    if (!(await this.#readAndWrite())) await this.#readAndWrite();
  }

  /** false: the lease has changed in between. */
  async #readAndWrite(): Promise<boolean> {
    const read = await this.#objects.get(this.#path, this.#nowMs + REQUEST_MS);
    if (this.#life.signal.aborted) return true;
    if (read.kind !== "present" && read.kind !== "absent") return this.#noteRefused(read.answer);
    const lease: LeaseObject | null = read.kind === "present" ? read.object : null;
    return this.#mayTake(lease) ? this.#write(lease) : true;
  }

  #mayTake(lease: LeaseObject | null): boolean {
    this.#noteSeen(lease);
    const isExpired = this.#nowMs - this.#seen.sinceMs >= LEASE_MS;
    // Where somebody has deleted it, its holder may not know yet.
    if (lease === null) return this.#isHeld || isExpired;
    const holder = lease.spec?.holderIdentity ?? "";
    if (holder === this.#options.identity || holder === "" || isExpired) return true;
    this.#renewedMs = Number.NEGATIVE_INFINITY;
    this.#mayHold = false;
    this.#noteUsable();
    return false;
  }

  /** Called after the answer: whoever has changed it did so before. */
  #noteSeen(lease: LeaseObject | null): void {
    const resourceVersion = lease?.metadata.resourceVersion ?? null;
    if (this.#seen.resourceVersion !== resourceVersion) this.#seen = { resourceVersion, sinceMs: this.#nowMs };
  }

  /** Acquires or renews it. false: it has changed in between. */
  async #write(lease: LeaseObject | null): Promise<boolean> {
    const { namespace } = this.#options;
    // Taken before the request: a slow renewal is as old as its request.
    const requestedMs = this.#nowMs;
    const deadlineMs = requestedMs + REQUEST_MS;
    const spec = this.#specAfter(lease);
    const metadata = { name: LEASE_NAME, namespace };
    const created = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata, spec };
    this.#written = null;
    this.#mayHold = true;
    const written =
      lease === null
        ? await this.#objects.create(namespacedPath(LEASES_PATH, namespace), created, deadlineMs)
        : await this.#objects.replace(this.#path, { ...lease, spec }, deadlineMs);
    if (written.kind === "refused") return this.#noteRefused(written.answer);
    if (written.kind !== "done") return false;
    this.#written = written.object;
    this.#renewedMs = requestedMs;
    this.#noteSeen(written.object);
    this.#noteUsable();
    return true;
  }

  #specAfter(lease: LeaseObject | null) {
    const { api, identity } = this.#options;
    // MicroTime requires six digits.
    const time = isoTimeMs(api.clock.wallMs()).replace("Z", "000Z");
    const isOwn = lease?.spec?.holderIdentity === identity;
    return {
      holderIdentity: identity,
      leaseDurationSeconds: LEASE_SECONDS,
      acquireTime: isOwn ? (lease.spec?.acquireTime ?? time) : time,
      renewTime: time,
      leaseTransitions: (lease?.spec?.leaseTransitions ?? 0) + (isOwn || lease === null ? 0 : 1),
    };
  }

  async #release(deadlineMs: number): Promise<void> {
    let lease = this.#written;
    // A renewal that is under way may come in between, once.
    for (let tries = 0; tries < 2 && this.#mayHold; tries += 1) {
      lease ??= await this.#objects.find(this.#path, deadlineMs);
      if (lease?.spec?.holderIdentity !== this.#options.identity) return;
      const released = { ...lease, spec: { ...lease.spec, holderIdentity: "" } };
      const { kind } = await this.#objects.replace(this.#path, released, deadlineMs);
      if (kind !== "conflict") return;
      lease = null;
    }
  }

  /**
   * No right to leases, no namespace for them, or a policy that refuses them. A server that starts refuses everything
   * too, and another controller may lead meanwhile: it counts once nobody can have renewed for as long as a lease
   * lasts.
   */
  #noteRefused({ status, body }: KubeAnswer): true {
    this.#refusedSinceMs ??= this.#nowMs;
    if (this.#unusable || this.#nowMs - this.#refusedSinceMs < LEASE_MS) return true;
    this.#options.log.warn({ status, problem: body?.message }, "no lease can be had; working without one");
    this.#unusable = true;
    return true;
  }

  #noteUsable(): void {
    this.#refusedSinceMs = null;
    this.#unusable = false;
  }

  get #isHeld(): boolean {
    return this.#nowMs - this.#renewedMs < RENEW_DEADLINE_MS;
  }

  get #nowMs(): number {
    return this.#options.api.clock.monotonicMs();
  }

  get #path(): string {
    return namespacedPath(LEASES_PATH, this.#options.namespace, LEASE_NAME);
  }
}
