import type { SeenSource } from "../networks/import-sources.ts";
import type { Clock } from "../platform/time.ts";

/** Imports that a namespace's definitions may start without a pause: usually several are switched over one by one. */
const AT_ONCE_MAX = 4;
/** The first pause after these, ms; it doubles with each further import … */
const PAUSE_MS_MIN = 1_000;
/** … up to this. After the same time without an import, all is forgotten. */
const PAUSE_MS_MAX = 60_000;
/** An IPNetwork gets editions that need no import at most this often, ms: a daemon that starts waits for it. */
const UPDATE_MS_MIN = 5_000;

interface OpenedImports {
  readonly endedMs: number;
  readonly count: number;
}

/**
 * Every new definition requires an import, which lists all pods. So that nobody who may edit
 * NetworkAttachmentDefinitions can cause that all the time, the definitions of one namespace start a few imports of a
 * network, and each further one is followed by a growing pause. Until the pause is over, a definition that joined
 * meanwhile does not count: nothing is allocated through it, and only its own ADDs wait. Addresses that its pods have
 * from another plugin are as little protected as before it named the network.
 */
export class ImportBackoff {
  readonly #clock: Clock;
  /** By network and namespace. */
  readonly #opened = new Map<string, OpenedImports>();
  /** When an IPNetwork was last updated, ms, by network. */
  readonly #updatedMs = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** How long, ms, a definition must wait for its import; 0: it may start. */
  waitMs(network: string, source: SeenSource): number {
    const opened = this.#opened.get(keyOf(network, source));
    return opened === undefined ? 0 : Math.max(0, opened.endedMs + pauseMsOf(opened) - this.#clock.monotonicMs());
  }

  /** An import that these definitions have started is done. */
  imported(network: string, opened: readonly SeenSource[]): void {
    const nowMs = this.#clock.monotonicMs();
    for (const [key, opened] of this.#opened) if (isOver(opened, nowMs)) this.#opened.delete(key);
    for (const key of new Set(opened.map((one) => keyOf(network, one)))) {
      this.#opened.set(key, { endedMs: nowMs, count: (this.#opened.get(key)?.count ?? 0) + 1 });
    }
  }

  /** Whether an IPNetwork may be updated now; starts the next interval. */
  takeUpdate(network: string): boolean {
    const nowMs = this.#clock.monotonicMs();
    for (const [one, ms] of this.#updatedMs) if (nowMs - ms >= UPDATE_MS_MIN) this.#updatedMs.delete(one);
    if (this.#updatedMs.has(network)) return false;
    this.#updatedMs.set(network, nowMs);
    return true;
  }
}

function pauseMsOf({ count }: OpenedImports): number {
  return count < AT_ONCE_MAX ? 0 : Math.min(PAUSE_MS_MIN * 2 ** (count - AT_ONCE_MAX), PAUSE_MS_MAX);
}

function isOver(opened: OpenedImports, nowMs: number): boolean {
  return nowMs - opened.endedMs >= pauseMsOf(opened) + PAUSE_MS_MAX;
}

function keyOf(network: string, source: SeenSource): string {
  const namespace = "subnets" in source ? "" : source.definition.split("/")[0];
  return `${namespace} ${network}`;
}
