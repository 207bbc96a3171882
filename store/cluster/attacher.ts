import type { Owner } from "../../ipam/owner.ts";
import { type Refusal, refuse } from "../../ipam/refusals.ts";
import { isBefore } from "../../ipam/stamp.ts";
import type { AttachWant, EndReason } from "../allocations.ts";
import type { AttachmentRow } from "../journal/rows.ts";
import type { StateFolder } from "../journal/state-folder.ts";
import type { NodeContext } from "../node-context.ts";
import { podOrContainer } from "./allocations/owners.ts";
import type { ClaimDesk, ClaimReading } from "./claim-desk.ts";

/** Who will hold the addresses of an attachment, and which attachments of this node it takes the place of. */
export interface Attacher {
  readonly owner: Owner;
  /** When the owner is a claim. */
  readonly claim: ClaimReading | null;
  readonly superseded: readonly { readonly row: AttachmentRow; readonly reason: EndReason }[];
  readonly warnings: readonly string[];
}

interface Parts {
  readonly folder: StateFolder;
  readonly context: NodeContext;
  readonly desk: ClaimDesk;
}

type Resolved =
  | { readonly kind: "attacher"; readonly attacher: Attacher }
  | { readonly kind: "refused"; readonly refusal: Refusal };

/** Throws ApiAway. */
export async function resolveAttacher(parts: Parts, want: AttachWant, deadlineMs: number): Promise<Resolved> {
  if (want.claim === null) return withOwner(parts, want, podOrContainer(want), null, []);
  const name = `${want.claim.namespace}/${want.claim.name}`;
  const claim = await parts.desk.read(want.claim, deadlineMs);
  if (claim === null) return refused(refuse("CLAIM_ABSENT", { claim: name }));
  if (claim.network !== want.network) {
    const refusal = refuse("CLAIM_OTHER_NETWORK", {
      claim: name,
      claimNetwork: claim.network,
      network: want.network,
    });
    parts.desk.refused(claim, refusal, want);
    return refused(refusal);
  }
  // Addresses that a claim has are its own whatever becomes of the network's flag.
  if (!want.definition.allowPersistentIPs && claim.ips.length === 0) {
    parts.desk.refused(claim, persistenceNotAllowed(name, want.network), want);
    return withOwner(parts, want, podOrContainer(want), null, [
      `claim ${name} is ignored: network ${want.network} does not set allowPersistentIPs, so the address will not outlive the pod`,
    ]);
  }
  const refusal = await parts.desk.whyNot(claim, want, deadlineMs);
  if (refusal !== null) {
    parts.desk.refused(claim, refusal, want);
    return refused(refusal);
  }
  return withOwner(parts, want, ownerOfClaim(claim), claim, []);
}

export function ownerOfClaim(claim: ClaimReading): Owner {
  return { kind: "claim", uid: claim.uid, interface: "", namespace: claim.namespace, name: claim.name };
}

/** The earlier attachments of this node that this one replaces: the container's own, used again, and the same pod's older sandbox. */
function withOwner(
  { folder, context }: Parts,
  want: AttachWant,
  owner: Owner,
  claim: ClaimReading | null,
  warnings: readonly string[],
): Resolved {
  const { ledger } = folder;
  const space = ledger.networks.get(want.network);
  const former = space && ledger.sql.attachment.get(want.containerId, want.interface, space.id);
  const superseded: { row: AttachmentRow; reason: EndReason }[] = former
    ? [{ row: former, reason: "used again" }]
    : [];
  const rows =
    owner.kind === "container"
      ? []
      : ledger.sql.attachmentsOfOwner.all(owner.uid, owner.interface, owner.kind);
  for (const row of rows) {
    if (row.id === former?.id || row.network_id !== space?.id) continue;
    const samePod = want.pod !== null && row.pod_uid === want.pod.uid && row.interface === want.interface;
    if (samePod) {
      const stamp = { bootId: row.boot_id, us: row.boot_us };
      if (!isBefore(stamp, want.stamp, context.bootId)) {
        const later = `newer sandbox ${row.container_id} of the same pod`;
        return refused(
          refuse("SUPERSEDED", { containerId: want.containerId, interface: want.interface, later }),
        );
      }
      superseded.push({ row, reason: "newer sandbox" });
    } else if (isGone(context, row)) superseded.push({ row, reason: "namespace gone" });
  }
  return { kind: "attacher", attacher: { owner, claim, superseded, warnings } };
}

export function isGone(context: NodeContext, row: AttachmentRow): boolean {
  const netns = { path: row.netns_path, id: row.netns_id, witnessed: row.netns_witnessed === 1 };
  // No namespace outlives its boot: one that is still there is of this boot, whatever its stamp says.
  if (row.boot_id !== context.bootId) return context.namespaceAlive?.(netns) !== true;
  return context.namespaceGone(netns);
}

function persistenceNotAllowed(claim: string, network: string): Refusal {
  return refuse("PERSISTENCE_NOT_ALLOWED", { claim, network });
}

function refused(refusal: Refusal): { kind: "refused"; refusal: Refusal } {
  return { kind: "refused", refusal };
}
