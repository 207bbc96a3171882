import type { KubeObject } from "../objects.ts";
import type { WatchEnd } from "../port.ts";
import type { ServerAnswer } from "../requests.ts";

/** What came of one attempt: an answer, or why there is none. */
export type Outcome =
  | { readonly kind: "answered"; readonly answer: ServerAnswer; readonly cutAfter?: number }
  | { readonly kind: "nothing"; readonly problem: string };

/** A server that is not ready is asked again after this, ms, whatever it says. */
const UNAVAILABLE_WAIT_MS_MAX = 1_000;
const GONE = 410;
const TOO_MANY = 429;

/** Whether a status is the server's trouble, and not an answer to what was asked. */
export const isPassing = (status: number): boolean => status === TOO_MANY || status >= 500;

export function problemOf(outcome: Outcome): string {
  if (outcome.kind === "nothing") return outcome.problem;
  const { status, body } = outcome.answer;
  return body?.message ? `${status} ${body.message}` : `${status}`;
}

/** How long the server asks to be left alone, ms. */
export function waitOf({ status, retryAfterMs }: ServerAnswer): number {
  return status === TOO_MANY ? retryAfterMs : Math.min(retryAfterMs, UNAVAILABLE_WAIT_MS_MAX);
}

/** How a watch ended that the server did not agree to. */
export function refusalOf(outcome: Outcome): WatchEnd {
  const problem = problemOf(outcome);
  if (outcome.kind === "nothing") return { kind: "failed", problem };
  const { status } = outcome.answer;
  if (status === GONE) return { kind: "expired", problem };
  return { kind: "failed", problem, status, retryAfterMs: waitOf(outcome.answer) };
}

/** How a watch ended by an ERROR event. */
export function endOf({ code, reason, message, details }: KubeObject): WatchEnd {
  if (code === GONE || reason === "Expired") return { kind: "expired", problem: message };
  const seconds = details?.retryAfterSeconds;
  return {
    kind: "failed",
    problem: message,
    status: code,
    ...(seconds === undefined ? {} : { retryAfterMs: seconds * 1_000 }),
  };
}
