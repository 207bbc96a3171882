import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { simClusterOf } from "../../cluster/cluster.ts";
import { journalLostAtMs } from "../../machine/disk-actions.ts";
import type { Interface, Machine, World } from "../../world.ts";
import { ALLOCATIONS, objectsOf } from "./look.ts";

/**
 * So long after a restore a node may not have put back what its containers use, ms: a journal that is lost then knew it
 * alone.
 */
const PUT_BACK_MS_MAX = 15_000;

/** An interface that neither the API nor its node knows any more. */
export interface TwiceLost {
  readonly machine: Machine;
  readonly one: Interface;
  readonly ips: readonly string[];
}

/** When etcd was restored to a state without them, ms of the world; in times of peace it is forgotten. */
const missing = new WeakMap<World, Map<Interface, number>>();

/** Notes at each restore which interfaces are not in what was restored. */
export function noteMissing(world: World): void {
  const noted = new Map<Interface, number>();
  missing.set(world, noted);
  simClusterOf(world).restored.push(() => {
    const known = attachedIn(world);
    for (const { interfaces } of world.machines)
      for (const one of interfaces.keys()) if (!known.has(keyOf(one))) noted.set(one, world.time.nowMs);
  });
}

/**
 * Interfaces that were given between the backup of etcd and its restore, on nodes that have lost their journal since:
 * nobody can know of them (docs/known-limits.md).
 */
export function takeTwiceLost(world: World): TwiceLost[] {
  const noted = missing.get(world);
  if (noted === undefined) return [];
  const known = attachedIn(world);
  const lost = world.machines.flatMap((machine) =>
    [...machine.interfaces].flatMap(([one, ips]) => {
      const restoredMs = noted.get(one);
      const lostMs = journalLostAtMs.get(one);
      if (restoredMs === undefined || lostMs === undefined || known.has(keyOf(one))) return [];
      return lostMs < restoredMs + PUT_BACK_MS_MAX ? [{ machine, one, ips }] : [];
    }),
  );
  noted.clear();
  return lost;
}

/** What the API says is attached. */
function attachedIn(world: World): Set<string> {
  return new Set(
    objectsOf(world, ALLOCATIONS).flatMap(({ spec, status }) =>
      Object.entries<KubeObject>(status?.attachments ?? {}).map(([key, { node }]) => {
        const [containerId, ifname] = key.split("/");
        return `${spec?.network} ${node} ${containerId} ${ifname}`;
      }),
    ),
  );
}

const keyOf = ({ network, node, containerId, ifname }: Interface): string =>
  `${network} ${node} ${containerId} ${ifname}`;
