import { sleep } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { askCluster, askNode, type Told } from "./commands.ts";
import { orderTaken } from "./forced.ts";
import { ALLOCATIONS, attempted, objectsOf, PODS, podPath } from "./look.ts";

/** Addresses are given back by hand. */
export const RELEASES: ActionKinds = {
  "people-release": { weight: 1, run: (world, chance) => release(world, chance, false) },
  "people-release-force": { weight: 0.3, run: (world, chance) => release(world, chance, true) },
  "people-release-left": { weight: 0, isInTurn: true, run: releaseLeft },
};

/** For so long somebody waits for an address whose pod is gone, s. */
const LEFT_SECONDS_MAX = 120;

/** What a pod that is gone has left, before anything of Holdfast gives it back. */
async function releaseLeft(world: World, chance: Chance): Promise<void> {
  for (let seconds = 0; seconds < LEFT_SECONDS_MAX && world.faults.isOn; seconds += 1) {
    const left = objectsOf(world, ALLOCATIONS).filter((one) => isWhole(one) && isLeft(world, one));
    const one = chance.of(left);
    if (one !== undefined) {
      await releaseOne(world, chance, one, false);
      return;
    }
    await sleep(world.clock, 1_000);
  }
}

function isLeft(world: World, { spec, status }: KubeObject): boolean {
  if (spec.owner?.kind !== "Pod" || status.state !== "Bound") return false;
  return world.cluster.etcd.get(PODS, `${spec.owner.namespace}/${spec.owner.name}`) === null;
}

/** Nothing may be taken from anybody who lives, unless by force; and by force nothing of a claim that exists. */
async function release(world: World, chance: Chance, force: boolean): Promise<void> {
  const one = chance.of(objectsOf(world, ALLOCATIONS).filter(isWhole));
  if (one !== undefined) await releaseOne(world, chance, one, force);
}

async function releaseOne(world: World, chance: Chance, one: KubeObject, force: boolean): Promise<void> {
  const { network, address } = one.spec;
  const text = address.split("/")[0];
  const machine = chance.happens(0.5) ? chance.of(world.machines.filter(({ daemon }) => daemon !== null)) : undefined;
  const where = machine === undefined ? "--kubeconfig" : `on ${machine.name}`;
  if (force) orderTaken(world, one, "release --force");
  else if (one.status.state === "Retained") orderTaken(world, one, "release of what is retained");
  // Nothing but whoever releases it can know whether a container of it still runs (docs/known-limits.md).
  else if (isLeft(world, one) && Object.keys(one.status.attachments ?? {}).length === 0)
    orderTaken(world, one, "release of what was there before");
  const body = { network, address: text, force };
  const asked = { method: "POST", path: "/v1/release", body } as const;
  const outcome = await (machine === undefined ? askCluster(world, asked) : askNode(machine, asked));
  const what = `holdfast release ${text} --network ${network}${force ? " --force" : ""} ${where}`;
  world.story.tell("alice", `${what}: ${said(outcome)}`);
  const kind = force ? "release-force" : "release";
  world.counts.add(`people.${kind}.${outcome.kind === "answered" ? "done" : outcome.kind}`);
  if (force && outcome.kind === "answered") await afterwards(world, one);
}

/** Who takes an address away makes its pod anew, as the documents tell. */
async function afterwards(world: World, { spec }: KubeObject): Promise<void> {
  if (spec.owner.kind !== "Pod") return;
  await sleep(world.clock, 2_000);
  await attempted(world.cluster.admin.remove(podPath(spec.owner.namespace, spec.owner.name), { graceSeconds: 1 }));
}

export function said(outcome: Told): string {
  if (outcome.kind === "answered") return "done";
  return outcome.kind === "refused" ? `${outcome.code} ${outcome.message}` : `no answer, ${outcome.message}`;
}

/** An object that somebody edited may lack anything. */
function isWhole({ spec, status }: KubeObject): boolean {
  return typeof spec?.network === "string" && typeof spec.address === "string" && status?.state !== undefined;
}
