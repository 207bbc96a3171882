import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import type { Owner } from "../../ipam/owner.ts";
import { type Refusal, refuse } from "../../ipam/refusals.ts";
import { isBefore } from "../../ipam/stamp.ts";
import type { AttachWant, EndReason } from "../allocations.ts";
import type { Ledger } from "../journal/ledger.ts";
import type { AttachmentRow, ClaimRow } from "../journal/rows.ts";
import { recordClaimRefusal } from "./claim-status.ts";

/** Who will hold the addresses of an attachment, and which of the owner's earlier attachments it takes the place of. */
export interface Attacher {
  readonly owner: Owner;
  /** The claim's row when the owner is a claim. */
  readonly claim: ClaimRow | null;
  readonly superseded: readonly { readonly row: AttachmentRow; readonly reason: EndReason }[];
  readonly warnings: readonly string[];
}

type Resolved =
  | ({ readonly kind: "owner" } & Attacher)
  | { readonly kind: "refused"; readonly refusal: Refusal; readonly claim: ClaimRow | null };

/** `former` is an attachment of the same container and interface that asked for something else: its container ID is used again. */
export function resolveOwner(
  ledger: Ledger,
  definition: NetworkDefinition,
  want: AttachWant,
  former: AttachmentRow | undefined,
): Resolved {
  const usedAgain: Attacher["superseded"] = former ? [{ row: former, reason: "used again" }] : [];
  if (want.claim === null) return podOrContainer(ledger, want, usedAgain, []);
  const claim = ledger.sql.claim.get(want.claim.namespace, want.claim.name);
  const name = `${want.claim.namespace}/${want.claim.name}`;
  if (!claim) {
    return { kind: "refused", claim: null, refusal: refuse("CLAIM_ABSENT", { claim: name }) };
  }
  if (claim.network !== want.network) {
    const refusal = refuse("CLAIM_OTHER_NETWORK", {
      claim: name,
      claimNetwork: claim.network,
      network: want.network,
    });
    return { kind: "refused", claim, refusal };
  }
  // Addresses that a claim has are its own whatever becomes of the network's flag.
  if (!definition.allowPersistentIPs && claim.ips === "[]") {
    recordClaimRefusal(
      ledger,
      claim,
      refuse("PERSISTENCE_NOT_ALLOWED", { claim: name, network: want.network }),
    );
    return podOrContainer(ledger, want, usedAgain, [
      `claim ${name} is ignored: network ${want.network} does not set allowPersistentIPs, so the address will not outlive the pod`,
    ]);
  }
  return withClaim(ledger, claim, want, usedAgain);
}

function withClaim(
  ledger: Ledger,
  claim: ClaimRow,
  want: AttachWant,
  usedAgain: Attacher["superseded"],
): Resolved {
  const name = `${claim.namespace}/${claim.name}`;
  const superseded = [...usedAgain];
  let continuesOlderPod = false;
  for (const row of ledger.sql.attachmentsOfOwner.all(claim.uid, "", "claim")) {
    if (superseded.some((one) => one.row.id === row.id)) continue;
    if (isSamePodInterface(row, want)) {
      if (!isOlder(row, want, ledger)) return overtaken(row, want);
      superseded.push({ row, reason: "newer sandbox" });
      continuesOlderPod = true;
    } else if (isGone(ledger, row)) {
      superseded.push({ row, reason: "namespace gone" });
    } else if (claim.deleted_ms === null) {
      const holder = `container ${row.container_id} (${row.interface})`;
      return { kind: "refused", claim, refusal: refuse("CLAIM_IN_USE", { claim: name, holder }) };
    }
  }
  if (claim.deleted_ms !== null && !continuesOlderPod) {
    return { kind: "refused", claim: null, refusal: refuse("CLAIM_TERMINATING", { claim: name }) };
  }
  const owner: Owner = {
    kind: "claim",
    uid: claim.uid,
    interface: "",
    namespace: claim.namespace,
    name: claim.name,
  };
  return { kind: "owner", owner, claim, superseded, warnings: [] };
}

function podOrContainer(
  ledger: Ledger,
  want: AttachWant,
  usedAgain: Attacher["superseded"],
  warnings: readonly string[],
): Resolved {
  if (want.pod === null) {
    const owner: Owner = {
      kind: "container",
      uid: want.containerId,
      interface: want.interface,
      namespace: "",
      name: "",
    };
    return { kind: "owner", owner, claim: null, superseded: usedAgain, warnings };
  }
  const { uid, namespace, name } = want.pod;
  const superseded = [...usedAgain];
  for (const row of ledger.sql.attachmentsOfOwner.all(uid, want.interface, "pod")) {
    if (superseded.some((one) => one.row.id === row.id)) continue;
    if (ledger.networkById(row.network_id).name !== want.network) continue;
    if (!isOlder(row, want, ledger)) return overtaken(row, want);
    superseded.push({ row, reason: "newer sandbox" });
  }
  const owner: Owner = { kind: "pod", uid, interface: want.interface, namespace, name };
  return { kind: "owner", owner, claim: null, superseded, warnings };
}

function isSamePodInterface(row: AttachmentRow, want: AttachWant): boolean {
  return want.pod !== null && row.pod_uid === want.pod.uid && row.interface === want.interface;
}

function isOlder(row: AttachmentRow, want: AttachWant, ledger: Ledger): boolean {
  return isBefore({ bootId: row.boot_id, us: row.boot_us }, want.stamp, ledger.context.bootId);
}

function isGone(ledger: Ledger, row: AttachmentRow): boolean {
  return ledger.context.namespaceGone({
    path: row.netns_path,
    id: row.netns_id,
    witnessed: row.netns_witnessed === 1,
  });
}

function overtaken(row: AttachmentRow, want: AttachWant): Resolved {
  const later = `newer sandbox ${row.container_id} of the same pod`;
  const { containerId } = want;
  const refusal = refuse("SUPERSEDED", { containerId, interface: want.interface, later });
  return { kind: "refused", claim: null, refusal };
}
