import { isHandedOver, sameAllocationOwner } from "../../../allocations/allocation-object.ts";
import { describeHolder, toAllocationOwner } from "../../../allocations/owners.ts";
import type { Attachment, PodIdentity } from "../../../allocations/records.ts";
import type { Finding } from "../../../ipam/finding.ts";
import { describeOwner, type Owner } from "../../../ipam/owner.ts";
import { RefusalError } from "../../../ipam/refusals.ts";
import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import { ApiAway, type KubeApi } from "../../../kube/kube-api.ts";
import { allocationName } from "../../../kube/object-names.ts";
import { ALLOCATIONS_PATH, attachmentKey, type IPAllocation } from "../../../kube/objects.ts";
import { sleep } from "../../../platform/time.ts";
import { checkDatabase } from "../../journal/check.ts";
import type { Ledger } from "../../journal/ledger.ts";
import { attachmentOf } from "../../journal/rows.ts";
import { inSlices, mapAttachments } from "../../journal/slices.ts";
import type { Pending } from "../agreement/over.ts";
import { listsAll } from "../agreement/written-last.ts";
import { whyRecovering } from "../contact/recovery.ts";
import type { PodState } from "../parts/claim-access.ts";
import { checkDefinitions } from "./check-definitions.ts";

const OUTBOX = "outbox";
/** Pause between two looks, ms: what is merely under way is over then. */
const LOOK_AGAIN_MS = 2_000;

export interface CheckNodeParts {
  /** Releases that are pending, of those up to this one. */
  pending(lastId: number): Pending;
  podState(pod: PodIdentity): Promise<PodState>;
  recovering(): readonly string[];
  /** `status.ips` of a claim; null: the claim is gone, or cannot be read. */
  listOf(claim: Owner): Promise<readonly string[] | null>;
}

/**
 * ADDs and releases are always under way: a node that has findings is looked at again, and only those of both looks
 * count. What keeps it from looking (a damaged database, an API server that is away) counts at once.
 */
export async function checkNode(
  directory: { readonly ledger: Ledger },
  api: KubeApi,
  parts: CheckNodeParts,
): Promise<Finding[]> {
  const first = await lookAt(directory, api, parts, Number.MAX_SAFE_INTEGER);
  if (first.findings.length === 0 || !first.isComplete) return first.findings;
  await sleep(api.clock, LOOK_AGAIN_MS);
  const second = await lookAt(directory, api, parts, first.lastPendingId);
  if (!second.isComplete) return second.findings;
  const known = new Set(first.findings.map(keyOf));
  return second.findings.filter((one) => known.has(keyOf(one)));
}

/** What is found at one moment, and the youngest release that is outstanding then. */
interface Look {
  readonly findings: Finding[];
  readonly isComplete: boolean;
  readonly lastPendingId: number;
}

/** What makes two findings one; a message may count. */
function keyOf({ invariant, message }: Finding): string {
  return invariant === OUTBOX ? invariant : message;
}

/** `pendingUpTo`: younger releases than this one are not looked at. */
async function lookAt(
  directory: { readonly ledger: Ledger },
  api: KubeApi,
  { pending, podState, recovering, listOf }: CheckNodeParts,
  pendingUpTo: number,
): Promise<Look> {
  const damage = checkDatabase(directory.ledger);
  // Everything else reads what may be on the damaged page.
  if (damage.length > 0) return { findings: damage, isComplete: false, lastPendingId: 0 };
  const { count: pendingCount, lastId: lastPendingId } = pending(pendingUpTo);
  const findings: Finding[] = [];
  for (const network of recovering()) {
    findings.push({
      invariant: "recovery",
      message: whyRecovering(network),
      whyNotReady: whyRecovering(network),
      hint: "it ends by itself once no node has anything more to put back; find out who restored etcd or deleted IPAllocations",
    });
  }
  if (pendingCount > 0) {
    findings.push({
      invariant: OUTBOX,
      message: `${pendingCount} releases are pending: they have not been sent to the API server yet`,
      hint: "they are published as soon as it answers; look again in a moment, and see the log when the number stays",
    });
  }
  let inUse: InUse;
  try {
    inUse = await readInUse(directory, api);
  } catch (error) {
    if (!(error instanceof ApiAway)) throw error;
    return { findings: [...findings, apiAway(error)], isComplete: false, lastPendingId };
  }
  findings.push(...(await checkDefinitions(api)));
  for await (const attachments of inSlices(directory, attachmentSlices)) {
    for (const attachment of attachments) {
      // Its objects are younger than the list.
      if (attachment.id > inUse.lastId) break;
      findings.push(...(await checkAttachment(attachment, inUse, { podState, listOf })));
    }
  }
  return { findings, isComplete: true, lastPendingId };
}

interface InUse {
  /** By name, for addresses that attachments here use; null: there is none. */
  readonly objects: ReadonlyMap<string, IPAllocation | null>;
  /** The youngest attachment whose addresses were looked for. */
  readonly lastId: number;
}

/** The cluster's allocations of what is in use here: memory does not grow with the cluster. Throws ApiAway. */
async function readInUse(directory: { readonly ledger: Ledger }, api: KubeApi): Promise<InUse> {
  const objects = new Map<string, IPAllocation | null>();
  let lastId = 0;
  for await (const attachments of inSlices(directory, attachmentSlices)) {
    for (const attachment of attachments) {
      for (const name of namesOf(attachment)) objects.set(name, null);
      lastId = attachment.id;
    }
  }
  await api.list({
    path: ALLOCATIONS_PATH,
    each: (object: IPAllocation) => {
      if (objects.has(object.metadata.name)) objects.set(object.metadata.name, object);
    },
  });
  return { objects, lastId };
}

function attachmentSlices(ledger: Ledger): Iterable<Attachment[]> {
  return mapAttachments(ledger, (row) => [attachmentOf(row, ledger.networkById(row.network_id).name)]);
}

function namesOf({ network, ips }: Attachment): string[] {
  return ips.map(({ address }) => allocationName(network, parseInterfaceAddress(address).address));
}

async function checkAttachment(
  attachment: Attachment,
  { objects }: InUse,
  { podState, listOf }: Pick<CheckNodeParts, "podState" | "listOf">,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  const { owner, ips, network, containerId, pod } = attachment;
  const user = `container ${containerId} (${attachment.interface})`;
  const list = owner.kind === "claim" ? await listOf(owner) : null;
  if (list !== null && !listsAll({ ips: list }, ips) && !(await hasCompleted(pod, podState))) {
    findings.push({
      invariant: "I2",
      message: `${describeOwner(owner)} does not list everything that it has: ${user} uses ${ips.map((ip) => ip.address).join(", ")} of network ${network}`,
      hint: "this daemon now compares what it holds with the API, and publishes the list again; look again in a moment",
    });
  }
  const key = attachmentKey(containerId, attachment.interface);
  const names = namesOf(attachment);
  for (const [index, { address }] of ips.entries()) {
    const problem = whatIsWrong(objects.get(names[index] as string) ?? undefined, attachment, key);
    if (problem === null || (await hasCompleted(pod, podState))) continue;
    findings.push({
      invariant: "I2",
      message: `${address} of network ${network}, in use by ${user}, ${problem}`,
      hint: "this daemon now compares what it holds with the API, and repairs what it can; recreate the pod if this stays",
    });
  }
  return findings;
}

function apiAway({ message: problem }: ApiAway): Finding {
  const message = `the API server cannot be asked: ${problem}`;
  return { invariant: "api", message, hint: "check the API server and the way to it" };
}

/** Its addresses may be given again while its sandbox exists: the next comparison ends the attachment. */
async function hasCompleted(
  pod: PodIdentity | null,
  podState: (pod: PodIdentity) => Promise<PodState>,
): Promise<boolean> {
  if (pod === null) return false;
  try {
    return (await podState(pod)) === "completed";
  } catch (error) {
    if (error instanceof ApiAway || error instanceof RefusalError) return false;
    throw error;
  }
}

function whatIsWrong(
  object: IPAllocation | undefined,
  { owner }: { owner: Parameters<typeof toAllocationOwner>[0] },
  key: string,
): string | null {
  if (!object) return "has no IPAllocation";
  if (isHandedOver(object, key)) return null;
  if (!sameAllocationOwner(object.spec.owner, toAllocationOwner(owner))) {
    return `belongs to ${describeHolder(object.spec.owner)}`;
  }
  if (object.status?.state !== "Bound") return "is not Bound";
  return key in (object.status.attachments ?? {}) ? null : "is not recorded as attached";
}
