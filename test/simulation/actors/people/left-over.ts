import { sleep } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { World } from "../../world.ts";
import { at, remove } from "../machines/objects.ts";
import { isSeenToGoOn } from "./cluster-ends.ts";
import { answered, askCluster, type Told } from "./commands.ts";
import { touchedByHand } from "./forced.ts";
import { ALLOCATIONS, attempted, CLAIMS, claimPath, objectsOf } from "./look.ts";
import { seenToEndMs } from "./pod-ends.ts";
import { said } from "./releases.ts";

const FORMER_POD =
  /^(\S+)\/\d+ of network (\S+) is held by pod (\S+) \(\S*\), which is gone and had it before Holdfast/;
const STUCK_CLAIM = /^claim (\S+) is being deleted since .*, though no pod names it$/;
const LEFT_ANSWER = /^IPAddress (\S+) is left, though its IPAddressClaim and its IPAllocation \S+ are gone$/;
const NO_ANSWER = /^\S+ of network \S+ is in IPAddress (\S+), which does not answer claim \S+ though it names it/;
const CONTESTED_ANSWER = /^\S+ of network \S+, which IPAddress (\S+) names for a machine, /;
const ALLOCATION = "ipam.holdfast.dev/allocation";
const CONTESTED = /^\S+ of network \S+, listed by claim (\S+), belongs to \S+/;
const WISHED = /^\S* ?of network \S+, listed by claim (\S+), (?:has no IPAllocation|is not Bound|cannot be read)/;
const MOVED = /kept for machines of cluster (\S+), which moved to another management cluster$/;
/** So soon after their end the controllers have given back what a claim or a pod had, ms. */
const GIVEN_BACK_MS = 60_000;

const REMEDIES: readonly ((world: World, message: string) => Promise<boolean>)[] = [
  releaseOfFormerPod,
  letGoOfClaim,
  deleteLeftAnswer,
  deleteContested,
  releaseMoved,
  correctList,
];

/**
 * What only people can know or put right is found by `check`, and people do what its hint says. Meanwhile other
 * findings become old enough to be told, so they look again until there is nothing left that they can do. What is found
 * again although they did as the hint says is not for them. The last findings.
 */
export async function actAsTold(world: World, check: () => Promise<Told>): Promise<Told> {
  const done = new Set<string>();
  for (;;) {
    const told = await check();
    const findings: { message: string }[] = told.kind === "answered" ? told.body.findings : [];
    const doneBefore = done.size;
    for (const { message } of findings)
      for (const remedy of REMEDIES) if (!done.has(message) && (await remedy(world, message))) done.add(message);
    if (done.size === doneBefore) return told;
  }
}

/**
 * What a pod had before Holdfast, or said so, is kept when no controller that runs now saw it end; so is what is
 * recorded of it since somebody edited the record. Somebody looks on the machines whether its containers run. Where all
 * controllers have seen its end they give it back by themselves, within a minute. Each remedy: whether it was one for
 * this finding.
 */
async function releaseOfFormerPod(world: World, message: string): Promise<boolean> {
  const [, address, network = "", holder = ""] = FORMER_POD.exec(message) ?? [];
  const one = objectsOf(world, ALLOCATIONS).find(
    ({ spec }) => spec?.network === network && spec?.address.split("/")[0] === address,
  );
  if (one === undefined || runs(world, network, holder)) return false;
  const seenMs = touchedByHand(world).has(one.metadata.name) ? null : seenToEndMs(world, one.spec.owner.uid);
  if (seenMs !== null) {
    world.counts.add("people.left-over-waited-for");
    await sleep(world.clock, Math.max(0, seenMs + GIVEN_BACK_MS - world.time.nowMs));
    return true;
  }
  const body = { network, address, force: false };
  const outcome = await answered(() => askCluster(world, { method: "POST", path: "/v1/release", body }));
  world.story.tell("alice", `holdfast release ${address} --network ${network}, as check tells: ${said(outcome)}`);
  world.counts.add("people.left-over-released");
  return true;
}

/** Whether an interface of this pod is up anywhere. */
function runs(world: World, network: string, holder: string): boolean {
  return world.machines.some(({ interfaces }) =>
    [...interfaces.keys()].some((one) => one.network === network && `${one.pod.namespace}/${one.pod.name}` === holder),
  );
}

/**
 * Of a VM that left its claim behind, while another VM has its name: KubeVirt does not take its finalizer off. One of
 * ours would be ours to remove.
 */
async function letGoOfClaim(world: World, message: string): Promise<boolean> {
  const [, key] = STUCK_CLAIM.exec(message) ?? [];
  const claim = objectsOf(world, CLAIMS).find(({ metadata }) => `${metadata.namespace}/${metadata.name}` === key);
  if (claim === undefined) return false;
  const { namespace, name, finalizers = [] } = claim.metadata;
  if (!finalizers.every((one: string) => one.startsWith("kubevirt.io/"))) return false;
  world.story.tell("alice", `removes the finalizers of claim ${key}, as check tells`);
  world.counts.add("people.left-over-let-go");
  await attempted(world.cluster.admin.patch(claimPath(namespace, name), { metadata: { finalizers: null } }));
  await sleep(world.clock, GIVEN_BACK_MS);
  return true;
}

/**
 * Somebody has taken the allocation away by force before the controller deleted the IPAddress of a claim that was gone;
 * or another provider's IPAddress names a claim that it does not answer, or has an address that somebody else holds or
 * that is not the network's, as the claim's condition says. One of Holdfast's own has never.
 */
async function deleteLeftAnswer(world: World, message: string): Promise<boolean> {
  const [, contested] = CONTESTED_ANSWER.exec(message) ?? [];
  const isStrangers =
    contested !== undefined &&
    at(world, "addresses", contested)?.metadata.annotations?.[ALLOCATION] === undefined &&
    asksToDelete(at(world, "claims", contested));
  const [, left] = LEFT_ANSWER.exec(message) ?? NO_ANSWER.exec(message) ?? [];
  const key = isStrangers ? contested : left;
  if (key === undefined) return false;
  world.story.tell("alice", `deletes IPAddress ${key}, as check tells`);
  await remove(world, "addresses", key);
  // Its claim gets another one, and the machine reads it.
  await sleep(world.clock, GIVEN_BACK_MS);
  return true;
}

/** Whether the condition of a claim says so of the IPAddress that has its name. */
function asksToDelete(claim: KubeObject | null): boolean {
  const { conditions = [], v1beta2 } = claim?.status ?? {};
  return [...conditions, ...(v1beta2?.conditions ?? [])].some(({ type, message }: KubeObject) =>
    Boolean(type === "Ready" && message?.includes("delete the IPAddress")),
  );
}

/** A VM was restored from a backup with an address that somebody else has by now: it is restored again, later. */
async function deleteContested(world: World, message: string): Promise<boolean> {
  const [, key] = CONTESTED.exec(message) ?? [];
  const claim = objectsOf(world, CLAIMS).find(({ metadata }) => `${metadata.namespace}/${metadata.name}` === key);
  if (claim?.metadata.annotations?.["simulation/prefilled"] === undefined) return false;
  const { namespace, name, ownerReferences = [] } = claim.metadata;
  world.story.tell("alice", `deletes claim ${key} and its VM: its address is somebody else's, as check tells`);
  world.counts.add("people.left-over-contested");
  for (const owner of ownerReferences)
    await attempted(
      world.cluster.admin.remove(`/apis/kubevirt.io/v1/namespaces/${namespace}/virtualmachines/${owner.name}`),
    );
  await attempted(world.cluster.admin.remove(claimPath(namespace, name)));
  await sleep(world.clock, GIVEN_BACK_MS);
  return true;
}

/**
 * A Cluster came back from a move, or its pause had ended, before somebody deleted it; no controller was there to see
 * it.
 */
async function releaseMoved(world: World, message: string): Promise<boolean> {
  const [, cluster] = MOVED.exec(message) ?? [];
  if (cluster === undefined || isSeenToGoOn(world, cluster)) return false;
  const outcome = await answered(() =>
    askCluster(world, { method: "POST", path: "/v1/release-moved", body: { cluster } }),
  );
  world.story.tell("alice", `holdfast release --moved ${cluster}, as check tells: ${said(outcome)}`);
  world.counts.add("people.left-over-moved");
  return true;
}

/** Of a claim that has nothing, and lists what nobody can give it; what a claim has is said without anybody's help. */
async function correctList(world: World, message: string): Promise<boolean> {
  const [, key] = WISHED.exec(message) ?? [];
  const claim = objectsOf(world, CLAIMS).find(({ metadata }) => `${metadata.namespace}/${metadata.name}` === key);
  const hasAny = objectsOf(world, ALLOCATIONS).some(
    ({ spec, status }) => status?.state === "Bound" && spec?.owner?.uid === claim?.metadata.uid,
  );
  if (claim === undefined || hasAny) return false;
  const { namespace, name } = claim.metadata;
  world.story.tell("alice", `empties the list of claim ${key}, as check tells`);
  world.counts.add("people.list-corrected");
  await attempted(world.cluster.admin.patch(`${claimPath(namespace, name)}/status`, { status: { ips: [] } }));
  await sleep(world.clock, GIVEN_BACK_MS);
  return true;
}
