/** Everything of the product that the fake leans on, in one place: the port of a client, and the client over it. */

import type { Clock } from "../../platform/time.ts";

export { type Clock, isoTime, parseTime, randomUuid, sleep, type Timer } from "../../platform/time.ts";
export { Contact } from "../client/contact.ts";
export { KubeClient } from "../client/kube-client.ts";
export type {
  AttemptOutcome,
  KubeTransport,
  ListPageOutcome,
  ListPageRequest,
} from "../client/kube-transport.ts";
export { Limit } from "../client/limit.ts";
export { endOfWatch } from "../client/statuses.ts";
export type { KubeRequest, WatchEnd, WatchRequest } from "../kube-api.ts";

export interface World {
  /** The server's clock, or the client's. Nothing here reads another. */
  readonly clock: Clock;
}
