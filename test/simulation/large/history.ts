import { sleep } from "../../../platform/time.ts";
import { podObject } from "../../harness/world/kubevirt-objects.ts";
import { simClusterOf } from "../cluster/cluster.ts";
import { Violation } from "../engine/violation.ts";
import { judgeReads } from "../oracle/reads.ts";
import type { Action, ActionKind, ActionKinds, World } from "../world.ts";
import { NAMESPACE, NETWORKS, networkName } from "./prepared.ts";

/** Each on a network of its own. */
const PODS_OF_NODE = 5;
/** Between the networks of one node. */
const NETWORK_STEP = 37;
/**
 * How much longer everything takes on a server that has too much to do, ms, and which share of what is asked it
 * refuses.
 */
const BUSY = { slowMs: 1_000, refusedShare: 0.3 } as const;
/** A server that has just started refuses some requests for so long, ms. */
const STARTING_MS = 3_000;
const LOOK_MS = 1_000;

/**
 * What happens, and how long after what was before, s. Where everything must be served again, it says within which
 * time.
 */
const EVENTS = [
  ["power-off", 1],
  ["power-on", 5],
  ["calm", 180],
  ["served", 30],
  ["more-pods", 1],
  ["served", 60],
  ["restart", 1],
  ["served", 60],
  ["gap", 1],
  ["back", 60],
  ["served", 60],
  ["billed", 60],
  ["peace", 1],
  ["rest", 120],
  ["served", 3_600],
  ["billed", 1],
] as const;

export const LARGE_HISTORY: readonly Action[] = EVENTS.map(([kind, seconds], at) => ({
  kind: `large-${kind}`,
  afterMs: seconds * 1_000,
  seed: at,
}));

export const LARGE_KINDS: ActionKinds = {
  "large-power-off": phase("power-off", (world) => {
    for (const machine of world.machines) machine.losePower();
  }),
  "large-power-on": phase("power-on", (world) => {
    simClusterOf(world).front.load(BUSY);
    for (const machine of world.machines) machine.boot();
  }),
  "large-calm": only((world) => simClusterOf(world).front.load({ slowMs: 0, refusedShare: 0 })),
  "large-served": only((world) => {
    const why = whyNotServed(world);
    if (why !== null) throw new Violation("not-ready", why);
  }),
  "large-more-pods": phase("more-pods", (world) => startPods(world, "later", 1)),
  "large-restart": phase("restart", (world) => {
    for (const machine of world.machines) machine.restartDaemon();
  }),
  "large-gap": phase("gap", (world) => simClusterOf(world).front.stop()),
  "large-back": only((world) => simClusterOf(world).front.start(STARTING_MS)),
  /** Nothing goes wrong any more; what went wrong a moment before is still read again. */
  "large-peace": phase("peace", (world) => {
    world.faults.isOn = false;
  }),
  /** From now on whatever is asked is asked for no reason but time. */
  "large-rest": phase("rest", () => {}),
  "large-billed": only((world) => {
    const { bill } = simClusterOf(world);
    if (bill !== null) judgeReads(bill);
  }),
};

/** The first pods are served when it resolves. */
export async function setUpLarge(world: World): Promise<void> {
  // Nothing here has an owner that could go.
  simClusterOf(world).caretakers.isAway = true;
  await startPods(world, "first", PODS_OF_NODE);
  while (whyNotServed(world) !== null) await sleep(world.clock, LOOK_MS);
}

function only(run: ActionKind["run"]): ActionKind {
  return { weight: 0, run };
}

/** What is asked from then on is charged to it. */
function phase(name: string, run: ActionKind["run"]): ActionKind {
  return only((world, chance) => {
    const { bill } = simClusterOf(world);
    if (bill !== null) bill.phase = name;
    world.story.tell("the world", name);
    return run(world, chance);
  });
}

/** So many more on each node. */
async function startPods({ machines, cluster: { admin } }: World, name: string, count: number): Promise<void> {
  for (const [at, { name: node }] of machines.entries())
    for (let index = 0; index < count; index += 1) {
      const networks = [{ name: networkName((at + index * NETWORK_STEP) % NETWORKS) }];
      const pod = podObject(NAMESPACE, { name: `${name}-${node}-${index}` }, { node, networks });
      await admin.create(`/api/v1/namespaces/${NAMESPACE}/pods`, pod);
    }
}

/** null: every node is ready, and every pod has its interface. */
function whyNotServed({ machines, cluster: { etcd } }: World): string | null {
  const pods = new Map<string, number>();
  for (const { object } of etcd.range("/pods", "")) {
    const { nodeName } = object.spec;
    pods.set(nodeName, (pods.get(nodeName) ?? 0) + 1);
  }
  for (const { name, daemon, interfaces } of machines) {
    const problem = daemon === null ? "no daemon runs" : daemon.core.notReady();
    if (problem !== null) return `${name} is not ready: ${problem}`;
    const wanted = pods.get(name) ?? 0;
    if (interfaces.size < wanted) return `${name} has ${interfaces.size} of ${wanted} interfaces`;
  }
  return null;
}
