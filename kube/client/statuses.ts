import type { WatchEnd } from "../kube-api.ts";
import { FORBIDDEN, GONE, TOO_MANY } from "../kube-api.ts";
import type { Contact } from "./contact.ts";
import type { AttemptOutcome } from "./kube-transport.ts";

type Answered = Extract<AttemptOutcome, { kind: "answered" }>;

/** A server that is not ready is asked again after this, ms, whatever its Retry-After. */
const UNAVAILABLE_WAIT_MS_MAX = 1_000;

/** Whether a status means trouble of the server, and not an answer to the request. */
export function isPassing(status: number, contact: Contact): boolean {
  return status === TOO_MANY || status >= 500 || (status === FORBIDDEN && contact.isSettling);
}

/** Ms; 0: the server does not say. With 429 it means it; one that starts says 10 s and needs a fraction of that. */
export function waitMsOf({ status, retryAfterMs }: Answered): number {
  return status === TOO_MANY ? retryAfterMs : Math.min(retryAfterMs, UNAVAILABLE_WAIT_MS_MAX);
}

/** How a watch ended, from the Status object of an ERROR event. */
export function endOfWatch(status: {
  readonly code?: number;
  readonly message?: string;
  readonly reason?: string;
  readonly details?: { readonly retryAfterSeconds?: number };
}): WatchEnd {
  if (status?.code === GONE || status?.reason === "Expired")
    return { kind: "expired", problem: status.message ?? status.reason ?? "" };
  const seconds = status?.details?.retryAfterSeconds;
  return {
    kind: "failed",
    problem: status?.message ?? "the server ended the watch with an error",
    ...(typeof status?.code === "number" ? { status: status.code } : {}),
    ...(typeof seconds === "number" ? { retryAfterMs: seconds * 1_000 } : {}),
  };
}
