import type { AllocationClient } from "../../../allocations/allocation-client.ts";
import { isSound } from "../../../allocations/allocation-object.ts";
import { fromAllocationOwner } from "../../../allocations/owners.ts";
import { isLearnt, type PodIdentity, UNSEEN_NAMESPACE } from "../../../allocations/records.ts";
import type { NetworkDefinition } from "../../../ipam/definition/network-definition.ts";
import { parsePluginConfig } from "../../../ipam/definition/plugin-config.ts";
import { knownKindOf } from "../../../ipam/owner.ts";
import { sameAddress } from "../../../ipam/space/address.ts";
import { type InterfaceAddress, parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import { placeOf } from "../../../ipam/space/range-set.ts";
import { ApiAway, type KubeApi } from "../../../kube/kube-api.ts";
import { nodeLabel } from "../../../kube/object-names.ts";
import {
  ALLOCATIONS_PATH,
  type AllocationAttachment,
  attachmentKey,
  attachmentsIn,
  type IPAllocation,
} from "../../../kube/objects.ts";
import { severalAtOnce } from "../../../platform/several-at-once.ts";
import type { AttachWant } from "../../allocations.ts";
import { record } from "../../journal/attachment-journal.ts";
import { BOOT } from "../../journal/former-boots.ts";
import type { Transaction } from "../../journal/group-commit.ts";
import type { Ledger } from "../../journal/ledger.ts";
import { addressesOf, attachmentOf, type OverRow } from "../../journal/rows.ts";
import type { StateDirectory } from "../../journal/state-directory.ts";
import { addPending, delsOf } from "../../journal/uses.ts";
import type { NodeContext } from "../../node-context.ts";
import type { ClaimAccess } from "../parts/claim-access.ts";
import { verdictOn } from "./facts.ts";
import { TOGETHER_MAX } from "./over.ts";
import { isUnproven, markProven } from "./unproven.ts";
import { READ_MS_MAX } from "./written-last.ts";

/*
 * What the API has of this node and the journal has not: no attachment, no ADD under way, no outstanding release. It is
 * of a former container (a DEL of it was seen, its ID or its pod has had a later use here), or was reserved by an ADD
 * that a power failure cut short, because what it was taking outlives the process but not a power failure; or else the
 * journal was lost, wholly or in part, or is a copy. Then a container may be running: the next sandbox of its pod takes
 * it up, its DEL or the end of its pod ends it.
 *
 * A journal that last served another boot is no evidence that nothing of this boot runs: a copy from an earlier boot
 * (a disk restored from a snapshot) looks the same.
 *
 * All of it is one transaction, together with the note of the boot that the journal serves from then on. A journal
 * without that note knows nothing for certain: after a crash in between, the next start does everything again.
 */

/** An attachment in the API, with all its addresses. */
interface FoundAttachment {
  readonly attachment: AllocationAttachment;
  readonly object: IPAllocation;
  readonly addresses: InterfaceAddress[];
}

export interface OwnObjectsParts {
  readonly api: KubeApi;
  readonly directory: StateDirectory;
  readonly context: NodeContext;
  readonly claimAccess: Pick<ClaimAccess, "hasEnded">;
  /** For reads that confirm what the list says. */
  readonly reads: AllocationClient;
  definitionOf(network: string): { readonly definition: NetworkDefinition } | null;
}

/**
 * new journal: the old one was damaged or lost, or the node was just installed: read before an ADD. first in boot: what
 * was being reserved when the power went. restored: the API server has again what has ended since.
 */
type WhyList = "new journal" | "first in boot" | "restored";

/** null: the journal has all. */
export function whyList(ledger: Ledger): WhyList | null {
  const served = ledger.sql.meta.get(BOOT)?.value;
  if (served === undefined) return "new journal";
  if (served !== ledger.context.bootId) return "first in boot";
  return isUnproven(ledger, "recovering") ? "restored" : null;
}

export interface OwnObjects {
  readonly why: WhyList;
  readonly recorded: number;
  readonly pending: number;
}

/** `ours`: the API certainly describes this machine. Throws ApiAway. */
export async function judgeOwnObjects(parts: OwnObjectsParts, why: WhyList, ours: boolean): Promise<OwnObjects> {
  const listed = await listOfNode(parts);
  // What a new journal learns is compared with the API next.
  const found = why === "new journal" ? listed : await confirmed(parts, listed);
  const ended = why === "first in boot" && ours ? await endedPods(parts, found) : null;
  const { directory, context } = parts;
  const counts = await directory.write((ledger, transaction) => {
    // What was known to the one before is in no other place now.
    if (why !== "new journal" && whyList(ledger) === "new journal")
      throw new ApiAway("the journal began anew meanwhile");
    const settled = settleAll(ledger, transaction, found, parts, ended);
    if (why !== "restored") ledger.sql.putMeta.run(BOOT, context.bootId);
    markProven(ledger, "recovering");
    return settled;
  });
  if (why !== "restored") directory.relaxSync();
  return { why, ...counts };
}

/** What the journal does not know, read a second time: the list comes from a cache. */
async function confirmed(
  { reads, context, directory }: OwnObjectsParts,
  listed: readonly FoundAttachment[],
): Promise<FoundAttachment[]> {
  const found: FoundAttachment[] = [];
  for (const one of listed) {
    const { network } = one.object.spec;
    if (isKnown(directory.ledger, one)) continue;
    const key = attachmentKey(one.attachment.containerID, one.attachment.interface);
    const addresses: InterfaceAddress[] = [];
    for (const address of one.addresses) {
      const deadlineMs = context.clock.monotonicMs() + READ_MS_MAX;
      const reading = await reads.read(network, address.address, deadlineMs);
      if (reading?.object.status?.attachments?.[key]?.node === context.node) addresses.push(address);
    }
    if (addresses.length > 0) found.push({ ...one, addresses });
  }
  return found;
}

/** UIDs of pods that have ended, among the attachments that the journal does not know. */
async function endedPods(parts: OwnObjectsParts, found: readonly FoundAttachment[]): Promise<Set<string>> {
  const pods = new Map<string, PodIdentity>();
  for (const one of found) {
    const { pod } = one.attachment;
    if (pod !== undefined && !isKnown(parts.directory.ledger, one)) pods.set(pod.uid, pod);
  }
  const ended = new Set<string>();
  await severalAtOnce(pods.values(), TOGETHER_MAX, async (pod) => {
    const deadlineMs = parts.context.clock.monotonicMs() + READ_MS_MAX;
    if (await parts.claimAccess.hasEnded(pod, deadlineMs)) ended.add(pod.uid);
  });
  return ended;
}

/** From the server's cache: what is absent there was written a moment ago, or is read by name where it matters. */
async function listOfNode(parts: OwnObjectsParts): Promise<FoundAttachment[]> {
  const found = new Map<string, FoundAttachment>();
  const answer = await parts.api.list({
    path: ALLOCATIONS_PATH,
    query: { labelSelector: nodeLabel(parts.context.node), resourceVersion: "0" },
    each: (object: IPAllocation) => {
      if (!isSound(object) || object.status?.state !== "Bound") return;
      // Of a later release's owner nobody here could tell when it ends: left alone, whoever knows it gives it back.
      if (knownKindOf(object.spec.owner.kind) === undefined) return;
      for (const attachment of attachmentsIn(object)) {
        if (attachment.node !== parts.context.node) continue;
        const key = attachmentKey(attachment.containerID, attachment.interface);
        const id = `${object.spec.network} ${key} ${object.spec.owner.uid}`;
        const known = found.get(id) ?? { attachment, object, addresses: [] };
        known.addresses.push(parseInterfaceAddress(object.spec.address));
        found.set(id, known);
      }
    },
    restarted: () => found.clear(),
  });
  // A server that is just starting says so too: that is no evidence that this node has nothing.
  if (answer.kind === "missing") throw new ApiAway("the API server does not serve IPAllocations");
  return [...found.values()];
}

function settleAll(
  ledger: Ledger,
  transaction: Transaction,
  all: readonly FoundAttachment[],
  parts: OwnObjectsParts,
  ended: ReadonlySet<string> | null,
): Omit<OwnObjects, "why"> {
  let [recorded, pending] = [0, 0];
  for (const one of all) {
    if (isKnown(ledger, one)) continue;
    const { pod } = one.attachment;
    const verdict = verdictOn({
      phase: wasDeleted(ledger, one) ? "gone" : "none",
      followed: isOfFormerUse(ledger, one) || isOfFormerSandbox(ledger, one),
      firstInBoot: ended !== null,
      pod: pod === undefined ? "none" : ended?.has(pod.uid) === true ? "gone" : "unknown",
    });
    if (verdict === "release") {
      pending += addPendingOf(ledger, transaction, one);
      continue;
    }
    const { network } = one.object.spec;
    const definition = parts.definitionOf(network)?.definition ?? bare(network);
    const order = ({ address }: InterfaceAddress) => placeOf(definition.rangeSets, address)?.index ?? 0;
    const addresses = one.addresses.toSorted((a, b) => order(a) - order(b));
    const owner = fromAllocationOwner(one.object.spec.owner);
    const space = ledger.networkOf(network, transaction);
    record(ledger, space, definition, owner, wantOf(one, definition, parts.context), addresses);
    recorded += 1;
  }
  return { recorded, pending };
}

/** Whether the journal has the attachment, an ADD that is about to make it, or its release. */
function isKnown(ledger: Ledger, found: FoundAttachment): boolean {
  const { sql, networks } = ledger;
  const { attachment, object, addresses } = found;
  const { containerID: containerId, interface: interfaceName } = attachment;
  const { network } = object.spec;
  const space = networks.get(network);
  const isRecorded = space && sql.attachment.get(containerId, interfaceName, space.id) !== undefined;
  if (isRecorded && !isOfFormerUse(ledger, found)) return true;
  const isHere = ({ network_id: id }: Pick<OverRow, "network_id">) => id === space?.id;
  if (sql.takingOfContainer.all(containerId, interfaceName).some(isHere)) return true;
  const pending = sql.over.all(containerId, interfaceName).filter(isHere).flatMap(addressesOf);
  return addresses.some(({ address }) => pending.some((one) => sameAddress(one.address, address)));
}

/** Whether another pod's container of this ID certainly runs, with other addresses: a runtime has one at a time. */
function isOfFormerUse(
  { sql, networks, context }: Ledger,
  { attachment, object, addresses }: FoundAttachment,
): boolean {
  const { containerID, interface: interfaceName } = attachment;
  const { network, owner } = object.spec;
  const space = networks.get(network);
  const row = space && sql.attachment.get(containerID, interfaceName, space.id);
  if (!row || row.owner_uid === owner.uid || row.boot_id !== context.bootId) return false;
  const { ips, netns } = attachmentOf(row, network);
  const has = (one: InterfaceAddress) =>
    ips.some((ip) => sameAddress(parseInterfaceAddress(ip.address).address, one.address));
  return !addresses.some(has) && context.namespaceAlive?.(netns) === true;
}

/** Whether its pod has another container of this boot; what was learnt does not tell which of them came later. */
function isOfFormerSandbox({ sql, context }: Ledger, { attachment, object }: FoundAttachment): boolean {
  const { kind, uid, interface: interfaceName } = object.spec.owner;
  if (kind !== "Pod") return false;
  return sql.attachmentsOfOwner
    .all(uid, interfaceName, "pod")
    .filter((row) => row.boot_id === context.bootId && !isLearnt(attachmentOf(row, object.spec.network)))
    .some((row) => row.container_id !== attachment.containerID);
}

/** Whether a DEL of the container has come, in this boot or an earlier one, and found nothing to end. */
function wasDeleted(ledger: Ledger, { attachment, object }: FoundAttachment): boolean {
  const { containerID: containerId, interface: interfaceName } = attachment;
  return delsOf(ledger, { network: object.spec.network, containerId, interface: interfaceName }).length > 0;
}

function addPendingOf(
  ledger: Ledger,
  transaction: Transaction,
  { attachment, object, addresses }: FoundAttachment,
): number {
  const { containerID: containerId, interface: interfaceName } = attachment;
  const owner = fromAllocationOwner(object.spec.owner);
  const { network } = object.spec;
  const key = { containerId, interface: interfaceName };
  addPending(ledger, transaction, { network, addresses, owner, ...key, uncertain: false, ended: false });
  return addresses.length;
}

/** Older than every request of this boot's runtime, so that any DEL of it counts. Its namespace is unknown. */
function wantOf(
  { attachment, object }: FoundAttachment,
  definition: NetworkDefinition,
  context: NodeContext,
): AttachWant {
  const { owner, network, mac } = object.spec;
  return {
    network,
    definition,
    definitionSource: "",
    containerId: attachment.containerID,
    interface: attachment.interface,
    stamp: { bootId: context.bootId, us: 0 },
    netns: UNSEEN_NAMESPACE,
    pod: attachment.pod ?? null,
    claim: owner.kind === "IPAMClaim" ? { namespace: owner.namespace, name: owner.name } : null,
    requested: [],
    ...(mac === undefined ? {} : { mac }),
    onePerFamily: false,
  };
}

function bare(network: string): NetworkDefinition {
  return parsePluginConfig({ name: network, ipam: { type: "holdfast-ipam" } });
}
