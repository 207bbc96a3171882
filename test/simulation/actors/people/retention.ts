import { sleep } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { VM_LABEL } from "../../../harness/world/kubevirt-objects.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { VM_FINALIZER } from "../kubevirt/machines.ts";
import { CLAIMS, create, isBeingDeleted, isOpen, keyOf, objectAt, objectsOf, remove, VMS } from "../objects.ts";
import { configOf, withIpam } from "./configs.ts";
import { honest, mendLater, write } from "./nads.ts";

/**
 * Networks that retain what deleted claims had, and GitOps: a VM is deleted and made again from the same text, under
 * the same name. It comes back to what it had.
 */
export const RETENTION: ActionKinds = {
  "people-nad-retain": { weight: 0.6, run: retain },
  "vm-again": { weight: 0.8, run: makeAgain },
};

export const RETENTION_OWED: readonly string[] = ["people.nad-retain", "vm.again", "vm.retained-returned"];

/** Between two looks at whether something is gone, ms. */
const LOOK_MS = 700;
const LOOKS_MAX = 120;
/** So long a tool takes between deleting and creating, ms; mostly longer than a controller needs. */
const BETWEEN_MS_MAX = 60_000;

/** For some minutes: then the definition is as it was meant, and nothing is retained any more. */
async function retain(world: World, chance: Chance): Promise<void> {
  const nads = honest(world).filter((nad) => configOf(nad)?.allowPersistentIPs === true);
  const nad = chance.of(nads);
  const config = nad && configOf(nad);
  if (!config) return;
  const retaining = withIpam(config, { retainSeconds: chance.of([20, 90, 600]) });
  for (const one of nads) {
    if (configOf(one)?.name === config.name) await write(world, one, retaining, "retain");
  }
  await mendLater(world, nad, chance.between(60_000, 400_000));
  for (const one of nads) {
    if (one !== nad && configOf(one)?.name === config.name) await mendLater(world, one, 1);
  }
}

/** A VM of a network that retains, where there is one. */
async function makeAgain(world: World, chance: Chance): Promise<void> {
  const vms = objectsOf(world, VMS).filter((one) => !isBeingDeleted(one));
  const vm =
    chance.of(vms.filter((one) => claimsOf(world, one).some((claim) => isRetained(world, claim)))) ?? chance.of(vms);
  if (vm === undefined) return;
  const { namespace, name, uid } = vm.metadata;
  const had = new Set(claimsOf(world, vm).map(listOf));
  world.story.tell("argocd", `deletes VM ${keyOf(vm)} to make it again`);
  await remove(world, VMS, vm, { propagation: chance.happens(0.5) ? "Foreground" : "Background" });
  const isThere = () => objectAt(world, VMS, keyOf(vm))?.metadata.uid === uid;
  for (let look = 0; look < LOOKS_MAX && isThere(); look += 1) await sleep(world.clock, LOOK_MS);
  await sleep(world.clock, chance.below(BETWEEN_MS_MAX));
  if (objectAt(world, VMS, keyOf(vm)) !== null || !isOpen(world, namespace)) return;
  const again = await create(world, VMS, {
    apiVersion: vm.apiVersion,
    kind: vm.kind,
    metadata: { name, namespace, finalizers: [VM_FINALIZER] },
    spec: vm.spec,
  });
  if (again === null) return;
  world.story.tell("argocd", `makes VM ${keyOf(again)} again`);
  world.counts.add("vm.again");
  for (let look = 0; look < LOOKS_MAX; look += 1) {
    const claims = claimsOf(world, again);
    if (claims.some((claim) => had.has(listOf(claim)))) world.counts.add("vm.retained-returned");
    if (claims.length > 0) return;
    await sleep(world.clock, LOOK_MS);
  }
}

function listOf({ spec, status }: KubeObject): string {
  return `${spec.network} ${status.ips.join()}`;
}

function claimsOf(world: World, { metadata }: KubeObject): KubeObject[] {
  return objectsOf(world, CLAIMS, metadata.namespace).filter(
    (claim) => claim.metadata.labels?.[VM_LABEL] === metadata.name && (claim.status?.ips ?? []).length > 0,
  );
}

function isRetained(world: World, claim: KubeObject): boolean {
  return honest(world).some((nad) => {
    const config = configOf(nad);
    return config?.name === claim.spec.network && config?.ipam.retainSeconds > 0;
  });
}
