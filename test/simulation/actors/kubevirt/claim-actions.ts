import { sleep } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { CLAIM_FINALIZER, claimObject, KUBEVIRT, ownerOf, podObject } from "../../../harness/world/kubevirt-objects.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { addressIn } from "../addresses.ts";
import { type Nad, nadsIn } from "../networks.ts";
import {
  attempt,
  CLAIMS,
  create,
  isBeingDeleted,
  isOpen,
  keyOf,
  objectAt,
  objectsOf,
  PODS,
  patch,
  pathOf,
  remove,
  VMS,
} from "../objects.ts";
import { HONEST } from "../people/networks.ts";
import { freeName, hasRoom } from "../pods/plain.ts";
import { claimNameOf, nadNameFor, scheduled, specOf, VM_FINALIZER } from "./machines.ts";
import { uuidOf } from "./vm-actions.ts";

/** A claim that a pod waits for comes so late, ms. */
const LATE_MS_MAX = 20_000;
const CLAIMS_MAX = 30;

/** Claims that no VM has made for itself, and pods that name them. */
export const claimKinds: ActionKinds = {
  "claim-thief": { weight: 0.7, run: steal },
  "claim-two-pods": { weight: 0.6, run: shareClaim },
  "claim-late": { weight: 0.7, run: lateClaim },
  "claim-restored": { weight: 0.7, run: restore },
  "claim-cleaned-up": { weight: 0.8, run: cleanUp },
};

/** A network with claims, and where. */
function somewhere(world: World, chance: Chance): Nad | undefined {
  const open = HONEST.filter((one) => isOpen(world, one));
  return chance.of(open.flatMap((one) => nadsIn(world, one)).filter(({ isPersistent }) => isPersistent));
}

interface Naming {
  readonly nad: string;
  readonly namespace: string;
  readonly claim: string;
}

/** A plain pod that names a claim. */
async function createPodWith(world: World, chance: Chance, naming: Naming): Promise<KubeObject | null> {
  const { namespace, nad, claim } = naming;
  const name = freeName(world, chance, namespace);
  const node = scheduled(world, chance);
  if (name === null || node === null) return null;
  const networks = [{ name: nad, "ipam-claim-reference": claim }];
  const pod = await create(world, PODS, podObject(namespace, { name }, { node, networks }));
  if (pod !== null) world.story.tell("user", `creates pod ${keyOf(pod)} on ${node} with claim ${claim} of ${nad}`);
  return pod;
}

/** A pod of somebody else names the claim of a VM. */
async function steal(world: World, chance: Chance): Promise<void> {
  const claim = chance.of(objectsOf(world, CLAIMS).filter((one) => !isBeingDeleted(one)));
  if (claim === undefined || !hasRoom(world)) return;
  const { namespace, name } = claim.metadata;
  const nad = nadsIn(world, namespace).find(({ network }) => network === claim.spec.network);
  if (nad === undefined) return;
  if ((await createPodWith(world, chance, { namespace, nad: nad.name, claim: name })) !== null)
    world.counts.add("vm.claim-named-by-a-stranger");
}

/** Two pods without a VM name one claim, which nobody owns. */
async function shareClaim(world: World, chance: Chance): Promise<void> {
  const nad = somewhere(world, chance);
  if (nad === undefined || !hasRoom(world, 2)) return;
  const claim = await createClaim(world, chance, nad);
  if (claim === null) return;
  world.counts.add("vm.claim-without-owner");
  const naming = { namespace: nad.namespace, nad: nad.name, claim: claim.metadata.name };
  await createPodWith(world, chance, naming);
  await sleep(world.clock, chance.below(10_000));
  if ((await createPodWith(world, chance, naming)) !== null) world.counts.add("vm.claim-named-by-two-pods");
}

async function createClaim(world: World, chance: Chance, nad: Nad, claim = ""): Promise<KubeObject | null> {
  if (objectsOf(world, CLAIMS).length >= CLAIMS_MAX) return null;
  const name = claim || `by-hand-${chance.below(8)}`;
  const created = await create(world, CLAIMS, {
    apiVersion: "k8s.cni.cncf.io/v1alpha1",
    kind: "IPAMClaim",
    metadata: { name, namespace: nad.namespace },
    spec: { network: nad.network, interface: "" },
  });
  if (created !== null) world.story.tell("user", `creates claim ${keyOf(created)}, which nobody owns`);
  return created;
}

/** The pod is there first. */
async function lateClaim(world: World, chance: Chance): Promise<void> {
  const nad = somewhere(world, chance);
  if (nad === undefined || !hasRoom(world)) return;
  const claim = `late-${chance.below(8)}`;
  const key = `${nad.namespace}/${claim}`;
  if (objectAt(world, CLAIMS, key) !== null) return;
  await createPodWith(world, chance, { namespace: nad.namespace, nad: nad.name, claim });
  await sleep(world.clock, chance.below(LATE_MS_MAX));
  if ((await createClaim(world, chance, nad, claim)) !== null) world.counts.add("vm.claim-late");
}

/** A VM comes back from a backup: with a claim that lists addresses already, right ones mostly. */
async function restore(world: World, chance: Chance): Promise<void> {
  const nad = somewhere(world, chance);
  if (nad === undefined || objectsOf(world, CLAIMS).length >= CLAIMS_MAX) return;
  const { namespace } = nad;
  const name = `restored-${chance.below(4)}`;
  if (objectAt(world, VMS, `${namespace}/${name}`) !== null) return;
  // A backup from the middle of a move has several of a subnet.
  const lists = chance.happens(0.3) ? [...nad.subnets, ...nad.subnets] : nad.subnets;
  const ips = lists.map((subnet) => addressIn(subnet, chance));
  const vm = await create(world, VMS, {
    apiVersion: KUBEVIRT,
    kind: "VirtualMachine",
    metadata: { name, namespace, finalizers: [VM_FINALIZER] },
    spec: {
      runStrategy: "Halted",
      template: { spec: specOf([{ logical: "blue", nad: nadNameFor(namespace, nad) }], uuidOf(chance)) },
    },
  });
  if (vm === null) return;
  const owner = ownerOf(KUBEVIRT, "VirtualMachine", vm.metadata);
  const parts = { name: claimNameOf(name, "blue"), network: nad.network, owner };
  const object = claimObject({ namespace, name }, parts);
  object.metadata.annotations = { "simulation/prefilled": "" };
  const claim = await create(world, CLAIMS, object);
  if (claim !== null) await fillIn(world, nad, claim, ips);
  await sleep(world.clock, chance.below(5_000));
  await patch(world, VMS, vm, { spec: { runStrategy: "Always" } });
}

async function fillIn(world: World, nad: Nad, claim: KubeObject, ips: readonly string[]): Promise<void> {
  world.story.tell("user", `restores claim ${keyOf(claim)} with ${ips.join(", ")} of ${nad.network}`);
  world.counts.add("vm.claim-restored-with-addresses");
  await attempt(world.cluster.admin.patch(`${pathOf(CLAIMS, claim)}/status`, { status: { ips } }));
}

/** Claims without owner, when somebody remembers them. */
async function cleanUp(world: World, chance: Chance): Promise<void> {
  const claims = objectsOf(world, CLAIMS).filter(
    ({ metadata }) => (metadata.ownerReferences ?? []).length === 0 && metadata.deletionTimestamp === undefined,
  );
  const claim = chance.of(claims);
  if (claim === undefined) return;
  world.story.tell("user", `deletes claim ${keyOf(claim)}, which nobody owns`);
  world.counts.add("vm.claim-cleaned-up");
  await remove(world, CLAIMS, claim);
  if (!chance.happens(0.5)) return;
  // What an orphaned claim still has of its VM's time.
  const now = objectAt(world, CLAIMS, keyOf(claim));
  const left = (now?.metadata.finalizers ?? []).filter((one: string) => one !== CLAIM_FINALIZER);
  if (now !== null) await patch(world, CLAIMS, now, { metadata: { finalizers: left } });
}
