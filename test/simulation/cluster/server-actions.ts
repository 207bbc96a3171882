import { sleep } from "../../../platform/time.ts";
import { PROOF_MS_MAX } from "../../../store/cluster/contact/continuity.ts";
import type { ApiServer } from "../../harness/kube-fake/api-server.ts";
import type { Chance } from "../engine/chance.ts";
import type { ActionKinds, World } from "../world.ts";
import { type SimCluster, simClusterOf } from "./cluster.ts";

const WHO = "api server";
/** Kinds whose caches lag, or which are not served for a while. KubeVirt's are always served. */
const LAGGING = [
  "/pods",
  "/nodes",
  "ipam.holdfast.dev/ipallocations",
  "ipam.holdfast.dev/ipnetworks",
  "k8s.cni.cncf.io/ipamclaims",
  "k8s.cni.cncf.io/network-attachment-definitions",
  "kubevirt.io/virtualmachines",
  "kubevirt.io/virtualmachineinstances",
  "ipam.cluster.x-k8s.io/ipaddressclaims",
  "ipam.cluster.x-k8s.io/ipaddresses",
] as const;
const WITHHELD = [
  "ipam.holdfast.dev/ipallocations",
  "ipam.holdfast.dev/ipnetworks",
  "ipam.holdfast.dev/addresspools",
  "k8s.cni.cncf.io/ipamclaims",
  "k8s.cni.cncf.io/network-attachment-definitions",
  "ipam.cluster.x-k8s.io/ipaddressclaims",
  "k8s.ovn.org/userdefinednetworks",
] as const;
/** By `etcdctl snapshot restore --bump-revision`. */
const BUMPED = 1_000_000;

/** What happens to the API servers and to etcd. */
export const serverActions: ActionKinds = {
  "api-restart": {
    weight: 0.5,
    run: (world, chance) => {
      const { front } = simClusterOf(world);
      if (front.isAway) return;
      told(world, "restart", "is restarted");
      front.stop();
      front.start(chance.below(4_000));
    },
  },
  "api-away": {
    weight: 0.4,
    run: async (world, chance) => {
      const { front } = simClusterOf(world);
      if (front.isAway) return;
      const ms = chance.happens(0.3) ? chance.between(10_000, 60_000) : chance.between(300, 8_000);
      told(world, "away", `goes away for ${ms} ms`);
      front.stop();
      await later(world, ms, () => {
        world.story.tell(WHO, "is back");
        front.start(chance.below(5_000));
      });
    },
  },
  "api-forgets-roles": {
    weight: 0.3,
    run: (world, chance) => {
      const ms = chance.between(500, 8_000);
      told(world, "starting", `refuses requests for ${ms} ms: it reads its roles`);
      simClusterOf(world).front.starting(ms);
    },
  },
  "api-slow": {
    weight: 0.4,
    run: async (world, chance) => {
      const { front } = simClusterOf(world);
      const ms = chance.between(1_000, 30_000);
      front.slowMs = chance.between(100, 2_500);
      told(world, "slow", `takes up to ${front.slowMs} ms longer for ${ms} ms`);
      await later(world, ms, () => {
        front.slowMs = 0;
      });
    },
  },
  /** Only where `--more` says so: its weight would change what every seed means. */
  "api-overloaded": {
    weight: 0,
    run: async (world, chance) => {
      const { front } = simClusterOf(world);
      const ms = chance.between(1_000, 60_000);
      const load = { slowMs: chance.between(100, 2_500), refusedShare: chance.between(5, 60) / 100 };
      const percent = Math.round(load.refusedShare * 100);
      told(
        world,
        "overloaded",
        `refuses ${percent} % of what is asked and takes up to ${load.slowMs} ms longer for ${ms} ms`,
      );
      front.load(load);
      await later(world, ms, () => front.load({ slowMs: 0, refusedShare: 0 }));
    },
  },
  "api-compact": {
    weight: 0.5,
    run: (world) => {
      told(world, "compaction", "has etcd compacted");
      simClusterOf(world).front.compact();
    },
  },
  "api-lag": { weight: 1, run: lag },
  "api-balance": {
    weight: 0.3,
    run: async (world, chance) => {
      const { front } = simClusterOf(world);
      const ms = chance.between(2_000, 60_000);
      told(world, "balanced", `shares requests with another one for ${ms} ms`);
      front.isBalanced = true;
      await later(world, ms, () => {
        front.isBalanced = false;
      });
    },
  },
  "api-withhold": {
    weight: 0.3,
    run: async (world, chance) => {
      const { front } = simClusterOf(world);
      const storage = chance.of(WITHHELD) as string;
      const ms = chance.between(500, 20_000);
      told(world, "404-kind", `does not serve ${storage} for ${ms} ms`);
      for (const server of front.servers) server.withhold(storage, true);
      await later(world, ms, () => {
        for (const server of front.servers) server.withhold(storage, false);
      });
    },
  },
  "etcd-restore": { weight: 0.12, run: restore },
  "kube-controllers-away": {
    weight: 0.3,
    run: async (world, chance) => {
      const { caretakers } = simClusterOf(world);
      const ms = chance.between(3_000, 60_000);
      told(world, "caretakers-away", `kube-controller-manager does not run for ${ms} ms`);
      caretakers.isAway = true;
      await later(world, ms, () => {
        caretakers.isAway = false;
      });
    },
  },
};

/** The cache of some kinds hears of changes late, in portions. */
async function lag(world: World, chance: Chance): Promise<void> {
  const { servers } = simClusterOf(world).front;
  const storage = chance.of(LAGGING) as string;
  const server = chance.of(servers) as ApiServer;
  const ms = chance.between(300, 15_000);
  told(world, "cache-lag", `remembers an older state of ${storage} for ${ms} ms`);
  server.holdCache(storage);
  for (let leftMs = ms; leftMs > 0; ) {
    const pauseMs = Math.min(leftMs, chance.between(100, 3_000));
    leftMs -= pauseMs;
    await later(world, pauseMs, () => {
      if (leftMs <= 0) server.releaseCache(storage);
      else server.releaseCache(storage, chance.below(4));
    });
  }
}

/** Somebody restores etcd from a backup some seconds old: the servers are stopped meanwhile. */
async function restore(world: World, chance: Chance): Promise<void> {
  const cluster = simClusterOf(world);
  const { front } = cluster;
  const saved = cluster.save();
  // No younger one is restored: a node takes a younger write of its own for the proof that nothing is lost.
  const ageMs = chance.between(PROOF_MS_MAX, 20_000);
  const bumped = chance.happens(0.5) ? BUMPED : 0;
  const downMs = chance.between(200, 4_000);
  await later(world, ageMs, () => {
    if (!front.isAway) front.stop();
  });
  if (!front.isAway) return;
  await later(world, downMs, () => {
    const how = bumped > 0 ? "with its revisions moved on" : "with its revisions of then";
    const name = bumped > 0 ? "restore-bumped" : "restore";
    // Another outage may have ended meanwhile: who restores stops the servers again.
    front.stop();
    told(world, name, `is back over an etcd restored to its state ${ageMs + downMs} ms ago, ${how}`);
    cluster.restore(saved, bumped);
    front.start();
  });
}

function told({ counts, story }: World, name: string, what: string): void {
  counts.add(`api.${name}`);
  story.tell(WHO, what);
}

/** Unless peace comes in between, which has put right what was to be done. */
async function later(world: World, ms: number, then: () => void): Promise<void> {
  const cluster: SimCluster = simClusterOf(world);
  const { peaces } = cluster;
  await sleep(world.clock, ms);
  if (cluster.peaces === peaces) then();
}
