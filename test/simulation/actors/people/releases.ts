import type { KubeObject } from "../../../../kube/fake/objects.ts";
import { sleep } from "../../../../platform/time.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { askCluster, askNode, type Told } from "./commands.ts";
import { orderTaken } from "./forced.ts";
import { ALLOCATIONS, attempted, objectsOf, podPath } from "./look.ts";

/** Addresses are given back by hand. */
export const RELEASES: ActionKinds = {
  "people-release": { weight: 1, run: (world, chance) => release(world, chance, false) },
  "people-release-force": { weight: 0.3, run: (world, chance) => release(world, chance, true) },
};

/** Nothing may be taken from anybody who lives, unless by force; and by force nothing of a claim that exists. */
async function release(world: World, chance: Chance, force: boolean): Promise<void> {
  const one = chance.of(objectsOf(world, ALLOCATIONS).filter(isWhole));
  if (one === undefined) return;
  const { network, address } = one.spec;
  const text = address.split("/")[0];
  const machine = chance.happens(0.5)
    ? chance.of(world.machines.filter(({ daemon }) => daemon !== null))
    : undefined;
  const where = machine === undefined ? "--kubeconfig" : `on ${machine.name}`;
  if (force) orderTaken(world, one, "release --force");
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
  await attempted(
    world.cluster.admin.remove(podPath(spec.owner.namespace, spec.owner.name), { graceSeconds: 1 }),
  );
}

export function said(outcome: Told): string {
  if (outcome.kind === "answered") return "done";
  return outcome.kind === "refused" ? `${outcome.code} ${outcome.message}` : `no answer, ${outcome.message}`;
}

/** An object that somebody edited may lack anything. */
function isWhole({ spec, status }: KubeObject): boolean {
  return typeof spec?.network === "string" && typeof spec.address === "string" && status?.state !== undefined;
}
