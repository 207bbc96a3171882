import type { Mutants } from "./mutant.ts";

/** What this simulation found first, put back: its seeds keep it mended. */
export const SIMULATED: Mutants = {
  "row-ids-come-again": {
    file: "store/journal/uses.ts",
    find: "    ledger.ids.next(),\n    ledger.networkOf(pending.network, transaction).id,",
    replace: "    null,\n    ledger.networkOf(pending.network, transaction).id,",
    why: "a release that was told deletes the entry of another one that got its number, and an address is held for ever",
    elsewhere: "test/store/adds-and-dels.test.ts: no seed has shown it yet",
  },
  "unanswered-adds-wait": {
    file: "store/cluster/agreement/relations.ts",
    find: '  { name: "not-repeated", when: { phase: "taking", waited: "long-enough", pod: ENDED }, verdict: "abandon" },\n',
    replace: "",
    why: "what an ADD without an answer reserved is held for ten minutes after its pod",
    elsewhere: "test/store/adds-and-dels.test.ts: the seed that showed it shows it no more",
  },
  "broken-watch-goes-on": {
    file: "kube/reflector.ts",
    find: "    const awaited = this.#unproven ? this.#lastChange : null;",
    replace: "    const awaited = null as LastChange | null;",
    why: "after a restore of etcd copies keep what it took away",
  },
  "identity-of-two-pods": {
    file: "identity/service.ts",
    find: "      .filter((one) => users.some((user) => isOneContainer(user, one)))\n",
    replace: "",
    why: "a guest is told what the pod had that used its container's ID before",
    elsewhere: "test/identity/guest-question.test.ts: no seed has shown it yet",
  },
  "tasks-rest-long": {
    file: "platform/periodic-task.ts",
    find: "Math.min(tookMs * restShare, restMsMax)",
    replace: "Math.max(tookMs * restShare, restMsMin)",
    why: "one lost answer has networks not counted and not imported for minutes",
    elsewhere: "test/platform/periodic-task.test.ts: the seed that showed it shows it no more",
  },
};
