import type { Change } from "../../../../kube/fake/etcd.ts";
import type { KubeObject } from "../../../../kube/fake/objects.ts";
import { Violation } from "../../engine/violation.ts";
import type { World } from "../../world.ts";
import { ALLOCATIONS, CLAIMS } from "../people/look.ts";
import { MALLORY } from "../people/networks.ts";

/** What a pod of an attacker must never be recorded with, and what it would mean. */
interface Forbidden {
  readonly what: string;
  /** UID of an owner whose addresses it must not use; null: it must have none at all. */
  readonly ofOwner: string | null;
  /** Only while this claim, `namespace/name`, is a VM's: orphaned, it serves every pod of its namespace. */
  readonly claim: string | null;
}

interface Guard {
  readonly byPod: Map<string, Forbidden>;
}

const guards = new WeakMap<World, Guard>();

/** The pod gets no address: neither as the owner of one nor as a user. */
export function mustGetNothing(world: World, podUid: string, what: string): void {
  guardOf(world).byPod.set(podUid, { what, ofOwner: null, claim: null });
}

/** The pod does not use what an owner has. */
export function mustNotUse(world: World, podUid: string, ownerUid: string, what: string): void {
  guardOf(world).byPod.set(podUid, { what, ofOwner: ownerUid, claim: null });
}

/** The pod does not use what a VM's claim has. */
export function mustNotUseClaim(world: World, podUid: string, { metadata }: KubeObject, what: string): void {
  const { namespace, name, uid } = metadata;
  guardOf(world).byPod.set(podUid, { what, ofOwner: uid, claim: `${namespace}/${name}` });
}

/** Looks at every write of an address from now on. */
export function guardOf(world: World): Guard {
  const known = guards.get(world);
  if (known !== undefined) return known;
  const guard: Guard = { byPod: new Map() };
  guards.set(world, guard);
  world.cluster.etcd.listen((change) => {
    const wrong = change.storage === ALLOCATIONS ? wrongWith(world, change, guard) : null;
    // Whoever writes must not be the one who fails.
    if (wrong !== null)
      world.clock.immediate(() => {
        throw new Violation("attack", wrong);
      });
  });
  return guard;
}

function wrongWith(world: World, { previous, object, deleted }: Change, { byPod }: Guard): string | null {
  if (deleted) return null;
  const { network, address, owner } = object.spec ?? {};
  const which = `${address} of network ${network}`;
  const wasOthers = previous?.status?.state === "Bound" && previous.spec?.owner?.namespace !== MALLORY;
  if (wasOthers && owner?.namespace === MALLORY && owner.uid !== previous.spec.owner.uid)
    return `${which} passed from ${previous.spec.owner.namespace}/${previous.spec.owner.name} to ${owner.kind} ${MALLORY}/${owner.name}`;
  const attachments: { pod?: { uid: string; name: string } }[] = Object.values(
    object.status?.attachments ?? {},
  );
  const users = [owner?.kind === "Pod" ? owner.uid : undefined, ...attachments.map(({ pod }) => pod?.uid)];
  for (const uid of users) {
    const forbidden = uid === undefined ? undefined : byPod.get(uid);
    if (forbidden === undefined || !isVms(world, forbidden.claim)) continue;
    if (forbidden.ofOwner === null || forbidden.ofOwner === owner?.uid) return `${which}: ${forbidden.what}`;
  }
  return null;
}

function isVms({ cluster }: World, claim: string | null): boolean {
  if (claim === null) return true;
  const owners: { kind: string }[] = cluster.etcd.get(CLAIMS, claim)?.metadata.ownerReferences ?? [];
  return owners.some(({ kind }) => kind.startsWith("VirtualMachine"));
}
