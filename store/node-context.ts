import type { Clock } from "./clock.ts";
import type { NamespaceIdentity } from "./records.ts";

/** What a store needs to know of the node it runs on. */
export interface NodeContext {
  readonly clock: Clock;
  /** Node name recorded with every attachment. */
  readonly node: string;
  /** The present boot of this machine. */
  readonly bootId: string;
  /** Whether an attachment's network namespace is certainly gone. Unknown is false. */
  namespaceGone(netns: NamespaceIdentity): boolean;
}
