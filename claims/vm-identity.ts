import { type Refusal, refuse } from "../ipam/refusals.ts";
import { type ClaimView, vmOwners } from "../kube/views/claim-view.ts";
import { parseTime } from "../platform/time.ts";

export interface VmIdentity {
  readonly vmi: { readonly uid: string } | null;
  /** UID of the VM that owns the VMI; null: it has none, or none could be read. */
  readonly vmUid: string | null;
}

export interface ClaimPod extends VmIdentity {
  /** `namespace/name` */
  readonly key: string;
  /** Its creationTimestamp, RFC 3339. */
  readonly createdAt: string;
}

export type Permission = { readonly ok: true } | { readonly ok: false; readonly refusal: Refusal };

/**
 * Whether a pod may use a claim. A claim that a VM or VMI owns serves only pods of that VM, compared by UID, because
 * names are used again; without an owning VM there is no such test, nor without KubeVirt's API, where no pod could pass
 * it. A claim that is being deleted serves only pods created before its deletion; both times are the API server's, in
 * whole seconds. An unknown pod (null) passes no test.
 */
export function mayUse(request: {
  readonly claim: ClaimView;
  readonly pod: ClaimPod | null;
  readonly kubevirt: boolean;
}): Permission {
  const { claim, pod, kubevirt } = request;
  const owners = vmOwners(claim.owners);
  const [owner] = owners;
  if (kubevirt && owner && !owners.some(({ uid }) => pod !== null && isOf(pod, uid))) {
    const refusal = refuse("CLAIM_OTHER_OWNER", {
      claim: claim.key,
      owner: `${owner.kind} ${owner.name} (UID ${owner.uid})`,
      pod: pod?.key ?? "(unknown)",
    });
    return { ok: false, refusal };
  }
  if (claim.deletionTimestamp !== null && !isBefore(pod, claim.deletionTimestamp)) {
    return { ok: false, refusal: refuse("CLAIM_TERMINATING", { claim: claim.key }) };
  }
  return { ok: true };
}

/** As source and target of a migration do. Never pods without a VM. A restarted VM has another VMI. */
export function sameVm(a: VmIdentity, b: VmIdentity): boolean {
  return (
    (a.vmi !== null && a.vmi.uid !== "" && a.vmi.uid === b.vmi?.uid) ||
    (a.vmUid !== null && a.vmUid !== "" && a.vmUid === b.vmUid)
  );
}

function isOf(pod: VmIdentity, uid: string): boolean {
  return pod.vmi !== null && (pod.vmi.uid === uid || pod.vmUid === uid);
}

/** An unreadable time is never before another. */
function isBefore(pod: ClaimPod | null, deletion: string): boolean {
  return pod !== null && parseTime(pod.createdAt) <= parseTime(deletion);
}
