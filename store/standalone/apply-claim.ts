import { isDeepStrictEqual } from "node:util";
import type { ClaimFilter, PageRequest } from "../../allocations/filter.ts";
import { decodeToken, encodeToken, pageOf } from "../../allocations/pages.ts";
import type { Page } from "../../allocations/records.ts";
import { adoptedCondition, mergeCondition } from "../../ipam/claim-conditions.ts";
import { whyUnfit } from "../../ipam/decide-addresses.ts";
import { ownerOfClaim } from "../../ipam/owner.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { sameAddress } from "../../ipam/space/address.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { isoTime, randomUuid } from "../../platform/time.ts";
import { forgetClaimWhenUnused } from "../journal/end-attachment.ts";
import type { Transaction } from "../journal/group-commit.ts";
import type { Ledger } from "../journal/ledger.ts";
import type { ClaimRow } from "../journal/rows.ts";
import { inSlices, mapClaims } from "../journal/slices.ts";
import type { AppliedClaim, ApplyAction, ClaimManifest } from "../manifests.ts";
import { openHolding } from "./claim-status.ts";
import { reserveInUse } from "./reserve.ts";

/** Creates or changes a claim. Throws RefusalError when it contradicts what the claim holds (docs/decisions/0009). */
export function applyClaim(ledger: Ledger, transaction: Transaction, applied: AppliedClaim): ApplyAction {
  const { sql } = ledger;
  const manifest = JSON.stringify(applied.manifest);
  const known = sql.claim.get(applied.namespace, applied.name);
  if (!known) {
    create(ledger, transaction, applied, manifest);
    return "created";
  }
  const claim = `${applied.namespace}/${applied.name}`;
  if (known.deleted_ms !== null) throw new RefusalError(refuse("CLAIM_TERMINATING", { claim }));
  if (known.network !== applied.network && known.ips !== "[]") {
    throw new RefusalError(
      refuse("CONFIG_INVALID", {
        key: "spec.network",
        value: applied.network,
        remedy: `claim ${claim} holds addresses of network ${known.network}; delete the claim first, or keep that network`,
      }),
    );
  }
  if (!applied.ips.every((ip) => isOneOf(ip, JSON.parse(known.ips) as string[]))) {
    throw new RefusalError(
      refuse("CONFIG_INVALID", {
        key: "status.ips",
        value: applied.ips.join(", "),
        remedy: `claim ${claim} exists already and its addresses (${(JSON.parse(known.ips) as string[]).join(", ") || "none yet"}) are not written by hand; leave status out`,
      }),
    );
  }
  if (isDeepStrictEqual(JSON.parse(known.manifest), applied.manifest)) return "unchanged";
  sql.updateClaimSpec.run(applied.network, manifest, applied.vm.name, applied.vm.uid, known.uid);
  return "configured";
}

/** Whether a claim has the address, at any prefix length: a manifest may be older than the network's present one. */
function isOneOf(ip: string, ips: readonly string[]): boolean {
  const { address } = parseInterfaceAddress(ip);
  return ips.some((other) => sameAddress(parseInterfaceAddress(other).address, address));
}

/** Creates a claim. Its listed addresses (restored, or from another system) become its own, or it is refused. */
function create(ledger: Ledger, transaction: Transaction, applied: AppliedClaim, manifest: string): void {
  const { sql, context } = ledger;
  const nowMs = context.clock.wallMs();
  const uid = randomUuid(context.clock);
  const conditions = applied.ips.length === 0 ? [] : mergeCondition([], adoptedCondition(isoTime(nowMs)));
  sql.insertClaim.run(
    uid,
    applied.namespace,
    applied.name,
    applied.network,
    manifest,
    applied.vm.name,
    applied.vm.uid,
    JSON.stringify(applied.ips),
    JSON.stringify(conditions),
    nowMs,
  );
  if (applied.ips.length > 0) adopt(ledger, transaction, applied, uid);
}

function adopt(ledger: Ledger, transaction: Transaction, applied: AppliedClaim, uid: string): void {
  const space = ledger.networkOf(applied.network, transaction);
  const addresses = applied.ips.map(parseInterfaceAddress);
  const { namespace, name } = applied;
  const owner = ownerOfClaim({ uid, namespace, name });
  const unfit = space.definition && whyUnfit(space.definition, addresses);
  if (unfit) throw new RefusalError(unfit);
  for (const one of addresses) reserveInUse(ledger, transaction, space, owner, one);
  openHolding(ledger, owner, addresses, space);
}

/** Deletes a claim: at once if nothing is attached with it, else when the last attachment ends. null: there is none. */
export function deleteClaim(
  ledger: Ledger,
  transaction: Transaction,
  namespace: string,
  name: string,
): { state: "deleted" | "terminating"; ips: readonly string[] } | null {
  const claim = ledger.sql.claim.get(namespace, name);
  if (!claim) return null;
  if (claim.deleted_ms === null) ledger.sql.markClaimDeleted.run(ledger.context.clock.wallMs(), claim.uid);
  const owner = ownerOfClaim(claim);
  const gone = forgetClaimWhenUnused(ledger, transaction, owner);
  return { state: gone ? "deleted" : "terminating", ips: JSON.parse(claim.ips) as string[] };
}

/** Claims by namespace and name, read in slices (inSlices). */
export function listClaims(
  directory: { readonly ledger: Ledger },
  { namespace, name }: ClaimFilter,
  page: PageRequest,
): Promise<Page<ClaimManifest>> {
  const after = decodeToken(page.continue);
  const list = (row: ClaimRow) => {
    const wanted = (namespace ?? row.namespace) === row.namespace && (name ?? row.name) === row.name;
    return wanted ? [{ item: viewClaim(row), token: () => encodeToken(row.namespace, row.name) }] : [];
  };
  const slices = inSlices(directory, (ledger) => mapClaims(ledger, list, after));
  return pageOf(slices, page);
}

function viewClaim(row: ClaimRow): ClaimManifest {
  const { metadata, spec } = JSON.parse(row.manifest) as { metadata: object; spec: { network: string } };
  const ips = JSON.parse(row.ips) as string[];
  const conditions = JSON.parse(row.conditions) as object[];
  const status = {
    ips,
    ...(row.owner_pod === null ? {} : { ownerPod: { name: row.owner_pod } }),
    ...(conditions.length === 0 ? {} : { conditions }),
  };
  return {
    apiVersion: "k8s.cni.cncf.io/v1alpha1",
    kind: "IPAMClaim",
    metadata: {
      ...metadata,
      name: row.name,
      namespace: row.namespace,
      uid: row.uid,
      resourceVersion: String(row.version),
      creationTimestamp: isoTime(row.created_ms),
      ...(row.deleted_ms === null ? {} : { deletionTimestamp: isoTime(row.deleted_ms) }),
    },
    spec,
    ...(ips.length === 0 && conditions.length === 0 ? {} : { status }),
  };
}
