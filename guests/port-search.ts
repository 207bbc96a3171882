import type { Clock } from "../platform/time.ts";
import type { PortRef } from "./drivers/driver.ts";
import type { GuestSpace } from "./guest-space.ts";
import type { NotFound } from "./port-lookup.ts";

/** Searches at the same time, when a node is full and nothing is known yet. */
const SEARCHES_MAX = 8;
/** Those among them that have come to nothing before: some take as long as they may. */
const REPEATED_MAX = 4;
/** Until a search is repeated, ms: a plugin may make the interface a moment after it asked for the address. */
const REPEAT_MS_MIN = 500;
const REPEAT_MS_MAX = 30_000;

export interface FoundPort {
  readonly kind: "found";
  readonly port: PortRef;
  readonly mac: string;
  /** Where the guest was seen. */
  readonly space: GuestSpace;
}

interface Search {
  state: "waiting" | "running" | "failed";
  failures: number;
  problem: NotFound | null;
  /** When it is repeated, on the clock that never jumps. */
  dueMs: number;
}

/** Searches for ports, several at once: none waits for a slow one, and what was not found is tried again by and by. */
export class PortSearch {
  readonly #clock: Clock;
  readonly #find: (key: string) => Promise<FoundPort | NotFound>;
  readonly #found: (key: string, found: FoundPort) => NotFound | null;
  readonly #searches = new Map<string, Search>();
  #running = 0;
  #runningRepeated = 0;
  /** Called when every one has been searched for once. */
  #waiters: (() => void)[] = [];

  /** `found`: returns why what was found does not count; null: it does. */
  constructor(
    clock: Clock,
    find: (key: string) => Promise<FoundPort | NotFound>,
    found: (key: string, found: FoundPort) => NotFound | null,
  ) {
    this.#clock = clock;
    this.#find = find;
    this.#found = found;
  }

  /** Why it was not found so far; null: nothing is known yet. */
  problemOf(key: string): NotFound | null {
    return this.#searches.get(key)?.problem ?? null;
  }

  get isDue(): boolean {
    const nowMs = this.#clock.monotonicMs();
    for (const search of this.#searches.values()) if (isDue(search, nowMs)) return true;
    return false;
  }

  /** Searches for exactly these: the new ones, and those whose time has come. `again`: nothing is final. */
  want(keys: ReadonlySet<string>, again: boolean): void {
    for (const key of this.#searches.keys()) if (!keys.has(key)) this.#searches.delete(key);
    const nowMs = this.#clock.monotonicMs();
    for (const key of keys) {
      const search = this.#searches.get(key);
      if (search === undefined) this.#searches.set(key, { state: "waiting", failures: 0, problem: null, dueMs: 0 });
      else if (isDue(search, nowMs) || (again && search.state === "failed")) search.state = "waiting";
    }
    this.#fill();
  }

  /** What is known of this one does not count any more, nor what a search under way comes to. */
  forget(key: string): void {
    this.#searches.delete(key);
  }

  firstSettled(): Promise<void> {
    if (!this.#hasFirst()) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiters.push(resolve);
    });
  }

  #hasFirst(): boolean {
    for (const { state, failures } of this.#searches.values()) if (failures === 0 && state !== "failed") return true;
    return false;
  }

  #fill(): void {
    const waiting = [...this.#searches].filter(([, { state }]) => state === "waiting");
    // New ones first, then whoever has waited longest: slow ones come again and again.
    waiting.sort(([, one], [, other]) => one.dueMs - other.dueMs);
    for (const [key, search] of waiting) {
      if (this.#running >= SEARCHES_MAX) break;
      if (search.failures > 0 && this.#runningRepeated >= REPEATED_MAX) break;
      search.state = "running";
      void this.#run(key, search);
    }
    if (this.#waiters.length === 0 || this.#hasFirst()) return;
    for (const resolve of this.#waiters.splice(0)) resolve();
  }

  async #run(key: string, search: Search): Promise<void> {
    const isRepeated = search.failures > 0;
    this.#running += 1;
    if (isRepeated) this.#runningRepeated += 1;
    let found: FoundPort | NotFound;
    try {
      found = await this.#find(key);
    } catch (error) {
      found = { kind: "pending", problem: (error as Error).message };
    }
    this.#running -= 1;
    if (isRepeated) this.#runningRepeated -= 1;
    // Else it is wanted no more, or otherwise.
    if (this.#searches.get(key) === search) {
      const problem = found.kind === "found" ? this.#found(key, found) : found;
      if (problem === null) this.#searches.delete(key);
      else this.#failed(search, problem);
    }
    this.#fill();
  }

  #failed(search: Search, problem: NotFound): void {
    search.state = "failed";
    search.problem = problem;
    const pauseMs = Math.min(REPEAT_MS_MIN * 2 ** search.failures, REPEAT_MS_MAX);
    search.failures += 1;
    search.dueMs = problem.kind === "final" ? Number.POSITIVE_INFINITY : this.#clock.monotonicMs() + pauseMs;
  }
}

function isDue({ state, dueMs }: Search, nowMs: number): boolean {
  return state === "failed" && dueMs <= nowMs;
}
