import type { Change } from "../../../harness/kube-fake/etcd.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { Violation } from "../../engine/violation.ts";
import type { World } from "../../world.ts";
import { configOf } from "../people/configs.ts";
import { ALLOCATIONS, CLAIMS, NADS, objectsOf } from "../people/look.ts";
import { MALLORY, SHARED_WITH } from "../people/networks.ts";

/** A daemon that does not hear for so long goes on by what it knew, ms: that a network is shared, for one. */
const LAGS_MS = 120_000;

/** What a pod of an attacker must never be recorded with, and what it would mean. */
interface Forbidden {
  readonly what: string;
  /** UID of an owner whose addresses it must not use; null: it must have none at all. */
  readonly ofOwner: string | null;
  /** Only while this claim, `namespace/name`, is a VM's: orphaned, it serves every pod of its namespace. */
  readonly claim: string | null;
  /** Only while the owner of this network does not share it with everybody; null: whatever is shared. */
  readonly network: string | null;
  /** Since when the pod is forbidden it, ms of the world. */
  readonly sinceMs: number;
}

interface Guard {
  readonly byPod: Map<string, Forbidden>;
  /** When a network was seen last that is shared with everybody, ms of the world. */
  readonly sharedAtMs: Map<string, number>;
}

const guards = new WeakMap<World, Guard>();

/** The pod gets no address: neither as the owner of one nor as a user. */
export function mustGetNothing(world: World, podUid: string, what: string, network: string | null = null): void {
  forbid(world, podUid, { what, ofOwner: null, claim: null, network });
}

/** The pod does not use what an owner has. */
export function mustNotUse(world: World, podUid: string, ownerUid: string, what: string): void {
  forbid(world, podUid, { what, ofOwner: ownerUid, claim: null, network: null });
}

/** The pod does not use what a VM's claim has. */
export function mustNotUseClaim(world: World, podUid: string, { metadata }: KubeObject, what: string): void {
  const { namespace, name, uid } = metadata;
  const claim = `${namespace}/${name}`;
  forbid(world, podUid, { what, ofOwner: uid, claim, network: null });
}

function forbid(world: World, podUid: string, forbidden: Omit<Forbidden, "sinceMs">): void {
  guardOf(world).byPod.set(podUid, { ...forbidden, sinceMs: world.time.nowMs });
}

/** Looks at every write of an address from now on. */
export function guardOf(world: World): Guard {
  const known = guards.get(world);
  if (known !== undefined) return known;
  const guard: Guard = { byPod: new Map(), sharedAtMs: new Map() };
  guards.set(world, guard);
  world.cluster.etcd.listen((change) => {
    if (change.storage === NADS)
      for (const nad of [change.object, change.previous]) if (nad !== null) noteShared(world, nad, guard);
    const wrong = change.storage === ALLOCATIONS ? wrongWith(world, change, guard) : null;
    // Whoever writes must not be the one who fails.
    if (wrong !== null)
      world.clock.immediate(() => {
        throw new Violation("attack", wrong);
      });
  });
  return guard;
}

/** Also one that is not shared any more has been until now. */
function noteShared({ time }: World, nad: KubeObject, { sharedAtMs }: Guard): void {
  const network = isForAll(nad) ? configOf({ spec: { config: nad.spec.config } })?.name : undefined;
  if (network !== undefined) sharedAtMs.set(network, time.nowMs);
}

/** Its owner has written that every namespace may use it. */
function isForAll({ metadata }: KubeObject): boolean {
  return metadata.namespace !== MALLORY && metadata.annotations?.[SHARED_WITH] === "*";
}

/** Whether it was shared at any time of the pod. A restored etcd tells nobody what has changed. */
function wasShared(world: World, { network, sinceMs }: Forbidden, guard: Guard): boolean {
  if (network === null) return false;
  for (const nad of objectsOf(world, NADS)) noteShared(world, nad, guard);
  return (guard.sharedAtMs.get(network) ?? Number.NEGATIVE_INFINITY) > sinceMs - LAGS_MS;
}

function wrongWith(world: World, { previous, object, deleted }: Change, guard: Guard): string | null {
  if (deleted) return null;
  const { network, address, owner } = object.spec ?? {};
  const which = `${address} of network ${network}`;
  const wasOthers = previous?.status?.state === "Bound" && previous.spec?.owner?.namespace !== MALLORY;
  if (wasOthers && owner?.namespace === MALLORY && owner.uid !== previous.spec.owner.uid)
    return `${which} passed from ${previous.spec.owner.namespace}/${previous.spec.owner.name} to ${owner.kind} ${MALLORY}/${owner.name}`;
  const attachments: { pod?: { uid: string; name: string } }[] = Object.values(object.status?.attachments ?? {});
  const users = [owner?.kind === "Pod" ? owner.uid : undefined, ...attachments.map(({ pod }) => pod?.uid)];
  for (const uid of users) {
    const forbidden = uid === undefined ? undefined : guard.byPod.get(uid);
    if (forbidden === undefined || !isVms(world, forbidden.claim)) continue;
    if (forbidden.ofOwner !== null && forbidden.ofOwner !== owner?.uid) continue;
    if (!wasShared(world, forbidden, guard)) return `${which}: ${forbidden.what}`;
  }
  return null;
}

function isVms({ cluster }: World, claim: string | null): boolean {
  if (claim === null) return true;
  const owners: { kind: string }[] = cluster.etcd.get(CLAIMS, claim)?.metadata.ownerReferences ?? [];
  return owners.some(({ kind }) => kind.startsWith("VirtualMachine"));
}
