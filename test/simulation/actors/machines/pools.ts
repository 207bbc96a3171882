import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { Chance } from "../../engine/chance.ts";
import type { World } from "../../world.ts";
import { nadsNow } from "../people/networks.ts";
import { CLUSTERS, NAMESPACES } from "./clusters.ts";
import { CLUSTER_LABEL, fleetOf } from "./fleet.ts";
import { allOf, create, isBeingDeleted, isOpen, keyOf, patch, remove } from "./objects.ts";

/** A network that no pod uses: its pool defines it. */
export const OWN_NETWORK = {
  network: "metal-machines",
  definition: {
    subnets: "10.90.0.0/26",
    gateway: ["10.90.0.1"],
    excludeSubnets: "10.90.0.0/30",
    cooldownSeconds: 5,
  },
};

/** The pool of a namespace that defines its network itself. */
export function ownPool(namespace: string): KubeObject {
  const labels = { [CLUSTER_LABEL]: CLUSTERS[0] };
  return { metadata: { name: "machines", namespace, labels }, spec: OWN_NETWORK };
}

/** Names of pools: few, so that those that were deleted come back. */
const NAMES = ["pool-a", "pool-b", "pool-c"] as const;

/**
 * An IPv4 subnet of a definition, by its first three numbers and the first and last of the fourth; null: none that is
 * that narrow.
 */
interface Subnet {
  readonly network: string;
  readonly prefix: string;
  readonly first: number;
  readonly last: number;
}

const CIDR = /^(\d+\.\d+\.\d+)\.(\d+)\/(\d+)$/;

function subnetOf(network: string, cidr: string): Subnet | null {
  const [, prefix, begin, length] = CIDR.exec(cidr) ?? [];
  if (prefix === undefined || Number(length) < 24) return null;
  const first = Number(begin);
  return { network, prefix, first, last: first + 2 ** (32 - Number(length)) - 1 };
}

function subnetsNow(world: World): Subnet[] {
  return nadsNow(world).flatMap(({ network, config }) => {
    const { subnets } = config.ipam;
    const texts: string[] = typeof subnets === "string" ? subnets.split(",") : (subnets ?? []);
    return texts.flatMap((text) => subnetOf(network, text.trim()) ?? []);
  });
}

/** A pool of a network that pods use too: of all of it, or of a part. */
export async function makePool(world: World, chance: Chance): Promise<void> {
  const namespace = chance.of(NAMESPACES.filter((one) => isOpen(world, one)));
  const subnet = chance.of(subnetsNow(world));
  const name = chance.of(NAMES);
  if (namespace === undefined || subnet === undefined || name === undefined) return;
  const labels = chance.happens(0.5) ? { [CLUSTER_LABEL]: chance.of(CLUSTERS) } : {};
  const made = await create(world, "pools", {
    metadata: { name, namespace, labels },
    spec: {
      network: subnet.network,
      family: 4,
      ...(chance.happens(0.5) ? { ranges: [rangeIn(subnet, chance)] } : {}),
      ...(chance.happens(0.3) ? { preallocations: preallocationsIn(world, namespace, subnet, chance) } : {}),
    },
  });
  if (made === null) return;
  world.counts.add("machines.pool-made");
  world.story.tell("metal admin", `makes pool ${namespace}/${name} of network ${subnet.network}`);
}

/** Its ranges, its preallocations or its network are others from now on. */
export async function editPool(world: World, chance: Chance): Promise<void> {
  const pool = changeablePool(world, chance);
  if (pool === null) return;
  const subnets = subnetsNow(world);
  const own = subnets.find(({ network }) => network === pool.spec.network);
  const { namespace, name } = pool.metadata;
  const change = () => {
    const drawn = chance.number();
    if (own === undefined || drawn < 0.1) return { network: chance.of(subnets)?.network ?? pool.spec.network };
    if (drawn < 0.4) return { ranges: [rangeIn(own, chance)] };
    if (drawn < 0.6) return { ranges: null };
    if (drawn < 0.8) return { preallocations: preallocationsIn(world, namespace, own, chance) };
    return { preallocations: null };
  };
  const spec = change();
  await patch(world, "pools", keyOf(pool), { spec });
  world.counts.add("machines.pool-edited");
  world.story.tell("metal admin", `edits pool ${namespace}/${name}: ${JSON.stringify(spec)}`);
}

/** What claims of it have they keep. */
export async function deletePool(world: World, chance: Chance): Promise<void> {
  const pool = changeablePool(world, chance);
  if (pool === null) return;
  await remove(world, "pools", keyOf(pool));
  world.counts.add("machines.pool-deleted");
  world.story.tell("metal admin", `deletes pool ${keyOf(pool)}`);
}

/** None that defines its network: the machines of that one stay where they are. */
function changeablePool(world: World, chance: Chance): KubeObject | null {
  const drawn = anyPool(world, chance);
  if (drawn?.spec.definition === undefined) return drawn;
  const others = allOf(world, "pools").filter((one) => !isBeingDeleted(one) && one.spec.definition === undefined);
  return chance.of(others) ?? null;
}

/** One that is there now. */
export function anyPool(world: World, chance: Chance, namespace?: string): KubeObject | null {
  return chance.of(allOf(world, "pools", namespace).filter((one) => !isBeingDeleted(one))) ?? null;
}

/** An address of a pool's network that somebody may have or not. */
export function anyAddressOf(world: World, pool: KubeObject, chance: Chance): string | null {
  const subnet = subnetsNow(world).find(({ network }) => network === pool.spec.network);
  return subnet === undefined ? null : addressIn(subnet, chance);
}

function rangeIn(subnet: Subnet, chance: Chance): string {
  const from = chance.between(subnet.first + 1, subnet.last - 1);
  return `${subnet.prefix}.${from}-${subnet.prefix}.${Math.min(subnet.last - 1, from + chance.between(2, 15))}`;
}

function addressIn({ prefix, first, last }: Subnet, chance: Chance): string {
  return `${prefix}.${chance.between(first + 1, last - 1)}`;
}

/** For machines that may come, or are there already. */
function preallocationsIn(world: World, namespace: string, subnet: Subnet, chance: Chance): Record<string, string> {
  const names = [...fleetOf(world).machines.values()].filter((one) => one.namespace === namespace);
  const some = [chance.of(names)?.name, `m-${chance.below(12)}`].filter((one) => one !== undefined);
  return Object.fromEntries(some.map((name) => [name, addressIn(subnet, chance)]));
}
