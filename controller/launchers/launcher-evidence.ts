import { claimOfInterface } from "../../claims/vm-claims.ts";
import { isObject } from "../../ipam/definition/definition-keys.ts";
import type { ObjectClient } from "../../kube/object-client.ts";
import { namespacedPath, PODS_PATH } from "../../kube/objects.ts";
import { type ClaimView, vmOwners } from "../../kube/views/claim-view.ts";
import { projectPod } from "../../kube/views/pod-view.ts";
import { VMIS_PATH } from "../../kube/views/tenant-objects.ts";
import { projectVmi, type VmiInterface } from "../../kube/views/vmi-view.ts";
import type { LivingLauncher } from "./living-launchers.ts";

/** Of the interfaces with addresses the claim's, and the NAD that the VMI wants it on; null: none. Throws ApiAway. */
export async function interfaceOfClaim(
  objects: ObjectClient,
  claim: ClaimView,
  launcher: LivingLauncher,
): Promise<{ readonly podInterface: string; readonly nad: string | null } | null> {
  const found = await vmInterfaceOf(objects, claim, launcher);
  const podInterface = found?.podInterfaces.find((one) => launcher.interfaces.has(one));
  return podInterface === undefined ? null : { podInterface, nad: found?.nad ?? null };
}

/**
 * The VM's interface that a claim is for, by quorum reads of a launcher pod and its VMI; null: the pod does not run the
 * claim's VM, or the VM has no such interface. Whoever may create pods can write a VMI into their owner references: the
 * VMI's own list of its launchers counts too. Throws ApiAway.
 */
export async function vmInterfaceOf(
  objects: ObjectClient,
  claim: ClaimView,
  { pod: seen, vmi: { name, uid } }: Pick<LivingLauncher, "pod" | "vmi">,
): Promise<VmiInterface | null> {
  const object = await objects.find(namespacedPath(PODS_PATH, seen.namespace, seen.name));
  const pod = object === null ? null : projectPod(object);
  if (pod === null || pod.uid !== seen.uid || pod.vmi?.uid !== uid || pod.terminal) return null;
  const read = await objects.get(namespacedPath(VMIS_PATH, seen.namespace, name));
  if (read.kind !== "present") return null;
  const vmi = projectVmi(read.object);
  const isOwned = vmOwners(claim.owners).some((one) => one.uid === vmi.uid || one.uid === vmi.vmUid);
  if (vmi.uid !== uid || !isOwned || !isActive(read.object, pod.uid)) return null;
  const of = vmi.interfaces.filter((one) => claimOfInterface(name, one.name) === claim.name);
  return of.length === 1 ? (of[0] ?? null) : null;
}

/** Whether a VMI lists a pod among its launchers (`status.activePods`, by UID), or has no list yet. */
function isActive({ status }: { readonly status?: unknown }, podUid: string): boolean {
  const active = isObject(status) ? status.activePods : undefined;
  return !isObject(active) || podUid in active;
}
