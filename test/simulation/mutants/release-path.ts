import type { Mutants } from "./mutant.ts";

const AGREEMENT = "store/cluster/agreement";
const GIVE_BACK = "allocations/give-back.ts";
const RELATIONS = "claims/reasons/relations.ts";

/** Faults where addresses are given back, on nodes and by the controller. */
export const RELEASE_PATH: Mutants = {
  "release-without-version": {
    file: GIVE_BACK,
    find: "      return client.replace(cooled(object, since, change.holderEnded), deadlineMs);",
    replace: `      return (async () => {
        for (;;) {
          const now = await client.readNamed(object.metadata.name, deadlineMs);
          const { resourceVersion } = now?.object.metadata ?? object.metadata;
          const written = await client.replace(
            cooled({ ...object, metadata: { ...object.metadata, resourceVersion } }, since, change.holderEnded),
            deadlineMs,
          );
          if (written.kind === "done" || now === null) return written;
        }
      })();`,
    why: "what was decided about an earlier version is written over whatever is there now",
  },
  "del-ends-what-is-newer": {
    file: "store/cluster/cluster-store.ts",
    find: "    isBefore({ bootId: row.boot_id, us: row.boot_us }, want.stamp, context.bootId);",
    replace: "    row.boot_us >= 0;",
    why: "a late DEL of an old sandbox ends the new one that has its container ID",
    elsewhere: "test/store/allocations.contract.test.ts: no seed has shown it yet",
  },
  "boots-not-ordered": {
    file: "ipam/stamp.ts",
    find: "  return b.bootId === presentBootId;",
    replace: '  return b.bootId === presentBootId && a.bootId === "";',
    why: "after a reboot nothing of this boot counts as newer than what was there before",
  },
  "outbox-entry-dropped": {
    file: `${AGREEMENT}/over.ts`,
    find: '    const failed = results.find((result) => result.status === "rejected");',
    replace: '    const failed = results.find((result) => result.status === "rejected" && result.reason === null);',
    why: "a release that could not be sent is forgotten",
  },
  "former-sandbox-frees": {
    file: `${AGREEMENT}/release-address.ts`,
    find: '  if (isUsed(ledger, row, address)) return "held";\n',
    replace: "",
    why: "the release that an old sandbox owes frees the address that the new one uses",
  },
  "intents-of-former-process-forgotten": {
    file: "store/cluster/cluster-store.ts",
    find: "      for (const row of ledger.sql.taking.all()) abandon(ledger, row);",
    replace: "      for (const row of ledger.sql.taking.all()) ledger.sql.deleteTaking.run(row.id);",
    why: "what a killed daemon had reserved in the middle of an ADD stays reserved",
  },
  "ended-attachments-come-back": {
    file: `${AGREEMENT}/own-objects.ts`,
    find: '  return isUnproven(ledger, "recovering") ? "restored" : null;',
    replace: '  return isUnproven(ledger, "recovering") ? null : null;',
    why: "what had ended since the backup that etcd was restored from is held for ever",
  },
  "sweep-without-grace": {
    file: "controller/sweep/observations.ts",
    find: "    const isDue = known.sights >= 2 && nowMs - known.sinceMs >= known.afterMs;",
    replace: "    const isDue = known.sights >= 1;",
    why: "what is wrong for a moment only is acted upon",
  },
  "unpublished-is-swept": {
    file: RELATIONS,
    find: "  if (claim.isDeleting) return pruneOr(has, allocation, facts, rules);",
    replace: `  if (!claim.ips.includes(spec.address))
    return { kind: "release", why: "another-counts", afterSeconds: end.afterSeconds };`,
    why: "what a claim has is given back because somebody has taken it out of the list",
  },
  "stale-list-believed": {
    file: "controller/sweep/carry-out.ts",
    find: "  if (identityOf(object.metadata, fresh) !== seen) return CHANGED;\n  switch (fresh.kind) {",
    replace:
      '  if (seen.includes(" release ")) return { kind: "cool" };\n  if (seen.includes(" delete ")) return { kind: "delete" };\n  switch (fresh.kind) {',
    also: [
      {
        file: "controller/sweep/carry-out.ts",
        find: "      reading.object.metadata.resourceVersion === resourceVersion\n",
        replace: '      resourceVersion !== ""\n',
      },
      {
        file: "controller/sweep/carry-out.ts",
        find: "  return found?.uid === uid && found.resourceVersion === resourceVersion && reading !== null\n",
        replace: "  return found?.uid === uid && reading !== null\n",
      },
    ],
    why: "an address is released by what a watch had shown, whatever is true by now",
    elsewhere: "test/controller/unit/sweeper.test.ts: no seed has shown it yet",
  },
  "change-of-a-claim-not-noticed": {
    file: "controller/sweep/follow-changes.ts",
    find: '  claims.onChange(anyChange("claim"));\n',
    replace: "",
    why: "an address is given back ten minutes after its claim is gone",
    elsewhere: "test/controller/sweep-pace.test.ts: in the simulation a slice of all is all",
  },
  "facts-asked-for-not-noted": {
    file: "claims/reasons/read-facts.ts",
    find: 'note("pods-naming", ',
    replace: 'void ("pods-naming", ',
    why: "an address stays held after the last pod that names its former claim is gone",
    elsewhere: "test/controller/unit/sweep-changes.test.ts",
  },
  "moved-cluster-frees": {
    file: "claims/reasons/machines.ts",
    find: '  if (found.kind === "present") return found.it.paused ? moved : release;',
    replace: '  if (found.kind === "present") return release;',
    why: "machines that were moved to another management cluster lose their addresses",
    elsewhere: "test/controller/unit/machine-release.test.ts: no seed has shown it yet",
  },
};
