/** Everything of the product that the fake leans on, in one place: its port, and the client's own tables. */

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

/** The time of the world that the fake stands in. Nothing here reads another. */
export interface FakeTime {
  /** Milliseconds since the epoch, as the server's clock has it. */
  wallMs(): number;
  /** Milliseconds of a clock that never jumps, as the client's deadlines have it. */
  monotonicMs(): number;
  /** Calls back once after `ms`, unless what it returns was called before. */
  timer(ms: number, fire: () => void): () => void;
}

export interface World {
  readonly time: FakeTime;
  /** [0, 1). Names and UIDs come from it. */
  readonly random: () => number;
}
