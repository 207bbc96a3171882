import type { Mutants } from "./mutant.ts";

/**
 * What reviews of the first version found, taken out again one by one: what the product does about it is put back to
 * what it was.
 */
export const FINDINGS: Mutants = {
  "sweep-forgets-when-slow": {
    file: "controller/sweep/observations.ts",
    find: "    this.#endMs = nowMs;\n",
    replace: "    if (this.#endMs < 0) this.#endMs = nowMs;\n",
    why: "a pass long after the last one begins counts as a gap, so that a slow controller frees nothing",
  },
  "kubelets-addresses-not-imported": {
    file: "imports/import-candidates.ts",
    find: "    const { nodes } = this.#options;\n    if (nodes === null) return [];",
    replace: "    const { nodes } = this.#options;\n    if (nodes === null || pod.podIPs.length > 0) return [];",
    why: "where no object defines a network, addresses of pods from before are given again",
    elsewhere: "test/imports/import-candidates.test.ts: the seed that showed it shows it no more",
  },
  "untold-boot-is-the-present-one": {
    file: "ipam/stamp.ts",
    find: '  if (b.bootId === "") return a.bootId !== presentBootId;',
    replace: '  if (b.bootId === "") return true;',
    why: "a spooled DEL that could not tell its boot ends a container that began since",
    elsewhere: "test/cni/request-order.test.ts: a DEL is spooled only while no daemon is there to begin one",
  },
  "joining-definition-not-imported": {
    file: "controller/network-imports.ts",
    find: "    const open = isImported(known, []) ? uncovered(known, sources) : sources;",
    replace: "    const open = isImported(known, []) ? uncovered(known, []) : sources;",
    why: "a definition that joins a network is never imported, and nobody gets an address by it",
    elsewhere: "test/controller/unit/network-imports.test.ts: the seed that showed it shows it no more",
  },
  "unknown-attachments-not-recovered": {
    file: "store/cluster/agreement/own-objects.ts",
    find: "  return found;\n}\n\n/** UIDs of pods",
    replace: "  return found.slice(found.length);\n}\n\n/** UIDs of pods",
    why: "what a journal lost with its last seconds is held for ever",
  },
  "damaged-journal-stays": {
    file: "store/journal/state-directory.ts",
    find: "    if (this.#journalOnly) {\n      this.#log.error(",
    replace: '    if (this.#journalOnly && this.path === "") {\n      this.#log.error(',
    why: "a node with a damaged journal waits for somebody, although the API server knows everything",
    elsewhere: "test/kube/lost-journal.test.ts: the seed that showed it shows it no more",
  },
  "release-of-a-living-pod": {
    file: "store/cluster/release.ts",
    find: '  const lives = asksPod && !force && (await podState(owner)) === "living";',
    replace: '  const lives = asksPod && force && (await podState(owner)) === "living";',
    why: "an operator's release without --force frees the imported address of a pod that runs",
    elsewhere: "test/admin/release-in-use.test.ts: the seed that showed it shows it no more",
  },
  "one-pod-takes-a-network": {
    file: "imports/import-candidates.ts",
    find: "    return kept;\n",
    replace: "    return this.#heldHere(reporting);\n",
    why: "a pod that reports thousands of addresses gets all of them recorded for it",
    elsewhere: "test/imports/import-candidates.test.ts: the seed that showed it shows it no more",
  },
  "recovery-in-two-halves": {
    file: "store/cluster/agreement/own-objects.ts",
    find: "  const listed = await listOfNode(parts);\n",
    replace:
      "  await parts.directory.write((ledger) => ledger.sql.putMeta.run(BOOT, parts.context.bootId));\n  const listed = await listOfNode(parts);\n",
    why: "after a crash in the middle of a recovery the rest is never recovered",
    elsewhere:
      "test/store/recover-journal.test.ts: no seed has shown it since a journal that is new reads one list by label",
  },
  "failed-counts-as-ended": {
    file: "kube/views/pod-view.ts",
    find: "  return TERMINAL_PHASES.includes(String(status.phase)) && everyContainer(status, containerHasEnded);",
    replace: "  return TERMINAL_PHASES.includes(String(status.phase));",
    why: "an evicted pod that still shuts down loses its address",
  },
  "node-not-identified": {
    file: "store/cluster/agreement/agreement.ts",
    find: '    if (identity.kind === "other") throw new OtherNode(identity.problem);',
    replace:
      '    if (identity.kind === "other" && identity.problem === "") throw new OtherNode(identity.problem);\n    if (identity.kind === "other") return true;',
    why: "a machine that has another one's name settles that one's addresses",
    elsewhere: "test/store/recover-journal.test.ts: the seed that showed it shows it no more",
  },
  "search-goes-on-without-intent": {
    file: "store/cluster/attach.ts",
    find: "          if (isOvertaken(ledger, want) || !goesOn) throw",
    replace: "          if (!goesOn && addresses.length === 0) throw",
    why: "an ADD whose intent a DEL has ended reserves further candidates, for nobody",
    elsewhere: "test/store/adds-and-dels.test.ts: no seed of 200 has shown it since nodes search apart from each other",
  },
  "candidates-stay-marked": {
    file: "store/cluster/reserve.ts",
    find: "    for (const search of searches) search.leave();\n",
    replace: "",
    also: [
      {
        // A complete picture has no marks.
        file: "allocations/picture.ts",
        find: "      known.space.forgetPools();\n",
        replace: "",
      },
    ],
    why: "after a fault of the disk addresses count as taken that nobody has",
  },
  "static-pods-have-two-identities": {
    file: "kube/views/pod-view.ts",
    find: "    staticUid: ofNode ? readStaticUid(annotations.get(STATIC_UID_ANNOTATION)) : null,",
    replace:
      "    staticUid: ofNode && annotations.size < 0 ? readStaticUid(annotations.get(STATIC_UID_ANNOTATION)) : null,",
    why: "the pod that the runtime names is not the one that the API server has",
    elsewhere: "test/cluster/static-pods.test.ts: the seed that showed it shows it no more",
  },
  "suspended-add-loses-its-intent": {
    file: "store/journal/uses.ts",
    find: "  return underWay.has(addKey({ network, containerId: row.container_id, interface: row.interface }));",
    replace: "  return network === addKey({ network, containerId: row.container_id, interface: row.interface });",
    also: [
      {
        file: "store/cluster/agreement/over.ts",
        find: "const TAKING_US_MAX = 600_000_000;",
        // Ten minutes are too long for the simulation.
        replace: "const TAKING_US_MAX = 100_000;",
      },
    ],
    why: "after a suspend in the middle of an ADD its addresses are given back under it",
  },
  "rest-of-a-former-sandbox-not-pending": {
    file: "store/cluster/parts/record-attachment.ts",
    find: "      endRow(ledger, attachment.row, why, continues ? kept : undefined);",
    replace:
      '      const all = new Set(attachment.ips.map(({ address }) => address.split("/")[0] as string));\n      endRow(ledger, attachment.row, why, continues ? (kept.size < 0 ? kept : all) : undefined);',
    why: "of a sandbox that keeps some of its addresses nobody gives back the others",
  },
  "restored-server-trusted": {
    file: "store/cluster/contact/cluster-continuity.ts",
    find: "      settleMs: Math.min(SETTLE_MS, recoveryMs),",
    replace: "      settleMs: SETTLE_MS - SETTLE_MS,",
    why: "after a restore a node gives addresses before the others have found out what they miss",
    elsewhere: "open: no seed has shown it yet",
  },
  "list-of-a-claim-not-published-again": {
    file: "store/cluster/agreement/held.ts",
    find: '  if (owner.kind !== "claim") return false;',
    replace: '  if (owner.kind !== "addressClaim") return false;',
    why: "a claim whose list a restore has emptied stays empty while its container runs",
    elsewhere:
      "test/store/restored-claims.test.ts: no seed of 25 has shown it since what is put back is told from a backup's older state",
  },
  "completed-pod-taken-back": {
    file: "store/cluster/agreement/relations.ts",
    find: '  { name: "completed", when: { phase: "held", pod: "completed" }, verdict: "leave", reason: "pod ended" },\n',
    replace: "",
    why: "controller and node release and take back the address of a completed pod in turn",
  },
  "owner-pod-stays-on-failed-target": {
    file: "controller/owner-pods.ts",
    find: '    if (named?.kind === "unknown" || (named?.kind === "present" && !named.it.terminal)) return null;',
    replace: "    if (ownerPod !== null) return null;",
    why: "after a migration that failed the claim names the pod that is gone",
  },
  "orphans-keep-their-counts": {
    file: "controller/orphan-networks.ts",
    find: "    for (const object of orphans) {\n",
    replace: "    for (const object of orphans.slice(orphans.length)) {\n",
    why: "a network that nothing defines any more tells of counts of then",
    elsewhere: "test/controller/unit/orphan-networks.test.ts: the seed that showed it shows it no more",
  },
  "thief-not-told-of": {
    file: "claims/kube-claim-access.ts",
    find: "    if (pod !== null && MAY_NOT_USE.includes(refusal.code)) {",
    replace: '    if (pod !== null && MAY_NOT_USE.includes(refusal.code) && pod.name === "") {',
    why: "whose claim it is never learns who tries to use it",
  },
  "check-complains-of-completed-pods": {
    file: "store/cluster/checks/check-node.ts",
    find: "    if (problem === null || (await hasCompleted(pod, podState))) continue;",
    replace: "    if (problem === null) continue;",
    why: "check of a node asks for a completed pod to be recreated",
  },
};
