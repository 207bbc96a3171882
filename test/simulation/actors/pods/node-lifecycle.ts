import type { World } from "../../world.ts";
import { attempt, isBeingDeleted, keyOf, NODES, objectAt, objectsOf, PODS, pathOf, remove } from "../objects.ts";

const WHO = "node lifecycle";
const LOOK_MS = 5_000;
/** A node that is away is noticed after this long, ms. */
const NOTICED_MS = 10_000;
const NOTICED_MORE_MS = 30_000;
/** Then its pods are marked as deleted, ms. */
const DELETED_MS = 20_000;
/** And at last somebody says that it is out of service, ms. */
const FORCED_MS = 20_000;
/** What comes of outages, in turn: a long history has each. */
const ENDS = ["removed", "forced", "awaited"] as const;

/** Kubernetes' controllers of nodes, and people who help them: nodes that are away, and what becomes of their pods. */
export function startNodeLifecycle(world: World): void {
  const sinceMs = new Map<string, number>();
  const outages = new Map<string, number>();
  const ends = new Map<string, (typeof ENDS)[number]>();
  const timer = world.clock.timer(LOOK_MS, () => {
    timer.restart();
    const nowMs = world.clock.monotonicMs();
    for (const { name, isUp } of world.machines) {
      if (isUp) {
        sinceMs.delete(name);
        continue;
      }
      const downSinceMs = sinceMs.get(name) ?? nowMs;
      if (!sinceMs.has(name)) outages.set(name, (outages.get(name) ?? 0) + 1);
      sinceMs.set(name, downSinceMs);
      const outage = `outage ${name} ${outages.get(name)}`;
      const noticedMs = NOTICED_MS + NOTICED_MORE_MS * world.faults.number(`${outage} noticed`);
      const downMs = nowMs - downSinceMs - noticedMs;
      if (downMs < 0) continue;
      const isLong = downMs >= DELETED_MS + FORCED_MS;
      if (isLong && !ends.has(outage)) ends.set(outage, ENDS[ends.size % ENDS.length] ?? "awaited");
      void follow(world, name, { end: ends.get(outage) ?? "awaited", downMs });
    }
  });
}

interface Outage {
  readonly end: (typeof ENDS)[number];
  /** Since it was noticed. */
  readonly downMs: number;
}

async function follow(world: World, name: string, { end, downMs }: Outage): Promise<void> {
  const node = objectAt(world, NODES, name);
  if (node === null) return;
  const ready = (node.status?.conditions ?? []).find(({ type }: { type: string }) => type === "Ready");
  if (ready?.status !== "Unknown") {
    world.story.tell(WHO, `has not heard of ${name} for a while`);
    world.counts.add("pod.node-unreachable");
    const status = { conditions: [{ type: "Ready", status: "Unknown" }] };
    await attempt(world.cluster.admin.patch(`${pathOf(NODES, node)}/status`, { status }));
  }
  if (downMs < DELETED_MS) return;
  const isForced = end !== "awaited";
  const pods = objectsOf(world, PODS).filter(({ spec }) => spec.nodeName === name);
  for (const pod of pods) {
    if (isBeingDeleted(pod) && !isForced) continue;
    world.story.tell(WHO, `deletes pod ${keyOf(pod)} of ${name}${isForced ? " by force" : ""}`);
    world.counts.add(isForced ? "pod.lost-with-its-node" : "pod.deleted-with-its-node");
    await remove(world, PODS, pod, isForced ? { graceSeconds: 0 } : {});
  }
  if (!isForced || end !== "removed") return;
  world.story.tell("user", `removes node ${name} from the cluster`);
  world.counts.add("pod.node-removed");
  await remove(world, NODES, node);
}
