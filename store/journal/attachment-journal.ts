import type { NetworkSpace } from "../../allocations/network-space.ts";
import type { AnsweredAddress, Attachment } from "../../allocations/records.ts";
import { claimRefOf } from "../../ipam/decide-repeat.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import type { Owner } from "../../ipam/owner.ts";
import { addressBytes, formatAddress } from "../../ipam/space/address.ts";
import { formatInterfaceAddress, type InterfaceAddress } from "../../ipam/space/cidr.ts";
import { placeOf } from "../../ipam/space/range-set.ts";
import { isBefore } from "../../ipam/stamp.ts";
import type { AttachOutcome, AttachWant } from "../allocations.ts";
import type { NewAttachmentRow } from "./attachment-rows.ts";
import type { JournalAttachment } from "./journal-attachment.ts";
import type { Ledger } from "./ledger.ts";
import { attachmentOf, type TakingRow } from "./rows.ts";

/** The answer given before, byte for byte. Only its stamp moves on, so that an older DEL on its way ends nothing. */
export function repeat(
  ledger: Ledger,
  space: NetworkSpace,
  definition: NetworkDefinition,
  { row, stamp }: JournalAttachment,
  want: AttachWant,
): AttachOutcome {
  if (isBefore(stamp, want.stamp, ledger.context.bootId)) {
    ledger.attachments.refresh(row, want.stamp, want.netns);
  }
  const attachment = attachmentOf(row, space.name);
  return { kind: "attached", attachment, definition, repeat: true, warnings: [] };
}

/** In Kubernetes: the newest version of what was written, 0: not known; and the row of the ADD that has taken it. */
interface InKubernetes {
  readonly version?: number;
  readonly taking?: TakingRow | null;
}

/** Records the attachment and its history, with the addresses that are about to be answered. */
export function record(
  ledger: Ledger,
  space: NetworkSpace,
  definition: NetworkDefinition,
  owner: Owner,
  want: AttachWant,
  addresses: readonly InterfaceAddress[],
  { version = 0, taking = null }: InKubernetes = {},
): Attachment {
  const { sql, context } = ledger;
  const sinceMs = context.clock.wallMs();
  const ips = addresses.map((one) => answered(definition, one));
  const pod = [want.pod?.namespace ?? null, want.pod?.name ?? null, want.pod?.uid ?? null];
  const ownerColumns = [owner.kind, owner.uid, owner.interface, owner.namespace, owner.name];
  const historyIds = addresses.map((one) =>
    Number(
      sql.insertHistory.run(
        space.id,
        addressBytes(one.address),
        one.prefixLength,
        ...ownerColumns,
        want.containerId,
        want.interface,
        ...pod,
        context.node,
        sinceMs,
      ).lastInsertRowid,
    ),
  );
  const { netns, stamp } = want;
  const row: NewAttachmentRow = {
    network_id: space.id,
    container_id: want.containerId,
    interface: want.interface,
    owner_kind: owner.kind,
    owner_uid: owner.uid,
    owner_interface: owner.interface,
    owner_namespace: owner.namespace,
    owner_name: owner.name,
    claim_ref: claimRefOf(want),
    ips: JSON.stringify(ips),
    boot_id: stamp.bootId,
    boot_us: stamp.us,
    netns_path: netns.path,
    netns_id: netns.id,
    netns_witnessed: netns.witnessed ? 1 : 0,
    pod_namespace: want.pod?.namespace ?? null,
    pod_name: want.pod?.name ?? null,
    pod_uid: want.pod?.uid ?? null,
    node: context.node,
    since_ms: sinceMs,
    history_id: historyIds[0] ?? 0,
    history_count: historyIds.length,
    mac: want.mac ?? null,
    version,
  };
  const id = ledger.attachments.insert(row, taking);
  return {
    id,
    network: space.name,
    containerId: want.containerId,
    interface: want.interface,
    owner,
    claimRef: claimRefOf(want),
    ips,
    stamp,
    netns,
    pod: want.pod,
    node: context.node,
    sinceMs,
    mac: want.mac ?? null,
  };
}

function answered(definition: NetworkDefinition, one: InterfaceAddress): AnsweredAddress {
  const address = formatInterfaceAddress(one);
  const gateway = placeOf(definition.rangeSets, one.address)?.subnet.gateway ?? null;
  return gateway === null ? { address } : { address, gateway: formatAddress(gateway) };
}
