import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { newAllocation } from "../../allocations/allocation-object.ts";
import { Picture } from "../../allocations/picture.ts";
import { type ClaimList, UsedSpaces } from "../../allocations/used-spaces.ts";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import { type Address, formatAddress, parseAddress } from "../../ipam/space/address.ts";
import { IntervalSet } from "../../ipam/space/interval-set.ts";
import type { AddressState } from "../../ipam/space/pool.ts";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import { type PublishedSpace, publishedFields, readPublishedSpace } from "../../kube/views/published-space.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { ManualClock } from "../harness/manual-clock.ts";

const definition = parsePluginConfig({
  name: "blue",
  ipam: { type: "holdfast-ipam", subnets: "10.0.0.0/28,fd00::/120", reservedSubnets: "10.0.0.8/31" },
});
const v4 = (last: number): Address => ({ family: 4, value: 0x0a000000n + BigInt(last) });
const setOf = (lasts: readonly number[], family: 4 | 6 = 4) =>
  family === 4
    ? IntervalSet.from(lasts.map((last) => ({ first: v4(last).value, last: v4(last).value })))
    : IntervalSet.EMPTY;

type State = "free" | "allocated" | "retained" | "cooling";

/** A published space; `states` by the last number of the address. */
function published(states: ReadonlyMap<number, State>, version: number, observedMs: number): PublishedSpace {
  const having = (...wanted: State[]) =>
    [...states].filter(([, state]) => wanted.includes(state)).map(([last]) => last);
  return {
    observedMs,
    version: BigInt(version),
    used: { 4: setOf(having("allocated", "retained")), 6: IntervalSet.EMPTY },
    retained: { 4: setOf(having("retained")), 6: IntervalSet.EMPTY },
    cooling: having("cooling").map(v4),
    unlisted: new Map(),
  };
}

class PictureSubject {
  readonly clock = new ManualClock();
  readonly api = new KubeInMemory(this.clock);
  lists = 0;
  reads = 0;
  /** What a read brings. */
  now: PublishedSpace | null = null;
  readonly picture = new Picture({
    api: this.api,
    startSeed: "node-a",
    serverMs: () => this.clock.wallMs(),
    read: async (network) => {
      this.reads += 1;
      this.picture.take(network, this.now);
    },
  });

  constructor() {
    this.api.before = ({ path }) => {
      if (path === ALLOCATIONS_PATH) this.lists += 1;
    };
    this.picture.space("blue").definition = definition;
  }

  stateOf(address: Address): AddressState {
    const pools = this.picture.space("blue").poolsOf(definition, this.clock.monotonicMs());
    const pool = pools.find(({ rangeSet }) => rangeSet.family === address.family);
    return pool?.stateOf(address.value) ?? "outside";
  }

  makeSure(): Promise<boolean> {
    return this.picture.makeSure("blue", this.clock.monotonicMs() + 10_000);
  }
}

describe("a picture", () => {
  test("is what was published last, whatever was published and seen before (property)", () => {
    const anyStates = fc.dictionary(
      fc.integer({ min: 0, max: 20 }).map(String),
      fc.constantFrom<State>("allocated", "retained", "cooling"),
    );
    const anyStep = fc.oneof(
      fc.record({ kind: fc.constant("publish" as const), states: anyStates }),
      fc.record({
        kind: fc.constant("note" as const),
        last: fc.integer({ min: 0, max: 20 }),
        state: fc.constantFrom("Bound", "Cooling", "Retained", null),
      }),
      fc.record({ kind: fc.constant("look" as const) }),
    );
    fc.assert(
      fc.property(fc.array(anyStep), anyStates, (steps, last) => {
        const subject = new PictureSubject();
        const { clock, picture } = subject;
        let version = 0;
        const publish = (states: Record<string, State>) => {
          clock.nowMs += 1_000;
          version += 1;
          const byLast = new Map(Object.entries(states).map(([key, state]) => [Number(key), state]));
          picture.take("blue", published(byLast, version, clock.wallMs()));
        };
        for (const step of steps) {
          if (step.kind === "publish") publish(step.states);
          else if (step.kind === "look") subject.stateOf(v4(1));
          else if (step.state === null) picture.noteFree("blue", v4(step.last));
          else {
            version += 1;
            picture.note("blue", v4(step.last), "someone", step.state, `${version}`);
          }
        }
        publish(last);
        const fresh = new PictureSubject();
        fresh.clock.nowMs = clock.nowMs;
        const byLast = new Map(Object.entries(last).map(([key, state]) => [Number(key), state]));
        fresh.picture.take("blue", published(byLast, version, clock.wallMs()));
        for (let at = 0; at <= 20; at += 1) expect(subject.stateOf(v4(at)), `10.0.0.${at}`).toBe(fresh.stateOf(v4(at)));
        expect(picture.boundCount("blue")).toBe(fresh.picture.boundCount("blue"));
      }),
    );
  });

  test("shows what this node has written since, until that is published", () => {
    const { picture, clock, ...subject } = new PictureSubject();
    const stateOf = PictureSubject.prototype.stateOf.bind({
      picture,
      clock,
      ...subject,
    } as unknown as PictureSubject);
    picture.take("blue", published(new Map([[3, "allocated"]]), 10, clock.wallMs()));
    picture.note("blue", v4(4), "pod-1", "Bound", "12");
    picture.noteFree("blue", v4(3));
    expect([stateOf(v4(3)), stateOf(v4(4))]).toEqual(["free", "allocated"]);
    clock.nowMs += 1_000;
    picture.take("blue", published(new Map([[3, "allocated"]]), 11, clock.wallMs()));
    expect([stateOf(v4(3)), stateOf(v4(4))]).toEqual(["allocated", "allocated"]);
    clock.nowMs += 1_000;
    picture.take("blue", published(new Map(), 12, clock.wallMs()));
    expect([stateOf(v4(3)), stateOf(v4(4))]).toEqual(["free", "free"]);
  });

  test("knows its own cool-downs for as long as they are published", () => {
    const { picture, clock } = new PictureSubject();
    picture.note("blue", v4(5), "pod-1", "Cooling", "7");
    clock.nowMs += 5_000;
    picture.take("blue", published(new Map([[5, "cooling"]]), 9, clock.wallMs()));
    expect(picture.ownedBy("blue", "pod-1")).toEqual([v4(5)]);
    expect(picture.cooldownSeenMs("blue", v4(5), "7")).toBe(5_000);
    clock.nowMs += 5_000;
    picture.take("blue", published(new Map(), 11, clock.wallMs()));
    expect(picture.ownedBy("blue", "pod-1")).toEqual([]);
    expect(picture.cooldownSeenMs("blue", v4(5), "7")).toBe(-1);
  });

  test("knows what a claim holds that lists nothing yet", () => {
    const { picture, clock } = new PictureSubject();
    const unlisted = new Map([
      ["10.0.0.7", "claim-uid"],
      ["fd00::7", "claim-uid"],
    ]);
    picture.take("blue", { ...published(new Map([[7, "allocated"]]), 9, clock.wallMs()), unlisted });
    expect(picture.ownedBy("blue", "claim-uid").map(formatAddress)).toEqual(["10.0.0.7", "fd00::7"]);
    expect(picture.ownedBy("blue", "another")).toEqual([]);
  });
});

describe("that a network is full is said", () => {
  test("from what was published within 30 s, and nothing is listed for it", async () => {
    const subject = new PictureSubject();
    subject.now = published(new Map([[1, "allocated"]]), 9, subject.clock.wallMs() - 20_000);
    expect(await subject.makeSure()).toBe(true);
    expect(await subject.makeSure()).toBe(false);
    expect([subject.reads, subject.lists]).toEqual([1, 0]);
  });

  test("from one list in 30 s where nobody publishes any more", async () => {
    const subject = new PictureSubject();
    subject.now = published(new Map([[1, "allocated"]]), 1, subject.clock.wallMs() - 31_000);
    const owner = {
      kind: "Pod",
      namespace: "shop",
      name: "web-0",
      uid: "pod-1",
      interface: "net1",
    } as const;
    const one = { address: parseAddress("10.0.0.9"), prefixLength: 28 };
    subject.api.put(ALLOCATIONS_PATH, newAllocation("blue", one, { owner, attachment: null }, "t"));
    expect(await subject.makeSure()).toBe(true);
    expect([subject.stateOf(v4(1)), subject.stateOf(v4(9))]).toEqual(["free", "allocated"]);
    for (let times = 0; times < 10; times += 1) expect(await subject.makeSure()).toBe(false);
    expect(subject.lists).toBe(1);
    subject.clock.nowMs += 31_000;
    await Promise.all([subject.makeSure(), subject.makeSure(), subject.makeSure()]);
    expect(subject.lists).toBe(2);
  });
});

test("a controller publishes what it follows, and a node reads it", () => {
  const lists: Record<string, ClaimList> = { listed: "listed", "cut-short": "unlisted", left: "unlisted" };
  // One that lists something else is told of what it does not list.
  const isOther = ({ value }: Address) => value === v4(9).value;
  const spaces = new UsedSpaces(({ name }, address) => (isOther(address) ? "unlisted" : (lists[name] ?? "gone")));
  const holding = (address: string, name: string, state: "Bound" | "Cooling" | "Retained", version: string) => {
    const one = { address: parseAddress(address), prefixLength: 28 };
    const owner = {
      kind: "IPAMClaim",
      namespace: "shop",
      name,
      uid: `uid-${name}`,
      interface: "",
    } as const;
    const object = newAllocation("blue", one, { owner, attachment: null }, "t");
    const metadata = { ...object.metadata, uid: "u", resourceVersion: version } as never;
    spaces.upsert({ ...object, metadata, status: { ...object.status, state } }, address);
  };
  holding("10.0.0.3", "listed", "Bound", "5");
  holding("10.0.0.4", "cut-short", "Bound", "6");
  holding("10.0.0.9", "listed", "Bound", "6");
  holding("10.0.0.5", "gone", "Retained", "9");
  holding("10.0.0.8", "left", "Cooling", "9");
  holding("10.0.0.7", "gone-later", "Cooling", "8");
  holding("10.0.0.6", "gone-first", "Cooling", "7");
  holding("fd00::5", "listed", "Bound", "10");
  const unlisted = spaces.unlisted("blue");
  const fields = publishedFields({ ...spaces.of("blue"), version: spaces.version, unlisted });
  const status = { usedSpace: { observed: "2026-01-01T00:00:00.500Z", ...fields } };
  const read = readPublishedSpace({ status } as never);
  expect(read?.cooling.map(formatAddress)).toEqual(["10.0.0.6", "10.0.0.7", "10.0.0.8"]);
  expect([...(read?.used[4].intervals() ?? [])]).toEqual([
    { first: v4(3).value, last: v4(5).value },
    { first: v4(9).value, last: v4(9).value },
  ]);
  expect(read?.used[6].size).toBe(1n);
  expect([...(read?.retained[4].intervals() ?? [])]).toEqual([{ first: v4(5).value, last: v4(5).value }]);
  expect(read?.unlisted).toEqual(
    new Map([
      ["10.0.0.4", "uid-cut-short"],
      ["10.0.0.8", "uid-left"],
      ["10.0.0.9", "uid-listed"],
    ]),
  );
  expect(read?.version).toBe(10n);
  expect(read?.observedMs).toBe(Date.UTC(2026, 0, 1, 0, 0, 0, 500));
});

test("what somebody has edited is not believed", () => {
  const good = publishedFields(published(new Map([[3, "allocated"]]), 1, 0));
  for (const wrong of [
    { observed: "soon" },
    { version: "new" },
    { used: ["ipv4 bits:x"] },
    { used: "all" },
    { cooling: null },
  ]) {
    const usedSpace = { observed: "2026-01-01T00:00:00Z", ...good, ...wrong };
    expect(readPublishedSpace({ status: { usedSpace } } as never), JSON.stringify(wrong)).toBeNull();
  }
  expect(readPublishedSpace({ status: {} } as never)).toBeNull();
});
