import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type AddressState, Pool, type Undo } from "../../ipam/space/pool.ts";
import type { RangeSet } from "../../ipam/space/range-set.ts";
import { firstRangeSet, ip } from "./definitions.ts";

/** 32 addresses with one of everything: .0 and .31 by default, .1 gateway, .4 and .5 excluded, .24 to .27 reserved. */
const mixed = firstRangeSet({
  subnets: "10.0.0.0/27",
  gateway: "10.0.0.1",
  excludeSubnets: "10.0.0.4/31",
  reservedSubnets: "10.0.0.24/30",
});
const base = ip("10.0.0.0");
/** Some more addresses than the range has, so that a few are outside. */
const VALUES = Array.from({ length: 36 }, (_, i) => base + BigInt(i));

/** The pool as a plain map: what is not in it is free, excluded or outside. */
class ModelPool {
  readonly rangeSet: RangeSet;
  readonly used = new Map<bigint, { coolingUntilMs: number | null; order: number }>();
  cursor: bigint;
  #order = 0;

  readonly retained = new Set<bigint>();

  constructor(rangeSet: RangeSet) {
    this.rangeSet = rangeSet;
    this.cursor = rangeSet.automatic.first ?? 0n;
  }

  allocate(value: bigint, moveCursor: boolean): void {
    const isRetained = this.retained.delete(value);
    if (!isRetained && this.used.get(value)?.coolingUntilMs === null) return;
    this.used.set(value, { coolingUntilMs: null, order: 0 });
    if (moveCursor && this.rangeSet.automatic.contains(value)) this.cursor = value + 1n;
  }

  release(value: bigint, coolingUntilMs: number, nowMs: number): void {
    if (this.used.get(value)?.coolingUntilMs !== null) return;
    this.retained.delete(value);
    if (coolingUntilMs <= nowMs || !this.rangeSet.extent.contains(value)) this.used.delete(value);
    else this.used.set(value, { coolingUntilMs, order: this.#order++ });
  }

  retain(value: bigint): void {
    if (this.rangeSet.extent.contains(value) && this.stateOf(value) === "allocated") this.retained.add(value);
  }

  expire(nowMs: number): void {
    for (const [value, { coolingUntilMs }] of this.used) {
      if (coolingUntilMs !== null && coolingUntilMs <= nowMs) this.used.delete(value);
    }
  }

  stateOf(value: bigint): AddressState {
    if (this.retained.has(value)) return "retained";
    const use = this.used.get(value);
    if (use) return use.coolingUntilMs === null ? "allocated" : "cooling";
    if (this.rangeSet.usable.contains(value)) return "free";
    return this.rangeSet.extent.contains(value) ? "excluded" : "outside";
  }

  candidates(nowMs: number, startAt: bigint): bigint[] {
    const automatic = VALUES.filter((value) => this.rangeSet.automatic.contains(value));
    const free = automatic.filter(
      (value) => (this.used.get(value)?.coolingUntilMs ?? nowMs) <= nowMs && !this.#isAllocated(value),
    );
    const cooling = automatic
      .flatMap((value) => {
        const use = this.used.get(value);
        return use && use.coolingUntilMs !== null && use.coolingUntilMs > nowMs
          ? [{ value, ...use, until: use.coolingUntilMs }]
          : [];
      })
      .sort((a, b) => a.until - b.until || a.order - b.order)
      .map(({ value }) => value);
    return [...free.filter((v) => v >= startAt), ...free.filter((v) => v < startAt), ...cooling];
  }

  #isAllocated(value: bigint): boolean {
    return this.used.has(value) && this.used.get(value)?.coolingUntilMs === null;
  }

  counts(): Record<string, bigint> {
    const count = (wanted: (value: bigint) => boolean) => BigInt(VALUES.filter(wanted).length);
    const inside = (value: bigint) => this.rangeSet.extent.contains(value);
    const is = (value: bigint, state: AddressState) => this.stateOf(value) === state;
    return {
      size: this.rangeSet.size,
      allocated: count((value) => inside(value) && is(value, "allocated")),
      retained: count((value) => is(value, "retained")),
      cooling: count((value) => is(value, "cooling")),
      free: count((value) => is(value, "free") && this.rangeSet.automatic.contains(value)),
      excluded: count(
        (value) => is(value, "excluded") || (is(value, "free") && !this.rangeSet.automatic.contains(value)),
      ),
      outside: count((value) => !inside(value) && is(value, "allocated")),
    };
  }
}

/** Everything that can be seen of a pool. */
function view(pool: Pool | ModelPool, nowMs: number): unknown {
  return {
    states: VALUES.map((value) => pool.stateOf(value)),
    counts: pool.counts(),
    cursor: pool.cursor,
    candidates: [...pool.candidates(nowMs, pool.cursor)],
    fromMiddle: [...pool.candidates(nowMs, base + 17n)],
  };
}

function isTaken(model: ModelPool, value: bigint): boolean {
  return ["allocated", "retained"].includes(model.stateOf(value));
}

/** Mostly the same few, of every kind, so that one address goes through several states. */
const anyValue = fc.oneof(
  fc.constantFrom(...["10.0.0.2", "10.0.0.9", "10.0.0.24", "10.0.0.4", "10.0.0.33"].map(ip)),
  fc.constantFrom(...VALUES),
);

const anyStep = fc.record({
  act: fc.constantFrom(
    "allocate",
    "allocate",
    "next",
    "next",
    "release",
    "release",
    "expire",
    "wait",
    "endCooldown",
    "retain",
  ),
  value: anyValue,
  moveCursor: fc.boolean(),
  restMs: fc.constantFrom(0, 5, 5, 5, 12),
  waitMs: fc.integer({ min: 0, max: 6 }),
});
type Step = typeof anyStep extends fc.Arbitrary<infer T> ? T : never;

function run(pool: Pool, model: ModelPool, step: Step, nowMs: number): Undo {
  const { value, moveCursor, restMs } = step;
  switch (step.act) {
    case "allocate":
      model.allocate(value, moveCursor);
      return pool.allocate(value, { moveCursor });
    case "next": {
      const [next] = pool.candidates(nowMs);
      if (next === undefined) return () => {};
      model.allocate(next, true);
      return pool.allocate(next);
    }
    case "release":
      model.release(value, nowMs + restMs, nowMs);
      return pool.release(value, nowMs + restMs, nowMs);
    case "endCooldown":
      if (model.stateOf(value) === "cooling") model.used.delete(value);
      return pool.endCooldown(value);
    case "retain":
      model.retain(value);
      return pool.retain(value);
    default:
      return () => {};
  }
}

test("a pool behaves like a plain Map in states, counts, cursor and order of candidates", () => {
  fc.assert(
    fc.property(fc.array(anyStep, { maxLength: 150, size: "max" }), (steps) => {
      const [pool, model] = [new Pool(mixed), new ModelPool(mixed)];
      let nowMs = 1_000;
      for (const step of steps) {
        if (step.act === "wait") nowMs += step.waitMs;
        if (step.act === "expire") {
          pool.expire(nowMs);
          model.expire(nowMs);
        }
        run(pool, model, step, nowMs);
        expect(view(pool, nowMs)).toEqual(view(model, nowMs));
        const { size, allocated, retained, cooling, free, excluded } = pool.counts();
        expect(free + allocated + retained + cooling + excluded).toBe(size);
        const automatic = VALUES.filter((value) => mixed.automatic.contains(value));
        expect(pool.isExhausted).toBe(automatic.every((value) => isTaken(model, value)));
      }
    }),
    { numRuns: 60 },
  );
});

test("undoing in reverse order restores the former pool", () => {
  fc.assert(
    fc.property(
      fc.array(anyStep, { maxLength: 40, size: "max" }),
      fc.array(anyStep, { maxLength: 20, size: "max" }),
      (before, batch) => {
        const [pool, model] = [new Pool(mixed), new ModelPool(mixed)];
        const nowMs = 1_000;
        for (const step of before) run(pool, model, step, nowMs);
        const seen = view(pool, nowMs);
        const undos = batch.map((step) => run(pool, model, step, nowMs));
        for (const undo of undos.reverse()) undo();
        expect(view(pool, nowMs)).toEqual(seen);
      },
    ),
    { numRuns: 300 },
  );
});

test("undoing across an expiry restores every owner and the counts", () => {
  fc.assert(
    fc.property(
      fc.array(anyStep, { maxLength: 30, size: "max" }),
      fc.array(anyStep, { maxLength: 20, size: "max" }),
      (before, batch) => {
        const [pool, model] = [new Pool(mixed), new ModelPool(mixed)];
        let nowMs = 1_000;
        for (const step of before) run(pool, model, step, nowMs);
        const allocated = VALUES.filter((value) => pool.stateOf(value) === "allocated");
        const undos = batch.map((step) => {
          nowMs += step.waitMs;
          pool.expire(nowMs);
          return run(pool, new ModelPool(mixed), step, nowMs);
        });
        for (const undo of undos.reverse()) undo();
        expect(VALUES.filter((value) => pool.stateOf(value) === "allocated")).toEqual(allocated);
        const { size, free, cooling, retained, excluded, allocated: count } = pool.counts();
        expect(free + count + retained + cooling + excluded).toBe(size);
        pool.expire(Number.POSITIVE_INFINITY);
        expect(pool.counts().cooling).toBe(0n);
      },
    ),
    { numRuns: 300 },
  );
});

describe("next-fit", () => {
  const small = firstRangeSet({ subnets: "10.0.0.0/29" });
  const take = (pool: Pool, nowMs = 0) => {
    const [value] = pool.candidates(nowMs);
    if (value !== undefined) pool.allocate(value);
    return value === undefined ? null : Number(value - base);
  };

  test("gives a released address only after all others", () => {
    const pool = new Pool(small);
    expect([take(pool), take(pool)]).toEqual([1, 2]);
    pool.release(base + 1n, 0, 0);
    expect([take(pool), take(pool), take(pool), take(pool), take(pool), take(pool)]).toEqual([3, 4, 5, 6, 1, null]);
  });

  test("gives a cooling address only when nothing else is free, the longest released first", () => {
    const pool = new Pool(small);
    for (let i = 0; i < 6; i++) take(pool);
    pool.release(base + 4n, 60_000, 10);
    pool.release(base + 2n, 60_010, 20);
    pool.release(base + 5n, 20, 20);
    expect([take(pool, 30), take(pool, 30), take(pool, 30), take(pool, 30)]).toEqual([5, 4, 2, null]);
  });

  test("does not advance by a search from another start", () => {
    const pool = new Pool(small);
    take(pool);
    const [value] = pool.candidates(0, base + 5n);
    expect(value).toBe(base + 5n);
    pool.allocate(base + 5n, { moveCursor: false });
    expect([take(pool), take(pool), take(pool), take(pool)]).toEqual([2, 3, 4, 6]);
  });

  test("continues after candidates that turn out to be taken", () => {
    const pool = new Pool(small);
    const tried: bigint[] = [];
    for (const value of pool.candidates(0, base + 4n)) {
      tried.push(value - base);
      pool.allocate(value);
    }
    expect(tried).toEqual([4n, 5n, 6n, 1n, 2n, 3n]);
    expect(pool.isExhausted).toBe(true);
  });

  test("skips an address that is allocated before its turn, also when its cooldown was over", () => {
    const pool = new Pool(small);
    for (const last of [1n, 2n, 3n]) {
      pool.allocate(base + last);
      pool.release(base + last, 50, 0);
    }
    const seen: bigint[] = [];
    for (const value of pool.candidates(100, base)) {
      if (seen.length === 0) for (const last of [2n, 5n]) pool.allocate(base + last);
      seen.push(value - base);
    }
    expect(seen).toEqual([1n, 3n, 4n, 6n]);
  });

  test("begins at the lowest address, or wraps, from a start outside the range", () => {
    expect([...new Pool(small).candidates(0, 0n)][0]).toBe(base + 1n);
    expect([...new Pool(small).candidates(0, base + 100n)][0]).toBe(base + 1n);
  });
});

describe("addresses that are not given automatically", () => {
  test("count as excluded, then as allocated, then as cooling, when they are reserved", () => {
    const pool = new Pool(mixed);
    const reserved = ip("10.0.0.24");
    expect(pool.stateOf(reserved)).toBe("free");
    const { excluded, free } = pool.counts();
    pool.allocate(reserved);
    expect(pool.counts()).toMatchObject({ excluded: excluded - 1n, allocated: 1n, free });
    pool.release(reserved, 100, 0);
    expect(pool.stateOf(reserved)).toBe("cooling");
    expect(pool.stateOf(reserved, 100)).toBe("free");
    expect([...pool.candidates(0)]).not.toContain(reserved);
    expect(pool.counts()).toMatchObject({ excluded: excluded - 1n, cooling: 1n, free });
    pool.expire(100);
    expect(pool.counts()).toMatchObject({ excluded, cooling: 0n, free });
  });

  test("count as allocated until their release when a new exclusion covers them", () => {
    const pool = new Pool(mixed);
    pool.allocate(ip("10.0.0.4"));
    expect(pool.stateOf(ip("10.0.0.4"))).toBe("allocated");
    pool.release(ip("10.0.0.4"), 0, 0);
    expect(pool.stateOf(ip("10.0.0.4"))).toBe("excluded");
  });

  test("are counted beside the range when they are outside, and forgotten on release", () => {
    const pool = new Pool(mixed);
    pool.allocate(ip("10.0.9.9"));
    expect(pool.stateOf(ip("10.0.9.9"))).toBe("allocated");
    expect(pool.counts()).toMatchObject({ outside: 1n, allocated: 0n });
    pool.release(ip("10.0.9.9"), 100, 0);
    expect(pool.stateOf(ip("10.0.9.9"))).toBe("outside");
    expect(pool.counts()).toMatchObject({ outside: 0n, cooling: 0n });
  });

  test("change nothing when they are allocated or released a second time", () => {
    const pool = new Pool(mixed);
    pool.allocate(ip("10.0.0.9"));
    const seen = view(pool, 0);
    pool.allocate(ip("10.0.0.9"))();
    expect(view(pool, 0)).toEqual(seen);
    pool.release(ip("10.0.0.10"), 100, 0)();
    expect(view(pool, 0)).toEqual(seen);
  });
});

describe("subnetOf", () => {
  test("finds the subnet of an address by its window, else by its CIDR", () => {
    const set = firstRangeSet({
      ranges: [[{ subnet: "10.0.1.0/24", rangeStart: "10.0.1.10", rangeEnd: "10.0.1.20" }, { subnet: "10.0.0.0/24" }]],
    });
    const pool = new Pool(set);
    expect(pool.subnetOf(ip("10.0.0.77"))?.cidr.base).toBe(ip("10.0.0.0"));
    expect(pool.subnetOf(ip("10.0.1.15"))?.cidr.base).toBe(ip("10.0.1.0"));
    expect(pool.subnetOf(ip("10.0.1.77"))?.cidr.base).toBe(ip("10.0.1.0"));
    expect(pool.subnetOf(ip("10.0.2.1"))).toBeNull();
  });
});

describe("hashStart", () => {
  test("is the same on every node, and always an address given automatically", () => {
    const [one, two] = [new Pool(mixed), new Pool(mixed)];
    two.allocate(ip("10.0.0.9"));
    fc.assert(
      fc.property(fc.string(), (seed) => {
        expect(one.hashStart(seed)).toBe(two.hashStart(seed));
        expect(mixed.automatic.contains(one.hashStart(seed))).toBe(true);
      }),
    );
  });

  test("is the SHA-256 of the seed over the addresses, as a fixed value shows", () => {
    // 0xba7816bf…f20015ad modulo 2^8 - 2 = 254 is the rank among 10.0.0.1 to 10.0.0.254.
    const hash = 0xba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015adn;
    expect(new Pool(firstRangeSet({ subnets: "10.0.0.0/24" })).hashStart("abc")).toBe(ip("10.0.0.1") + (hash % 254n));
  });

  test("spreads seeds over the whole range", () => {
    const pool = new Pool(firstRangeSet({ subnets: "fd00::/64" }));
    const starts = Array.from({ length: 64 }, (_, i) => pool.hashStart(`claim-${i}`));
    expect(new Set(starts.map((start) => (start >> 60n) & 15n)).size).toBeGreaterThan(8);
  });
});
