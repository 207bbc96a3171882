import type { Mutants } from "./mutant.ts";

const RELATIONS = "claims/reasons/relations.ts";
const FIND = "store/cluster/parts/find-claimed.ts";
const DECIDE = "ipam/decide-attach.ts";
const WISHES = "imports/claim-wishes.ts";
const PATCH = "kube/views/claim-status-patch.ts";

/** Faults in what is taken for a claim's (docs/decisions/0093). */
export const OF_CLAIMS: Mutants = {
  "append-drops-an-entry": {
    file: "claims/kube-claim-access.ts",
    find: "    const ips = [...view.ips, ...missing.map(formatInterfaceAddress)];",
    replace: "    const ips = [...view.ips.slice(1), ...missing.map(formatInterfaceAddress)];",
    why: "what a claim lists first, and its next start gets, is taken out of the list by a node",
  },
  "append-without-version": {
    file: PATCH,
    find: "  return { metadata: { resourceVersion: view.resourceVersion }, status: { ips, ...changes } };",
    replace: "  return { status: { ips, ...changes } };",
    why: "what somebody else has appended since the claim was read is taken out of its list",
  },
  "empty-counts-as-first-use": {
    file: FIND,
    find: "  const isFirst = claim.ips.length === 0 && claimAccess.isFirstUse(claim, ask);",
    replace: "  const isFirst = claim.ips.length === 0;",
    why: "whoever empties a list gives the VM another address",
  },
  "part-of-a-list-is-all": {
    file: FIND,
    find: "(!isPublished() || isShort || asksForOthers || lacksSource)",
    replace: "(!isPublished() || asksForOthers || lacksSource)",
    why: "whoever takes one of two addresses out of a list takes it from the VM",
  },
  "list-believed-whosever-it-is": {
    file: FIND,
    find: "        if (!sameAllocationOwner(spec.owner, toAllocationOwner(owner)))",
    replace:
      "        if (!sameAllocationOwner(spec.owner, toAllocationOwner(owner)) && !listed.some((one) => sameAddress(one.address, address)))",
    why: "what a claim lists counts as its own, and its VM waits for what another has",
  },
  "wish-before-own": {
    file: DECIDE,
    find: `  const bound = own.filter(({ state }) => state === "bound");
  const wished = counts.length > 0 || claim === null ? [] : wishedFor(definition, claim, { own, requested, wishes });`,
    replace: `  const wished = claim === null || wishes.length === 0 ? [] : wishedFor(definition, claim, { own: [], requested, wishes });
  if (wished.length > 0) own = own.map((one) => ({ ...one, state: "cooling" }));
  const bound = own.filter(({ state }) => state === "bound");`,
    why: "what somebody has written into a list is given in place of what the claim has",
  },
  "released-whatever-the-claim-says": {
    file: RELATIONS,
    find: "  if (!says.it.isRight) return pruneOr(",
    replace: "  if (says.it.had.length === 0) return pruneOr(",
    why: "an address is given back while the claim's list still has it first",
    elsewhere: "test/claims/protocol: no seed has shown it yet",
  },
  "released-by-the-network-of-the-claim": {
    file: RELATIONS,
    find: "  const { network } = wants.it;\n",
    replace: "  const { network } = claim;\n",
    also: [
      {
        file: RELATIONS,
        find: "  if (!says.it.isRight) return pruneOr(",
        replace: "  if (says.it.had.length === 0) return pruneOr(",
      },
      {
        file: RELATIONS,
        find: "    const isThere = had.some((one) => one.network === network);",
        replace: "    const isThere = had.length > 0;",
      },
    ],
    why: "whoever writes the network of a claim takes the addresses of its stopped VM",
  },
  "list-in-the-order-found": {
    file: "claims/reasons/claim-says.ts",
    find: "  for (const network of [...new Set(allocations.map(({ object }) => object.spec.network))].sort()) {",
    replace: "  for (const network of new Set(allocations.map(({ object }) => object.spec.network))) {",
    why: "a claim with addresses on three networks never says what it has, and nothing of it is given back",
  },
  "attached-counts-as-used": {
    file: "claims/reasons/claim-says.ts",
    find: "      const isReported = reported(one, facts);",
    replace: "      const isReported = attachmentsIn(one.object).length > 0;",
    why: "what an ADD that was cut short has attached counts, and what the VM has is given back",
    elsewhere: "test/claims/protocol: no seed has shown it yet",
  },
  "earlier-round-is-kept": {
    file: "store/cluster/parts/record-attachment.ts",
    find: "      addPending(ledger, transaction, { network, addresses: left, owner, ...key, uncertain: true, ended: true });",
    replace: "",
    why: "what an ADD reserved before it decided again is attached to a container that does not have it",
    elsewhere: "test/claims/protocol: no seed has shown it yet",
  },
  "excluded-wish-is-reserved": {
    file: WISHES,
    find: "    if (!subnet?.usable.contains(address.value) || reservations?.otherMac(address, undefined)) return [];",
    replace: "    if (subnet === undefined) return [];",
    why: "a list takes an address that the network excludes",
  },
  "second-wish-is-reserved": {
    file: WISHES,
    find: "  return firstOfEachSet(rangeSets, listedAddresses(claim), taken).flatMap(",
    replace: "  return listedAddresses(claim).flatMap(",
    why: "a list takes several addresses of one subnet",
  },
};
