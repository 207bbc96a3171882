import type { Clock } from "../platform/time.ts";
import type { OpenKubeApi } from "./kube-api.ts";

/** The API server's clock, as its answers tell it: the one clock that all nodes share. */
export class ServerClock {
  readonly #clock: Clock;
  /** The server's time less that of the monotonic clock, ms; null: no answer has told it. */
  #aheadMs: number | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Ms since 1970, to about a second; until the server tells, this machine's. */
  get nowMs(): number {
    return this.#aheadMs === null ? this.#clock.wallMs() : this.#clock.monotonicMs() + this.#aheadMs;
  }

  /** The same API, whose answers set this clock. */
  over(api: OpenKubeApi): OpenKubeApi {
    return {
      clock: api.clock,
      send: async (request) => {
        const answer = await api.send(request);
        if (answer.serverMs !== null) this.#aheadMs = answer.serverMs - this.#clock.monotonicMs();
        return answer;
      },
      list: (request) => api.list(request),
      watch: (request) => api.watch(request),
      close: () => api.close(),
    };
  }
}
