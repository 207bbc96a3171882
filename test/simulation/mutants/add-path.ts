import type { Mutants } from "./mutant.ts";

const ATTACH = "store/cluster/attach.ts";
const FIND = "store/cluster/parts/find-claimed.ts";
const RESERVE = "store/cluster/reserve.ts";
const HOLD = "allocations/hold.ts";
const DECIDE = "ipam/decide-attach.ts";
const CLAIM_ACCESS = "claims/kube-claim-access.ts";

/** Faults on the way from a runtime's ADD to its answer. */
export const ADD_PATH: Mutants = {
  "intent-not-recorded": {
    file: ATTACH,
    find: "      announce: async (addresses) => {",
    replace: "      announce: async (addresses) => {\n        if (addresses.length > 0) return;",
    why: "nobody knows what an ADD that ended in the middle had reserved",
  },
  "published-before-reserved": {
    file: ATTACH,
    find: '        context.killPoint?.("after-intent");',
    replace: `        if (attacher.claim !== null && attacher.claim.ips.length === 0)
          await parts.claimAccess.publish(attacher.claim, { addresses, isNew: true, instead: [] }, want, deadlineMs);`,
    why: "a claim lists an address that somebody else may have",
  },
  "answered-before-published": {
    file: ATTACH,
    find: "  const published = claim && (await claimAccess.publish(claim, { ...outcome, instead }, want, deadlineMs));",
    replace: `  claim && claimAccess.publish(claim, { ...outcome, instead }, want, deadlineMs).catch(() => {});
  const published = claim && "listed";`,
    why: "a container has an address that its claim may never list",
  },
  "moved-on-the-wish-alone": {
    file: "claims/reasons/relations.ts",
    find: "    const isThere = had.some((one) => one.network === network);",
    replace: "    const isThere = had.length > 0;",
    why: "what a VM has is released because it is to be on another network, where it has nothing",
  },
  "claim-follows-every-launcher": {
    file: CLAIM_ACCESS,
    find: "  if (!wanted) return false;",
    replace: "  if (vmi !== null) return true;",
    why: "the late ADD of a launcher that was given up takes the claim from its VM",
    elsewhere: "test/cluster/network-change.test.ts: no seed has shown it yet",
  },
  "list-is-not-projected": {
    file: "controller/claims/projections.ts",
    find: "    const ips = left === null ? target.ips : [];",
    replace: "    const ips = left === null ? claim.ips : [];",
    why: "a claim lists addresses of its former network as those of the new one",
  },
  "claim-stays-astray": {
    file: "controller/claims/projections.ts",
    find: "    if (target.network === claim.network) return;",
    replace: '    if (target.network !== "") return;',
    why: "a claim stays on a network where its VM is not",
  },
  "unknown-outcome-is-a-refusal": {
    file: RESERVE,
    find: "        const taken = await this.#take(this.#present);",
    replace: `        const isUnknown = (error: unknown) => {
          if (error instanceof RefusalError || conflicts > 64) throw error;
          return null;
        };
        const taken = await this.#take(this.#present).catch(isUnknown);`,
    why: "a create without an answer counts as one that was refused: what it created is nobody's",
  },
  "conflict-counts-as-created": {
    file: HOLD,
    find: '    if (written.kind === "done") return { kind: "held", object: written.object, was: stateBefore(object) };',
    replace: `    if (object === null && written.kind !== "done")
      return { kind: "held", object: next as IPAllocation, was: "absent" };
    if (written.kind === "done") return { kind: "held", object: written.object, was: stateBefore(object) };`,
    why: "whoever creates second believes that it has the address",
  },
  "owner-not-compared": {
    file: HOLD,
    find: '  if (relation === "other") return "taken";',
    replace: '  if (relation === "other") return takenOver(object, one, holder, time);',
    why: "an address that is Bound to another owner is overwritten",
  },
  "cooldown-ignored": {
    file: RESERVE,
    find: "      cooled ||\n",
    replace: "      object !== null ||\n",
    also: [
      {
        file: "ipam/decide-addresses.ts",
        find: "      return mayReturn(address, state) ? null",
        replace: "      return nowMs > 0 ? null",
      },
    ],
    why: "an address is given on at once, while packets for its former holder are still under way",
  },
  "tombstone-forgotten": {
    file: "store/journal/uses.ts",
    find: "    isBefore(want.stamp, { bootId: row.boot_id, us: row.boot_us }, ledger.context.bootId),",
    replace: "    row.boot_us < 0,",
    why: "an ADD that comes after its own DEL attaches a container that is gone",
  },
  "import-not-awaited": {
    file: "cni/add.ts",
    find: "      await cluster.imports.ensure(base.network, request, deadlineMs);",
    replace: "      cluster.imports.ensure(base.network, request, deadlineMs).catch(() => {});",
    why: "addresses from before are given while they are being recorded",
    elsewhere: "test/cluster/host-local.test.ts: the seed that showed it shows it no more",
  },
  "claim-shared-by-anybody": {
    file: "ipam/claim-users.ts",
    find: "    if (!mayShare) return user;",
    replace: "    if (mayShare === null) return user;",
    why: "two pods that are not one virtual machine use one claim",
  },
  "claim-serves-strangers": {
    file: CLAIM_ACCESS,
    find: "    return permission.ok ? null : permission.refusal;",
    replace: '    return permission.ok || permission.refusal.code === "CLAIM_OTHER_OWNER" ? null : permission.refusal;',
    why: "a pod of another virtual machine gets a claim's address",
  },
  "repeat-in-another-order": {
    file: "store/journal/attachment-journal.ts",
    find: "    ips: JSON.stringify(ips),",
    replace: "    ips: JSON.stringify(ips.toReversed()),",
    why: "an exact repeat of an ADD is answered otherwise",
  },
  "retained-not-looked-for": {
    file: FIND,
    find: 'isFirstHere && status?.state === "Retained")',
    replace: 'isFirstHere && status?.state === "Cooling")',
    why: "a claim that is made again in time does not get what is retained for its name",
  },
  "request-of-a-vm-ignored": {
    file: "claims/cluster-request.ts",
    find: "      askedByVm,\n",
    replace: "      ...(askedByVm.length > 99 ? [askedByVm] : []),\n",
    why: "a VM that asks for an address gets any",
  },
  "claim-does-not-move": {
    file: DECIDE,
    find: '    } else own = held.map((one) => ({ ...one, state: "cooling" }));',
    replace: "    } else requested = [];",
    why: "a VM that was stopped keeps what it had, whatever it asks for",
  },
  "claim-moves-under-its-vm": {
    file: DECIDE,
    find: "    if (runs) {",
    replace: "    if (runs && users.length > 99) {",
    why: "the address of a VM that runs is taken away while it migrates",
  },
};
