import type { KubeObject } from "../objects.ts";
import type { AttemptOutcome, Clock } from "../port.ts";
import type { ServerRequest } from "../requests.ts";

/**
 * What becomes of one attempt of a client.
 *
 * - `requestMs`, `answerMs`: how long each way takes. A request that comes after the client gave up is done all the
 *   same.
 * - `lost`: the connection ends before the server has read anything, or after it has done everything; the client hears
 *   nothing.
 * - `hangs`: nothing comes at all until the client gives up.
 * - `unheard`: the server does it, and nothing comes until the client gives up.
 * - `twice`: somebody in between sends it again; the client hears the second answer.
 * - `status`: somebody in between, or a server that is starting or overloaded, answers this, and nothing is done.
 * - `cutAfter`: of a list, the connection ends after so many objects.
 */
export interface Fate {
  readonly requestMs?: number;
  readonly answerMs?: number;
  readonly lost?: "before" | "after";
  readonly hangs?: boolean;
  readonly unheard?: boolean;
  readonly twice?: boolean;
  readonly status?: 401 | 403 | 410 | 429 | 500 | 502 | 503 | 504;
  readonly retryAfterSeconds?: number;
  readonly message?: string;
  readonly cutAfter?: number;
}

/** The way between a client and the server; may be changed at any time. */
export interface Link {
  /** Asked for each attempt; absent, or undefined: it arrives at once, and so does the answer. */
  fate?: (request: ServerRequest, verb: "send" | "list" | "watch") => Fate | undefined;
  /** Asked when a request that was not lost on its way has come to the server, which may no longer be there. */
  reached?: (request: ServerRequest, verb: "send" | "list" | "watch") => Fate | undefined;
  /**
   * Told what the server, or somebody in between, answers: `body` is what is sent, null of a watch that is accepted.
   */
  answered?: (request: ServerRequest, verb: "send" | "list" | "watch", status: number, body: KubeObject) => void;
  /** Told the object of each event of a watch that has come over. */
  told?: (request: ServerRequest, object: KubeObject) => void;
  /** Told what the client has heard of a request, or why nothing came. */
  heard?: (request: ServerRequest, verb: "send" | "list" | "watch", what: AttemptOutcome) => void;
  /** Of the way of requests, which goes on while a client is suspended; default: the client's clock. */
  clock?: Clock;
  /** How long each event of a watch takes, ms; they keep their order. Absent: no time. */
  eventMs?: () => number;
}
