import { decideAdd, type HeldAddress } from "../../ipam/decide-add.ts";
import { describeOwner } from "../../ipam/owner.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import type { Address } from "../../ipam/space/address.ts";
import { type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { attachmentKey, type IPAllocation } from "../../kube/objects.ts";
import type { AttachWant } from "../allocations.ts";
import { whyTooNarrow } from "../journal/attachment-journal.ts";
import { openIntent, owe } from "../journal/intents.ts";
import { timeText } from "../journal/rows.ts";
import type { AllocationReading } from "./allocations/allocation-client.ts";
import {
  newAllocation,
  sameAllocationOwner,
  takenOver,
  withAttachment,
  withoutAttachments,
} from "./allocations/allocation-object.ts";
import { fromAllocationOwner } from "./allocations/owners.ts";
import { type AttachParts, holderOf } from "./attach-parts.ts";
import { type Attacher, isGone } from "./attacher.ts";
import type { ClaimReading } from "./claim-desk.ts";
import { formerKeys, type Reserved } from "./reserve.ts";

/**
 * An attachment joins addresses that its owner has already: those of the claim's status, or those of a pod's former
 * sandbox. Exactly these are given, or the ADD is refused. Throws ApiAway and RefusalError.
 */
export async function joinPublished(
  parts: AttachParts,
  want: AttachWant,
  attacher: Attacher,
  published: Pick<ClaimReading, "ips">,
  deadlineMs: number,
): Promise<Reserved | "again"> {
  const addresses = parsePublished(published, attacher.claim);
  const readings = await Promise.all(
    addresses.map((one) => parts.client.read(want.network, one.address, deadlineMs)),
  );
  const holder = holderOf(parts, want, attacher);
  const held: HeldAddress[] = [];
  for (const [index, one] of addresses.entries()) {
    const object = readings[index]?.object;
    if (object && !sameAllocationOwner(object.spec.owner, holder.owner)) {
      return attacher.claim ? refusedBecauseTaken(object, one.address, want) : "again";
    }
    // What nobody has recorded was filled in by somebody else, like what is marked so.
    const adopted = attacher.claim !== null && (object === undefined || object.spec.adopted === true);
    held.push({ ...one, state: "bound", adopted });
  }
  const others = await othersStanding(parts, want, attacher, readings, deadlineMs);
  if (others !== null) return { kind: "refused", refusal: others, reserved: [] };
  const decision = decideAdd({
    definition: want.definition,
    pools: [],
    held,
    requested: want.requested,
    seed: null,
    nowMs: 0,
    holderOf: () => null,
  });
  if (decision.kind === "refuse") return { kind: "refused", refusal: decision.refusal, reserved: [] };
  if (decision.kind !== "reuse") throw new Error("held addresses are reused or refused");
  const families = decision.addresses.map(({ address }) => address.family);
  const narrow = whyTooNarrow(families, want);
  if (narrow) return { ...narrow, reserved: [] };
  await parts.folder.write((ledger, transaction) =>
    openIntent(ledger, transaction, want, attacher.owner, addresses),
  );
  const results = await Promise.allSettled(
    addresses.map((one, index) => join(parts, want, attacher, one, readings[index] ?? null, deadlineMs)),
  );
  const failed = results.find((result) => result.status === "rejected");
  if (failed) {
    if (!(failed.reason instanceof RefusalError)) throw failed.reason;
    await leave(parts, want, attacher, addresses);
    throw failed.reason;
  }
  return { kind: "reserved", addresses: decision.addresses };
}

/** One address gets the attachment: one write, and a new look whenever somebody else was faster. */
async function join(
  parts: AttachParts,
  want: AttachWant,
  attacher: Attacher,
  one: InterfaceAddress,
  first: AllocationReading | null,
  deadlineMs: number,
): Promise<void> {
  const { client, context, hint } = parts;
  const holder = holderOf(parts, want, attacher);
  let reading = first;
  for (;;) {
    const time = timeText(context.clock.wallMs());
    if (reading === null) {
      const created = await client.create(newAllocation(want.network, one, holder, time), deadlineMs);
      if (created.kind === "done") {
        hint.note(
          want.network,
          one.address,
          attacher.owner.uid,
          false,
          created.object.metadata.resourceVersion,
        );
        return;
      }
    } else {
      const { object } = reading;
      if (!sameAllocationOwner(object.spec.owner, holder.owner)) {
        throw new RefusalError(refusedBecauseTaken(object, one.address, want).refusal);
      }
      const left = withoutAttachments(object, staleKeys(parts, want, attacher, object));
      const next =
        object.status?.state === "Cooling" || holder.attachment === null
          ? takenOver(object, one, holder, time)
          : withAttachment(left, holder.attachment);
      const written = await client.replace(next, deadlineMs);
      if (written.kind === "done") {
        hint.note(
          want.network,
          one.address,
          attacher.owner.uid,
          false,
          written.object.metadata.resourceVersion,
        );
        return;
      }
    }
    reading = await client.read(want.network, one.address, deadlineMs);
    // Whoever was faster may have attached another pod meanwhile.
    const other = await othersStanding(parts, want, attacher, [reading], deadlineMs);
    if (other !== null) throw new RefusalError(other);
  }
}

/** Attachments that this one replaces: of the same pod's older sandboxes, and of containers of this node that are gone. */
function staleKeys(parts: AttachParts, want: AttachWant, attacher: Attacher, object: IPAllocation): string[] {
  const holder = holderOf(parts, want, attacher);
  const replaced = attacher.superseded.map(({ row }) => attachmentKey(row.container_id, row.interface));
  return [...formerKeys(object, holder), ...replaced].filter(
    (key) => key !== attachmentKey(want.containerId, want.interface),
  );
}

/** An attachment of the claim that is neither replaced by this one, nor of the same VM, nor certainly gone. */
async function othersStanding(
  parts: AttachParts,
  want: AttachWant,
  attacher: Attacher,
  readings: readonly (AllocationReading | null)[],
  deadlineMs: number,
) {
  const { claim } = attacher;
  if (claim === null) return null;
  const asked = new Set<string>();
  for (const reading of readings) {
    if (reading === null) continue;
    const stale = staleKeys(parts, want, attacher, reading.object);
    for (const [key, other] of Object.entries(reading.object.status?.attachments ?? {})) {
      if (asked.has(key) || stale.includes(key)) continue;
      asked.add(key);
      if (key === attachmentKey(want.containerId, want.interface)) continue;
      const row = parts.folder.ledger.sql.attachmentsOfContainer
        .all(other.containerID, other.interface)
        .find((one) => one.owner_uid === claim.uid);
      if (row && isGone(parts.context, row)) continue;
      const samePod = want.pod !== null && other.pod?.uid === want.pod.uid;
      if (!samePod && (await parts.desk.other(claim, other, want, deadlineMs)) !== "in-use") continue;
      const holder = other.pod
        ? `pod ${other.pod.namespace}/${other.pod.name} (${other.interface}) on node ${other.node}`
        : `container ${other.containerID} (${other.interface}) on node ${other.node}`;
      return refuse("CLAIM_IN_USE", { claim: `${claim.namespace}/${claim.name}`, holder });
    }
  }
  return null;
}

async function leave(
  parts: AttachParts,
  want: AttachWant,
  { owner }: Attacher,
  addresses: readonly InterfaceAddress[],
): Promise<void> {
  const { containerId, interface: interfaceName, network } = want;
  await parts.folder.write((ledger) => {
    for (const { address } of addresses) {
      owe(ledger, { network, address, owner, containerId, interface: interfaceName, uncertain: false });
    }
    for (const intent of ledger.sql.intentsOfContainer.all(containerId, interfaceName)) {
      if (intent.owner_uid === owner.uid) ledger.sql.deleteIntent.run(intent.id);
    }
  });
  parts.owed();
}

function parsePublished({ ips }: Pick<ClaimReading, "ips">, claim: ClaimReading | null): InterfaceAddress[] {
  return ips.map((ip) => {
    try {
      return parseInterfaceAddress(ip);
    } catch (error) {
      const key = claim ? `status.ips of claim ${claim.namespace}/${claim.name}` : "journal";
      const remedy = `${(error as Error).message}; mend the claim's status`;
      throw new RefusalError(refuse("REQUEST_INVALID", { key, value: String(ip), remedy }));
    }
  });
}

function refusedBecauseTaken(object: IPAllocation, address: Address, want: AttachWant) {
  const holder = describeOwner(fromAllocationOwner(object.spec.owner));
  const refusal = refuse("ADDRESS_TAKEN", { address, network: want.network, holder });
  return { kind: "refused" as const, refusal, reserved: [] };
}
