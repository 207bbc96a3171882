import { SingleFlight } from "../../platform/single-flight.ts";
import type { Clock } from "../../platform/time.ts";

/** A token is renewed so long before its end, ms, or for the last third of its life where that is less. */
const AHEAD_MS_MAX = 60_000;
const AHEAD_SHARE = 1 / 3;
/** After a renewal ahead of time that failed, ms. */
const AGAIN_MS = 5_000;
/** While a renewal is under way, ms. */
const SOON_MS = 250;

/** A bearer token of the kubeconfig's user. */
export interface Token {
  readonly value: string;
  /** The end of its life, ms since the epoch; null: nobody says. */
  readonly endMs: number | null;
}

/** One to be used now, and for how long nobody need ask again, ms. */
interface UsableToken {
  readonly value: string;
  readonly ms: number;
}

/** A token that somebody gives, and again before it ends: whoever takes long to give it delays no request. */
export class UserToken {
  readonly #ask: (clock: Clock) => Promise<Token>;
  #token: Token | null;
  /** Of the wall clock, as the ends of tokens are; null: not looked at yet. */
  #renewMs: number | null = null;
  readonly #asking = new SingleFlight<Token>();

  /** `ask` rejects with what failed and the remedy, without any secret. `first`: there is one already. */
  constructor(ask: (clock: Clock) => Promise<Token>, first: Token | null = null) {
    this.#ask = ask;
    this.#token = first;
  }

  async get(clock: Clock): Promise<UsableToken> {
    const { value, endMs } = this.#usable(clock) ?? (await this.#another(clock));
    if (endMs === null) return { value, ms: Number.POSITIVE_INFINITY };
    const wallMs = clock.wallMs();
    // Processes that share a login do not ask for the next one at the same time.
    const aheadMs = Math.min(AHEAD_MS_MAX, (endMs - wallMs) * AHEAD_SHARE) * (1 - clock.random() / 2);
    this.#renewMs ??= endMs - aheadMs;
    if (wallMs < this.#renewMs) return { value, ms: this.#renewMs - wallMs };
    this.#renewMs = wallMs + AGAIN_MS;
    // Whoever needs a new one when this one has ended is told.
    this.#renewed(clock).catch(() => {});
    return { value, ms: Math.min(SOON_MS, endMs - wallMs) };
  }

  /**
   * The API server does not take it: the next `get` waits for another one. What is asked for already is another one;
   * and asked a second time with one refresh token, an issuer may end the login.
   */
  drop(): void {
    this.#token = null;
  }

  #usable(clock: Clock): Token | null {
    const token = this.#token;
    return token?.endMs === null || (token && clock.wallMs() < token.endMs) ? token : null;
  }

  /** What was asked for ahead of the end may have brought the old one again, from a plug-in that remembers it. */
  async #another(clock: Clock): Promise<Token> {
    const early = this.#asking.underWay();
    if (early === undefined) return this.#renewed(clock);
    return early.catch(() => this.#usable(clock) ?? this.#renewed(clock));
  }

  #renewed(clock: Clock): Promise<Token> {
    return this.#asking.run(async () => {
      this.#token = await this.#ask(clock);
      this.#renewMs = null;
      return this.#token;
    });
  }
}
