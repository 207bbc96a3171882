import type { Mutants } from "./mutant.ts";

const ELSEWHERE = "test/simulation/long/large.test.ts: only the history of a large cluster counts what is asked";

/** Faults that nobody notices in a small cluster: what a node asks for, and when it asks again. */
export const LARGE: Mutants = {
  "node-lists-everything": {
    file: "store/cluster/agreement/own-objects.ts",
    find: 'query: { labelSelector: nodeLabel(parts.context.node), resourceVersion: "0" },',
    replace: 'query: { resourceVersion: "0" },',
    why: "after a power-on each node reads all allocations of the cluster",
    elsewhere: ELSEWHERE,
  },
  "node-lists-its-own-again": {
    file: "store/cluster/agreement/agreement.ts",
    find: "() => this.#mayCompare() && this.#compare(), {",
    replace: '() => this.#mayCompare() && this.#compare().then(() => this.judgeOwnObjects("restored")), {',
    why: "each node has the API server look through all allocations every five minutes",
    elsewhere: ELSEWHERE,
  },
  "retry-after-ignored": {
    file: "kube/client/statuses.ts",
    find: "return status === TOO_MANY ? retryAfterMs :",
    replace: "return status === TOO_MANY ? 0 :",
    why: "a server that refuses because it has too much to do is asked again at once",
    elsewhere: ELSEWHERE,
  },
  "retries-without-jitter": {
    file: "kube/backoff.ts",
    find: "return step * this.#clock.random();",
    replace: "return step;",
    why: "nodes that were refused together come back together",
    elsewhere: ELSEWHERE,
  },
  "retry-after-without-jitter": {
    file: "kube/client/kube-client.ts",
    find: "const waitMs = outcome.waitMs + backoff.next();",
    replace: "const waitMs = Math.max(outcome.waitMs, backoff.next());",
    why: "all nodes that were told to come back in a second do so in the same millisecond",
    elsewhere: ELSEWHERE,
  },
};
