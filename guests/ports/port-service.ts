/*
 * guests/ports/: which guests of a node get metadata, and whether they are served
 *
 *   port-service  computes, answers and waits; route, wire: the requests of metadata-net
 *   wanted-state  all of them, numbered; reports: what metadata-net said of them, as findings too
 *   admission     an ADD that waits for its port; guest-route: the route in its answer
 *   open-guests   an ADD is refused while its guest would reach the node's own 169.254.169.254; entry, closed-bridges
 *   metrics
 */

import type { Attachment } from "../../allocations/records.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import type { Finding } from "../../ipam/finding.ts";
import type { Log } from "../../platform/log.ts";
import { PeriodicTask, type RestOptions } from "../../platform/periodic-task.ts";
import type { Clock } from "../../platform/time.ts";
import type { PortStore } from "../../store/node-store.ts";
import { Versions } from "../long-poll.ts";
import { PortReports, type PortState, portFindings } from "./reports.ts";
import { portKey, portOf, WantedState } from "./wanted-state.ts";
import type { PortReport, WantedPorts } from "./wire.ts";

/** How often definitions are compared, and failed computations retried, ms. */
const LOOK_INTERVAL_MS = 1_000;
/** Rest after a computation: thousands of attachments share the event loop with ADDs. */
const COMPUTING_REST: RestOptions = { restMsMin: 0, restShare: 4, restMsMax: LOOK_INTERVAL_MS };
/** Of an ADD for a pending port, ms: a switch's is up by then, and what somebody has to mend holds up no pods. */
const PENDING_MS_MAX = 500;

/** What came of an ADD's wait for its port. */
export type PortOutcome = "up" | "late" | "failed";

export interface PortServiceParts {
  readonly store: PortStore;
  readonly clock: Clock;
  readonly log: Log;
  /** false: nothing is wanted, on any network. */
  readonly enabled: boolean;
  /** Whether networks have metadata whose definition does not say. */
  readonly byDefault: boolean;
  /** Networks of OVN-Kubernetes with guests to be served; null: there are none. */
  readonly ovn: { readonly names: readonly string[]; follow(told: () => void): void } | null;
  /** Why the store does not know everything yet; null: it does. */
  notReady(): string | null;
}

/** The ports that this node wants to be served, computed from the store whenever its attachments may have changed. */
export class PortService {
  readonly reports: PortReports;
  readonly waits: Record<PortOutcome, number> = { up: 0, late: 0, failed: 0 };
  readonly #parts: PortServiceParts;
  readonly #wanted: WantedState;
  readonly #dirty = new Set<string>();
  #allDirty = true;
  /** Everything was computed at least once: only then does an empty state mean that nothing is wanted. */
  #synced = false;
  #ovnKnown: boolean;
  /** Definitions that do not say whether they have metadata, as they count here. */
  readonly #withDefault = new WeakMap<NetworkDefinition, NetworkDefinition>();
  readonly #computing: PeriodicTask;
  readonly #looking: PeriodicTask;
  /** Its notifier tells of every change. */
  readonly #versions: Versions;

  /** Call before the store is opened. */
  constructor(parts: PortServiceParts) {
    this.#parts = parts;
    this.reports = new PortReports(parts.clock);
    this.#versions = new Versions(parts.clock);
    this.#wanted = new WantedState(this.#versions);
    const { clock } = parts;
    this.#computing = new PeriodicTask({
      ...{ clock, rest: COMPUTING_REST, unref: true, work: () => this.#compute() },
      // What could not be computed, because the store is not ready or has failed, is computed soon.
      nextMs: () =>
        this.#allDirty || this.#dirty.size > 0 ? clock.monotonicMs() + LOOK_INTERVAL_MS : Number.POSITIVE_INFINITY,
    });
    const looking = { clock, intervalMs: LOOK_INTERVAL_MS, unref: true };
    this.#looking = new PeriodicTask({ ...looking, work: () => this.#look() });
    const { ovn } = parts;
    this.#ovnKnown = ovn === null || !parts.enabled;
    if (!parts.enabled) {
      this.#synced = true;
      return;
    }
    ovn?.follow(() => this.#serveOvn(ovn.names));
    parts.store.watchAttachments((network) => this.#touch(network));
    this.#computing.start();
    this.#looking.start(LOOK_INTERVAL_MS);
  }

  /** A definition as it counts on this node. */
  here(definition: NetworkDefinition): NetworkDefinition {
    if (!this.#parts.byDefault || !definition.isMetadataUnset) return definition;
    const known = this.#withDefault.get(definition);
    const counts = known ?? { ...definition, metadata: { tokens: "optional" } };
    this.#withDefault.set(definition, counts);
    return counts;
  }

  get enabled(): boolean {
    return this.#parts.enabled;
  }

  get counts(): { readonly wanted: number; readonly up: number; readonly failed: number } {
    const wanted = this.#wanted.ports.ports.length;
    if (this.reports.away) return { wanted, up: 0, failed: 0 };
    const applied = this.#wanted.countUpTo(this.reports.applied);
    const failed = this.reports.problem === null ? Math.min(this.reports.failed.length, applied) : applied;
    return { wanted, up: applied - failed, failed };
  }

  findings(): Finding[] {
    return portFindings(this.reports, this.#wanted.ports);
  }

  /** Releases all waiters. */
  close(): void {
    void this.#looking.stop();
    void this.#computing.stop();
    this.#versions.notifier.close();
  }

  /** Waits for another state than the report has applied, at most its `waitMs`. null: unknown, or the daemon stops. */
  async poll(report: PortReport, hungUp: AbortSignal): Promise<WantedPorts | null> {
    this.reports.take(report, this.#versions.numberOf(report.applied));
    this.reports.pollBegins();
    this.#versions.notifier.notify();
    try {
      await this.#versions.untilNews(report, hungUp, () => this.#isKnown);
    } finally {
      this.reports.pollEnds();
    }
    return this.#isKnown && !this.#versions.notifier.closed ? this.#wanted.ports : null;
  }

  get #isKnown(): boolean {
    return this.#synced && this.#ovnKnown;
  }

  #serveOvn(names: readonly string[]): void {
    this.#ovnKnown = true;
    this.#wanted.putOvnNetworks(names);
    this.#versions.notifier.notify();
  }

  untilHeard(waitMs: number): Promise<void> {
    return this.#versions.notifier.until(() => !this.reports.away, waitMs);
  }

  /**
   * Waits until an attachment's port is up or will never be, at most `waitMs`; of one that is reported as pending only
   * a moment, unless `pendingMs` says more. Resolves with the last report; null: there was none by then.
   */
  async untilServed(
    attachment: Pick<Attachment, "network" | "containerId" | "interface">,
    definition: NetworkDefinition,
    waitMs: number,
    pendingMs = PENDING_MS_MAX,
  ): Promise<PortState> {
    const { network } = attachment;
    const key = portKey(attachment);
    // A repeat, or an edited definition: what was computed before may not have it.
    if (!hasMetadata(this.#wanted.definitionOf(network)) && hasMetadata(definition)) this.#computeNow(network);
    let state: PortState = null;
    let seen = false;
    const look = () => {
      const since = this.#wanted.since(network, key);
      if (since === null) return seen; // It has ended meanwhile.
      seen = true;
      state = this.reports.stateOf(key, since);
      return state !== null;
    };
    const isSettled = () => look() && (state as PortState)?.kind !== "pending";
    await this.#versions.notifier.until(look, waitMs);
    await this.#versions.notifier.until(isSettled, Math.min(waitMs, pendingMs));
    return state;
  }

  /** Whether an attachment has a way to the metadata service by IPv4, as far as is known now. */
  leadsToMetadata(attachment: Pick<Attachment, "network" | "containerId" | "interface" | "ips">): boolean {
    const { network, ips } = attachment;
    if (!hasMetadata(this.#definitionOf(network)) || this.isNeverServed(attachment)) return false;
    return ips.some(({ address }) => !address.includes(":"));
  }

  isNeverServed(attachment: Pick<Attachment, "network" | "containerId" | "interface">): boolean {
    const key = portKey(attachment);
    const since = this.#wanted.since(attachment.network, key);
    return since !== null && this.reports.stateOf(key, since)?.kind === "final";
  }

  /** Only takes note: it is called inside a transaction. */
  #touch(network: string | null): void {
    if (network === null) this.#allDirty = true;
    else this.#dirty.add(network);
    this.#computing.trigger();
  }

  #computeNow(network: string): void {
    this.#dirty.add(network);
    this.#compute();
  }

  /** Detects what is not notified: edited definitions. */
  #look(): void {
    if (this.#parts.notReady() !== null) return;
    for (const network of this.#wanted.networks) {
      const definition = this.#definitionOf(network);
      if (definition !== this.#wanted.definitionOf(network)) this.#touch(network);
    }
  }

  #definitionOf(network: string): NetworkDefinition | undefined {
    try {
      return this.#hereOf(network);
    } catch {
      return undefined; // The store is away; the next look finds it.
    }
  }

  #compute(): void {
    const { log, notReady, store } = this.#parts;
    if (this.#versions.notifier.closed || notReady() !== null) return;
    try {
      if (this.#allDirty) {
        for (const network of [...store.attachmentCounts().keys(), ...this.#wanted.networks]) this.#dirty.add(network);
        this.#allDirty = false;
      }
      for (const network of this.#dirty) {
        this.#refresh(network);
        this.#dirty.delete(network);
      }
      this.#synced = true;
      this.#versions.notifier.notify();
    } catch (error) {
      log.warn({ err: error as Error }, "which ports get metadata cannot be told; trying again");
    }
  }

  #hereOf(network: string): NetworkDefinition | undefined {
    const definition = this.#parts.store.definition(network);
    return definition && this.here(definition);
  }

  #refresh(network: string): void {
    const definition = this.#hereOf(network);
    const ports = hasMetadata(definition) ? this.#parts.store.usersOfNetwork(network).map(portOf) : [];
    this.#wanted.put(network, definition, ports);
  }
}

function hasMetadata(definition: NetworkDefinition | undefined): definition is NetworkDefinition {
  return (definition?.metadata ?? null) !== null;
}
