import { Validator } from "ip-num";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { newAllocation, withAttachment } from "../../../allocations/allocation-object.ts";
import { UsedSpaces } from "../../../allocations/used-spaces.ts";
import { type CachedAllocation, type ClaimViewWithFact, projectAllocation } from "../../../claims/reasons/caches.ts";
import type { SweptPod } from "../../../claims/reasons/fact-views.ts";
import type { NodeFact } from "../../../claims/reasons/facts.ts";
import * as relations from "../../../claims/reasons/relations.ts";
import { countNetwork } from "../../../controller/network-status.ts";
import { followChanges } from "../../../controller/sweep/follow-changes.ts";
import { Sweeper, TURN_REST } from "../../../controller/sweep/sweeper.ts";
import { parseNadConfigIfOurs } from "../../../ipam/definition/nad-config.ts";
import { formatAddress, parseAddress } from "../../../ipam/space/address.ts";
import { WRITTEN } from "../../../ipam/space/written.ts";
import { ApiAway } from "../../../kube/kube-api.ts";
import * as objectNames from "../../../kube/object-names.ts";
import { ALLOCATIONS_PATH, type IPAllocation, type IPNetwork } from "../../../kube/objects.ts";
import type { Reflected } from "../../../kube/reflected-items.ts";
import { restMs } from "../../../platform/periodic-task.ts";
import { RULES } from "../../claims/judged.ts";
import { KubeInMemory } from "../../harness/kube-in-memory.ts";
import { ManualClock } from "../../harness/manual-clock.ts";
import { WrittenCopy } from "./written-copy.ts";

// What a look at a large cluster costs, in counted work, and what becomes of a reason to free an address when looking
// or carrying out takes long, on a clock of the test's own.

const hashed = vi.spyOn(objectNames, "allocationName");
/** Of text, by ip-num. */
const parsed = vi.spyOn(Validator, "isValidIPv6String");
const work = () => ({ names: hashed.mock.calls.length, parsed: parsed.mock.calls.length });
beforeEach(() => {
  hashed.mockClear();
  parsed.mockClear();
});

const signal = new AbortController().signal;

/** A Map that takes time of the test's clock for each item that is looked at. */
class SlowMap<T> extends Map<string, T> {
  readonly onItem: () => void;

  constructor(onItem: () => void) {
    super();
    this.onItem = onItem;
  }

  override get(key: string): T | undefined {
    this.onItem();
    return super.get(key);
  }
}

/** A cluster with as many pods and allocations as a test gives it, and what a controller knows of them. */
class LargeCluster {
  readonly clock = new ManualClock();
  readonly api = new KubeInMemory(this.clock);
  readonly copies: {
    readonly allocations: WrittenCopy<CachedAllocation>;
    readonly claims: WrittenCopy<ClaimViewWithFact>;
    readonly pods: WrittenCopy<SweptPod>;
    readonly nodes: WrittenCopy<NodeFact & Reflected>;
  };
  readonly sweeper: Sweeper;
  idle: string | null = null;
  /** How long it takes to judge one, ms. */
  itemMs = 0;

  constructor() {
    const slow = new SlowMap<CachedAllocation>(() => {
      this.clock.nowMs += this.itemMs;
    });
    this.copies = {
      allocations: new WrittenCopy(slow),
      ...{ claims: new WrittenCopy(), pods: new WrittenCopy(), nodes: new WrittenCopy() },
    };
    this.sweeper = new Sweeper({
      api: this.api,
      caches: {
        ...this.copies,
        stoppedPods: { has: () => true },
        catalog: { networkOfNad: () => null },
        machines: null,
      },
      rules: RULES,
      intervalSeconds: 10,
      doubt: () => null,
      idle: () => this.idle,
      log: { debug() {}, info() {}, warn() {} },
    });
    const networks = new WrittenCopy<{ object: IPNetwork }>();
    followChanges({ ...this.copies, networks, machines: null, data: null }, this.sweeper);
  }

  /** An allocation of a pod that lives, which only the caches know, or that is gone, which the server knows too. */
  allocate(index: number, { lives }: { lives: boolean }): void {
    const address = { family: 6 as const, value: (0xfdn << 120n) + BigInt(index) };
    const name = `p-${index}`;
    const owner = { kind: "Pod", namespace: "shop", name, uid: `u-${index}`, interface: "net1" } as const;
    const holder = { owner, attachment: null, node: "n1" };
    const made = newAllocation("blue", { address, prefixLength: 64 }, holder, "");
    const object = lives
      ? { ...made, metadata: { uid: `a-${index}`, resourceVersion: "1", ...made.metadata } }
      : this.api.put(ALLOCATIONS_PATH, made);
    this.copies.allocations.set(object.metadata.name, projectAllocation(object as IPAllocation));
    if (lives) {
      const key = `shop/${name}`;
      const status = { terminal: false, stopped: false, addresses: [], addressesCut: false };
      const named = { namespace: "shop", name, uid: `u-${index}`, staticUid: null, resourceVersion: "1" };
      const rest = { creationTimestamp: "", node: "n1", claims: [], vmi: null };
      this.copies.pods.set(key, { key, ...named, ...status, ...rest });
    }
  }

  /** The states of allocations that the server knows. */
  get states(): string[] {
    return [...this.api.objects.values()].map(({ status }) => status.state);
  }

  /** Looks every ten seconds. */
  async lookFor(seconds: number): Promise<void> {
    for (let passed = 0; passed <= seconds; passed += 10) {
      await this.sweeper.runTurn(signal);
      this.clock.nowMs += 10_000;
    }
  }
}

describe("100,000 IPv6 allocations", () => {
  // To judge all takes 15 s of this clock, which is an hour on no machine and more than any has needed.
  const cluster = new LargeCluster();
  for (let index = 0; index < 100_000; index += 1) cluster.allocate(index, { lives: true });
  cluster.allocate(100_000, { lives: false });
  cluster.itemMs = 0.15;

  test("one whose owner is gone is released after its grace, however long it takes to judge all", async () => {
    const startMs = cluster.clock.nowMs;
    const took: number[] = [];
    while (cluster.states[0] === "Bound" && took.length < 100) {
      const beginMs = cluster.clock.nowMs;
      await cluster.sweeper.runTurn(signal);
      took.push(cluster.clock.nowMs - beginMs);
      cluster.clock.nowMs += restMs(took.at(-1) ?? 0, TURN_REST);
      await cluster.sweeper.carryOutDue(signal);
    }
    expect(cluster.states).toEqual(["Cooling"]);
    const [first = 0, ...others] = took;
    expect(first).toBeGreaterThan(10_000);
    // A slice of everything in each.
    expect(Math.max(...others)).toBeLessThan(first / 10);
    expect(cluster.clock.nowMs - startMs).toBeLessThan(first + 35_000);
  });

  test("are not parsed or hashed again when they are judged", async () => {
    for (const one of cluster.copies.allocations.items.values()) cluster.sweeper.allocationChanged(one, one);
    await cluster.sweeper.runTurn(signal);
    expect(work()).toEqual({ names: 0, parsed: 0 });
  });

  test("are counted without ip-num", async () => {
    const config = { name: "blue", ipam: { type: "holdfast-ipam", subnets: "fd00::/64" } };
    const nad = parseNadConfigIfOurs(JSON.stringify({ cniVersion: "1.0.0", type: "bridge", ...config }), "a-nad");
    if (nad === null) throw new Error("the definition of the test is not ours");
    const counting = { definition: nad.definition, by: "shop/blue", source: "" };
    parsed.mockClear();
    const usedSpaces = new UsedSpaces();
    for (const { object, address } of cluster.copies.allocations.items.values()) usedSpaces.upsert(object, address);
    const counts = countNetwork(counting, usedSpaces.of("blue"), 0);
    expect(counts.allocated).toBeGreaterThan(99_999n);
    expect(work()).toEqual({ names: 0, parsed: 0 });
  });
});

test("a canonical address is read without ip-num", () => {
  const cluster = new LargeCluster();
  for (let index = 0; index < 100; index += 1) cluster.allocate(index, { lives: true });
  expect(work().parsed).toBe(0);
  expect(WRITTEN.address("fd00::1")).toEqual(parseAddress("fd00::1"));
  expect(work().parsed, "what that counts").toBeGreaterThan(0);
  expect(formatAddress({ family: 6, value: 0xfdn << 120n })).toBe("fd00::");
});

test("slow releases do not delay others that become due meanwhile", async () => {
  const cluster = new LargeCluster();
  cluster.allocate(1, { lives: false });
  await cluster.lookFor(20);
  cluster.allocate(2, { lives: false });
  await cluster.lookFor(0);
  const asks = new Map<string, number>();
  const [one = "", two = ""] = cluster.api.objects.keys();
  cluster.api.before = async ({ path }) => {
    asks.set(path, (asks.get(path) ?? 0) + 1);
    if (path === two || path.endsWith("/p-2")) return;
    // Nearly as long as anybody waits for an answer, in which the other one's grace comes to its end.
    for (let look = 0; look < 3; look += 1) {
      cluster.clock.nowMs += 3_000;
      await cluster.sweeper.runTurn(signal);
    }
  };
  await cluster.sweeper.carryOutDue(signal);
  expect(cluster.states).toEqual(["Cooling", "Cooling"]);
  expect(asks.get(one), "it is read and written, and not tried a second time").toBe(2);
});

test("a controller that loses and regains its lease keeps what it has seen", async () => {
  const cluster = new LargeCluster();
  cluster.allocate(1, { lives: false });
  for (let round = 0; round < 2; round += 1) {
    cluster.idle = "another controller works";
    await cluster.lookFor(40);
    cluster.idle = null;
    await cluster.sweeper.carryOutDue(signal);
  }
  expect(cluster.states).toEqual(["Cooling"]);
});

describe("the age of the oldest reason to release", () => {
  test("is 0 during the grace, grows while releases fail, and is 0 afterwards", async () => {
    const cluster = new LargeCluster();
    cluster.allocate(1, { lives: false });
    await cluster.lookFor(20);
    expect(cluster.sweeper.overdueSeconds).toBe(0);
    cluster.api.away = true;
    for (let round = 0; round < 10; round += 1) {
      await cluster.lookFor(50);
      await cluster.sweeper.carryOutDue(signal);
    }
    expect(cluster.sweeper.overdueSeconds).toBeGreaterThan(550);
    cluster.api.away = false;
    await cluster.lookFor(0);
    await cluster.sweeper.carryOutDue(signal);
    expect(cluster.states).toEqual(["Cooling"]);
    expect(cluster.sweeper.overdueSeconds).toBe(0);
  });

  test("grows even when passes are too far apart to count", async () => {
    const cluster = new LargeCluster();
    cluster.allocate(1, { lives: false });
    for (let round = 0; round < 10; round += 1) {
      await cluster.sweeper.runTurn(signal);
      cluster.clock.nowMs += 60_000;
      await cluster.sweeper.carryOutDue(signal);
    }
    expect(cluster.states).toEqual(["Bound"]);
    expect(cluster.sweeper.overdueSeconds).toBeGreaterThan(500);
  });
});

test("a release that keeps failing does not delay the others", async () => {
  const cluster = new LargeCluster();
  const stubborn = new Set<string>();
  for (let index = 0; index < 1_000; index += 1) cluster.allocate(index, { lives: false });
  for (const path of cluster.api.objects.keys()) stubborn.add(path);
  cluster.allocate(1_000, { lives: false });
  cluster.api.before = ({ path }) => {
    if (stubborn.has(path)) throw new ApiAway("the test says so");
  };
  await cluster.lookFor(30);
  for (let turn = 0; turn < 4; turn += 1) {
    await cluster.sweeper.carryOutDue(signal);
    await cluster.lookFor(0);
  }
  expect(cluster.states.filter((state) => state === "Cooling")).toHaveLength(1);
});

test("an attachment that is written after others of the group were read and released keeps its address", async () => {
  const cluster = new LargeCluster();
  for (let index = 0; index < 3; index += 1) cluster.allocate(index, { lives: false });
  await cluster.lookFor(20);
  const last = [...cluster.api.objects].at(-1)?.[1] as IPAllocation;
  const attachment = { containerID: "c", interface: "net1", node: "n1", since: "2026-01-01T00:00:00Z" };
  const methods: string[] = [];
  cluster.api.before = ({ method }) => {
    methods.push(method);
    if (method !== "PUT" || methods.filter((one) => one === "PUT").length > 1) return;
    cluster.api.put(
      ALLOCATIONS_PATH,
      withAttachment(last, { ...attachment, pod: { namespace: "shop", name: "p-2", uid: "u-2" } }),
    );
  };
  await cluster.lookFor(0);
  await cluster.lookFor(0);
  await cluster.sweeper.carryOutDue(signal);
  expect(cluster.states).toEqual(["Cooling", "Cooling", "Bound"]);
  expect(methods.slice(0, 3), "all of them are read before anything else").toEqual(["GET", "GET", "GET"]);
});

test("what nobody reported is found within ten minutes, a slice of all in each turn", async () => {
  const cluster = new LargeCluster();
  for (let index = 0; index < 3_000; index += 1) cluster.allocate(index, { lives: true });
  await cluster.lookFor(0);
  expect(Object.fromEntries(cluster.sweeper.counts)).toEqual({ "keep pod-alive": 3_000 });
  const unreported = ["shop/p-0", "shop/p-1500", "shop/p-2999"];
  for (const key of unreported) cluster.copies.pods.items.delete(key);
  const judged = vi.spyOn(relations, "judge");
  await cluster.lookFor(590);
  expect(Object.fromEntries(cluster.sweeper.counts)).toEqual({
    "keep pod-alive": 2_997,
    "release pod-gone": unreported.length,
  });
  expect(judged.mock.calls.length).toBeLessThan(3_200);
  judged.mockRestore();
});
