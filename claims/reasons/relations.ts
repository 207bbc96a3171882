/*
 * claims/reasons/: why an address is kept, or given back
 *
 *   relations, machines      the tables of relations, and the verdicts about them; verdict: their words
 *   claim-says, vm-wants     what a claim has and is to list; where its VM is to be
 *   facts                    what verdicts rest on; fact-views: read from objects; allocation-rows: how they are kept
 *   read-facts               facts over a reader: caches (followed copies) or fresh-facts, fresh-read (quorum reads)
 *   stopped-pods             pods that were seen to end
 */

import { wasImported } from "../../allocations/allocation-object.ts";
import { knownKindOf, OWNER_KINDS } from "../../ipam/owner.ts";
import { cooldownSeconds, retainSeconds } from "../../ipam/space/cooldown.ts";
import {
  type AllocationAttachment,
  type AllocationOwner,
  attachmentKey,
  attachmentsIn,
  BOUND_FINALIZER,
  type IPAllocation,
} from "../../kube/objects.ts";
import { isStaticUid } from "../../kube/views/pod-view.ts";
import { parseTime } from "../../platform/time.ts";
import { claimSays, hasLeft, isAskedFor } from "./claim-says.ts";
import { type ClaimFact, type Facts, isPod, type NamingPod, UNKNOWN } from "./facts.ts";
import { isStillNamed, judgeMachines } from "./machines.ts";
import { type JudgedAllocation, type Rules, UNKNOWN_KEPT, type Verdict } from "./verdict.ts";

/*
 * Every relation between an allocation, its owner, the pods and the nodes, and the verdict. "living" is a pod of the
 * same UID that has not ended (Succeeded or Failed, and every container of it terminated); "gone" is 404 or another UID
 * under the name. In every line, whatever is unknown counts as in use.
 *
 *   state    owner      of the owner               of the containers              verdict
 *   ───────  ─────────  ─────────────────────────  ─────────────────────────────  ────────────────────────────
 *   Bound    IPAMClaim  is there (also being       a living pod, or one that is   keep    claim-has
 *                       deleted)                   gone while its node exists *
 *                                                  pod not living, node gone      prune   node-gone
 *            without containers:
 *                       says other than it has     none                           keep    claim-says-otherwise
 *                       (claim-says.ts), or its VM
 *                       is not known
 *                       counts, and the VM is to   none                           keep    claim-has
 *                       be here, or asks for it
 *                       another of its subnet      none                           release another-counts
 *                       counts
 *                       the VM is to be elsewhere, none                           release vm-moved
 *                       and has what is listed or
 *                       attached there
 *                       the VM runs where no claim none                           release vm-left
 *                       follows; no pod names this
 *                       otherwise: stopped,        none                           keep    claim-has
 *                       unplugged, about to move
 *   Bound    IPAMClaim  gone, or another UID       pod living                     keep    pod-alive
 *                                                  a living pod names the claim   keep    pod-names-claim
 *                                                  (not where it exists again, in a network that retains)
 *                                                  its guest runs in another      keep    guest-migrated
 *                                                  namespace
 *                                                  pod gone, node exists          keep    container-may-run *
 *                                                  all ended                      release claim-gone
 *                       (Retained then, for the network's retainSeconds, else Cooling)
 *   Bound    Pod        living (also terminating)  any                            keep    pod-alive
 *   Bound    Pod        ended                      any                            release pod-completed
 *   Bound    Pod        living                     none attached, no node         record  node-not-recorded
 *   Bound    Pod        gone                       node exists                    keep    container-may-run *
 *                                                  node gone                      release pod-gone
 *                                                  none attached, but last seen   release pod-gone
 *                                                  with all containers ended
 *                                                  none attached, no node         keep    container-may-run
 *                       gone, of a static pod      node exists                    keep    container-may-run
 *                                                  none attached, another static  release pod-gone
 *                                                  pod has its name
 *   Bound    Container  (nobody to ask)            a node exists                  keep    container-may-run
 *                                                  every node gone                release node-gone
 *                                                  none attached, imported        keep    recorded-elsewhere
 *                                                  (released with that record: whereabouts-records.ts)
 *                                                  none attached                  report  container-without-attachment
 *   Bound    of a machine (machines.ts has its table)
 *   Bound    incomplete (no name or namespace)     any                            report  owner-incomplete
 *   Retained any        until its time             any                            keep    retained
 *                       its time is over, or the   any                            release retention-over
 *                       network retains nothing
 *   Cooling  any        any                        our finalizer is still on it   repair  cooling-with-finalizer
 *                                                  (deleted: once cooled)        (and so goes)
 *            machine    its IPAddress is there     (machines.ts)                  withdraw cooling-still-named
 *                                                  cooled long enough             delete  cooling-expired
 *                                                  being deleted by somebody      keep    being-deleted
 *   not what its name says, no address, no state                                  report  unsound
 *
 *   Where nothing is attached, the pod had its address before Holdfast: its node is the one that the record names.
 *
 *   * unless the operator has set how long after a pod is gone its container counts as ended on a node that is not
 *     reachable: then released, with the same word as when the node is gone, once both have been observed for so long.
 *     A node that is reachable ends its attachments itself, and puts back what is taken from them meanwhile.
 *
 * Beside a younger claim of the same name, pods that are younger than that, attached to it, or report nothing yet, do
 * not hold what its predecessor had.
 */

type PodKnowledge = "living" | "completed" | "gone" | "unknown";

/** Judges one allocation by the known facts. Pure; never throws, whatever the object looks like. */
export function judge({ object: allocation, address }: JudgedAllocation, facts: Facts, rules: Rules): Verdict {
  if (address === null) return { kind: "report", why: "unsound" };
  if (allocation.status?.state === "Cooling") return judgeCooling(allocation, address, facts, rules);
  if (allocation.status?.state === "Retained") return judgeRetained(allocation, rules);
  const { owner } = allocation.spec;
  const kind = knownKindOf(owner.kind);
  if (kind === undefined) return { kind: "report", why: "unsound" };
  const { endsWith } = OWNER_KINDS[kind];
  if (endsWith === "nodes") return judgeContainers(allocation, facts, rules);
  if (!isNamed(owner)) return { kind: "report", why: "owner-incomplete" };
  if (endsWith === "object") return judgeMachines(allocation, address, facts, rules);
  return endsWith === "claim" ? judgeClaims(allocation, address, facts, rules) : judgePods(allocation, facts, rules);
}

function judgeCooling(allocation: IPAllocation, address: string, facts: Facts, rules: Rules): Verdict {
  const { metadata, spec } = allocation;
  if (metadata.finalizers?.includes(BOUND_FINALIZER)) {
    const cooldownS = metadata.deletionTimestamp ? cooldownSeconds(rules.definitionOf(spec.network)) : 0;
    const afterSeconds = Math.max(rules.graceSeconds, cooldownS);
    return { kind: "repair", why: "cooling-with-finalizer", afterSeconds };
  }
  if (isStillNamed(allocation, address, facts, rules))
    return { kind: "withdraw", why: "cooling-still-named", afterSeconds: rules.graceSeconds };
  if (metadata.deletionTimestamp !== undefined) return { kind: "keep", why: "being-deleted" };
  const afterSeconds = cooldownSeconds(rules.definitionOf(spec.network)) + rules.coolingKeepSeconds;
  return { kind: "delete", why: "cooling-expired", afterSeconds };
}

/** Whoever has the claim's name meanwhile takes it over in an ADD. A time that cannot be read is over. */
function judgeRetained({ spec, status }: IPAllocation, rules: Rules): Verdict {
  const definition = rules.definitionOf(spec.network);
  const isEnded = definition !== null && retainSeconds(definition) === 0;
  if (!isEnded && rules.wallMs() < parseTime(status?.retainedUntil ?? "")) return { kind: "keep", why: "retained" };
  return { kind: "release", why: "retention-over", afterSeconds: rules.graceSeconds };
}

function judgeClaims(allocation: IPAllocation, address: string, facts: Facts, rules: Rules): Verdict {
  const { namespace, name, uid } = allocation.spec.owner;
  const claim = facts.claim(namespace, name);
  if (claim.kind === "unknown") return UNKNOWN_KEPT;
  if (claim.kind === "present" && claim.it.uid === uid)
    return judgeLiving({ allocation, address }, claim.it, facts, rules);
  const end = containersEnd(allocation, facts, rules);
  if (end.kind === "keep") return end;
  const naming = facts.podsNaming(namespace, name);
  if (naming.kind !== "present") return UNKNOWN_KEPT;
  const successor = claim.kind === "present" ? claim.it : null;
  const { network } = allocation.spec;
  // It is retained for the successor alone, for which that pod may wait: every container that had it is recorded, and
  // ended.
  const isHandedOn = successor !== null && retainSeconds(rules.definitionOf(network)) > 0;
  if (!isHandedOn && naming.it.some((pod) => holdsFormer(pod, successor)))
    return { kind: "keep", why: "pod-names-claim" };
  if (facts.guestRunsElsewhere(namespace, name, network)) return { kind: "keep", why: "guest-migrated" };
  return { kind: "release", why: "claim-gone", afterSeconds: end.afterSeconds };
}

/**
 * The claim exists. What it has it keeps, whatever is written about it, until it is certain that its VM has another in
 * its place, or is elsewhere; and only while the claim says what it has: first the list, then the release.
 */
function judgeLiving(
  { allocation, address }: { readonly allocation: IPAllocation; readonly address: string },
  claim: ClaimFact,
  facts: Facts,
  rules: Rules,
): Verdict {
  const has: Verdict = { kind: "keep", why: "claim-has" };
  const end = containersEnd(allocation, facts, rules);
  if (end.kind === "keep") return end.why === "unknown" ? end : pruneOr(has, allocation, facts, rules);
  const { metadata, spec } = allocation;
  if (rules.definitionOf(spec.network) === null) return pruneOr(has, allocation, facts, rules);
  const others = facts.had(claim, [metadata.name]);
  if (others.kind !== "present") return UNKNOWN_KEPT;
  if (claim.isDeleting) return pruneOr(has, allocation, facts, rules);
  const wants = facts.wants(claim);
  const isAlone = others.it.length === 0;
  if (wants.kind !== "present") {
    const why = isAlone ? "claim-has" : "claim-says-otherwise";
    return pruneOr({ kind: "keep", why }, allocation, facts, rules);
  }
  const says = claimSays(claim, [{ object: allocation, address }, ...others.it], wants.it, facts, rules);
  if (says.kind !== "present") return UNKNOWN_KEPT;
  if (!says.it.isRight) return pruneOr({ kind: "keep", why: "claim-says-otherwise" }, allocation, facts, rules);
  const { had } = says.it;
  const own = had.find(({ name }) => name === metadata.name);
  const { afterSeconds } = end;
  if (own?.counts === false && !isAskedFor(own, wants.it))
    return { kind: "release", why: "another-counts", afterSeconds };
  const { network } = wants.it;
  if (network === spec.network) return pruneOr(has, allocation, facts, rules);
  if (network !== null) {
    // It says what it has: what is there is listed.
    const isThere = had.some((one) => one.network === network);
    return isThere ? { kind: "release", why: "vm-moved", afterSeconds } : pruneOr(has, allocation, facts, rules);
  }
  const left = hasLeft(claim, wants.it, facts);
  if (left.kind !== "present") return UNKNOWN_KEPT;
  return left.it ? { kind: "release", why: "vm-left", afterSeconds } : pruneOr(has, allocation, facts, rules);
}

function pruneOr(kept: Verdict, allocation: IPAllocation, facts: Facts, rules: Rules): Verdict {
  const keys = attachmentsIn(allocation)
    .filter((one) => nodeState(one, facts) === "absent" && hasEnded(podState(one, facts)))
    .map((one) => attachmentKey(one.containerID, one.interface));
  if (keys.length === 0) return kept;
  return { kind: "prune", why: "node-gone", keys, afterSeconds: rules.graceSeconds };
}

function judgePods(allocation: IPAllocation, facts: Facts, rules: Rules): Verdict {
  const { namespace, name, uid } = allocation.spec.owner;
  const pod = facts.pod(namespace, name);
  if (pod.kind === "unknown") return UNKNOWN_KEPT;
  if (pod.kind === "present" && isPod(pod.it, uid)) {
    const afterSeconds = rules.graceSeconds;
    if (pod.it.terminal) return { kind: "release", why: "pod-completed", afterSeconds };
    const { node } = pod.it;
    if (node === null || allocation.status?.node || attachmentsIn(allocation).length > 0)
      return { kind: "keep", why: "pod-alive" };
    return { kind: "record", why: "node-not-recorded", node, afterSeconds };
  }
  const isAttached = attachmentsIn(allocation).length > 0;
  const end = (isAttached ? containersEnd : unattachedEnd)(allocation, facts, rules);
  return end.kind === "keep" ? end : { kind: "release", why: "pod-gone", afterSeconds: end.afterSeconds };
}

function judgeContainers(allocation: IPAllocation, facts: Facts, rules: Rules): Verdict {
  const attachments = attachmentsIn(allocation);
  if (attachments.length === 0) {
    return wasImported(allocation)
      ? { kind: "keep", why: "recorded-elsewhere" }
      : { kind: "report", why: "container-without-attachment" };
  }
  const nodes = attachments.map((one) => nodeState(one, facts));
  if (nodes.includes("present")) return { kind: "keep", why: "container-may-run" };
  if (nodes.includes("unknown")) return UNKNOWN_KEPT;
  return { kind: "release", why: "node-gone", afterSeconds: rules.graceSeconds };
}

/** Whether containers have ended, and how long that must be observed first. */
type End = Extract<Verdict, { kind: "keep" }> | { readonly kind: "ended"; readonly afterSeconds: number };

/** For all attached containers. */
function containersEnd(allocation: IPAllocation, facts: Facts, rules: Rules): End {
  let afterSeconds = rules.graceSeconds;
  for (const one of attachmentsIn(allocation)) {
    const pod = podState(one, facts);
    if (pod === "unknown") return UNKNOWN_KEPT;
    if (pod === "living") return { kind: "keep", why: "pod-alive" };
    if (pod === "completed") continue;
    const end = endWithNode(one, facts, rules);
    if (end.kind === "keep") return end;
    afterSeconds = Math.max(afterSeconds, end.afterSeconds);
  }
  return { kind: "ended", afterSeconds };
}

/**
 * For the containers of an imported pod that is gone and was never attached here: no DEL and no witness tells that they
 * ended. Only the last version of the pod told whether a kubelet has ended them.
 */
function unattachedEnd(allocation: IPAllocation, facts: Facts, rules: Rules): End {
  const { owner } = allocation.spec;
  const hasEnded = isStaticUid(owner.uid) ? !mayRunUnseen(owner, facts) : facts.wasSeenStopped(owner.uid);
  if (hasEnded) return { kind: "ended", afterSeconds: rules.graceSeconds };
  const node = allocation.status?.node ?? "";
  if (node === "") return { kind: "keep", why: "container-may-run" };
  return endWithNode({ node, pod: owner }, facts, rules);
}

/** For a container whose pod is gone and whose end nobody saw: it may run for as long as its node exists. */
function endWithNode({ node: name, pod }: Pick<AllocationAttachment, "node" | "pod">, facts: Facts, rules: Rules): End {
  const node = name ? facts.node(name) : UNKNOWN;
  if (node.kind === "unknown") return UNKNOWN_KEPT;
  if (node.kind === "absent") return { kind: "ended", afterSeconds: rules.graceSeconds };
  // Without its pod it is unknown how long it has been alone.
  const isTimed = rules.podGoneReleaseSeconds > 0 && pod !== undefined && !mayRunUnseen(pod, facts);
  if (!isTimed || !node.it.unreachable) return { kind: "keep", why: "container-may-run" };
  return { kind: "ended", afterSeconds: Math.max(rules.graceSeconds, rules.podGoneReleaseSeconds) };
}

/** A static pod without its object runs while its node has its manifest; only another one of its name ends it. */
function mayRunUnseen(pod: { namespace: string; name: string; uid: string }, facts: Facts): boolean {
  if (!isStaticUid(pod.uid)) return false;
  const found = facts.pod(pod.namespace, pod.name);
  return found.kind !== "present" || found.it.staticUid === null;
}

/** For an attachment's pod. An attachment without a pod counts as one whose pod is gone: its node decides. */
function podState(one: AllocationAttachment, facts: Facts): PodKnowledge {
  if (one.pod === undefined) return "gone";
  if (!one.pod.namespace || !one.pod.name || !one.pod.uid) return "unknown";
  const found = facts.pod(one.pod.namespace, one.pod.name);
  if (found.kind === "unknown") return "unknown";
  if (found.kind === "absent" || !isPod(found.it, one.pod.uid)) return "gone";
  return found.it.terminal ? "completed" : "living";
}

function hasEnded(state: PodKnowledge): boolean {
  return state === "gone" || state === "completed";
}

function nodeState(one: AllocationAttachment, facts: Facts): "present" | "absent" | "unknown" {
  return one.node ? facts.node(one.node).kind : "unknown";
}

/** Whether a living pod that names the claim may use the addresses of a former claim of that name. */
function holdsFormer(pod: NamingPod, successor: ClaimFact | null): boolean {
  if (successor === null) return true;
  // A pod attached to the successor uses that one, even if it is older: it may have waited for it.
  if (pod.attachedToClaim(successor.uid)) return false;
  // One that waits for the successor reports nothing yet; what an ADD of ours has given is attached.
  if (pod.addresses.length === 0 && !pod.addressesCut) return false;
  // Timestamps have whole seconds: within the same second the order is unknown.
  return pod.creationTimestamp <= successor.creationTimestamp;
}

function isNamed(owner: AllocationOwner): boolean {
  return Boolean(owner.namespace) && Boolean(owner.name);
}
