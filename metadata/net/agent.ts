/*
 * metadata/net/: `holdfast metadata-net`, the privileged part: makes the listeners that the daemon wants
 *
 *   main, settings, run-lock  the process; metadata-net: its parts, put together
 *   daemon-link, agent        asks the daemon, and brings the node to what it wants
 *   listeners                 one network after the other: kernel/ (links, rules) and haproxy/ (who answers)
 *   metrics
 */

import type { Log } from "../../platform/log.ts";
import { type Clock, sleep } from "../../platform/time.ts";
import type { ListenerState, WantedListeners } from "../listeners/wire.ts";
import { exchange } from "./daemon-link.ts";
import type { Haproxy } from "./haproxy/haproxy.ts";
import type { Listeners } from "./listeners.ts";

/** Pause between two checks of everything, ms: an administrator may have recreated a bridge. */
const LOOK_MS = 30_000;
/** Pause between two checks of missing parts only, ms. */
const LOOK_SOON_MS = 5_000;
/** How soon a dead haproxy is noticed. */
const PULSE_MS = 100;
/** Longest backoff of a haproxy that keeps failing. */
const RESTART_MS_MIN = 200;
const RESTART_MS_MAX = 5_000;
const POLL_MS = 25_000;
const AWAY_MS_MIN = 200;
const AWAY_MS_MAX = 5_000;

export interface AgentParts {
  readonly socket: string;
  readonly listeners: Listeners;
  readonly haproxy: Haproxy;
  readonly log: Log;
  readonly clock: Clock;
}

/** Requests the wanted state from the daemon, applies it and reports; repairs it when it is disturbed. */
export class Agent {
  readonly #parts: AgentParts;
  readonly #stopping = new AbortController();
  #polling = new AbortController();
  #wanted: WantedListeners | null = null;
  #states: readonly ListenerState[] = [];
  #applied: string | null = null;
  #connected = false;
  #disturbed = false;
  /** Changes from the daemon that wait to be applied: an ADD is answered when they are. */
  #waiting = 0;
  /** The work under way, and everything that waits for it. */
  #turn: Promise<void> = Promise.resolve();

  constructor(parts: AgentParts) {
    this.#parts = parts;
  }

  get states(): readonly ListenerState[] {
    return this.#states;
  }

  get connected(): boolean {
    return this.#connected;
  }

  /** Why VMs cannot all be served; null: they are. */
  notReady(): string | null {
    if (this.#wanted === null) return "the daemon has not been heard yet";
    if (!this.#connected) return "the daemon cannot be heard; what was there before is served";
    const failed = this.#states.filter(({ state }) => state === "failed").length;
    return failed === 0 ? null : `${failed} of ${this.#states.length} networks have no listener`;
  }

  /** Resolves after `stop`, when no work is under way any more. */
  async run(): Promise<void> {
    await Promise.all([this.#follow(), this.#keep()]);
    await this.#turn;
  }

  stop(): void {
    this.#stopping.abort();
    this.#polling.abort();
  }

  /** Follows the daemon's wanted state. */
  async #follow(): Promise<void> {
    const { socket, log } = this.#parts;
    let awayMs = AWAY_MS_MIN;
    while (!this.#stopping.signal.aborted) {
      this.#polling = new AbortController();
      if (this.#stopping.signal.aborted) return;
      try {
        const report = { applied: this.#applied, listeners: this.#states, waitMs: POLL_MS };
        const wanted = await exchange(socket, report, this.#polling.signal);
        if (!this.#connected) log.info({ networks: wanted.networks.length }, "the daemon is heard");
        // After a silence nothing is taken for granted.
        const again = !this.#connected;
        this.#connected = true;
        awayMs = AWAY_MS_MIN;
        if (again || wanted.version !== this.#applied) await this.#carryOut(wanted, again);
      } catch (error) {
        if (this.#polling.signal.aborted) continue;
        if (this.#connected || this.#wanted === null)
          log.warn(
            { socket, error: (error as Error).message },
            "the daemon cannot be heard; everything stays as it is",
          );
        this.#connected = false;
        this.#applied = null;
        await this.#pause(awayMs);
        awayMs = Math.min(2 * awayMs, AWAY_MS_MAX);
      }
    }
  }

  /** Checks again soon: something was changed. */
  checkSoon(): void {
    this.#disturbed = true;
  }

  /** Checks again regularly, and at once when haproxy has died or something was disturbed. */
  async #keep(): Promise<void> {
    const { haproxy, listeners, log } = this.#parts;
    let restartMs = RESTART_MS_MIN;
    let sinceMs = 0;
    let sinceWholeMs = 0;
    while (!this.#stopping.signal.aborted) {
      await this.#pause(PULSE_MS);
      sinceMs += PULSE_MS;
      sinceWholeMs += PULSE_MS;
      if (this.#wanted === null) continue;
      const { died } = haproxy;
      const restless = listeners.lostCount > 0 || this.#states.some(({ state }) => state === "failed");
      const whole = !died && (this.#disturbed || sinceWholeMs >= LOOK_MS);
      if (died) log.error("haproxy is gone; it is started again");
      else if (!whole && !(restless && sinceMs >= LOOK_SOON_MS)) continue;
      else restartMs = RESTART_MS_MIN;
      if (whole) this.#disturbed = false;
      const before = JSON.stringify(this.#states);
      const done = await this.#carryOut(null, !died, whole);
      sinceMs = 0;
      if (whole) sinceWholeMs = done ? 0 : LOOK_MS - LOOK_SOON_MS;
      if (JSON.stringify(this.#states) !== before) this.#polling.abort();
      if (!died) continue;
      await this.#pause(restartMs);
      restartMs = Math.min(2 * restartMs, RESTART_MS_MAX);
    }
  }

  /**
   * null: the state wanted when its turn comes. `whole`: also checks what seems to be in place. Resolves with whether
   * that was completed: for hundreds of networks it takes seconds, and changes do not wait for its end.
   */
  #carryOut(next: WantedListeners | null, again: boolean, whole = true): Promise<boolean> {
    if (next !== null) this.#waiting += 1;
    const hurry = () => {
      if (this.#waiting > 0) whole = false;
      return !whole;
    };
    const turn = this.#turn.then(async () => {
      if (next !== null) this.#waiting -= 1;
      const wanted = next ?? this.#wanted;
      if (wanted === null || this.#stopping.signal.aborted) return;
      try {
        this.#states = await this.#parts.listeners.carryOut(wanted, again, hurry);
      } catch (error) {
        const problem = (error as Error).message;
        this.#parts.log.error({ problem }, "the listeners cannot be made");
        this.#states = wanted.networks.map(({ network }) => ({ network, state: "failed", problem }));
      }
      this.#wanted = wanted;
      this.#applied = wanted.version;
    });
    this.#turn = turn;
    return turn.then(() => whole);
  }

  #pause(ms: number): Promise<void> {
    return sleep(this.#parts.clock, ms, this.#stopping.signal);
  }
}
