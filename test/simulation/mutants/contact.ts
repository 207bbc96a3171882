import type { Mutants } from "./mutant.ts";

/** Faults in what a process knows of others: contact lost, leases, identities. */
export const CONTACT: Mutants = {
  "gap-not-noticed": {
    file: "store/cluster/contact/cluster-continuity.ts",
    find: "      this.#away = true;\n      this.continuity.lose();",
    replace: "      this.#away = true;",
    why: "after a restore new pods get addresses whose objects it has taken away",
    elsewhere: "test/store/cluster-continuity.test.ts: no seed has shown it yet",
  },
  "missing-not-put-back": {
    file: "store/cluster/agreement/agreement.ts",
    find: "const found = await this.judgeHeldUses({ everything });",
    replace:
      "const found: HeldUses = { restored: 0, lost: [], stillLost: 0, over: [], republished: [], freedWithNode: false, problems: [] };",
    why: "what a restore has taken away stays away while its containers run",
  },
  "lease-not-noticed": {
    file: "controller/lease.ts",
    find: "    this.#renewedMs = requestedMs;",
    replace: "    this.#didLead = false;",
    why: "no controller ever leads",
  },
  "leads-without-renewing": {
    file: "controller/lease.ts",
    find: "return this.#unusable || this.#isHeld;",
    replace: "return this.#unusable || this.#didLead || this.#isHeld;",
    why: "a controller writes while another one leads",
  },
  "retries-without-leading": {
    file: "kube/write-guard.ts",
    find: "whyNot() ?? request.unless?.() ?? null",
    replace: "request.unless?.() ?? null",
    why: "what a controller was writing when it lost the lease is sent again while another one leads",
  },
  "unready-is-served": {
    file: "daemon/cluster-node.ts",
    find: "whyNot: () => this.store.agreement.pending }",
    replace: "whyNot: () => null }",
    why: "ADDs are served before the node has told the API server what it owes, and has compared what it holds",
    elsewhere:
      "open: where etcd was not restored, what a start compares and owes takes nothing from anybody, and where it was, the oracle asks nothing of a daemon that was started since",
  },
  "identities-outlive-their-address": {
    file: "identity/identity-cache.ts",
    find: "    if (now !== null && now === this.#generation) return true;",
    replace: "    if (now !== null && this.#generation !== null) return true;",
    why: "a guest is told who had its address a moment ago",
    elsewhere: "test/identity/unit/remembered-identities.test.ts: no seed has shown it yet",
  },
};
