import { type Answer, sentence } from "../documents/answer.ts";

/** nova: what Neutron's agent could stand before. service: pods of a tenant, which may answer freely. */
export type BackendKind = "nova" | "service";

/** How the request to a backend ended. `unreachable`: no connection; `late`: a connection, but no answer in time. */
export type BackendOutcome =
  | { readonly kind: "status"; readonly status: number }
  | { readonly kind: "unreachable" }
  | { readonly kind: "late" }
  | { readonly kind: "broken" };

export type BackendDecision =
  /** The backend's status, body and content type go to the guest. */
  | { readonly kind: "pass" }
  /** The guest gets this; `note`, if any, is for the operator's log. */
  | { readonly kind: "replace"; readonly answer: Answer; readonly note: string | null };

const UNAVAILABLE = "The remote metadata server is temporarily unavailable. Please try again later.";

/** Statuses that Neutron's agent hands on, each with a sentence of its own instead of the backend's body. */
const HANDED_ON: ReadonlyMap<number, string> = new Map([
  [400, "The metadata server did not understand the request."],
  [403, "The metadata server refused the request."],
  [404, "There is nothing at this path."],
  [409, "It is already set."],
  [500, "The metadata server failed. Please try again."],
  [502, "The metadata server got no answer from behind it."],
  [503, UNAVAILABLE],
  [504, "The metadata server got no answer in time."],
]);

/**
 * Nova's 200 passes, the statuses of the table are handed on, others are 502, a fault of the set-up (Neutron's agent,
 * `_proxy_request`). From a service all final answers pass but redirections: guests cannot go where they lead.
 */
export function judgeBackend(outcome: BackendOutcome, kind: BackendKind): BackendDecision {
  switch (outcome.kind) {
    case "unreachable":
      return replace(503, UNAVAILABLE, "the backend is not reachable");
    case "late":
      return replace(504, "The metadata server did not answer in time.", "the backend did not answer in time");
    case "broken":
      return replace(502, "The metadata server's answer was cut off.", "the backend's answer is not HTTP");
    case "status":
      return kind === "nova" ? judgeNova(outcome.status) : judgeService(outcome.status);
  }
}

function judgeNova(status: number): BackendDecision {
  if (status === 200) return { kind: "pass" };
  const text = HANDED_ON.get(status);
  if (text === undefined) return unexpected(status);
  return replace(
    status,
    text,
    status === 403 ? "the backend refused the signature: do both have the same secret?" : null,
  );
}

function judgeService(status: number): BackendDecision {
  const isFinal = Number.isInteger(status) && status >= 200 && status <= 599;
  return isFinal && (status < 300 || status >= 400) ? { kind: "pass" } : unexpected(status);
}

function unexpected(status: number): BackendDecision {
  return replace(502, "The metadata server gave an unexpected answer.", `the backend answered status ${status}`);
}

function replace(status: number, text: string, note: string | null): BackendDecision {
  return { kind: "replace", answer: sentence(status, text), note };
}
