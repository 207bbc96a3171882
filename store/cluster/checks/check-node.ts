import type { Finding } from "../../../ipam/finding.ts";
import { describeOwner, type Owner } from "../../../ipam/owner.ts";
import { RefusalError } from "../../../ipam/refusals.ts";
import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import { ApiAway, type KubeApi } from "../../../kube/kube-api.ts";
import { allocationName } from "../../../kube/object-names.ts";
import { ALLOCATIONS_PATH, attachmentKey, type IPAllocation } from "../../../kube/objects.ts";
import { checkDatabase } from "../../journal/check.ts";
import type { Ledger } from "../../journal/ledger.ts";
import { attachmentOf } from "../../journal/rows.ts";
import type { PodIdentity } from "../../records.ts";
import { sameAllocationOwner } from "../allocations/allocation-object.ts";
import { describeHolder, toAllocationOwner } from "../allocations/owners.ts";
import type { PodState } from "../parts/claim-access.ts";
import { checkDefinitions } from "./check-definitions.ts";

export interface CheckNodeParts {
  readonly owedCount: number;
  podState(pod: PodIdentity): Promise<PodState>;
  /** Networks on which no new owner gets an address now. */
  readonly recovering: readonly string[];
  /** `status.ips` of a claim; null: the claim is gone, or cannot be read. */
  listOf(claim: Owner): Promise<readonly string[] | null>;
}

/** The checks of one node: the API knows every address in use here as its owner's, and no release is outstanding. */
export async function checkNode(
  ledger: Ledger,
  api: KubeApi,
  { owedCount, podState, recovering, listOf }: CheckNodeParts,
): Promise<Finding[]> {
  const damage = checkDatabase(ledger);
  // Everything else reads what may be on the damaged page.
  if (damage.length > 0) return damage;
  const findings: Finding[] = [];
  for (const network of recovering) {
    findings.push({
      invariant: "recovery",
      message: `network ${network} recovers: its allocations had been taken away, and no new address of it is given meanwhile`,
      hint: "it ends by itself once no node has anything more to put back; find out who restored etcd or deleted IPAllocations",
    });
  }
  if (owedCount > 0) {
    findings.push({
      invariant: "outbox",
      message: `${owedCount} releases have not been told to the API server yet`,
      hint: "they are told as soon as it answers; look again in a moment, and see the log when the number stays",
    });
  }
  const objects = new Map<string, IPAllocation>();
  try {
    await api.list({
      path: ALLOCATIONS_PATH,
      each: (object: IPAllocation) => objects.set(object.metadata.name, object),
    });
  } catch (error) {
    if (!(error instanceof ApiAway)) throw error;
    return [...findings, apiAway(error)];
  }
  findings.push(...(await checkDefinitions(api)));
  for (const row of ledger.sql.attachmentsAfter.all(0, Number.MAX_SAFE_INTEGER)) {
    const attachment = attachmentOf(row, ledger.networkById(row.network_id).name);
    const key = attachmentKey(attachment.containerId, attachment.interface);
    if (attachment.owner.kind === "claim" && (await listOf(attachment.owner))?.length === 0) {
      findings.push({
        invariant: "I2",
        message: `${describeOwner(attachment.owner)} lists no address, though container ${attachment.containerId} (${attachment.interface}) uses ${attachment.ips.map((ip) => ip.address).join(", ")} of network ${attachment.network}`,
        hint: "this daemon publishes the list again when it compares what it holds with the API: at its start, and after each loss of contact",
      });
    }
    for (const ip of attachment.ips) {
      const object = objects.get(
        allocationName(attachment.network, parseInterfaceAddress(ip.address).address),
      );
      const problem = whatIsWrong(object, attachment, key);
      if (problem === null || (await hasCompleted(attachment.pod, podState))) continue;
      findings.push({
        invariant: "I2",
        message: `${ip.address} of network ${attachment.network}, in use by container ${attachment.containerId} (${attachment.interface}), ${problem}`,
        hint: "the daemon repairs what it can within five minutes; recreate the pod if this stays",
      });
    }
  }
  return findings;
}

function apiAway({ message: problem }: ApiAway): Finding {
  const message = `the API server cannot be asked: ${problem}`;
  return { invariant: "api", message, hint: "check the API server and the way to it" };
}

/**
 * The addresses of such a pod may be released and allocated again while its sandbox exists: reassert ends the
 * attachment.
 */
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
  if (!sameAllocationOwner(object.spec.owner, toAllocationOwner(owner))) {
    return `belongs to ${describeHolder(object.spec.owner)}`;
  }
  if (object.status?.state !== "Bound") return "is not Bound";
  return key in (object.status.attachments ?? {}) ? null : "is not recorded as attached";
}
