import { sleep } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { Chance } from "../../engine/chance.ts";
import { Violation } from "../../engine/violation.ts";
import type { ActionKinds, World } from "../../world.ts";
import { ALLOCATIONS, attempted, CLAIMS, claimPath, EVENTS, objectsOf } from "../people/look.ts";
import { MALLORY, nadsNow } from "../people/networks.ts";
import { mustNotUse, mustNotUseClaim } from "./guard.ts";
import { endLater, makePod, tellAttack } from "./pods.ts";

/** Claims of others are named, and addresses of others are claimed. What is claimed by a VM serves that VM alone. */
export const CLAIM_ATTACKS: ActionKinds = {
  "attack-thief": { weight: 0.5, run: thief },
  "attack-thief-afar": { weight: 0.3, run: thiefAfar },
  "attack-claim-prefilled": { weight: 0.3, run: prefilled },
};

/** Events on one claim that tell of attempts: somebody who tries again and again must not fill the API server. */
const TOLD_MAX = 60;

/** A pod beside the VM, which names the VM's claim. */
async function thief(world: World, chance: Chance): Promise<void> {
  const claim = chance.of(claimsOfVms(world));
  const nad = claim && nadsNow(world).find(({ network }) => network === claim.spec.network);
  if (!claim || !nad) return;
  const { namespace, name } = claim.metadata;
  const other = chance.of(claimsOfVms(world).filter((one) => !isOfOneMachine(one, claim)));
  // As if it were a launcher of some other machine, or of none.
  const [owner] = other?.metadata.ownerReferences ?? [];
  const ownerReferences = owner && chance.happens(0.3) ? [{ ...owner, controller: true }] : [];
  const pod = await makePod(world, chance, {
    namespace,
    ownerReferences: ownerReferences.map(({ blockOwnerDeletion: _, ...rest }) => rest),
    networks: [{ namespace: nad.namespace, name: nad.name, interface: "net1", "ipam-claim-reference": name }],
  });
  if (pod === null) return;
  tellAttack(world, "thief", `makes pod ${namespace}/${pod.metadata.name}, which names claim ${name} of a VM`);
  mustNotUseClaim(
    world,
    pod.metadata.uid,
    claim,
    `it is claim ${namespace}/${name}'s, and pod ${pod.metadata.name} uses it`,
  );
  await sleep(world.clock, 15_000);
  checkTold(world, claim);
  await endLater(world, pod, chance.between(1_000, 30_000));
}

/** From another namespace, by its name or as if the pod were the VM's. */
async function thiefAfar(world: World, chance: Chance): Promise<void> {
  const claim = chance.of(claimsOfVms(world));
  const nad = claim && nadsNow(world).find(({ network }) => network === claim.spec.network);
  if (!claim || !nad) return;
  const { namespace, name, ownerReferences } = claim.metadata;
  const reference = chance.happens(0.5) ? name : `${namespace}/${name}`;
  const forged = ownerReferences.map(({ apiVersion, kind, name: vm, uid: of }: KubeObject) => ({
    apiVersion,
    kind: kind === "VirtualMachine" ? "VirtualMachineInstance" : kind,
    name: vm,
    uid: of,
    controller: true,
  }));
  const pod = await makePod(world, chance, {
    ownerReferences: forged,
    networks: [{ namespace: nad.namespace, name: nad.name, interface: "net1", "ipam-claim-reference": reference }],
  });
  if (pod === null) return;
  tellAttack(world, "thief-afar", `makes pod ${MALLORY}/${pod.metadata.name}, which names claim ${reference}`);
  mustNotUseClaim(
    world,
    pod.metadata.uid,
    claim,
    `it is claim ${namespace}/${name}'s, and pod ${pod.metadata.name} uses it`,
  );
  await endLater(world, pod, chance.between(10_000, 40_000));
}

/** A claim of one's own that comes with addresses of others. */
async function prefilled(world: World, chance: Chance): Promise<void> {
  const held = objectsOf(world, ALLOCATIONS).filter(
    ({ spec, status }) => status?.state === "Bound" && spec?.owner?.namespace !== MALLORY,
  );
  const victim = chance.of(held);
  const nad = victim && nadsNow(world).find(({ network }) => network === victim.spec.network);
  if (!victim || !nad || !world.faults.isOn) return;
  const name = `prefilled-${chance.below(1_000)}`;
  const claim = await attempted(
    world.cluster.admin.create(claimPath(MALLORY), {
      apiVersion: "k8s.cni.cncf.io/v1alpha1",
      kind: "IPAMClaim",
      metadata: { namespace: MALLORY, name, annotations: { "simulation/prefilled": "" } },
      spec: { network: nad.network, interface: "net1" },
    }),
  );
  if (claim === null) return;
  const status = { ips: [victim.spec.address] };
  await attempted(world.cluster.admin.patch(`${claimPath(MALLORY, name)}/status`, { status }));
  tellAttack(world, "claim-prefilled", `claims ${victim.spec.address} of ${nad.network} for ${MALLORY}/${name}`);
  const pod = await makePod(world, chance, {
    networks: [{ namespace: nad.namespace, name: nad.name, interface: "net1", "ipam-claim-reference": name }],
  });
  if (pod !== null) {
    const { owner } = victim.spec;
    mustNotUse(world, pod.metadata.uid, owner.uid, `it is ${owner.namespace}/${owner.name}'s, and ${name} listed it`);
    await endLater(world, pod, chance.between(10_000, 60_000));
  }
  await sleep(world.clock, chance.between(0, 30_000));
  await attempted(world.cluster.admin.remove(claimPath(MALLORY, name)));
}

/** Who owns the claim can see who tried, and is not flooded with it. */
function checkTold(world: World, { metadata }: KubeObject): void {
  const told = objectsOf(world, EVENTS).filter(({ involvedObject }) => involvedObject?.uid === metadata.uid);
  if (told.some(({ reason }) => reason === "ClaimInUse" || reason === "IPAddressConflict" || /Owner/.test(reason)))
    world.counts.add("attack.thief-told");
  if (told.length > TOLD_MAX)
    throw new Violation("attack floods", `claim ${metadata.namespace}/${metadata.name} has ${told.length} events`);
}

/** A pod that names the machine itself as its owner is a launcher of it for everybody (docs/known-limits.md). */
function isOfOneMachine({ metadata: a }: KubeObject, { metadata: b }: KubeObject): boolean {
  return a.namespace === b.namespace && a.ownerReferences[0]?.name === b.ownerReferences[0]?.name;
}

function claimsOfVms(world: World): KubeObject[] {
  return objectsOf(world, CLAIMS).filter(
    ({ metadata }) => metadata.namespace !== MALLORY && (metadata.ownerReferences ?? []).length > 0,
  );
}
