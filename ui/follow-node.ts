import type { NetworkWithClaims, PastPeriod } from "../admin/admin-api.ts";
import type { Following } from "../admin/following.ts";
import type { AllocationView, Page } from "../allocations/records.ts";
import { type Clock, sleep } from "../platform/time.ts";
import type { Query } from "./source.ts";

/** Between two questions what has changed, ms: people call that "at once". */
const ASK_MS = 1_000;
/** A daemon gives the page at most a tenth of its time: a question that took long is asked again ten times later. */
const PAUSE_FACTOR = 10;
/** Also what no count shows, ms: another holder of the same number of addresses. */
const COMPLETE_MS = 60_000;
/** Of the history, looked at each time: more than begin in a second, mostly. */
const NEWS_PERIODS = 50;
/** What a daemon answers in one page. */
const PAGE_ITEMS = 5_000;

type Get = (path: string, query: Query) => Promise<unknown>;

/** A daemon's socket API has no notifications: counts and the newest periods are asked for, then what has changed. */
export class NodeFollower {
  readonly #get: Get;
  readonly #clock: Clock;
  readonly #following: Following;
  /** By network, the addresses that were reported. */
  readonly #known = new Map<string, Set<string>>();
  /** By network, what it looked like when its allocations were read. */
  readonly #seen = new Map<string, string>();
  #newest = "";
  #completeMs = Number.NEGATIVE_INFINITY;

  constructor(get: Get, clock: Clock, following: Following) {
    this.#get = get;
    this.#clock = clock;
    this.#following = following;
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const startMs = this.#clock.monotonicMs();
      let isAnswered = false;
      try {
        await this.#look(signal);
        isAnswered = true;
        this.#following.problem(null);
      } catch (error) {
        const { message, hint = "" } = error as { message: string; hint?: string };
        this.#following.problem({ message, hint });
        // A daemon that comes back may have another past.
        this.#seen.clear();
      }
      const tookMs = this.#clock.monotonicMs() - startMs;
      // A daemon that does not answer costs nothing to ask.
      const pauseMs = isAnswered ? PAUSE_FACTOR * tookMs : 0;
      await sleep(this.#clock, Math.max(ASK_MS, pauseMs), signal);
    }
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { items } = (await this.#get("/v1/networks", {})) as { items: readonly NetworkWithClaims[] };
    this.#following.networks(items);
    const busy = await this.#networksWithNews();
    const nowMs = this.#clock.monotonicMs();
    const isDue = nowMs - this.#completeMs >= COMPLETE_MS;
    const names = new Set(items.map(({ name }) => name));
    for (const network of this.#known.keys()) if (!names.has(network)) this.#forget(network);
    for (const view of items) {
      const counts = JSON.stringify(view);
      const isNews = busy === "all" || busy.has(view.name);
      if (!isDue && !isNews && this.#seen.get(view.name) === counts) continue;
      await this.#read(view.name, signal);
      if (signal.aborted) return;
      this.#seen.set(view.name, counts);
    }
    if (isDue) this.#completeMs = nowMs;
    this.#following.synced();
  }

  /** Networks with a period of the history that began after the last look. */
  async #networksWithNews(): Promise<ReadonlySet<string> | "all"> {
    const { items } = (await this.#get("/v1/history", { limit: String(NEWS_PERIODS) })) as {
      items: readonly PastPeriod[];
    };
    // How a period ends is no news here: then the counts of its network change.
    const periods = items.map((one) => JSON.stringify({ ...one, until: null, endedBy: null }));
    const known = periods.indexOf(this.#newest);
    const isKnown = known >= 0 || (this.#newest === "" && periods.length === 0);
    this.#newest = periods[0] ?? "";
    return isKnown ? new Set(items.slice(0, Math.max(0, known)).map(({ network }) => network)) : "all";
  }

  async #read(network: string, signal: AbortSignal): Promise<void> {
    const before = this.#known.get(network) ?? new Set();
    const found = new Set<string>();
    let token: string | undefined;
    do {
      const query = { network, limit: String(PAGE_ITEMS), continue: token };
      const page = (await this.#get("/v1/allocations", query)) as Page<AllocationView>;
      for (const view of page.items) {
        found.add(view.address);
        this.#following.upsert(`${network} ${view.address}`, this.#following.rowOf(view));
      }
      token = page.continue;
    } while (token !== undefined && !signal.aborted);
    if (signal.aborted) return;
    for (const address of before) if (!found.has(address)) this.#following.gone(`${network} ${address}`);
    this.#known.set(network, found);
  }

  #forget(network: string): void {
    for (const address of this.#known.get(network) ?? []) this.#following.gone(`${network} ${address}`);
    this.#known.delete(network);
    this.#seen.delete(network);
  }
}
