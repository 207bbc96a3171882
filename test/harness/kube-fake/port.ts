/** Everything of the product that the fake leans on, in one place: the port of a client, and the client over it. */

import type { Clock } from "../../../platform/time.ts";

export { Contact } from "../../../kube/client/contact.ts";
export { KubeClient } from "../../../kube/client/kube-client.ts";
export type {
  AttemptOutcome,
  KubeTransport,
  ListPageOutcome,
  ListPageRequest,
  WatchAttempt,
} from "../../../kube/client/kube-transport.ts";
export { Limit } from "../../../kube/client/limit.ts";
export { endOfWatch } from "../../../kube/client/statuses.ts";
export type { KubeRequest, OnList, WatchEnd } from "../../../kube/kube-api.ts";
export { type Clock, isoTime, parseTime, randomUuid, sleep, type Timer } from "../../../platform/time.ts";

export interface HasClock {
  /** The server's clock, or the client's. Nothing here reads another. */
  readonly clock: Clock;
}
