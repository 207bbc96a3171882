import { expect, test, vi } from "vitest";
import { newAllocation } from "../../../allocations/allocation-object.ts";
import {
  type CachedAllocation,
  type Caches,
  type ClaimViewWithFact,
  cachedFacts,
  projectAllocation,
} from "../../../claims/reasons/caches.ts";
import { claimSays } from "../../../claims/reasons/claim-says.ts";
import { claimFact, projectSweptPod, type SweptPod } from "../../../claims/reasons/fact-views.ts";
import { type NodeFact, present, type Wants } from "../../../claims/reasons/facts.ts";
import { NO_MEMORY } from "../../../claims/reasons/read-facts.ts";
import * as relations from "../../../claims/reasons/relations.ts";
import { StoppedPods } from "../../../claims/reasons/stopped-pods.ts";
import type { Rules } from "../../../claims/reasons/verdict.ts";
import { followChanges } from "../../../controller/sweep/follow-changes.ts";
import { Sweeper } from "../../../controller/sweep/sweeper.ts";
import { preallocationUid } from "../../../ipam/owner.ts";
import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import { API_VERSION, type IPAllocation, type IPNetwork } from "../../../kube/objects.ts";
import type { Reflected } from "../../../kube/reflected-items.ts";
import { type AddressPoolView, projectAddressPool } from "../../../kube/views/address-pool-view.ts";
import { projectClaim } from "../../../kube/views/claim-view.ts";
import {
  type CapiClusterView,
  type MachineAddressView,
  type MachineClaimView,
  projectCapiCluster,
  projectMachineAddress,
  projectMachineClaim,
} from "../../../kube/views/machine-claim-view.ts";
import { definitionWith, RULES } from "../../claims/judged.ts";
import { KubeInMemory } from "../../harness/kube-in-memory.ts";
import { VirtualTime } from "../../harness/virtual-time.ts";
import { define } from "../../ipam/definitions.ts";
import { WrittenCopy } from "./written-copy.ts";

// Whatever changes in the copies, in whatever order: after a turn every verdict is the one that a look at everything
// finds.

const BEGIN_SEED = Number(process.env.HOLDFAST_TEST_SEED ?? Math.floor(Math.random() * 2 ** 30));
const SEEDS = Number(process.env.HOLDFAST_TEST_ROUNDS ?? 12);
const CHANGES = 250;
const TIMES = ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"] as const;
const NAMES = ["a", "a.x", "b"] as const;
const NETWORKS = ["blue", "red"] as const;
/** One that retains, one of smaller subnets, and none. */
const DEFINITIONS = [
  definitionWith({ cooldownSeconds: 60 }),
  definitionWith({ cooldownSeconds: 60, retainSeconds: 600 }),
  () => define({ subnets: "10.0.0.0/31,10.0.0.2/31" }),
  () => null,
] as const;
const POOL_REF = { apiGroup: API_VERSION.split("/")[0], kind: "AddressPool", name: "a" };

/** Copies in which anything may happen, and a sweeper that is told of it. */
class ChangingWorld {
  readonly #api: KubeInMemory;
  readonly #chance: () => number;
  readonly #copies = {
    allocations: new WrittenCopy<CachedAllocation>(),
    claims: new WrittenCopy<ClaimViewWithFact>(),
    pods: new WrittenCopy<SweptPod>(),
    nodes: new WrittenCopy<NodeFact & Reflected>(),
    networks: new WrittenCopy<{ object: IPNetwork }>(),
  };
  readonly #machines = {
    claims: new WrittenCopy<MachineClaimView>(),
    addresses: new WrittenCopy<MachineAddressView>(),
    pools: new WrittenCopy<AddressPoolView>(),
    clusters: new WrittenCopy<CapiClusterView>(),
  };
  readonly #data = new WrittenCopy<Reflected>();
  readonly #stoppedPods = new StoppedPods();
  readonly #seenPaused = new Set<string>();
  readonly #definitions = new Map<string, number>();
  readonly #nads = new Map<string, string>();
  readonly #namesOf = new Map<string, Set<string>>();
  /** By the claim's UID. */
  readonly #wanted = new Map<string, Wants>();
  readonly #caches: Caches;
  readonly #rules: Rules;
  readonly sweeper: Sweeper;
  readonly #steps = this.#story();
  #version = 0;

  constructor(seed: number) {
    const clock = new VirtualTime(seed).clock({ seed });
    this.#api = new KubeInMemory(clock);
    this.#chance = () => clock.random();
    this.#caches = {
      ...this.#copies,
      stoppedPods: this.#stoppedPods,
      catalog: { networkOfNad: (nad) => this.#nads.get(nad) ?? null },
      namesOf: (claim) => this.#namesOf.get(claim) ?? [],
      wanted: this.#wanted,
      machines: {
        ...{ ...NO_MEMORY, ...this.#machines, data: this.#data, networks: this.#copies.networks },
        wasSeenPaused: (cluster) => this.#seenPaused.has(cluster),
        namespaceOf: () => present({ isEnding: false, creationTimestamp: "2020-01-01T00:00:00Z" }),
      },
    };
    this.#rules = {
      ...RULES,
      definitionOf: (network) => DEFINITIONS[this.#definitions.get(network) ?? 0]?.(network) ?? null,
    };
    this.sweeper = new Sweeper({
      ...{ api: this.#api, caches: this.#caches, rules: this.#rules },
      intervalSeconds: 10,
      doubt: () => null,
      idle: () => "nothing is carried out here",
      log: { debug() {}, info() {}, warn() {} },
    });
    // As the controller does, before anybody else looks.
    this.#copies.allocations.onChange((now, before) => {
      for (const one of [before, now]) {
        if (one?.ownerKind !== "IPAMClaim") continue;
        const { uid } = one.object.spec.owner;
        const names = this.#namesOf.get(uid) ?? new Set();
        if (one === now) names.add(one.key);
        else names.delete(one.key);
        this.#namesOf.set(uid, names);
      }
    });
    followChanges({ ...this.#copies, machines: this.#machines, data: this.#data }, this.sweeper);
  }

  /** What a look at everything finds. */
  get counts(): Record<string, number> {
    const facts = cachedFacts(this.#caches);
    const counts: Record<string, number> = {};
    for (const one of this.#copies.allocations.items.values()) {
      const { kind, why } = relations.judge(one, facts, this.#rules);
      counts[`${kind} ${why}`] = (counts[`${kind} ${why}`] ?? 0) + 1;
    }
    return counts;
  }

  /** A claim with two addresses of one subnet, whose VM goes to another network, and then to one of others. */
  *#story(): Generator<string> {
    const { allocations, claims, pods } = this.#copies;
    const metadata = { namespace: "shop", name: "story", uid: "claim-story", creationTimestamp: TIMES[0] };
    const { namespace, name, uid } = metadata;
    const owner = { kind: "IPAMClaim", namespace, name, uid, interface: "" } as const;
    for (const [network, text] of [
      ["blue", "10.0.0.21/24"],
      ["blue", "10.0.0.22/24"],
      ["red", "10.9.0.23/24"],
    ] as const) {
      const made = newAllocation(network, parseInterfaceAddress(text), { owner, attachment: null }, TIMES[0]);
      const version = { uid: text, resourceVersion: `${++this.#version}` };
      const object = { ...made, metadata: { ...made.metadata, ...version } } as unknown as IPAllocation;
      allocations.set(object.metadata.name, projectAllocation(object));
    }
    const vm = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name, uid: "vm" };
    const said = { ...metadata, ownerReferences: [vm], resourceVersion: `${++this.#version}` };
    claims.set("shop/story", claimOf(said, { network: "blue", ips: [] }));
    yield "a claim with three addresses";
    this.#stop(claims.items.get("shop/story") as ClaimViewWithFact, "red");
    yield "its VM is to be elsewhere";
    this.#stop(claims.items.get("shop/story") as ClaimViewWithFact, null);
    yield "its VM is to be where no claim follows";
    const vmi = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachineInstance", name, uid: "vmi", controller: true };
    const launcher = { ...said, name: "launcher", uid: "launcher", ownerReferences: [vmi] };
    const running = { metadata: launcher, spec: { nodeName: "a" }, status: { phase: "Running" } };
    pods.set("shop/launcher", projectSweptPod(running));
    yield "its launcher";
    pods.delete("shop/launcher");
    yield "its launcher has ended";
  }

  /** One change. Returns what it is, for the message of a failure. */
  change(): string {
    const step = this.#steps.next();
    if (step.done !== true) return step.value;
    const { claims, pods, nodes, networks } = this.#copies;
    // Half of everything is about two, which so come to have several addresses.
    const isUsual = this.#chance() < 0.5;
    const name = isUsual ? this.#pick([NAMES[0], NAMES[1]]) : this.#pick(NAMES);
    const key = `shop/${name}`;
    const network = this.#pick(NETWORKS);
    const metadata = {
      ...{ namespace: "shop", name, uid: `${name}${isUsual ? 1 : this.#pick([1, 2])}` },
      ...{ resourceVersion: `${++this.#version}`, creationTimestamp: this.#pick(TIMES) },
    };
    const isGone = this.#chance() < 0.3;
    const put = <T extends object>(copy: WrittenCopy<T>, of: string, item: () => T) => {
      if (isGone) copy.delete(of);
      else copy.set(of, item());
      return `${isGone ? "no" : "a"} ${of}`;
    };
    switch (this.#pick([0, 0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 13, 13] as const)) {
      case 0:
        return `allocation: ${this.#allocate(metadata, isGone)}`;
      case 1: {
        const ips = this.#some(["10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24"]);
        const vm = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name, uid: "vm" };
        const ownerReferences = this.#chance() < 0.5 ? [vm] : [];
        const named = { ...metadata, uid: `claim-${metadata.uid}`, ownerReferences };
        return `claim: ${put(claims, key, () => claimOf(named, { network, ips }))}`;
      }
      case 2: {
        const before = pods.items.get(key);
        const pod = projectSweptPod(this.#pod(metadata));
        if (before !== undefined && (isGone || before.uid !== pod.uid)) this.#stoppedPods.noteGone(before);
        return `pod: ${put(pods, key, () => pod)}`;
      }
      case 3: {
        const fact = { unreachable: this.#chance() < 0.5 };
        return `node: ${put(nodes, name, () => ({ ...metadata, key: name, ...fact }))}`;
      }
      case 4: {
        const pausedClusters = this.#some(["shop/a", "shop/b"]);
        const object = { metadata: { name: network }, spec: { network }, status: { pausedClusters } };
        return `network: ${put(networks, network, () => ({ object }) as unknown as { object: IPNetwork })}`;
      }
      case 5:
        this.#definitions.set(network, this.#pick([0, 0, 1, 2, 3]));
        this.#nads.set("shop/a", network);
        this.sweeper.definitionsChanged();
        return "definitions";
      case 6: {
        const spec = { poolRef: POOL_REF, clusterName: this.#pick(["a", "b"]) };
        return `machine's claim: ${put(this.#machines.claims, key, () => projectMachineClaim({ metadata, spec }))}`;
      }
      case 7: {
        const spec = { claimRef: { name }, poolRef: POOL_REF, address: this.#pick(["10.0.0.1", "10.0.0.2"]) };
        return `address: ${put(this.#machines.addresses, key, () => projectMachineAddress({ metadata, spec }))}`;
      }
      case 8: {
        const paused = this.#chance() < 0.5;
        const cluster = projectCapiCluster({ metadata, spec: { paused } });
        if (!isGone && paused) this.#seenPaused.add(key);
        else if (!isGone) this.#seenPaused.delete(key);
        return `cluster: ${put(this.#machines.clusters, key, () => cluster)}`;
      }
      case 9: {
        const preallocations = { [name]: "10.0.0.1" };
        const numbered = { ...metadata, generation: this.#version };
        const pool = () => projectAddressPool({ metadata: numbered, spec: { network, preallocations } });
        return `pool: ${put(this.#machines.pools, key, pool)}`;
      }
      case 10:
        return `data: ${put(this.#data, key, () => ({ ...metadata, key }))}`;
      case 11: {
        const copy = this.#pick([claims, ...Object.values(this.#machines), this.#data]);
        copy.known = !copy.known;
        return "what is known";
      }
      case 12: {
        const wants = {
          network: this.#pick(["blue", "red", null]),
          asks: this.#some(["10.0.0.1"]),
          vmi: this.#pick(["vmi", null]),
          nad: "shop/a",
        };
        const uid = `claim-${metadata.uid}`;
        if (isGone) this.#wanted.delete(uid);
        else this.#wanted.set(uid, wants);
        this.sweeper.factChanged("claim", key);
        return `wants of ${key}`;
      }
      case 13: {
        const claim = this.#pick([...claims.items.values()]);
        if (claim === undefined) return "nothing";
        this.#stop(claim, this.#pick(["blue", "red", null]));
        return `${claim.key} stops`;
      }
    }
  }

  /** Nobody is attached to what it has any more, and it says what that is, as far as it is known. */
  #stop({ fact, ...claim }: ClaimViewWithFact, network: string | null): void {
    const { allocations, claims } = this.#copies;
    for (const name of [...(this.#namesOf.get(claim.uid) ?? [])]) {
      const { object } = allocations.items.get(name) as CachedAllocation;
      const metadata = { ...object.metadata, resourceVersion: `${++this.#version}` };
      allocations.set(name, projectAllocation({ ...object, metadata, status: { ...object.status, attachments: {} } }));
    }
    this.#wanted.set(claim.uid, { network, asks: [], vmi: "vmi", nad: "shop/a" });
    this.sweeper.factChanged("claim", claim.key);
    const facts = cachedFacts(this.#caches);
    const [had, wants] = [facts.had(fact, []), facts.wants(fact)];
    if (had.kind !== "present" || wants.kind !== "present") return;
    const says = claimSays(fact, had.it, wants.it, facts, this.#rules);
    if (says.kind !== "present") return;
    const metadata = { ...claim, ownerReferences: claim.owners, resourceVersion: `${++this.#version}` };
    claims.set(claim.key, claimOf(metadata, says.it));
  }

  #allocate({ uid, name }: { uid: string; name: string }, isGone: boolean): string {
    const network = this.#pick(NETWORKS);
    const value = 0x0a000001n + BigInt(Math.floor(this.#chance() * 3));
    const kind = this.#pick([
      "IPAMClaim",
      "IPAMClaim",
      "IPAMClaim",
      "Pod",
      "Container",
      "IPAddressClaim",
      "Metal3Data",
    ]);
    const isKept = kind === "IPAddressClaim" && this.#chance() < 0.3;
    const cluster = this.#pick(["a", "b", undefined]);
    const owner = {
      ...{ kind, namespace: "shop", name, interface: "a" },
      uid: kind === "IPAMClaim" ? `claim-${uid}` : isKept ? preallocationUid(uid) : uid,
      ...(cluster && { cluster }),
    };
    const made = newAllocation(
      network,
      { address: { family: 4, value }, prefixLength: 24 },
      { owner: owner as IPAllocation["spec"]["owner"], attachment: null, node: this.#pick(NAMES) },
      TIMES[0],
    ) as IPAllocation;
    const { allocations } = this.#copies;
    const allocation = made.metadata.name;
    if (isGone) {
      allocations.delete(allocation);
      return `no ${allocation}`;
    }
    const users = (this.#chance() < 0.5 ? [] : this.#some([1, 2])).map(() => {
      const user = this.#pick(NAMES);
      const guest = this.#chance() < 0.2 ? { migratedFrom: { namespace: "shop", name: this.#pick(NAMES) } } : {};
      const pod = { namespace: "shop", name: user, uid: `${user}${this.#pick([1, 2])}` };
      return {
        containerID: pod.uid,
        interface: "net1",
        node: this.#pick(NAMES),
        pod,
        since: TIMES[0],
        ...guest,
      };
    });
    const state = this.#pick(["Bound", "Bound", "Bound", "Cooling", "Retained"]);
    const attached = state === "Bound" ? users : [];
    const attachments = Object.fromEntries(attached.map((one) => [`${one.containerID}/net1`, one]));
    const version = { uid: `${allocation} ${uid}`, resourceVersion: `${this.#version}` };
    const object = {
      ...made,
      metadata: { ...made.metadata, ...version, ...(state === "Cooling" && { finalizers: [] }) },
      status: {
        ...made.status,
        state,
        attachments,
        retainedUntil: this.#pick(["2025-01-01T00:00:00Z", "2027-01-01T00:00:00Z"]),
      },
    };
    allocations.set(allocation, projectAllocation(object as unknown as IPAllocation));
    return `${state} ${allocation} of ${kind} ${name}`;
  }

  #pod(metadata: { name: string }): object {
    const names = { name: "a", "ipam-claim-reference": this.#pick(["a", "b"]) };
    const annotations: Record<string, string> = {
      "k8s.v1.cni.cncf.io/networks": JSON.stringify([this.#chance() < 0.7 ? names : { name: "a" }]),
    };
    if (this.#chance() < 0.5) {
      const ips = [this.#pick(["10.0.0.1", "10.0.0.2"])];
      annotations["k8s.v1.cni.cncf.io/network-status"] = JSON.stringify([{ name: "shop/a", interface: "net1", ips }]);
    }
    const ended = { phase: "Succeeded", containerStatuses: [{ state: { terminated: { exitCode: 0 } } }] };
    const deletion = this.#chance() < 0.5 ? { deletionTimestamp: TIMES[2] } : {};
    const vmi = {
      apiVersion: "kubevirt.io/v1",
      kind: "VirtualMachineInstance",
      name: "vm",
      uid: "vmi",
      controller: true,
    };
    const ownerReferences = this.#chance() < 0.3 ? [vmi] : [];
    return {
      metadata: { ...metadata, ...deletion, annotations, ownerReferences },
      spec: { nodeName: this.#pick(NAMES) },
      status: this.#chance() < 0.3 ? ended : { phase: "Running" },
    };
  }

  #pick<T>(of: readonly T[]): T {
    return of[Math.floor(this.#chance() * of.length)] as T;
  }

  #some<T>(of: readonly T[]): T[] {
    return of.filter(() => this.#chance() < 0.5);
  }
}

function claimOf(metadata: object, { network, ips }: { network: string; ips: readonly string[] }): ClaimViewWithFact {
  const view = projectClaim({ metadata, spec: { network, interface: "" }, status: { ips } });
  return { ...view, fact: claimFact(view) };
}

test(`verdicts are those of a look at everything, whatever changes (seeds from ${BEGIN_SEED})`, async () => {
  console.log(`repeat with HOLDFAST_TEST_SEED=${BEGIN_SEED}`);
  const { signal } = new AbortController();
  const judged = vi.spyOn(relations, "judge");
  const seen = new Set<string>();
  for (let seed = BEGIN_SEED; seed < BEGIN_SEED + SEEDS; seed += 1) {
    const world = new ChangingWorld(seed);
    await world.sweeper.runTurn(signal);
    judged.mockClear();
    let looked = 0;
    for (let change = 0; change < CHANGES; change += 1) {
      const what = world.change();
      await world.sweeper.runTurn(signal);
      const before = judged.mock.calls.length;
      const expected = world.counts;
      looked += judged.mock.calls.length - before;
      expect(Object.fromEntries(world.sweeper.counts), `seed ${seed}, change ${change}, ${what}`).toEqual(expected);
      for (const word of Object.keys(expected)) seen.add(word);
    }
    // It would say nothing if everything were judged each time. Time stands still, so no slice is.
    expect(judged.mock.calls.length - looked).toBeLessThan(looked);
  }
  console.log([...seen].sort().join(", "));
  expect(seen.size).toBeGreaterThan(15);
  for (const why of ["another-counts", "vm-moved", "vm-left"]) expect(seen).toContain(`release ${why}`);
});
