import type { Change } from "../../harness/kube-fake/etcd.ts";
import type { ClusterParts } from "./parts.ts";
import type { SimLink } from "./sim-link.ts";

/** What is often deleted and created again under its name. */
const STORAGES = new Set([
  "/pods",
  "k8s.cni.cncf.io/ipamclaims",
  "k8s.cni.cncf.io/network-attachment-definitions",
  "kubevirt.io/virtualmachineinstances",
  "ipam.holdfast.dev/ipallocations",
]);
/** Of the deletions so many are missed by somebody. */
const PROBABILITY = 0.03;
/** Who missed it hears nothing until it is there again, or for so long, ms. */
const GAP_MS_MAX = 5_000;

interface Gap {
  readonly link: SimLink;
  readonly key: string;
  readonly untilMs: number;
}

interface Heard {
  readonly etcd: { listen(listener: (change: Change) => void): void };
  readonly links: readonly SimLink[];
}

/**
 * Somebody's watches break off when something is deleted, and go on when it has been created again: a list shows them
 * another object under the same name, and nobody ever told them that the first one went.
 */
export function makeGaps({ clock, faults, counts, story }: ClusterParts, cluster: Heard): void {
  let gap: Gap | null = null;
  const close = (open: Gap) => {
    open.link.mend();
    gap = null;
  };
  cluster.etcd.listen(({ storage, key, deleted, previous, revision }) => {
    if (!STORAGES.has(storage)) return;
    if (gap !== null) {
      if (clock.monotonicMs() >= gap.untilMs) close(gap);
      else if (previous === null && gap.key === `${storage}/${key}`) {
        counts.add("api.gap-recreated");
        story.tell(gap.link.name, `has missed how ${key} was deleted and created again`);
        close(gap);
      }
      return;
    }
    if (!deleted || !faults.decide(`gap ${revision} ${key}`, PROBABILITY)) return;
    const { links } = cluster;
    const link = links[Math.floor(faults.number(`gap ${revision}`) * links.length)];
    if (link === undefined) return;
    counts.add("api.gap");
    link.break("both", GAP_MS_MAX);
    link.cutWatches();
    gap = { link, key: `${storage}/${key}`, untilMs: clock.monotonicMs() + GAP_MS_MAX };
  });
}
