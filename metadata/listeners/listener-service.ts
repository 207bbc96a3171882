/*
 * metadata/listeners/: which metadata listeners a node needs, and their state
 *
 *   listener-service computes, answers and waits; route, wire: the requests of metadata-net
 *   need          the listener that a network needs here; reserved: whether its addresses are free
 *   bridge-plan   its place on a bridge; bridge-plans: the stored ones
 *   wanted-state  all of them, numbered; reports: the state as metadata-net reported it
 *   admission     an ADD that waits for its listener
 *   findings, metrics
 */

import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import type { Finding } from "../../ipam/finding.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import type { Log } from "../../platform/log.ts";
import { Notifier } from "../../platform/notifier.ts";
import { type Clock, interval, type Timer } from "../../platform/time.ts";
import type { ListenerStore } from "../../store/node-store.ts";
import type { Attachment } from "../../store/records.ts";
import { describePlan, isOther, planAttachmentKey, type RequestedPlan } from "./bridge-plan.ts";
import { ListenerPlans } from "./bridge-plans.ts";
import { listenerFindings } from "./findings.ts";
import { listenerNeeded } from "./need.ts";
import { ListenerReports } from "./reports.ts";
import { ReservedAddresses, whyHeld } from "./reserved.ts";
import { WantedState } from "./wanted-state.ts";
import type { ListenerReport, ListenerState, WantedListeners } from "./wire.ts";

/** How often definitions are compared, and failed computations retried, ms. */
const LOOK_INTERVAL_MS = 1_000;
/** Polls between two checks whether the reserved addresses are still free: 30 s. */
const LOOKS_PER_ASKING = 30;
/** Pause after a computation, in multiples of its time: thousands of attachments share the event loop with ADDs. */
const PAUSE_FACTOR = 4;

export interface ListenerServiceParts {
  readonly store: ListenerStore;
  readonly clock: Clock;
  readonly log: Log;
  /** false: nothing is wanted, on any network. */
  readonly enabled: boolean;
  /** Why the store does not know everything yet; null: it does. */
  notReady(): string | null;
}

/** The metadata listeners that this node needs, computed from the store whenever its attachments may have changed. */
export class ListenerService {
  readonly reports: ListenerReports;
  readonly #parts: ListenerServiceParts;
  readonly #plans: ListenerPlans;
  readonly #reserved: ReservedAddresses;
  readonly #wanted: WantedState;
  readonly #dirty = new Set<string>();
  /** Networks whose reserved address has an unknown holder. */
  readonly #unknown = new Set<string>();
  #allDirty = true;
  /** Everything was computed at least once: only then does an empty state mean that no listener is needed. */
  #synced = false;
  #pollCount = 0;
  #turn: Timer | null = null;
  #pauseMs = 0;
  #timer: Timer | null = null;
  /** Notifies when something has changed. */
  readonly #notifier: Notifier;

  /** Call before the store is opened. */
  constructor(parts: ListenerServiceParts) {
    this.#parts = parts;
    this.reports = new ListenerReports(parts.clock);
    this.#wanted = new WantedState(parts.clock);
    this.#notifier = new Notifier(parts.clock);
    this.#plans = new ListenerPlans(parts.store);
    this.#reserved = new ReservedAddresses(parts.store, parts.log);
    if (!parts.enabled) {
      this.#synced = true;
      return;
    }
    parts.store.watchAttachments((network) => this.#touch(network));
    this.#timer = interval(parts.clock, LOOK_INTERVAL_MS, () => this.#poll()).unref();
  }

  get enabled(): boolean {
    return this.#parts.enabled;
  }

  get counts(): { readonly wanted: number; readonly up: number; readonly failed: number } {
    return { wanted: this.#wanted.listeners.networks.length, ...this.reports.counts() };
  }

  findings(): Finding[] {
    const networks = this.#wanted.listeners.networks.map(({ network }) => network);
    return listenerFindings(this.reports, networks);
  }

  /** Releases all waiters. */
  close(): void {
    this.#timer?.cancel();
    this.#turn?.cancel();
    this.#notifier.close();
  }

  /**
   * Takes a report and waits until the wanted state differs from what it has applied, at most its `waitMs`. null: the
   * wanted state is not known yet, or the daemon stops.
   */
  async poll(report: ListenerReport, hungUp: AbortSignal): Promise<WantedListeners | null> {
    this.reports.take(report, this.#wanted.numberOf(report.applied));
    this.#notifier.notify();
    this.reports.pollBegins();
    const notify = () => this.#notifier.notify();
    hungUp.addEventListener("abort", notify);
    try {
      const news = () => this.#synced && report.applied !== this.#wanted.version;
      await this.#notifier.until(() => news() || hungUp.aborted, report.waitMs);
    } finally {
      hungUp.removeEventListener("abort", notify);
      this.reports.pollEnds();
    }
    return this.#synced && !this.#notifier.closed ? this.#wanted.listeners : null;
  }

  /** Notes the plan of an attachment. Resolves with why it gets no metadata; null: it does. */
  async admit(
    attachment: Attachment,
    requested: RequestedPlan,
    definition: NetworkDefinition,
  ): Promise<string | null> {
    const { network } = attachment;
    const before = this.#plans.of(network);
    const plan = await this.#plans.note(attachment, requested);
    if (plan === null) return "refused" in requested ? requested.refused : null;
    // A result computed with another plan or definition does not count for this attachment's listener.
    if (plan !== before || !this.#isComputedFor(network, definition)) this.#computeNow(network);
    if (isOther(plan, planAttachmentKey(attachment))) {
      const own =
        "plan" in requested ? `this interface is on ${describePlan(requested.plan)}` : requested.refused;
      return `its listener on this node is on ${describePlan(plan)}, and ${own}`;
    }
    if (definition.metadata?.kind !== "on") return null;
    const { address } = definition.metadata.address;
    const known = this.#reserved.holder(network, address);
    // A repeat gets the former answer, even while the holder cannot be read.
    if (known === undefined && this.#parts.notReady() !== null) return null;
    // Once free it stays free: it is never allocated.
    if (known !== null) await this.#ask(network, definition);
    const holder = this.#reserved.holder(network, address);
    const text = formatAddress(address);
    if (holder === undefined) return `nobody can tell whether its reserved address ${text} is free`;
    return holder === null ? null : whyHeld(text, holder);
  }

  /** Whether an attachment has the metadata of its network, as far as is known now. */
  serves(attachment: Pick<Attachment, "network" | "containerId" | "interface">): boolean {
    const { network } = attachment;
    const plan = this.#plans.of(network);
    if (plan === null || isOther(plan, planAttachmentKey(attachment))) return false;
    const metadata = this.#definitionOf(network)?.metadata;
    // It has a plan, so it had metadata when this attachment came.
    if (metadata === undefined) return true;
    if (metadata?.kind !== "on") return false;
    return typeof this.#reserved.holder(network, metadata.address.address) !== "string";
  }

  /** Waits for the listener of an admitted attachment, at most `waitMs`; null: it is not up by then. */
  async untilUp(
    attachment: Attachment,
    definition: NetworkDefinition,
    waitMs: number,
  ): Promise<ListenerState | null> {
    const { network } = attachment;
    const key = planAttachmentKey(attachment);
    let found: ListenerState | null = null;
    let seen = false;
    await this.#notifier.until(() => {
      if (!this.#isComputedFor(network, definition)) return false;
      const since = this.#wanted.since(network, key);
      if (since === null) return seen; // It has ended meanwhile.
      seen = true;
      found = this.reports.stateOf(network, since);
      return found !== null;
    }, waitMs);
    return found;
  }

  /** Only takes note: it is called inside a transaction. */
  #touch(network: string | null): void {
    if (network === null) this.#reopened();
    // Without a plan there is no listener.
    else if (this.#plans.of(network) === null) return;
    else this.#dirty.add(network);
    this.#soon();
  }

  #reopened(): void {
    this.#allDirty = true;
    try {
      this.#plans.read();
    } catch (error) {
      this.#parts.log.error({ err: error as Error }, "the plans of metadata listeners cannot be read");
    }
  }

  #isComputedFor(network: string, definition: NetworkDefinition): boolean {
    return this.#wanted.definitionOf(network)?.fingerprint === definition.fingerprint;
  }

  #computeNow(network: string): void {
    this.#dirty.add(network);
    this.#compute();
  }

  #soon(): void {
    if (this.#turn !== null || this.#notifier.closed) return;
    this.#turn = this.#parts.clock.timer(this.#pauseMs, () => {
      this.#turn = null;
      this.#compute();
    });
  }

  /** Detects what is not notified: edited definitions, and holders of addresses that have become reserved. */
  #poll(): void {
    if (this.#parts.notReady() !== null) return;
    this.#pollCount += 1;
    for (const network of this.#plans.networks) {
      const definition = this.#definitionOf(network);
      if (definition !== this.#wanted.definitionOf(network)) this.#touch(network);
      const again = this.#pollCount % LOOKS_PER_ASKING === 0 || this.#unknown.has(network);
      if (again && definition !== undefined) void this.#ask(network, definition);
    }
    if (this.#allDirty || this.#dirty.size > 0) this.#soon();
  }

  #definitionOf(network: string): NetworkDefinition | undefined {
    try {
      return this.#parts.store.definition(network);
    } catch {
      return undefined; // The store is away; the next poll finds it.
    }
  }

  #compute(): void {
    const { clock, log, notReady } = this.#parts;
    if (this.#notifier.closed || notReady() !== null) return;
    const startMs = clock.monotonicMs();
    try {
      if (this.#allDirty) {
        for (const network of [...this.#plans.networks, ...this.#wanted.networks]) this.#dirty.add(network);
        this.#allDirty = false;
      }
      for (const network of this.#dirty) {
        this.#refresh(network);
        this.#dirty.delete(network);
      }
      this.#synced ||= this.#unknown.size === 0;
      this.#notifier.notify();
    } catch (error) {
      log.warn({ err: error as Error }, "which metadata listeners are wanted cannot be told; trying again");
    } finally {
      this.#pauseMs = Math.min(LOOK_INTERVAL_MS, PAUSE_FACTOR * (clock.monotonicMs() - startMs));
    }
  }

  /** A network whose reserved address was not checked yet stays as it is. */
  #refresh(network: string): void {
    const { store } = this.#parts;
    const definition = store.definition(network);
    const plan = this.#plans.of(network);
    const wanted = plan === null ? null : listenerNeeded(definition, plan, store.usersOfNetwork(network));
    this.#unknown.delete(network);
    if (wanted === null || definition?.metadata?.kind !== "on") {
      this.#wanted.put(network, definition, null);
      return;
    }
    const holder = this.#reserved.holder(network, definition.metadata.address.address);
    if (holder !== undefined) {
      this.#wanted.put(network, definition, holder === null ? wanted : null);
      return;
    }
    this.#unknown.add(network);
    void this.#ask(network, definition);
  }

  async #ask(network: string, definition: NetworkDefinition): Promise<void> {
    if (definition.metadata?.kind !== "on") return;
    const { address } = definition.metadata.address;
    const before = this.#reserved.holder(network, address);
    await this.#reserved.ask(network, address);
    if (this.#reserved.holder(network, address) !== before) this.#touch(network);
  }
}
