/*
 * guests/: `holdfast metadata-net`, the privileged part: brings requests of guests to haproxy, each by its port
 *
 *   main, settings, run-lock      the process; metadata-net: its parts, put together
 *   long-poll, agent              asks the daemon which ports are wanted, and brings the node to them
 *   datapath, node-guard          all drivers, and what keeps guests from others who would answer
 *   served-ports, guest           all wanted ports: finds them, lets drivers admit them, reports what cannot be served
 *   port-search, port-finder, port-lookup   looks for the host-side link of an attachment, several at once
 *   port-memory                   which port and address an attachment has, kept in a file
 *   drivers/, ovs/                how frames get from the ports of a switch to the listener and back
 *   listener/, haproxy/           the namespace where haproxy listens, and haproxy; services/: at which ports beside 80
 *   kernel/                       links, namespaces, commands
 *   metrics, failure-log
 */

import type { Log } from "../platform/log.ts";
import { type Clock, sleep } from "../platform/time.ts";
import type { Haproxy } from "./haproxy/haproxy.ts";
import { AWAY_MS_MAX, AWAY_MS_MIN, DAEMON, exchange, POLL_MS } from "./long-poll.ts";
import { PORTS_PATH, readWantedPorts, type WantedPorts } from "./ports/wire.ts";
import type { Ports } from "./served-ports.ts";

/** Pause between two checks of everything, ms: an administrator may have changed something that nobody watches. */
const LOOK_MS = 30_000;
/** After a check that a change has cut short, and while something fails. */
const LOOK_SOON_MS = 5_000;
/** Checks that changes may cut short, one after the other; the next one goes on to its end. */
const CUT_SHORT_MAX = 6;
/** How soon a dead haproxy is noticed, and a search is repeated. */
const PULSE_MS = 100;
/** Longest backoff of a haproxy that keeps failing. */
const RESTART_MS_MIN = 200;
const RESTART_MS_MAX = 5_000;

export interface AgentParts {
  readonly socket: string;
  readonly ports: Ports;
  readonly haproxy: Haproxy;
  readonly log: Log;
  readonly clock: Clock;
}

export class Agent {
  readonly #parts: AgentParts;
  readonly #stopping = new AbortController();
  #polling = new AbortController();
  #wanted: WantedPorts | null = null;
  #applied: string | null = null;
  /** What was last reported. */
  #reported = "";
  #connected = false;
  #disturbed = false;
  /** Why what was wanted last could not be carried out; null: it was. */
  #failure: string | null = null;
  /** Changes that wait to be applied: an ADD is answered when they are. */
  #waiting = 0;
  #hurry = new AbortController();
  #cutShort = 0;
  /** The work under way, and everything that waits for it. */
  #turn: Promise<void> = Promise.resolve();

  constructor(parts: AgentParts) {
    this.#parts = parts;
  }

  get connected(): boolean {
    return this.#connected;
  }

  /** Why guests cannot all be served; null: they are. */
  notReady(): string | null {
    if (this.#wanted === null) return "the daemon has not been heard yet";
    if (!this.#connected) return "no answer from the daemon; guests that were served before are served";
    const { failed, count } = this.#parts.ports;
    const problem = this.#problem;
    if (problem !== null) return `no guest is served: ${problem}`;
    const pending = failed.filter(({ kind }) => kind === "pending").length;
    return pending === 0 ? null : `${pending} of ${count} guests are not served`;
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

  /** Checks everything again soon: something was changed. */
  checkSoon(): void {
    this.#disturbed = true;
  }

  /** What is wanted has changed though the daemon has said nothing new. */
  takeSoon(): void {
    void this.#carryOut(null, false).then(() => this.reportSoon());
  }

  /** Which ports fail has changed: the daemon is told, if it was told otherwise. */
  reportSoon(): void {
    if (JSON.stringify(this.#report()) !== this.#reported) this.#polling.abort();
  }

  #report() {
    return {
      applied: this.#applied,
      failed: this.#parts.ports.failed,
      problem: this.#problem,
      waitMs: POLL_MS,
    };
  }

  get #problem(): string | null {
    return this.#parts.ports.problem ?? this.#failure;
  }

  async #follow(): Promise<void> {
    const { socket, log } = this.#parts;
    let awayMs = AWAY_MS_MIN;
    while (!this.#stopping.signal.aborted) {
      this.#polling = new AbortController();
      if (this.#stopping.signal.aborted) return;
      try {
        const report = this.#report();
        this.#reported = JSON.stringify(report);
        const question = { socket, path: PORTS_PATH, report, signal: this.#polling.signal };
        const wanted = await exchange(DAEMON, question, readWantedPorts);
        if (!this.#connected) log.info({ ports: wanted.ports.length }, "the daemon is heard");
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
            "no answer from the daemon; keeping the current configuration",
          );
        this.#connected = false;
        this.#applied = null;
        await this.#pause(awayMs);
        awayMs = Math.min(2 * awayMs, AWAY_MS_MAX);
      }
    }
  }

  /** Checks again regularly, and at once when haproxy has died or something was disturbed. */
  async #keep(): Promise<void> {
    const { haproxy, ports, log } = this.#parts;
    let restartMs = RESTART_MS_MIN;
    let sinceWholeMs = 0;
    while (!this.#stopping.signal.aborted) {
      await this.#pause(PULSE_MS);
      sinceWholeMs += PULSE_MS;
      if (this.#wanted === null) continue;
      const { died } = haproxy;
      const lookMs = this.#failure === null && !ports.isTroubled ? LOOK_MS : LOOK_SOON_MS;
      const whole = !died && (this.#disturbed || sinceWholeMs >= lookMs);
      if (died) log.error("haproxy is gone; it is started again");
      else if (!whole && !ports.isSearchDue) continue;
      else restartMs = RESTART_MS_MIN;
      if (whole) this.#disturbed = false;
      const done = await this.#carryOut(null, whole);
      if (whole) sinceWholeMs = done ? 0 : LOOK_MS - LOOK_SOON_MS;
      this.reportSoon();
      if (!died) continue;
      await this.#pause(restartMs);
      restartMs = Math.min(2 * restartMs, RESTART_MS_MAX);
    }
  }

  /** null: what is wanted by then. `again`: also checks what seems in place; false: cut short, changes do not wait. */
  #carryOut(next: WantedPorts | null, again: boolean): Promise<boolean> {
    const isChange = next !== null || !again;
    if (isChange) {
      this.#waiting += 1;
      if (this.#cutShort < CUT_SHORT_MAX) this.#hurry.abort();
    }
    let isWhole = true;
    const turn = this.#turn.then(async () => {
      if (isChange) this.#waiting -= 1;
      this.#hurry = new AbortController();
      const { signal } = this.#hurry;
      if (this.#waiting > 0 && this.#cutShort < CUT_SHORT_MAX) this.#hurry.abort();
      const wanted = next ?? this.#wanted;
      if (wanted === null || this.#stopping.signal.aborted) return;
      try {
        await this.#parts.ports.carryOut(wanted, again, signal);
        if (again) isWhole = !signal.aborted;
        if (again) this.#cutShort = isWhole ? 0 : this.#cutShort + 1;
        this.#failure = null;
      } catch (error) {
        this.#failure = (error as Error).message;
        this.#parts.log.error({ problem: this.#failure }, "the wanted ports cannot be carried out");
      }
      this.#wanted = wanted;
      this.#applied = wanted.version;
    });
    this.#turn = turn;
    return turn.then(() => isWhole);
  }

  #pause(ms: number): Promise<void> {
    return sleep(this.#parts.clock, ms, this.#stopping.signal);
  }
}
