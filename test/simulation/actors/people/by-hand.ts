import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { orderTaken, touchedByHand } from "./forced.ts";
import {
  ALLOCATIONS,
  allocationPath,
  attempted,
  CLAIMS,
  claimPath,
  NETWORK_OBJECTS,
  networkObjectPath,
  objectsOf,
} from "./look.ts";
import { MALLORY } from "./networks.ts";

/**
 * Objects are edited and deleted with kubectl by somebody who has every right. What they say of others (labels,
 * attachments, counts) may be wrong for a while and takes nothing from anybody; only who takes the object itself away,
 * or writes another state, takes the address.
 */
export const BY_HAND: ActionKinds = {
  "people-allocation-delete": { weight: 0.4, run: deleteAllocation },
  "people-allocation-delete-force": { weight: 0.15, run: deleteByForce },
  "people-allocation-edit": { weight: 0.4, run: editAllocation },
  "people-allocation-cool": { weight: 0.1, run: coolAllocation },
  "people-network-object-delete": { weight: 0.2, run: deleteNetworkObject },
  "people-network-object-edit": { weight: 0.2, run: editNetworkObject },
  "people-claim-status": { weight: 0.2, run: editClaim },
};

const LABEL = "ipam.holdfast.dev";

/** Nothing is lost by these: who has the address is in spec.owner, and its name is the address. */
const HARMLESS: readonly (readonly [string, object])[] = [
  ["label-network", { metadata: { labels: { [`${LABEL}/network`]: null } } }],
  ["label-owner", { metadata: { labels: { [`${LABEL}/owner-uid`]: "nobody" } } }],
  ["label-state", { metadata: { labels: { [`${LABEL}/state`]: "Cooling" } } }],
  ["annotation", { metadata: { annotations: { [`${LABEL}/address`]: null } } }],
  ["finalizer", { metadata: { finalizers: null } }],
];

/** A finalizer keeps it for as long as somebody uses it; what rests is free at once. */
async function deleteAllocation(world: World, chance: Chance): Promise<void> {
  const one = chance.of(objectsOf(world, ALLOCATIONS));
  if (one === undefined) return;
  if (!isKept(one)) orderTaken(world, one, "kubectl delete of an IPAllocation whose finalizer somebody took off");
  await attempted(world.cluster.admin.remove(allocationPath(one.metadata.name)));
  tell(world, "allocation-delete", `deletes IPAllocation ${describe(one)}`);
}

async function deleteByForce(world: World, chance: Chance): Promise<void> {
  const one = chance.of(objectsOf(world, ALLOCATIONS));
  if (one === undefined) return;
  const path = allocationPath(one.metadata.name);
  orderTaken(world, one, "kubectl delete of an IPAllocation without its finalizers");
  await attempted(world.cluster.admin.patch(path, { metadata: { finalizers: null } }));
  await attempted(world.cluster.admin.remove(path));
  tell(world, "allocation-delete-force", `takes the finalizer off IPAllocation ${describe(one)} and deletes it`);
}

async function editAllocation(world: World, chance: Chance): Promise<void> {
  const one = chance.of(objectsOf(world, ALLOCATIONS).filter((object) => object.status?.state === "Bound"));
  const [name, patch] = chance.of(HARMLESS) ?? [];
  if (one === undefined || name === undefined || patch === undefined) return;
  touchedByHand(world).add(one.metadata.name);
  // Somebody has deleted it before, and only the finalizer keeps it.
  if (name === "finalizer" && one.metadata.deletionTimestamp !== undefined)
    orderTaken(world, one, "the finalizer of an IPAllocation that is being deleted was taken off by hand");
  await attempted(world.cluster.admin.patch(allocationPath(one.metadata.name), patch));
  tell(world, "allocation-edit", `edits IPAllocation ${describe(one)} (${name})`);
}

async function coolAllocation(world: World, chance: Chance): Promise<void> {
  const one = chance.of(objectsOf(world, ALLOCATIONS).filter((object) => object.status?.state === "Bound"));
  if (one === undefined) return;
  orderTaken(world, one, "an IPAllocation was written as Cooling by hand");
  const status = { state: "Cooling", attachments: null };
  await attempted(world.cluster.admin.patch(allocationPath(one.metadata.name), { status }));
  tell(world, "allocation-cool", `writes Cooling into IPAllocation ${describe(one)}`);
}

/** Whose a network is, is found out again. */
async function deleteNetworkObject(world: World, chance: Chance): Promise<void> {
  const one = chance.of(objectsOf(world, NETWORK_OBJECTS));
  if (one === undefined) return;
  await attempted(world.cluster.admin.remove(networkObjectPath(one.metadata.name)));
  tell(world, "network-object-delete", `deletes IPNetwork ${one.metadata.name}`);
}

async function editNetworkObject(world: World, chance: Chance): Promise<void> {
  const one = chance.of(objectsOf(world, NETWORK_OBJECTS));
  if (one === undefined) return;
  const patch = chance.of<object>([
    { status: { conditions: null, importedFrom: null } },
    { status: { allocated: "0", free: "12345", cooling: "0" } },
    { status: null },
  ]) as object;
  await attempted(world.cluster.admin.patch(networkObjectPath(one.metadata.name), patch));
  tell(world, "network-object-edit", `edits IPNetwork ${one.metadata.name}: ${JSON.stringify(patch)}`);
}

/** The list of a claim is emptied: what the claim has it finds by its UID. */
async function editClaim(world: World, chance: Chance): Promise<void> {
  const claims = objectsOf(world, CLAIMS).filter(
    ({ metadata, status }) => metadata.namespace !== MALLORY && (status?.ips ?? []).length > 0,
  );
  const claim = chance.of(claims);
  if (claim === undefined) return;
  const { namespace, name } = claim.metadata;
  const [what, status] = chance.of<readonly [string, object]>([
    ["no list", { ips: null }],
    ["another pod", { ownerPod: { name: "nobody" } }],
    ["no conditions", { conditions: null }],
  ]) as readonly [string, object];
  await attempted(world.cluster.admin.patch(`${claimPath(namespace, name)}/status`, { status }));
  tell(world, "claim-status", `edits the status of IPAMClaim ${namespace}/${name} (${what})`);
}

/** Whether our finalizer is on it. */
function isKept({ metadata }: KubeObject): boolean {
  return (metadata.finalizers ?? []).length > 0;
}

function describe({ metadata, spec, status }: KubeObject): string {
  return spec === undefined ? metadata.name : `${spec.address} of ${spec.network} (${status?.state})`;
}

function tell(world: World, name: string, what: string): void {
  world.story.tell("alice", what);
  world.counts.add(`people.${name}`);
}
