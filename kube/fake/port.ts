/** Everything of the product that the fake leans on, in one place: its port, and the client's own tables. */

import type { Clock } from "../../platform/time.ts";

export { type Clock, isoTime, parseTime, randomUuid, sleep, type Timer } from "../../platform/time.ts";
export { Backoff } from "../backoff.ts";
export {
  ApiAway,
  type KubeAnswer,
  type KubeApi,
  type KubeRequest,
  type ListAnswer,
  ListRefused,
  type ListRequest,
  type WatchEnd,
  type WatchRequest,
} from "../kube-api.ts";

export interface World {
  /** The server's clock, or the client's. Nothing here reads another. */
  readonly clock: Clock;
}
