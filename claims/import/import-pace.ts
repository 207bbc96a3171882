import type { Clock } from "../../platform/time.ts";
import type { SeenSource } from "./import-sources.ts";

/** Imports that a namespace's definitions open without a pause: who switches several of them does it one after the other. */
const AT_ONCE_MAX = 4;
/** The pause after the last of these, ms; it doubles with each further one … */
const PAUSE_MS_MIN = 1_000;
/** … up to this. After as long a time without any, all is forgotten. */
const PAUSE_MS_MAX = 60_000;
/** Editions that need no import are written into an IPNetwork at most so often, ms. */
const UPDATE_MS_MIN = 60_000;

interface Turn {
  readonly endedMs: number;
  readonly count: number;
}

/**
 * Who may create or edit NetworkAttachmentDefinitions could have all pods listed each time, and everybody on the network wait for
 * it. So the definitions of one namespace open a few imports of a network, and after each further one a pause begins that
 * grows. Until it is over a definition that has joined meanwhile counts as not joined: nothing is given through it, and
 * nobody else waits for it. What its pods have from another plugin is as little protected as before it named the network.
 */
export class ImportPace {
  readonly #clock: Clock;
  /** By network and namespace. */
  readonly #turns = new Map<string, Turn>();
  /** When an IPNetwork was brought up to date, ms, by network. */
  readonly #updatedMs = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** How long, ms, a definition has to wait for its import; 0: it may begin. */
  waitMs(network: string, source: SeenSource): number {
    const turn = this.#turns.get(keyOf(network, source));
    return turn === undefined ? 0 : Math.max(0, turn.endedMs + pauseMsOf(turn) - this.#clock.monotonicMs());
  }

  /** An import that these definitions have opened is done. */
  imported(network: string, opened: readonly SeenSource[]): void {
    const nowMs = this.#clock.monotonicMs();
    for (const [key, turn] of this.#turns) if (isOver(turn, nowMs)) this.#turns.delete(key);
    for (const key of new Set(opened.map((one) => keyOf(network, one)))) {
      this.#turns.set(key, { endedMs: nowMs, count: (this.#turns.get(key)?.count ?? 0) + 1 });
    }
  }

  /** Whether an IPNetwork may be brought up to date now; the next time is counted from here. */
  takeUpdate(network: string): boolean {
    const nowMs = this.#clock.monotonicMs();
    for (const [one, ms] of this.#updatedMs) if (nowMs - ms >= UPDATE_MS_MIN) this.#updatedMs.delete(one);
    if (this.#updatedMs.has(network)) return false;
    this.#updatedMs.set(network, nowMs);
    return true;
  }
}

function pauseMsOf({ count }: Turn): number {
  return count < AT_ONCE_MAX ? 0 : Math.min(PAUSE_MS_MIN * 2 ** (count - AT_ONCE_MAX), PAUSE_MS_MAX);
}

function isOver(turn: Turn, nowMs: number): boolean {
  return nowMs - turn.endedMs >= pauseMsOf(turn) + PAUSE_MS_MAX;
}

function keyOf(network: string, source: SeenSource): string {
  const namespace = "subnets" in source ? "" : source.definition.split("/")[0];
  return `${namespace} ${network}`;
}
