import { sleep } from "../../../../platform/time.ts";
import { Violation } from "../../engine/violation.ts";
import type { World } from "../../world.ts";
import { isOpen, NAMESPACES, objectAt } from "../objects.ts";
import { guardOf } from "../tenants/guard.ts";
import { podsOf } from "../tenants/pods.ts";
import { noteClusterEnds } from "./cluster-ends.ts";
import { answered, askCluster, askNode, type Told } from "./commands.ts";
import { touchedByHand } from "./forced.ts";
import { actAsTold } from "./left-over.ts";
import { attempted, CLAIMS, claimPath, NADS, nadPath, objectsOf, podPath } from "./look.ts";
import { recreateLosers, recreateReportedLosers, recreateTwiceLost } from "./lost-addresses.ts";
import { JOINED, put } from "./nads.ts";
import { furnish, HONEST, MALLORY, NETWORKS, plannedNads } from "./networks.ts";
import { giveBack } from "./owners.ts";
import { notePodEnds } from "./pod-ends.ts";
import { noteMissing } from "./twice-lost.ts";

/** Younger findings are not reported, seconds: shorter than the time of peace. */
const GRACE_SECONDS = 60;
/** The same when somebody looks who has lost its address: nothing is given or taken by then. */
const LOSERS_GRACE_SECONDS = 10;
/** In peace, when nodes have not compared everything with the API yet, ms. */
const EARLY_MS = 22_000;
/** In peace, when nodes have repaired what they can, ms. */
const LATE_MS = 65_000;
/**
 * In peace, when somebody looks who has lost its address, and whose networks are, ms: all has been compared by then.
 */
const LOOKS_MS = [35_000, LATE_MS];
/** Between two looks at whether a namespace is gone, ms. */
const LOOK_MS = 1_000;
const LOOKS_MAX = 60;

/** What people and tenants have broken is put right when peace begins; at its end no check finds anything. */
export function keepPeace(world: World): void {
  guardOf(world);
  notePodEnds(world);
  noteClusterEnds(world);
  noteMissing(world);
  world.onPeace({
    heal: async () => {
      world.clock.timer(EARLY_MS, () => void checkEarly(world));
      for (const afterMs of LOOKS_MS) world.clock.timer(afterMs, () => void lookAgain(world, afterMs));
      await mend(world);
    },
    check: () => checkAll(world),
  });
}

/** What attackers made goes, and definitions are as they were meant. */
async function mend(world: World): Promise<void> {
  const { admin } = world.cluster;
  for (const { metadata } of podsOf(world)) await attempted(admin.remove(podPath(MALLORY, metadata.name)));
  for (const { metadata } of objectsOf(world, CLAIMS))
    if (metadata.namespace === MALLORY) await attempted(admin.remove(claimPath(MALLORY, metadata.name)));
  for (const { metadata } of objectsOf(world, NADS)) {
    const { namespace, name } = metadata;
    if (namespace === MALLORY || name.startsWith(JOINED)) await attempted(admin.remove(nadPath(namespace, name)));
  }
  for (const namespace of HONEST) {
    const isThere = objectAt(world, NAMESPACES, namespace) !== null;
    if (isThere && !isOpen(world, namespace)) void openAgain(world, namespace);
    else if (!isThere) await furnish(world, namespace);
  }
  for (const nad of plannedNads()) await put(world, nad);
  for (const network of NETWORKS) await giveBack(world, network);
}

/** Whoever deleted it may know nothing of it any more: a restored etcd has it as it was in the middle. */
async function openAgain(world: World, namespace: string): Promise<void> {
  const isGone = () => objectAt(world, NAMESPACES, namespace) === null;
  for (let left = LOOKS_MAX; left > 0 && !isGone(); left -= 1) await sleep(world.clock, LOOK_MS);
  if (!isGone()) return;
  await furnish(world, namespace);
  for (const network of NETWORKS) await giveBack(world, network);
}

/**
 * An IPNetwork that was not there when peace began has been made since, and the older of two definitions is its
 * owner's.
 */
async function lookAgain(world: World, afterMs: number): Promise<void> {
  for (const network of NETWORKS) await giveBack(world, network);
  await recreateLosers(world);
  await recreateTwiceLost(world);
  if (afterMs >= LATE_MS) await recreateReportedLosers(world, await checkCluster(world, LOSERS_GRACE_SECONDS));
}

/** Pods that ended a moment ago are no reason to complain, though their sandboxes are there. */
async function checkEarly(world: World): Promise<void> {
  for (const machine of world.machines) {
    if (machine.daemon === null) continue;
    const told = await answered(() => askNode(machine, { path: "/v1/check" }));
    if (told.kind === "answered") world.oracle.checked(machine.name, told.body.findings);
  }
}

async function checkAll(world: World): Promise<void> {
  for (const machine of world.machines) {
    if (machine.daemon !== null)
      expectNothing(`on ${machine.name}`, await answered(() => askNode(machine, { path: "/v1/check" })));
  }
  expectNothing("--kubeconfig", await actAsTold(world, () => checkCluster(world, GRACE_SECONDS)));
  touchedByHand(world).clear();
  world.counts.add("people.check-in-peace");
}

function checkCluster(world: World, graceSeconds: number): Promise<Told> {
  const query = { grace: `${graceSeconds}` };
  return answered(() => askCluster(world, { path: "/v1/check", query }));
}

function expectNothing(where: string, told: Told): void {
  if (told.kind !== "answered") throw new Violation("check fails", `holdfast check ${where}: ${told.message}`);
  const [first, ...others] = told.body.findings;
  if (first === undefined) return;
  const more = others.length === 0 ? "" : ` (and ${others.length} more)`;
  throw new Violation(`check finds ${first.invariant}`, `holdfast check ${where}: ${first.message}${more}`);
}
