import type { Clock } from "../../platform/time.ts";
import type { KubeRequest, WatchEnd, WatchRequest } from "../kube-api.ts";
import type { Contact } from "./contact.ts";

/** The outcome of one attempt: an answer of whatever status, or why there is none. */
export type AttemptOutcome =
  | {
      readonly kind: "answered";
      readonly status: number;
      /** null: it should have been JSON and was not. */
      // biome-ignore lint/suspicious/noExplicitAny: objects of every kind; readers project them
      readonly body: any;
      /** The server's own clock, ms since 1970; null when it sent none. */
      readonly serverMs: number | null;
      /** Of the Retry-After header, ms; 0: there is none. */
      readonly retryAfterMs: number;
    }
  /** `code`: of the error in Node or OpenSSL, such as ECONNREFUSED; null or absent: it has none. */
  | { readonly kind: "nothing"; readonly problem: string; readonly code?: string | null };
export interface ListPageRequest {
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly metadataOnly: boolean | undefined;
  readonly signal: AbortSignal | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: objects of every kind; readers project them
  readonly each: (object: any) => void;
  /** Called with the bytes of the body that have arrived; absent: nobody counts them. */
  readonly arrived?: ((bytes: number) => void) | undefined;
}

/** `next`: the token of the page after it; "": it was the last. */
export type ListPageOutcome =
  | { readonly kind: "read"; readonly resourceVersion: string; readonly next: string }
  | AttemptOutcome;

/** Everything of the request is in its query. */
export interface WatchAttempt extends Omit<WatchRequest, "resourceVersion"> {
  readonly query: Readonly<Record<string, string>>;
  /** As of ListPageRequest. */
  readonly arrived?: ((bytes: number) => void) | undefined;
}

/**
 * Makes one attempt at the API server, and gives it up after its time. KubeClient decides what is retried.
 * Implementations report to `contact` what arrives, and when nothing does.
 */
export interface KubeTransport {
  readonly clock: Clock;
  readonly contact: Contact;
  /** Aborts when the client is closed, and everything under way with it. */
  readonly life: AbortSignal;
  /** Runs the work when it is the request's turn. Throws ApiAway, without running it, if that is after its deadline. */
  inTurn<T>(request: KubeRequest, work: () => Promise<T>): Promise<T>;
  /** One attempt of a request, for at most `limitMs`. */
  exchange(request: KubeRequest, limitMs: number): Promise<AttemptOutcome>;
  /** Reads one page; given up after `silenceMs` without anything new. May reject with what `each` threw. */
  page(request: ListPageRequest, silenceMs: number): Promise<ListPageOutcome>;
  /** Opens a watch within `openMs`, and follows it to its end. Without a WatchEnd it was refused, or broke off. */
  watch(request: WatchAttempt, openMs: number): Promise<WatchEnd | AttemptOutcome>;
}
