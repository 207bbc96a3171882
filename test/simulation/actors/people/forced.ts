import type { Change } from "../../../harness/kube-fake/etcd.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { World } from "../../world.ts";
import { ALLOCATIONS } from "./look.ts";

/** A request that its sender gave up may still be carried out so much later, ms. */
const LATE_MS = 120_000;

interface Order {
  readonly why: string;
  /** Of the world. */
  readonly untilMs: number;
}

/** By the name of the address's object. */
const orders = new WeakMap<World, Map<string, Order>>();
const touched = new WeakMap<World, Set<string>>();

/** Names of addresses' objects that somebody has edited or deleted since the last peace. */
export function touchedByHand(world: World): Set<string> {
  const known = touched.get(world) ?? new Set();
  touched.set(world, known);
  return known;
}

/**
 * Somebody who may do so orders that an address is taken from whoever has it. The oracle is told in the very moment of
 * the write that does it, so that nothing else is excused.
 */
export function orderTaken(world: World, allocation: KubeObject, why: string): void {
  touchedByHand(world).add(allocation.metadata.name);
  const known = orders.get(world) ?? followed(world);
  known.set(allocation.metadata.name, { why, untilMs: world.time.nowMs + LATE_MS });
}

function followed(world: World): Map<string, Order> {
  const known = new Map<string, Order>();
  orders.set(world, known);
  world.cluster.etcd.listen((change) => {
    const order = change.storage === ALLOCATIONS ? known.get(change.key) : undefined;
    if (order === undefined || !isTaken(change)) return;
    known.delete(change.key);
    if (world.time.nowMs > order.untilMs) return;
    const { network, address } = (change.previous ?? change.object).spec;
    world.oracle.excused(network, address, order.why);
    world.counts.add("people.address-taken");
  });
  return known;
}

function isTaken({ previous, object, deleted }: Change): boolean {
  const state = previous?.status?.state;
  if (state !== "Bound" && state !== "Retained") return false;
  return deleted || object.status?.state !== state || object.spec?.owner?.uid !== previous?.spec?.owner?.uid;
}
