import type { PodIdentity } from "../allocations/records.ts";
import type { ClaimUser } from "../ipam/attach-view.ts";
import { allocatedCondition, type ClaimCondition, mergeCondition } from "../ipam/claim-conditions.ts";
import { conditionOfRefusal } from "../ipam/condition-of-refusal.ts";
import { type Refusal, type RefusalCode, RefusalError } from "../ipam/refusals.ts";
import { sameAddress } from "../ipam/space/address.ts";
import { formatInterfaceAddress } from "../ipam/space/cidr.ts";
import { refusedBy } from "../kube/answers.ts";
import { claimObject, type EventWriter, reasonOf, vmiObject } from "../kube/events.ts";
import type { KubeApi, Priority } from "../kube/kube-api.ts";
import { UNPROCESSABLE } from "../kube/kube-api.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { CLAIMS_PATH, namespacedPath } from "../kube/objects.ts";
import { type ClaimFeatures, claimStatusPatch } from "../kube/views/claim-status-patch.ts";
import { CLAIM_LIST_MAX, type ClaimView, listedAddresses, vmOwners } from "../kube/views/claim-view.ts";
import { elementFor, readNetworkSelection } from "../kube/views/network-selection.ts";
import { isStaticUid, type PodView } from "../kube/views/pod-view.ts";
import type { VmiView } from "../kube/views/vmi-view.ts";
import { isoTime, parseTime } from "../platform/time.ts";
import type { AttachWant } from "../store/allocations.ts";
import type {
  Answered,
  ClaimAccess,
  ClaimReading,
  OtherAttachment,
  PodState,
} from "../store/cluster/parts/claim-access.ts";
import type { PodDirectory } from "./pod-directory.ts";
import { readClaim } from "./read-claim.ts";
import { interfaceBehind } from "./vm-claims.ts";
import { mayUse, sameVm } from "./vm-identity.ts";

/** Time for a status write in the background, ms. */
const FOLLOW_MS_MAX = 30_000;
/** Attempts of such a write against newer versions: a writer who changes the status all the time wins. */
const FOLLOW_ATTEMPTS_MAX = 3;
/** How long the installed definition of IPAMClaims is assumed to lack a field, ms. */
const FEATURES_BELIEVED_MS = 600_000;
/** Refusals of a pod that may not use the claim, which the claim's owner would otherwise not learn. */
const MAY_NOT_USE: readonly RefusalCode[] = [
  "CLAIM_OTHER_OWNER",
  "CLAIM_TERMINATING",
  "CLAIM_OTHER_NETWORK",
  "CLAIM_IN_USE",
];
const ALL_FEATURES: ClaimFeatures = { ownerPod: true, conditions: true };

interface ClaimWithView extends ClaimReading {
  readonly view: ClaimView;
}

/** Claims over the Kubernetes API: single quorum reads, and optimistic writes of their status. */
export class KubeClaimAccess implements ClaimAccess {
  readonly #api: KubeApi;
  readonly #pods: PodDirectory;
  readonly #warn: (message: string) => void;
  readonly #events: Pick<EventWriter, "warn" | "inform"> | undefined;
  #features: ClaimFeatures = ALL_FEATURES;
  #featuresSinceMs = Number.NEGATIVE_INFINITY;

  /** Without `events`, no events are written. */
  constructor(parts: {
    readonly api: KubeApi;
    readonly pods: PodDirectory;
    readonly warn: (message: string) => void;
    readonly events?: Pick<EventWriter, "warn" | "inform">;
  }) {
    this.#events = parts.events;
    this.#api = parts.api;
    this.#pods = parts.pods;
    this.#warn = parts.warn;
  }

  async read(claim: { namespace: string; name: string }, deadlineMs: number): Promise<ClaimWithView | null> {
    const view = await readClaim(this.#api, claim, deadlineMs);
    if (view === null) return null;
    const { uid, resourceVersion, network, ips, ipRequests, vm } = view;
    return { namespace: view.namespace, name: view.name, uid, resourceVersion, network, ips, ipRequests, vm, view };
  }

  async whyNot(claim: ClaimReading, want: AttachWant, deadlineMs: number): Promise<Refusal | null> {
    const { view } = claim as ClaimWithView;
    const { permission } = await this.#permissionOf(view, want, deadlineMs);
    return permission.ok ? null : permission.refusal;
  }

  async mayFollow(claim: ClaimReading, want: AttachWant, deadlineMs: number): Promise<boolean> {
    const { view } = claim as ClaimWithView;
    if (want.pod === null || vmOwners(view.owners).length === 0) return false;
    const { permission, kubevirt } = await this.#permissionOf(view, want, deadlineMs);
    if (!kubevirt || !permission.ok) return false;
    const pod = await this.#find(want, deadlineMs);
    return pod !== null && isWhereVmIs(pod, want.interface, await this.#pods.readVmi(pod, deadlineMs));
  }

  async other(
    claim: ClaimReading,
    { pod }: Pick<ClaimUser, "pod">,
    want: AttachWant,
    deadlineMs: number,
  ): Promise<OtherAttachment> {
    if (pod === null) return "in-use";
    const theirs = await this.#pods.readNamed(pod.namespace, pod.name, deadlineMs);
    if (theirs === null && isStaticUid(pod.uid)) return "in-use";
    const gone = theirs === null || (theirs.uid !== pod.uid && theirs.staticUid !== pod.uid) || theirs.terminal;
    if (gone) return "gone";
    const ours = want.pod === null ? null : await this.#find(want, deadlineMs);
    if (ours === null) return "in-use";
    if (sameVm({ vmi: ours.vmi, vmUid: null }, { vmi: theirs.vmi, vmUid: null })) return "same-vm";
    // A claim that a VM owns serves only pods of that VM, so both belong to it.
    const ofOneVm =
      vmOwners((claim as ClaimWithView).view.owners).length > 0 && ours.vmi !== null && theirs.vmi !== null;
    return ofOneVm ? "same-vm" : "in-use";
  }

  isFirstUse(claim: ClaimReading, { pod }: Pick<AttachWant, "pod">): boolean {
    const { view } = claim as ClaimWithView;
    const owners = vmOwners(view.owners);
    if (owners.length === 0) return !view.hasStatus;
    const vmi = pod && this.#pods.knownVmi(pod);
    if (!vmi || this.isMigrationTarget({ pod })) return false;
    // It cannot be older than its owner; a VMI that no VM owns never starts again.
    if (owners.some(({ uid }) => uid === vmi.uid)) return true;
    return vmi.createdAt !== null && parseTime(vmi.createdAt) <= parseTime(view.creationTimestamp);
  }

  isMigrationTarget({ pod }: Pick<AttachWant, "pod">): boolean {
    return pod !== null && this.#pods.knownTarget(pod);
  }

  podState(pod: PodIdentity, deadlineMs: number): Promise<PodState> {
    return this.#pods.stateOf(pod, deadlineMs);
  }

  async hasEnded(pod: PodIdentity, deadlineMs: number): Promise<boolean> {
    try {
      const state = await this.#pods.stateOf(pod, deadlineMs);
      return state === "completed" || state === "gone";
    } catch (error) {
      if (error instanceof RefusalError) return false;
      throw error;
    }
  }

  async publish(
    claim: ClaimReading,
    answered: Answered,
    want: Pick<AttachWant, "pod" | "network">,
    deadlineMs: number,
  ): Promise<{ readonly resourceVersion: string } | "listed" | "changed"> {
    const { view } = claim as ClaimWithView;
    const { addresses, isNew } = answered;
    const listed = listedAddresses(view);
    const missing = addresses.filter((one) => !listed.some(({ address }) => sameAddress(address, one.address)));
    const ips = [...view.ips, ...missing.map(formatInterfaceAddress)];
    if ((!isNew && missing.length === 0) || ips.length > CLAIM_LIST_MAX) return "listed";
    const condition = allocatedCondition(isoTime(this.#api.clock.wallMs()));
    const desired = { ips, ownerPod: want.pod?.name ?? null, condition };
    const written = await this.#write(view, desired, "add", deadlineMs, { isForced: isNew });
    if (written !== "changed") this.#tellMove(view, answered, want);
    return written;
  }

  #tellMove(view: ClaimView, { addresses, instead }: Answered, want: Pick<AttachWant, "pod" | "network">): void {
    const { network, ips } = view;
    const { pod, network: wanted } = want;
    // It was of no other network before: nothing has changed for anybody.
    if (network === "" || (network === wanted && instead.length === 0)) return;
    const now = addresses.map(formatInterfaceAddress).join(", ");
    const [reason, message] =
      network === wanted
        ? [
            "AddressChanged",
            `${now} on network ${network} in place of ${instead.map(formatInterfaceAddress).join(", ")}, as the VM asks for`,
          ]
        : [
            "NetworkChanged",
            `its VM goes from network ${network} to ${wanted}, where it has ${now}; ${ips.join(", ") || "nothing"} of network ${network} is kept while it is in use`,
          ];
    const vmi = pod && this.#pods.cachedVmi(pod);
    const told = pod && vmi && vmiObject({ namespace: pod.namespace, ...vmi });
    for (const object of [claimObject(view), told]) if (object !== null) this.#events?.inform(object, reason, message);
  }

  follow(claim: ClaimReading, want: AttachWant): void {
    this.#later((claim as ClaimWithView).view, (view) => {
      const condition = allocatedCondition(isoTime(this.#api.clock.wallMs()));
      return { ips: view.ips, ownerPod: want.pod?.name ?? null, condition };
    });
  }

  refused(claim: ClaimReading, refusal: Refusal, { pod }: AttachWant, { has }: { readonly has: boolean }): void {
    if (pod !== null && MAY_NOT_USE.includes(refusal.code)) {
      const message = `pod ${pod.namespace}/${pod.name} is refused: ${refusal.message}`;
      this.#events?.warn(claimObject(claim), reasonOf(refusal.code), message);
    }
    this.#later((claim as ClaimWithView).view, (view) => {
      // What an ADD reserves and lets go again was never listed.
      const which = { hasAddresses: has && view.ips.length > 0, asksForAddresses: view.ipRequests.length > 0 };
      const condition = conditionOfRefusal(refusal, which, isoTime(this.#api.clock.wallMs()));
      return condition && { ips: view.ips, ownerPod: null, condition };
    });
  }

  /** Writes a status in the background; on a conflict, reads the claim and tries again. */
  #later(first: ClaimView, desired: (view: ClaimView) => DesiredStatus | null): void {
    const deadlineMs = this.#api.clock.monotonicMs() + FOLLOW_MS_MAX;
    const run = async () => {
      let view = first;
      for (let attempt = 0; attempt < FOLLOW_ATTEMPTS_MAX; attempt += 1) {
        const wanted = desired(view);
        if (wanted === null) return;
        if ((await this.#write(view, wanted, "del", deadlineMs)) !== "changed") return;
        const newer = await this.read(view, deadlineMs);
        if (newer === null || newer.uid !== first.uid) return;
        view = newer.view;
      }
    };
    run().catch((error: Error) => this.#warn(`status of IPAMClaim ${first.key}: ${error.message}`));
  }

  /** "changed": the claim is not as it was read. */
  async #write(
    view: ClaimView,
    desired: DesiredStatus,
    priority: Priority,
    deadlineMs: number,
    { isForced = false } = {},
  ): Promise<{ readonly resourceVersion: string } | "changed"> {
    const changes = claimStatusPatch(view, { ...desired, features: this.#presentFeatures() });
    if (changes === null && !isForced) return { resourceVersion: view.resourceVersion };
    const patch = changes ?? anew(view, desired);
    const path = namespacedPath(CLAIMS_PATH, view.namespace, view.name);
    const written = await new ObjectClient(this.#api, priority).patchStatus(path, patch, deadlineMs);
    if (written.kind === "conflict" || written.kind === "absent") return "changed";
    const sent = (patch as { status: { ownerPod?: object; conditions?: object } }).status;
    if (written.kind === "refused") {
      // This cluster's definition has ownerPod as a string.
      const isText = written.answer.status === UNPROCESSABLE && sent.ownerPod !== undefined && this.#features.ownerPod;
      if (!isText) throw refusedBy(written.answer, `write the status of IPAMClaim ${view.key}`);
      this.#believe({ ...this.#features, ownerPod: false });
      return this.#write(view, desired, priority, deadlineMs, { isForced });
    }
    const kept = (written.object?.status ?? {}) as { ownerPod?: object; conditions?: object };
    this.#believe({
      ownerPod: this.#features.ownerPod && (sent.ownerPod === undefined || kept.ownerPod !== undefined),
      conditions: this.#features.conditions && (sent.conditions === undefined || kept.conditions !== undefined),
    });
    return { resourceVersion: String(written.object?.metadata?.resourceVersion) };
  }

  /** Fields that the server drops are omitted, so that they are not written again at every ADD. */
  #presentFeatures(): ClaimFeatures {
    if (this.#api.clock.monotonicMs() - this.#featuresSinceMs > FEATURES_BELIEVED_MS) this.#features = ALL_FEATURES;
    return this.#features;
  }

  #believe(features: ClaimFeatures): void {
    if (features.ownerPod === this.#features.ownerPod && features.conditions === this.#features.conditions) return;
    this.#features = features;
    this.#featuresSinceMs = this.#api.clock.monotonicMs();
  }

  /** Whether the pod may use the claim; `kubevirt` false: there is no API by which a VM could be known. */
  async #permissionOf(view: ClaimView, want: AttachWant, deadlineMs: number) {
    const pod = want.pod === null ? null : await this.#find(want, deadlineMs);
    const owners = vmOwners(view.owners);
    const byVmi = pod !== null && owners.some(({ uid }) => uid === pod.vmi?.uid);
    const { kubevirt, vmUid } =
      owners.length === 0 || byVmi ? { kubevirt: true, vmUid: null } : await this.#vmOf(view, pod, deadlineMs);
    const user = pod && { key: pod.key, createdAt: pod.creationTimestamp, vmi: pod.vmi, vmUid };
    return { permission: mayUse({ claim: view, pod: user, kubevirt }), kubevirt };
  }

  async #find({ pod }: AttachWant, deadlineMs: number): Promise<PodView | null> {
    const found = pod && (await this.#pods.lookUp(pod, deadlineMs));
    return found?.view ?? null;
  }

  async #vmOf(
    view: ClaimView,
    pod: PodView | null,
    deadlineMs: number,
  ): Promise<{ kubevirt: boolean; vmUid: string | null }> {
    const expected = vmOwners(view.owners).map(({ uid }) => uid);
    if (pod?.vmi) return this.#pods.vmOf(pod, expected, deadlineMs);
    return { kubevirt: await this.#pods.hasKubeVirt(view.namespace, deadlineMs), vmUid: null };
  }
}

/**
 * The status as it is, with another time: a write that changes nothing would leave the version, and others' readings.
 */
function anew({ resourceVersion, conditions: known }: ClaimView, { ips, condition }: DesiredStatus): object {
  const conditions = mergeCondition(
    known.filter(({ type }) => type !== condition.type),
    condition,
  );
  return { metadata: { resourceVersion }, status: { ips, conditions } };
}

type DesiredStatus = { ips: readonly string[]; ownerPod: string | null; condition: ClaimCondition };

/** Not where the launcher of a migration that was given up is late: the claim would leave the VM with it. */
function isWhereVmIs(pod: PodView, podInterface: string, vmi: VmiView | null): boolean {
  const wanted = vmi && interfaceBehind(vmi.interfaces, podInterface)?.nad;
  if (!wanted) return false;
  const nad = elementFor(readNetworkSelection(pod.annotations, pod.namespace), podInterface)?.nad;
  return (
    nad != null && `${nad.namespace}/${nad.name}` === (wanted.includes("/") ? wanted : `${pod.namespace}/${wanted}`)
  );
}
